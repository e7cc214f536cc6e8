#!/usr/bin/env bash
# Builds and runs every test:
#   scripts/test.sh              all of it: release, ONNX's own tests, the unit tests under sanitizers, a minute of fuzzing
#   scripts/test.sh -R engine    only the release build, with these arguments for ctest
# Closes with the minutes that each stage took and "N passed, N failed". Exit 0 when nothing failed.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
cd "$root" || exit 1

passed=0 failed=0 skipped=0 times=""

# stage NAME COMMAND...: runs it, notes its minutes, counts a failure.
stage() {
  local name=$1 start=$SECONDS
  shift
  printf '\n== %s\n' "$name"
  "$@"
  local result=$?
  times+=$(printf '%6.1f min  %s' "$(((SECONDS - start) * 10 / 60))e-1" "$name")$'\n'
  return $result
}

give_up() {
  printf '\n%s%s\n%d passed, %d failed\n' "$times" "stopped: $1" "$passed" $((failed + 1))
  exit 1
}

# configure PRESET
configure() {
  local log
  log=$(mktemp)
  cmake --preset "$1" -DHEADRACE_TESTS=ON > "$log" 2>&1 || { cat "$log"; rm -f "$log"; return 1; }
  rm -f "$log"
}

# configure_and_build PRESET TARGET...
configure_and_build() {
  local preset=$1
  shift
  configure "$preset" && build "build/$preset" "$@"
}

# run_ctest PRESET ARGUMENTS...: adds what ctest counted to the totals.
run_ctest() {
  local preset=$1 log summary
  shift
  log=$(mktemp)
  ctest --test-dir "build/$preset" --output-on-failure -j "$(nproc)" "$@" 2>&1 | tee "$log"
  local result=${PIPESTATUS[0]}
  # "98% tests passed, 1 tests failed out of 60"
  summary=$(grep -E 'tests passed, [0-9]+ tests failed out of' "$log" || true)
  local not_run
  not_run=$(grep -cE 'Test +#[0-9]+: .*\*\*\*Skipped' "$log")
  rm -f "$log"
  if [ -z "$summary" ]; then
    failed=$((failed + 1))
    return 1
  fi
  local bad total
  bad=$(sed -E 's/.*passed, ([0-9]+) tests failed.*/\1/' <<< "$summary")
  total=$(sed -E 's/.*out of ([0-9]+).*/\1/' <<< "$summary")
  failed=$((failed + bad))
  skipped=$((skipped + not_run))
  passed=$((passed + total - bad - not_run))
  return "$result"
}

stage "packages" scripts/install_deps.sh test || give_up "packages"
HEADRACE_MODEL=$(model_path)
export HEADRACE_MODEL
stage "models" python3 scripts/fetch_model.py smollm2 gemma3-270m minilm || give_up "models"
stage "build release" configure_and_build release all || give_up "build release"
stage "test release" run_ctest release "$@"

# onnx_backend: ONNX's own tests, made once. It names each that fails.
onnx_backend() {
  [ -e build/onnx_backend/left_out.txt ] || scripts/onnx_backend.py build/onnx_backend || return 1
  build/release/onnx_backend build/onnx_backend --known scripts/onnx_backend_known.txt
}

if [ $# -eq 0 ]; then
  if stage "onnx backend" onnx_backend; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
  stage "build debug (address, undefined)" configure_and_build debug unit_tests || give_up "build debug"
  stage "test debug" run_ctest debug -L unit
  stage "build tsan" configure_and_build tsan thread_tests || give_up "build tsan"
  stage "test tsan" run_ctest tsan -L threads
  # CUDA kernels are compiled where nvcc is; they run through the same op driver where a device is (op_driver_cuda_test.cc).
  if command -v nvcc > /dev/null; then
    if stage "build cuda package" configure_and_build cuda package_cuda; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
  fi
  if stage "fuzz" scripts/fuzz.sh 60; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
fi

printf '\n%s' "$times"
if [ "$skipped" -gt 0 ]; then
  printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
else
  printf '%d passed, %d failed\n' "$passed" "$failed"
fi
[ "$failed" -eq 0 ]
