#!/usr/bin/env bash
# The demo: a TreeLSTM over the sentences of examples/data, batched automatically, and what batching saved.
#   tools/demo.sh path/to/rondo
set -euo pipefail
cd "$(dirname "$0")/.."
rondo=$1
work=build/demo
mkdir -p "$work"
program=examples/models/treelstm.rondo
weights=$work/treelstm.safetensors
# Fetched by tools/setup.sh where there is no CUDA toolkit.
nvrtc=$PWD/build/cuda-headers/lib/libnvrtc.so.12
[ ! -f "$nvrtc" ] || export RONDO_LIBNVRTC="${RONDO_LIBNVRTC:-$nvrtc}"

show() { printf '\n$ rondo %s\n' "$*"; "$rondo" "$@"; }

show doctor
[ -f "$weights" ] || show weights random -p "$program" --seed 1 -o "$weights"
input=(--weights "$weights" --trees examples/data/trees.txt --hash-words 1000)
show run "$program" "${input[@]}" --output "$work/roots.safetensors" --report text
show bench "$program" "${input[@]}" --batch 1,8,62
