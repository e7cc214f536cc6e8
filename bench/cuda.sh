#!/usr/bin/env bash
# Checks and measures Headrace on a CUDA card, in at most 8 minutes:
#   bench/cuda.sh pack --requests FILE [--smollm2 FILE]    builds build/cuda/package and puts all that a run needs into it
#   build/cuda/package/bench/cuda.py run --out FILE        on the machine with the card, which needs the folder, python3 and CUDA 13 alone
#   bench/cuda.sh table FILE [--write]                     the tables of docs/benchmarks.md; --write puts them there
# All arguments go to bench/cuda.py (`run --help` lists rows and the like). Tables are printed on standard output, progress on standard error.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../scripts/lib.sh"

if [ "${1:-}" = pack ] && [[ " $* " != *" --help "* ]]; then
  log=$(mktemp)
  (cd "$root" && cmake --preset cuda -DHEADRACE_TESTS=ON) > "$log" 2>&1 || { cat "$log" >&2; die "cmake failed; see above"; }
  rm -f "$log"
  build "$root/build/cuda" package_cuda || die "the build failed; see above"
fi
exec python3 "$here/cuda.py" "$@"
