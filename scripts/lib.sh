# What the scripts share: messages, a progress bar, the number of build jobs. Sourced, never run.
# Everything here writes to standard error, so that standard output stays the program's own.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }

# bar LABEL PERCENT NOTE: redraws one line on a terminal; elsewhere prints nothing (see `say`).
bar() {
  [ -t 2 ] || return 0
  local width=30 filled blank
  filled=$(($2 * width / 100))
  printf -v blank '%*s' $((width - filled)) ''
  printf -v filled '%*s' "$filled" ''
  printf '\r\033[K%-12s [%s%s] %3d%%  %s' "$1" "${filled// /#}" "${blank// /.}" "$2" "$3" >&2
}
bar_end() { [ -t 2 ] && printf '\r\033[K' >&2; return 0; }

# Compilers of this project take up to 1.3 GB each: fewer jobs than processors where memory is short.
build_jobs() {
  local by_memory
  by_memory=$(awk '/MemAvailable/ {print int($2 / 1400000)}' /proc/meminfo)
  local jobs
  jobs=$(nproc)
  [ "$by_memory" -lt "$jobs" ] && jobs=$by_memory
  [ "$jobs" -ge 1 ] && echo "$jobs" || echo 1
}

# build_release TARGET...: installs what that takes, configures the release build with its tests and builds TARGETs.
build_release() {
  local log
  "$root/scripts/install_deps.sh" test
  log=$(mktemp)
  (cd "$root" && cmake --preset release -DHEADRACE_TESTS=ON) > "$log" 2>&1 || { cat "$log" >&2; die "cmake failed; see above"; }
  rm -f "$log"
  build "$root/build/release" "$@" || die "the build failed; see above"
}

# build DIR TARGET...: builds with a progress bar. What the compilers say is shown when the build fails.
build() {
  local dir=$1 line rest done_steps total start=$SECONDS log result
  shift
  log=$(mktemp)
  NINJA_STATUS='@%f/%t ' ninja -C "$dir" -j "$(build_jobs)" "$@" 2>&1 | {
    while IFS= read -r line; do
      case $line in
        @*/*\ *)
          rest=${line#@} done_steps=${rest%%/*} total=${rest#*/} total=${total%% *}
          # Two steps are what a build with nothing to do takes: looking for new files.
          [ -t 2 ] || [ "$total" -le 2 ] || [ "$done_steps" -ne 1 ] || say "Building $* ($total steps)"
          bar "building" $((done_steps * 100 / total)) "$done_steps of $total, $((SECONDS - start)) s" ;;
        *) printf '%s\n' "$line" >> "$log" ;;
      esac
    done
    bar_end
  }
  result=${PIPESTATUS[0]}
  [ "$result" -eq 0 ] || cat "$log" >&2
  rm -f "$log"
  return "$result"
}

# Where `fetch_model.py smollm2` keeps it, and where the tests look for it.
model_path() { echo "${XDG_CACHE_HOME:-$HOME/.cache}/headrace/SmolLM2-135M-Instruct.Q4_1.gguf"; }
