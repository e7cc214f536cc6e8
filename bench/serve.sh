#!/usr/bin/env bash
# Measures Headrace's server beside llama.cpp's on this machine's CPU, and its engine beside static batches, from nothing, and prints the
# tables of docs/benchmarks.md:
#   bench/serve.sh                           everything, three rounds: about 12 minutes on two cores, after the builds
#   bench/serve.sh --rows streams --rounds 5
# All arguments go to bench/serve.py (`--help` lists them). Tables are printed on standard output, progress on standard error; samples are
# kept in build/bench/serve.json.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../scripts/lib.sh"

given=" $* "
case $given in
  *" --help "* | *" -h "*) exec python3 "$here/serve.py" "$@" ;;
  *" --bin"*) ;;
  *) build_release headrace ;;
esac
case $given in *" --peers"*) ;; *) "$here/peers/setup.sh" ;; esac
exec python3 "$here/serve.py" "$@"
