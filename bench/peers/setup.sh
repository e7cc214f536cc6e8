#!/usr/bin/env bash
# Makes the peers that bench/cpu.sh measures beside Headrace:
#   bench/peers/setup.sh [DIR]             (build/peers)
#   DIR/llama.cpp/build/bin/llama-bench    and its other tools, built for this machine's processor
#   DIR/openvino/bin/python                a virtual environment with OpenVINO GenAI
# Versions are pinned in llama_cpp.txt and openvino.txt beside this script. It takes about 12 minutes on two cores; a run that was
# stopped goes on where it ended, a changed pin makes that peer anew, and when everything is there nothing happens.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../scripts/lib.sh"
[ $# -le 1 ] && [ "${1:-}" != --help ] || die "usage: bench/peers/setup.sh [DIR]"
mkdir -p "${1:-$root/build/peers}"
dir=$(cd "${1:-$root/build/peers}" && pwd)
tools=(llama-bench llama-batched-bench llama-perplexity llama-server)

# begin PEER PIN: the peer's folder, empty unless it was begun from the same pin.
begin() {
  cmp -s "$2" "$dir/$1/pin" && return
  rm -rf "${dir:?}/$1"
  mkdir -p "$dir/$1"
  cp "$2" "$dir/$1/pin"
}

# quietly COMMAND...: what it says is shown when it fails.
quietly() {
  local log
  log=$(mktemp)
  "$@" > "$log" 2>&1 || { cat "$log" >&2; rm -f "$log"; return 1; }
  rm -f "$log"
}

fetch_llama_cpp() {
  local fetched=$dir/llama.cpp/fetched unpacked=$dir/llama.cpp/unpacked
  say "Fetching the source of llama.cpp (77 MB)"
  rm -rf "$fetched" "$unpacked"
  # Binaries stay allowed for the tools that pip builds the package's metadata with.
  quietly python3 -m pip download --no-deps --no-binary llama-cpp-python --require-hashes -r "$dir/llama.cpp/pin" -d "$fetched" ||
    die "pip could not fetch llama-cpp-python; see above"
  mkdir "$unpacked"
  tar -xf "$fetched"/llama_cpp_python-*.tar.gz -C "$unpacked" --strip-components=3 --exclude=.git --wildcards '*/vendor/llama.cpp' ||
    die "the archive in $fetched could not be unpacked: want a folder vendor/llama.cpp in it"
  mv "$unpacked" "$dir/llama.cpp/source"
  rm -rf "$fetched"
}

build_llama_cpp() {
  # The page of its server is left out, which a build may want to download; CPU kernels are those of this machine.
  [ -f "$dir/llama.cpp/build/build.ninja" ] ||
    quietly cmake -S "$dir/llama.cpp/source" -B "$dir/llama.cpp/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
      -DGGML_NATIVE=ON -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_UI=OFF \
      -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF ||
    { rm -rf "$dir/llama.cpp/build"; die "cmake could not configure llama.cpp; see above"; }
  build "$dir/llama.cpp/build" "${tools[@]}" || die "llama.cpp did not build; see above"
}

make_openvino() {
  say "Installing OpenVINO GenAI"
  python3 -c 'import ensurepip' 2> /dev/null || die "python3 has no module ensurepip: install python3-venv (scripts/install_deps.sh test)"
  quietly python3 -m venv "$dir/openvino" || die "no virtual environment could be made in $dir/openvino; see above"
  quietly "$dir/openvino/bin/python" -m pip install --only-binary=:all: -r "$dir/openvino/pin" ||
    die "pip could not install OpenVINO GenAI; see above"
  quietly "$dir/openvino/bin/python" -c 'import openvino_genai' || die "openvino_genai does not load; see above"
}

begin llama.cpp "$here/llama_cpp.txt"
[ -d "$dir/llama.cpp/source" ] || fetch_llama_cpp
if [ ! -f "$dir/llama.cpp/done" ]; then
  build_llama_cpp
  for tool in "${tools[@]}"; do
    quietly "$dir/llama.cpp/build/bin/$tool" --version || die "$tool was built and does not start; see above"
  done
  touch "$dir/llama.cpp/done"
fi

begin openvino "$here/openvino.txt"
if [ ! -f "$dir/openvino/done" ]; then
  make_openvino
  touch "$dir/openvino/done"
fi
