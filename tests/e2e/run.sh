#!/usr/bin/env bash
# The end-to-end tests of the server: the official OpenAI client, in a virtual environment of its own, against a real
# `headrace serve`. HEADRACE_BIN is the binary; the model is HEADRACE_MODEL, or HEADRACE_SMOLLM2 as scripts/test.sh sets it.
# Exit 77 (skipped) when one of them is not there.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
HEADRACE_MODEL=${HEADRACE_MODEL:-${HEADRACE_SMOLLM2:-}}
for name in HEADRACE_BIN HEADRACE_MODEL; do
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
exec "$venv/bin/python" -m unittest discover --verbose --start-directory "$here" --pattern test_openai_client.py
