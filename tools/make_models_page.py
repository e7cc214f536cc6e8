#!/usr/bin/env python3
"""make_models_page.py [--check]: writes docs/models.md from the lists in the source; with --check only compares.

A row stands on the page when its list has it and a test of it is found: a family or a kind of rotary embedding needs a tiny
checkpoint under tests/golden with that name in its config.json, a format its line in tests/golden/quant_formats.txt, anything
else the test that TESTED names. Exit 1 when a row has no test, or with --check when the page is out of date.
"""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "models.md"

# What no list of the source holds: container, what is read of it, the test.
CONTAINERS = [
    ("GGUF v2, v3", "every metadata type, alignment, `general.architecture` below", "Gguf.ReadsEveryMetadataType"),
    ("GGUF, split", "any shard opens all", "ModelSourceTest.AnyShardOfASplitGgufFileOpensAll"),
    ("safetensors", "a folder with `config.json`", "Safetensors.ReadsEveryPlainDtypeByItsName"),
    ("safetensors, sharded", "by `model.safetensors.index.json`", "ModelSourceTest.AMissingOrRenamedShardIsRefusedByName"),
    ("config.json alone", "random weights, for `bench --dummy-weights`", "ModelSourceTest.DummyWeightsFollowFromAConfigAlone"),
]
NOTES = {
    "llama": "Llama 2 and 3, SmolLM2, and what shares the shape", "mistral": "with or without a window; GGUF calls it llama",
    "qwen2": "Qwen2 and 2.5; biases on q, k, v", "qwen3": "dense; query and key norms",
    "gemma3_text": "text; windowed and full layers, two rotations, soft caps", "bert": "encoder for `embed` and `/v1/embeddings`",
}
INTEGERS = {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "boolean", "f64"}


def source(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def fail(message: str) -> None:
    sys.exit(f"make_models_page: {message}")


def has_test(name: str) -> bool:
    suite, test = name.split(".")
    return any(re.search(rf"TEST(_F|_P)?\({suite}, {test}\)", file.read_text(encoding="utf-8"))
               for file in (ROOT / "src").rglob("*_test.cc"))


def tiny_checkpoints():
    """(path below tests/golden, config) of every checkpoint that a reference computed."""
    golden = ROOT / "tests" / "golden"
    for config in sorted(golden.glob("*/*/config.json")):
        if (config.parent / "golden.safetensors").exists():
            yield config.parent.relative_to(golden).as_posix(), json.loads(config.read_text(encoding="utf-8"))


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def families():
    gguf = dict((model, arch) for arch, model in re.findall(r'\{"(\w*)", "(\w+)", (?:true|false)', source("src/io/weight_names.cc")))
    checkpoints = list(tiny_checkpoints())
    for model, file in re.findall(r'^HR_MODEL\((\w+), "([\w.]+)"\)', source("src/models/models.def"), re.MULTILINE):
        tested = [path for path, config in checkpoints if config["model_type"] == model]
        if not tested:
            fail(f"no checkpoint under tests/golden has model_type {model}")
        arch = gguf.get(model, "")
        yield f"`{model}`", f"`{arch}`" if arch else "", NOTES.get(model, ""), f"`{tested[0]}`"


def rope_kinds():
    checkpoints = list(tiny_checkpoints())
    for kind in re.findall(r'kind == "(\w+)"', source("src/ops/rope_table.cc")):
        tested = [path for path, config in checkpoints
                  if (config.get("rope_scaling") or {}).get("rope_type", "default") == kind and "rope_theta" in config]
        if not tested:
            fail(f"no checkpoint under tests/golden has rope_type {kind}")
        yield f"`{kind}`", f"`{tested[0]}`"


def formats():
    golden = set(re.findall(r"^decode (\w+) ", source("tests/golden/quant_formats.txt"), re.MULTILINE))
    dtypes = "Safetensors.ReadsEveryPlainDtypeByItsName"
    fast = set(re.findall(r"case Format::(\w+): return (?:wide_)?reader<", source("src/kernels/cpu/matmul_q8.cc")))
    for name in re.findall(r"^HR_FORMAT\((\w+),", source("src/quant/formats.def"), re.MULTILINE):
        if name in INTEGERS:
            continue
        if name not in golden and name not in ("f32", "fp8_e4m3", "fp8_e5m2"):
            fail(f"tests/golden/quant_formats.txt has no line of {name}")
        tested = "Format.DecodesAndEncodesEveryTypeAsTheGgufPackageDoes" if name in golden else dtypes
        yield f"`{name}`", "8-bit activations" if name in fast else "bf16 activations" if name == "bf16" else "float32", f"`{tested}`"


def page() -> str:
    for _, _, test in CONTAINERS:
        if not has_test(test):
            fail(f"no test {test}")
    return f"""# What Headrace opens

Written by `tools/make_models_page.py` from the lists in the source; every row names the test behind it. All of it runs on the
CPU, with plain C++, AVX2 and AVX-512 kernels; language models and embedders run on [CUDA](cuda.md) too.

## Containers

{table(["container", "read", "tested by"], [(name, what, f"`{test}`") for name, what, test in CONTAINERS])}

## Families

By `model_type` of config.json, or `general.architecture` of a GGUF file. Tested on tiny random checkpoints, folders of
`tests/golden`, against transformers: logits within 1e-4 for prompts longer than any window, greedy ids equal.

{table(["model_type", "GGUF", "", "tested by"], families())}

## Rotary embeddings

`dynamic` and `longrope` depend on a sequence's length in their papers. Cached keys keep the rotation they were written with, so
Headrace takes the longest sequence that it was told to serve (`--max-context`), as other engines do.

{table(["rope_type", "tested by"], rope_kinds())}

## Weight formats

Decoded exactly as the `gguf` package does. *8-bit activations* are the fast matrix products of the default path, *bf16 activations*
those of machines that multiply bf16 (AVX-512 BF16; float32 elsewhere); the others multiply in float32 after decoding a block at a
time, which is several times slower.

{table(["format", "products on the CPU", "tested by"], formats())}
"""


def main() -> None:
    text = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        fail("docs/models.md is out of date: run tools/make_models_page.py")


if __name__ == "__main__":
    main()
