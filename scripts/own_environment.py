"""The packages that a script needs, in a virtual environment of its own: one call at the script's start. Python 3.11."""
import os
import pathlib
import subprocess
import sys
import venv


def enter(folder: pathlib.Path, requirements: pathlib.Path) -> None:
    """Starts the running script again inside `folder`, which is made of the pinned `requirements` (anew when these have changed)."""
    folder = folder.resolve()
    if pathlib.Path(sys.prefix).resolve() == folder:
        return
    python, stamp = folder / "bin/python", folder / "made_of.txt"
    if not stamp.exists() or stamp.read_text() != requirements.read_text():
        print(f"Installing the packages of {requirements.name}", file=sys.stderr, flush=True)
        venv.create(folder, with_pip=True, clear=True)
        command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes",
                   "--only-binary=:all:", "--requirement", requirements]
        if subprocess.run(command, stdout=sys.stderr.fileno(), check=False).returncode != 0:
            sys.exit(f"error: the packages of {requirements.name} could not be installed; see pip's message above")
        stamp.write_text(requirements.read_text())
    os.execv(python, [str(python), *sys.argv])
