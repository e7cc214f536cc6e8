#!/usr/bin/env bash
# Installs the distribution's packages that Headrace needs, and of these only what is missing.
#   scripts/install_deps.sh         what building and running `headrace` takes
#   scripts/install_deps.sh test    also what scripts/test.sh takes
# Uses sudo when it is not run as root. Prints nothing when everything is there.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

packages=(
  g++ cmake ninja-build pkg-config            # the tools
  libfmt-dev libspdlog-dev libexpected-dev    # the rest are cmake/Dependencies.cmake's libraries
  libcli11-dev libedit-dev nlohmann-json3-dev libpcre2-dev
  libboost1.81-dev prometheus-cpp-dev libcurl4-openssl-dev libssl-dev
  protobuf-compiler libprotobuf-dev
  python3 python3-pip ca-certificates         # fetch_model.py, cmake/Onnx.cmake, cmake/OneDnn.cmake
)
if [ "${1:-}" = test ]; then
  packages+=(
    ccache                                    # five builds share what they can
    libgtest-dev libgmock-dev zlib1g-dev      # unit tests
    python3-venv binutils                     # end-to-end tests, the check of kernel symbols
    clang-16 libclang-rt-16-dev               # the fuzz targets
  )
fi

if ! command -v dpkg-query > /dev/null; then
  for tool in g++ cmake ninja pkg-config python3; do
    command -v "$tool" > /dev/null || die "$tool is not there, and this script installs with apt only (Debian 12).
Install what provides these Debian packages: ${packages[*]}"
  done
  exit 0
fi

installed=" $(dpkg-query -W -f '${db:Status-Status}:${Package} ' "${packages[@]}" 2> /dev/null || true)"
missing=()
for package in "${packages[@]}"; do
  case $installed in *" installed:$package "*) ;; *) missing+=("$package") ;; esac
done
# Tools that were installed by other means (a newer CMake, a Python of one's own) serve as well.
needed=()
for package in "${missing[@]}"; do
  case $package in
    cmake | ccache | python3 | g++ | clang-16) command -v "${package/clang/clang++}" > /dev/null || needed+=("$package") ;;
    ninja-build) command -v ninja > /dev/null || needed+=("$package") ;;
    python3-pip) python3 -m pip --version > /dev/null 2>&1 || needed+=("$package") ;;
    python3-venv) python3 -c 'import ensurepip' 2> /dev/null || needed+=("$package") ;;
    *) needed+=("$package") ;;
  esac
done
[ ${#needed[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo > /dev/null || die "these packages are missing, and neither root nor sudo is at hand: ${needed[*]}"
  as_root=(sudo)
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive LC_ALL=C
     sh -c 'exec 3>&1 >> "$0" 2>&1; exec apt-get -y -q -o Dpkg::Use-Pty=0 -o APT::Status-Fd=3 "$@"' "$log")

# apt reports "dlstatus:N:PERCENT:..." while it downloads and "pmstatus:PACKAGE:PERCENT:..." while it installs, on a
# descriptor of its own: it makes that one non-blocking, which the packages' scripts do not survive on their output.
show_progress() {
  local kind name percent rest
  while IFS=: read -r kind name percent rest; do
    case $kind in
      dlstatus) bar "downloading" "${percent%%.*}" "" ;;
      pmstatus) bar "installing" "${percent%%.*}" "$name" ;;
    esac
  done
  bar_end
}

say "Installing ${#needed[@]} packages: ${needed[*]}"
"${apt[@]}" update | show_progress || { cat "$log" >&2; die "the package lists could not be updated; see above"; }
"${apt[@]}" install --no-install-recommends "${needed[@]}" | show_progress ||
  { tail -n 30 "$log" >&2; die "apt-get could not install: ${needed[*]}; see above"; }
