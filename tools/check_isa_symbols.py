#!/usr/bin/env python3
"""Proves that no code built for one instruction set can be linked into another.

The linker keeps one copy of every weak or unique symbol. If an object compiled with AVX-512 flags defines one that other
objects define too, such as an instance of a std:: template, its copy may be the one that a machine without AVX-512 runs.
So kernel objects of avx2 and avx512 may define such symbols only in their own namespace (headrace::avx2,
headrace::avx512) or as type information, which holds no code.

Usage: check_isa_symbols.py BUILD_DIR        exit 1 and one line a symbol when something is wrong
"""
import pathlib
import re
import subprocess
import sys

ISAS = ("avx2", "avx512")
# nm's letters: V v W w weak, u unique. Upper case, and u, are definitions.
DEFINITION = re.compile(r"^[0-9a-f]+ ([VWu]) (\S+)$")
TYPE_DATA = re.compile(r"^_ZT[IS]")  # typeinfo, typeinfo names


def leaks(objects, isa):
    own = f"{len(isa)}{isa}"  # how the namespace is mangled
    listing = subprocess.run(["nm", "--print-file-name", *map(str, objects)], check=True, capture_output=True, text=True)
    for line in listing.stdout.splitlines():
        name, _, symbol = line.rpartition(":")
        match = DEFINITION.match(symbol)
        if match and not TYPE_DATA.match(match[2]) and not match[2].startswith("DW.ref.") and own not in match[2]:
            yield f"{name}: {match[2]}"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    build = pathlib.Path(sys.argv[1])
    found = []
    for isa in ISAS:
        objects = sorted(build.glob(f"src/CMakeFiles/hr_kernels_cpu_{isa}.dir/**/*.o"))
        if not objects:
            sys.exit(f"{build}: no objects of hr_kernels_cpu_{isa}; build it first")
        found += leaks(objects, isa)
    for line in found:
        print(f"{line}: a weak symbol outside the instruction set's namespace; inline it or move the code to another folder")
    sys.exit(1 if found else 0)


main()
