#!/usr/bin/env bash
# Makes a machine able to build and test Rondo. On Debian 12: installs what is missing with apt (as root, or through
# sudo). CUDA enters as headers only; where no toolkit is found, cuda.h, nvrtc.h, the headers of CUPTI and libnvrtc come
# from NVIDIA's PyPI wheels, unpacked under build/cuda-headers (nothing is installed from them). With the argument `python`:
# also what the Python module needs, and a virtual environment for its tests in build/venv. Idempotent; when nothing is
# missing it changes nothing and takes a fraction of a second.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(g++ cmake ninja-build libfmt-dev libcli11-dev nlohmann-json3-dev libgtest-dev)
runtime_wheel=nvidia-cuda-runtime-cu12==12.8.90
nvrtc_wheel=nvidia-cuda-nvrtc-cu12==12.8.93
cupti_wheel=nvidia-cuda-cupti-cu12==12.8.90

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

apt_install() {
  local root=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || fail "missing: $*. Install them as root (apt-get install $*), then run this again."
    root=(sudo)
  fi
  say "installing with apt: $*"
  "${root[@]}" apt-get update -qq
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

installed() { dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed; }

if [ "${1:-}" = python ]; then packages+=(python3-dev python3-venv); fi
if command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
  missing=()
  for p in "${packages[@]}"; do installed "$p" || missing+=("$p"); done
  if [ ${#missing[@]} -gt 0 ]; then apt_install "${missing[@]}"; fi
else
  say "not a Debian system: make sure that these are there by their names on it: ${packages[*]}"
fi

# The tests in Python. The versions are those that they were written with; none of them is needed by a user.
if [ "${1:-}" = python ] && ! build/venv/bin/python -c 'import nanobind, pytest' 2>/dev/null; then
  say "making build/venv with nanobind and pytest, from PyPI"
  rm -rf build/venv
  python3 -m venv build/venv || fail "python3 -m venv failed. Python 3.11 or newer is needed, with its venv."
  build/venv/bin/python -m pip install --quiet --disable-pip-version-check nanobind==3.1.0 pytest==9.2.0 ||
    fail "pip could not fetch nanobind and pytest into build/venv."
fi

# CUDA headers: a toolkit, or the wheels. A toolkit may lack CUPTI (graphs then do not name callers, and say so); our
# own folder has it.
here=build/cuda-headers
for root in "${CUDA_HOME:-}" /usr/local/cuda "$here"; do
  if [ -n "$root" ] && [ -f "$root/include/cuda.h" ] && [ -f "$root/include/nvrtc.h" ]; then
    if [ "$root" != "$here" ] || [ -f "$here/include/cupti_callbacks.h" ]; then exit 0; fi
  fi
done
if command -v dpkg-query >/dev/null; then
  missing=()
  python3 -m pip --version >/dev/null 2>&1 || missing+=(python3 python3-pip)
  if [ ${#missing[@]} -gt 0 ]; then apt_install "${missing[@]}"; fi
fi
say "no CUDA toolkit: taking cuda.h, nvrtc.h, cupti*.h and libnvrtc from PyPI ($runtime_wheel, $nvrtc_wheel," \
  "$cupti_wheel) into $here"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: -d "$work" \
  "$runtime_wheel" "$nvrtc_wheel" "$cupti_wheel" || fail "pip could not fetch the wheels. Install a CUDA toolkit (12.0 or newer) and set CUDA_HOME."
for wheel in "$work"/*.whl; do python3 -m zipfile -e "$wheel" "$work/unpacked"; done
mkdir -p "$work/done/lib"
cp -r "$work"/unpacked/nvidia/cuda_runtime/include "$work/done/include"
cp "$work"/unpacked/nvidia/cuda_nvrtc/include/nvrtc.h "$work/done/include/"
cp -r "$work"/unpacked/nvidia/cuda_cupti/include/. "$work/done/include/"
cp "$work"/unpacked/nvidia/cuda_nvrtc/lib/libnvrtc.so.12 "$work"/unpacked/nvidia/cuda_nvrtc/lib/libnvrtc-builtins.so.12.8 \
  "$work/done/lib/"
mkdir -p build
rm -rf "$here"
mv "$work/done" "$here"
