#!/usr/bin/env bash
# Measures Headrace beside llama.cpp and OpenVINO GenAI on this machine's CPU, from nothing, and prints the table of docs/benchmarks.md:
#   bench/cpu.sh                                   everything, five rounds: about 15 minutes on two cores, after the builds
#   bench/cpu.sh --only Q4_1,BF16 --rows decode    a part of it
#   bench/cpu.sh --quick --rounds 1                tries the programs out
# All arguments go to bench/cpu.py (`--help` lists them). The table is printed on standard output, progress on standard error; samples
# are kept in build/bench/cpu.json.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../scripts/lib.sh"

given=" $* "
case $given in
  *" --help "* | *" -h "* | *" --print"*) exec python3 "$here/cpu.py" "$@" ;;
  *" --bin"*) ;;
  *) build_release headrace op_bench ;;
esac
case $given in *" --peers"*) ;; *) "$here/peers/setup.sh" ;; esac
exec python3 "$here/cpu.py" "$@"
