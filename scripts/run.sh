#!/usr/bin/env bash
# Asks SmolLM2-135M-Instruct a question, from nothing:
#   scripts/run.sh "What is a mill race?"
#   scripts/run.sh                            a chat
#   scripts/run.sh "Name three rivers." --temperature 0 --max-tokens 40
# The first run installs packages, builds `headrace` and fetches the model (98 MB, kept in ~/.cache/headrace). Later
# runs only look whether something changed. All arguments go to `headrace run` (see `headrace run --help`).
set -euo pipefail
. "$(dirname "$0")/lib.sh"

dir=$root/build/release
"$root/scripts/install_deps.sh"
# Tests are left out of a first configuration, and left alone where scripts/test.sh has configured them.
if [ ! -f "$dir/build.ninja" ]; then
  say "Configuring"
  log=$(mktemp)
  (cd "$root" && cmake --preset release -DHEADRACE_TESTS=OFF) > "$log" 2>&1 || { cat "$log" >&2; die "cmake failed; see above"; }
  rm -f "$log"
fi
build "$dir" headrace || die "the build failed; see above"

model=$(python3 "$root/scripts/fetch_model.py" smollm2)
exec "$dir/headrace" run "$model" "$@"
