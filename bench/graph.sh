#!/usr/bin/env bash
# Measures Headrace beside ONNX Runtime and OpenVINO on ONNX models on this machine's CPU, from nothing, and prints the tables of
# docs/benchmarks.md:
#   bench/graph.sh                                       everything, three rounds
#   bench/graph.sh --only resnet50,minilm --rounds 5     a part of it
#   bench/graph.sh --write                               puts the tables into docs/benchmarks.md
# All arguments go to bench/graph.py (`--help` lists them). Tables are printed on standard output, progress on standard error; samples are
# kept in build/bench/graph.json, the peers in build/peers/graph.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../scripts/lib.sh"

case " $* " in
  *" --help "* | *" -h "* | *" --bin"*) ;;
  *) build_release headrace ;;
esac
exec python3 "$here/graph.py" "$@"
