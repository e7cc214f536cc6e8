#!/usr/bin/env bash
# run.sh TEST VARIABLE...: runs the end-to-end test TEST, which needs the libraries of requirements.txt, in a virtual environment of
# its own. Exit 77 (skipped) when one of the VARIABLEs names no file. HEADRACE_BIN is the binary, HEADRACE_MODEL the model
# (or HEADRACE_SMOLLM2, as scripts/test.sh sets it).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
test=$1
shift
HEADRACE_MODEL=${HEADRACE_MODEL:-${HEADRACE_SMOLLM2:-}}
for name in "$@"; do
  if [ ! -f "${!name:-}" ]; then
    echo "skipped: $name is not set to a file (got '${!name:-}')"
    exit 77
  fi
done
export HEADRACE_BIN HEADRACE_MODEL

# One environment per content of requirements.txt; a folder that was left half made has no `ready`.
venv=${HEADRACE_E2E_VENV:-$(dirname "$HEADRACE_BIN")/e2e-venv-$(sha256sum "$here/requirements.txt" | cut -c1-12)}
if [ ! -f "$venv/ready" ]; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --only-binary=:all: --require-hashes -r "$here/requirements.txt"
  touch "$venv/ready"
fi
exec "$venv/bin/python" -m unittest discover --verbose --start-directory "$here" --pattern "$test"
