#!/usr/bin/env bash
# scripts/fuzz.sh [SECONDS] [TARGET...]: builds the fuzz targets with clang-16 and runs them side by side for SECONDS
# (default 60) on seeds made at build time. An input that fails stays in build/fuzz/findings. Fails too when no input of
# a target got past its header: such a run would prove nothing.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
cd "$root" || exit 1
seconds=${1:-60}
shift || true

cmake --preset fuzz > build/fuzz-configure.log 2>&1 || { cat build/fuzz-configure.log; exit 1; }
build build/fuzz fuzz_targets || exit 1
build/fuzz/make_corpus build/fuzz/seeds tests || exit 1
mkdir -p build/fuzz/findings

targets=("$@")
[ ${#targets[@]} -gt 0 ] || for file in fuzz/*_fuzz.cc; do targets+=("$(basename "$file" _fuzz.cc)"); done

# run_target NAME. -malloc_limit_mb: no count from a file may lead to a large allocation.
run_target() {
  local corpus=build/fuzz/corpus/$1 dictionary=()
  mkdir -p "$corpus"
  [ ! -f "fuzz/$1.dict" ] || dictionary=("-dict=fuzz/$1.dict")
  "build/fuzz/$1_fuzz" "$corpus" "build/fuzz/seeds/$1" "${dictionary[@]}" -max_total_time="$seconds" \
    -max_len=8192 -timeout=5 -rss_limit_mb=1024 -malloc_limit_mb=64 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/findings/$1-" 2> "build/fuzz/$1.log"
}

say "fuzzing ${targets[*]} for $seconds s"
jobs=()
for target in "${targets[@]}"; do
  run_target "$target" &
  jobs+=($!)
done
result=0
for i in "${!targets[@]}"; do
  target=${targets[$i]}
  wait "${jobs[$i]}" || { result=1; tail -40 "build/fuzz/$target.log"; say "$target: a finding in build/fuzz/findings"; continue; }
  echo "$target: $(awk '/^reached/ {r = $0} /number_of_executed_units/ {n = $2} END {print n " runs, " r}' "build/fuzz/$target.log")"
  if ! grep -q "^reached" "build/fuzz/$target.log" || grep -q "^reached .*: 0 of" "build/fuzz/$target.log"; then
    say "$target: no input got past the header"
    result=1
  fi
done
exit $result
