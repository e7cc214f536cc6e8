#!/usr/bin/env python3
"""check_layers.py [ROOT]: the folders of src/ include only the folders below them. Exit 1 with a line per violation.

ALLOWED is docs/map.md's table. Tests (x_test.cc) may include anything that they link. Public headers stay light: none
but testing/ names a JSON, regex, iostream, Boost, CLI11 or CUDA header.
"""
import pathlib
import re
import sys

ALLOWED = {
    "base": "",
    "core": "base",
    "quant": "base core",
    "io": "base core quant",
    "text": "base",
    "ops": "base core quant",
    "kernels/cpu": "base core quant ops",
    "kernels/cuda": "base core quant ops",
    "kernels/onednn": "base core quant ops",
    "graph": "base core quant ops",
    "parallel": "base core",
    "models": "base core quant io ops graph",
    "runtime": "base core io quant ops graph models parallel",
    "compress": "base core quant io text graph models runtime",
    "onnx": "base core quant io ops graph runtime",
    "engine": "base core quant io text graph runtime",
    "server": "base text engine",
    "load": "base",
    "ladder": "base text runtime",
    "testing": "base core quant io text ops kernels/cpu graph parallel models runtime onnx compress engine ladder",
    "cli": "*",
}
# Single files that may reach one folder further, each with its reason.
EXCEPTIONS = {
    # Opening a checkpoint is where container, text and runtime meet; nothing else of the engine knows files.
    "engine/serving_model.h": ("quant",),
    "engine/serving_model.cc": ("io", "quant"),
    "models/host_stepper.h": ("testing",),  # included by tests alone
    "testing/fake_backend.h": ("server",),  # implements its Backend, for the tests of server
    "testing/test_server.h": ("server",),
    "testing/fake_server_main.cc": ("server",),
    "testing/suites/requests.cc": ("server",),  # judges the server itself
    "testing/suites/logprobs.cc": ("server",),
}

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.MULTILINE)
HEAVY = re.compile(r"^(nlohmann/|simdjson|boost/|CLI/|spdlog/|prometheus/|iostream$|regex$|curl/|openssl/|google/protobuf|.*\.pb\.h$|cuda|cub/|cutlass/)")


def folder_of(path: str) -> str | None:
    """The layer that src/`path` belongs to; None for a path without one (a standard or third-party header)."""
    for name in sorted(ALLOWED, key=len, reverse=True):
        if path.startswith(name + "/"):
            return name
    return None


def violations(source: pathlib.Path):
    for file in sorted(source.rglob("*")):
        if file.suffix not in (".h", ".cc", ".cu", ".cuh", ".def", ".inc"):
            continue
        relative = file.relative_to(source).as_posix()
        layer = folder_of(relative)
        if layer is None:
            yield f"src/{relative}: no layer owns this folder; add it to ALLOWED and docs/map.md"
            continue
        text = file.read_text(encoding="utf-8")
        for match in INCLUDE.finditer(text):
            quote, target = match.groups()
            where = f"src/{relative}:{text.count(chr(10), 0, match.start()) + 1}"
            if quote == "<":
                if file.suffix == ".h" and layer != "testing" and HEAVY.match(target):
                    yield f"{where}: a header must not include <{target}>: keep it in one .cc"
                continue
            other = folder_of(target)
            if other is None and not (source / target).exists():
                yield f"{where}: \"{target}\" is not a path below src/"
                continue
            if relative.endswith("_test.cc") or other == layer or ALLOWED[layer] == "*":
                continue
            if other not in ALLOWED[layer].split() and other not in EXCEPTIONS.get(relative, ()):
                yield f"{where}: {layer} must not include {other} (\"{target}\")"


def main() -> int:
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    found = list(violations(root / "src"))
    for line in found:
        print(line)
    print(f"layers: {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
