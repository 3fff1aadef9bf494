#!/usr/bin/env bash
# The PyTorch door on a machine with a GPU and PyTorch, in one call:
#   tools/torch_suite.sh [tests] [overhead] [zoo] [-- ARGUMENTS OF bench/torch_models.py]     no part: tests overhead
# Installs the wheel in .dev/wheel for this Python, or else builds this clone with pip (no downloads), into a folder
# that goes first on PYTHONPATH; then runs tests/python with pytest, the call overhead, and the zoo of models. PYTHON
# names the interpreter. The zoo stops by itself so that all ends within RONDO_SUITE_SECONDS (590) from the start. Logs
# and JSON are in build/torch_suite, and as one archive with the summary in $OUT if that is set. The last thing printed
# is a short table. Exit code 0: nothing failed.
set -uo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
limit=${RONDO_SUITE_SECONDS:-590}
out=build/torch_suite
rm -rf "$out"
mkdir -p "$out"
parts=()
while [ $# -gt 0 ]; do
  case $1 in
    --) shift; break ;;
    tests | overhead | zoo) parts+=("$1") ;;
    *) echo "torch_suite: there is no part $1; there are tests, overhead, zoo"; exit 2 ;;
  esac
  shift
done
[ ${#parts[@]} -gt 0 ] || parts=(tests overhead)
rows=()
failed=0
finish() {
  printf '%s\n' "${rows[@]}" >"$out/summary.txt"
  if [ -n "${OUT:-}" ]; then
    tar czf "$OUT/torch_suite.tgz" -C build torch_suite
    cp "$out/summary.txt" "$out"/*.json "$OUT/" 2>/dev/null
  fi
  echo
  cat "$out/summary.txt"
}
trap finish EXIT

# try NAME COMMAND...: a row by exit code; what is printed is kept and shown.
try() {
  local name=$1 start=$SECONDS code
  shift
  "$@" 2>&1 | tee "$out/$name.log"
  code=${PIPESTATUS[0]}
  if [ "$code" = 0 ]; then rows+=("$(printf '%-10s ok    %s s' "$name" $((SECONDS - start)))"); else
    rows+=("$(printf '%-10s FAIL  exit code %s after %s s, see %s' "$name" "$code" $((SECONDS - start)) \
      "$out/$name.log")")
    failed=1
  fi
  return "$code"
}

site=$PWD/build/torch_site
install_into() { "$python" -m pip install -q --no-index --no-deps --upgrade --target "$site" "$@"; }
install() {
  rm -rf "$site"
  shopt -s nullglob
  local tag wheels
  tag=$("$python" -c 'import sys; print(f"cp{sys.version_info.major}{sys.version_info.minor}")')
  wheels=(.dev/wheel/*-"$tag"-*.whl .dev/wheel/*-abi3-*.whl .dev/wheel/*-none-*.whl)
  if [ ${#wheels[@]} -gt 0 ]; then install_into "${wheels[0]}" && echo "installed ${wheels[0]}"; else
    install_into --no-build-isolation . && echo "built and installed this clone"
  fi && PYTHONPATH=$site "$python" -c '
import rondo, torch
print("rondo", getattr(rondo, "__version__", "?"), "torch", torch.__version__, "backends",
      "rondo" in torch._dynamo.list_backends(exclude_tags=()))'
}
try install install || exit 1
export PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH}

for part in "${parts[@]}"; do
  case $part in
    tests) try tests "$python" -m pytest -q --durations=5 -p no:cacheprovider tests/python ;;
    overhead) try overhead "$python" bench/torch_overhead.py --json "$out/torch_overhead.json" ;;
    zoo) try zoo "$python" bench/torch_models.py --all --budget $((limit - 15 - SECONDS)) \
      --json "$out/torch_models.json" "$@" ;;
  esac
done
exit $failed
