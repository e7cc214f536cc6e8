#!/usr/bin/env python3
"""copy_cases.py FROM SUITE...: copies suites of cases into tests/cases, so that the project's tests stand alone.

Cases that need a vocabulary under data/tokenizers (tens of megabytes) are left out; run cases_runner on FROM for those.
"""
import json
import pathlib
import shutil
import sys


def copy_suite(source: pathlib.Path, target: pathlib.Path) -> str:
    suite = json.loads((source / "cases.json").read_text(encoding="utf-8"))
    expected = json.loads((source / "expected.json").read_text(encoding="utf-8"))
    total = len(suite["cases"])
    suite["cases"] = [case for case in suite["cases"] if "data" not in (case.get("tokenizer") or {})]
    if target.exists():
        shutil.rmtree(target)
    target.mkdir(parents=True)
    write(target / "cases.json", suite)
    write(target / "expected.json", {case["id"]: expected[case["id"]] for case in suite["cases"]})
    if (source / "files").exists():
        shutil.copytree(source / "files", target / "files")
    for path in [target, *target.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return f"{source.name}: {len(suite['cases'])} of {total} cases"


def write(path: pathlib.Path, value) -> None:
    path.write_text(json.dumps(value, ensure_ascii=True, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit("usage: copy_cases.py FROM SUITE...")
    source = pathlib.Path(sys.argv[1])
    target = pathlib.Path(__file__).resolve().parent.parent / "tests" / "cases"
    for name in sys.argv[2:]:
        print(copy_suite(source / name, target / name))


if __name__ == "__main__":
    main()
