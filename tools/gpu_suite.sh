#!/usr/bin/env bash
# Everything that needs an NVIDIA GPU, on one: tests, checksums of the benchmark models, compute-sanitizer, benchmarks.
#   tools/gpu_suite.sh [tests] [examples] [checksums] [sanitizer] [bench] [replay]        no argument: all of them
# Builds Release first, unless RONDO_BIN names a folder with binaries built elsewhere (rondo, *_test; stripped with -g at
# most: tests look for the names of their own functions). The benchmarks of
# part replay are built if they are not there: by CMake, or with RONDO_BIN by nvcc against that folder's libraries. They
# load cuBLAS and cuDNN, which are looked for in RONDO_BENCH_LIBS, or in Python's nvidia packages. Full logs are
# in build/gpu_suite, and as one archive with the summary in $OUT if that is set. The last thing printed is a short
# table. Exit code 0: nothing failed.
set -uo pipefail
cd "$(dirname "$0")/.."
out=build/gpu_suite
rm -rf "$out"
mkdir -p "$out"
work=$(mktemp -d)
finish() {
  rm -rf "$work"
  if [ -n "${OUT:-}" ]; then tar czf "$OUT/gpu_suite.tgz" -C build gpu_suite && cp "$out/summary.txt" "$OUT/" 2>/dev/null; fi
}
trap finish EXIT
parts=${*:-tests examples checksums sanitizer bench replay}
rows=()
failed=0

# row NAME RESULT PARTICULARS
row() {
  rows+=("$(printf '%-38s %-6s %s' "$1" "$2" "$3")")
  [ "$2" != FAIL ] || failed=1
}
# try NAME LOG COMMAND...: a row by exit code; the log keeps what was printed.
try() {
  local name=$1 log=$out/$2 start=$SECONDS
  shift 2
  if "$@" >"$log" 2>&1; then row "$name" ok "$((SECONDS - start)) s"; else
    row "$name" FAIL "exit code $?, see $log"
    tail -n 15 "$log"
  fi
}

bin=${RONDO_BIN:-}
if [ -z "$bin" ]; then
  bin=build/release
  { tools/setup.sh && cmake --preset release && cmake --build --preset release; } >"$out/build.log" 2>&1 ||
    { tail -n 30 "$out/build.log"; echo "gpu_suite: the build failed, see $out/build.log"; exit 1; }
fi
rondo=$(find "$bin" -name rondo -type f -perm -u+x | head -n 1)
[ -n "$rondo" ] || { echo "gpu_suite: there is no program rondo under $bin"; exit 1; }

try "doctor" doctor.log "$rondo" doctor --device cuda
cat "$out/doctor.log"
[ $failed = 0 ] || exit 1

# make_inputs MODEL HIDDEN COUNT: $weights and $instances
make_inputs() {
  weights=$work/$1.$2.safetensors instances=$work/$1.$3.jsonl
  [ -f "$weights" ] || "$rondo" weights spec --model "$1" -D "H=$2" -o "$weights" 2>/dev/null
  [ -f "$instances" ] || "$rondo" instances spec --model "$1" --count "$3" -o "$instances"
}

# facts GRAPH_TEST: what the driver does with graphs against what we believe, docs/graph_facts.md.
facts() {
  local log=$out/facts.log said culprit skipped= i
  for i in 1 2 3 4 5 6; do
    RONDO_SKIP_FACTS=$skipped "$1" --gtest_filter=ConformanceOfTheRealDriver.EveryFactHolds >"$log" 2>&1
    said=$(sed -n 's/^\[   FACTS  \] //p' "$log")
    [ -z "$said" ] || break
    # Without a sum the process ended at the fact that it named last.
    culprit=$(sed -n 's/^\[   FACT   \] \([A-Za-z0-9]*\): .*/\1/p' "$log" | tail -n 1)
    [ -n "$culprit" ] || break
    skipped=${skipped:+$skipped,}$culprit
  done
  if [ -z "$said" ]; then
    if grep -q '  SKIPPED ' "$log"; then row "facts about graphs" skip "no driver"; else row "facts about graphs" FAIL "see $log"; fi
    return
  fi
  local held=${said%% *} of=${said#* of }
  grep -E '^FACT ' "$log" || true
  if [ "$held" = "${of%% *}" ] && [ -z "$skipped" ]; then row "facts about graphs" ok "$said"; else
    row "facts about graphs" FAIL "$said${skipped:+, ends the process: $skipped}, see $log"
  fi
}

if [[ " $parts " == *" tests "* ]]; then
  for name in driver device kernel graph replay mix batch model gpu; do
    test=$(find "$bin" -name "${name}_test" -type f -perm -u+x | head -n 1)
    [ -n "$test" ] || continue
    log=$name.log
    # Facts about the driver have a row of their own, and one that ends the process hides no other.
    try "test $name" $log "$test" --gtest_filter=-ConformanceOfTheRealDriver.*
    row "  passed, skipped" "" "$(grep -c '       OK' "$out/$log") $(grep -c '  SKIPPED ' "$out/$log")"
    [ "$name" != graph ] || facts "$test"
  done
fi

if [[ " $parts " == *" examples "* ]]; then
  for source in examples/[0-9]*.cpp examples/[0-9]*.cu; do
    name=$(basename "${source%.*}")
    example=$(find "$bin" -name "$name" -type f -perm -u+x | head -n 1)
    if [ -n "$example" ]; then try "example $name" "$name.log" "$example"; else row "example $name" skip "not built under $bin"; fi
  done
fi

if [[ " $parts " == *" checksums "* ]]; then
  while read -r model hidden batch elements sum l2; do
    case $model in '#'* | '') continue ;; esac
    make_inputs "$model" "$hidden" "$batch"
    for replay in graph stream; do
      line=$("$rondo" run "examples/models/$model.rondo" --weights "$weights" --instances "$instances" -D "H=$hidden" \
        --batch "$batch" --device cuda --replay $replay --report none --checksum 2>>"$out/checksums.err")
      printf '%s %s %s %s: %s\n' "$model" "$hidden" "$batch" $replay "$line" >>"$out/checksums.log"
      # "checksum: N elements, sum S, l2 L"
      verdict=$(printf '%s\n' "$line" | awk -v n="$elements" -v s="$sum" -v l="$l2" '
        function abs(x) { return x < 0 ? -x : x }
        /^checksum: / { gsub(",", ""); e = abs($7 - l) / l; d = abs($5 - s)
          ok = $2 == n && e <= 3e-6 + 1e-6 / l && d <= 2e-4 * (1 + l); printf "%s l2 off by %.1e, sum by %.1e", ok ? "ok" : "FAIL", e, d }')
      row "checksum $model $hidden batch $batch $replay" "${verdict%% *}" "${verdict#* }"
    done
  done <tests/checksums.txt
fi

if [[ " $parts " == *" sanitizer "* ]]; then
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
  if [ -z "$sanitizer" ]; then row "compute-sanitizer" skip "there is none on this machine"; else
    for tool in memcheck racecheck; do
      for spec in "treelstm stream" "treelstm graph" "bilstm stream" "mvrnn stream"; do
        read -r model replay <<<"$spec"
        make_inputs "$model" 64 4
        try "$tool $model $replay" "$tool.$model.$replay.log" "$sanitizer" --tool $tool --error-exitcode 9 "$rondo" run \
          "examples/models/$model.rondo" --weights "$weights" --instances "$instances" -D H=64 --device cuda --replay "$replay" \
          --report none --checksum
      done
    done
    for source in examples/0[2-79]_* examples/1[01]_*; do  # 08 and 12 make the driver fail on purpose
      example=$(find "$bin" -name "$(basename "${source%.*}")" -type f -perm -u+x | head -n 1)
      [ -z "$example" ] || try "memcheck $(basename "$example")" "memcheck.$(basename "$example").log" "$sanitizer" --tool memcheck \
        --report-api-errors no --error-exitcode 9 "$example"
    done
  fi
fi

if [[ " $parts " == *" bench "* ]]; then
  for spec in "treelstm 256" "treelstm 512" "bilstm 256" "birnn 256" "mvrnn 64"; do
    read -r model hidden <<<"$spec"
    make_inputs "$model" "$hidden" 64
    try "bench $model $hidden" "bench.$model.$hidden.txt" "$rondo" bench "examples/models/$model.rondo" --weights "$weights" \
      --instances "$instances" -D "H=$hidden" --device cuda --batch 1,8,64 --json "$out/bench.$model.$hidden.json"
    cat "$out/bench.$model.$hidden.txt"
  done
  # One model called again and again, with other instances each time.
  make_inputs treelstm 256 512
  try "bench treelstm 256 in a row" bench.treelstm.256.row.txt "$rondo" bench examples/models/treelstm.rondo --weights "$weights" \
    --instances "$instances" -D H=256 --device cuda --batch 64 --no-one-by-one --in-a-row 8 --rounds 40 --json "$out/bench.treelstm.256.row.json"
  cat "$out/bench.treelstm.256.row.txt"
  overhead=$(find "$bin" -name bench_graph_overhead -type f -perm -u+x | head -n 1)
  if [ -n "$overhead" ]; then
    try "bench graph_overhead" bench.graph_overhead.txt "$overhead" --json "$out/bench.graph_overhead.json"
    cat "$out/bench.graph_overhead.txt"
  fi
fi

# bench_binary NAME: the path of bench_NAME, built if it is not there; nothing, and the log says why.
bench_binary() {
  local found log=$out/build.$1.log nvcc libs
  found=$(find "$bin" -name "bench_$1" -type f -perm -u+x | head -n 1)
  if [ -z "$found" ] && [ -z "${RONDO_BIN:-}" ]; then
    cmake --build --preset release --target "bench_$1" >"$log" 2>&1 && found=$bin/bench_$1
  elif [ -z "$found" ]; then
    nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
    libs=$(find "$bin" -name 'librondo_*.a')
    if [ -z "$nvcc" ] || [ -z "$libs" ]; then echo "neither bench_$1 nor nvcc and libraries to build it with" >"$log"; else
      # shellcheck disable=SC2086
      "$nvcc" -std=c++20 -O2 -arch=sm_90 -Iinclude -Isrc "$(ls bench/"$1".c*)" -o "$work/bench_$1" -Xlinker --start-group $libs \
        -Xlinker --end-group ${RONDO_FMT_LIBS:--lfmt} -ldl -lrt >"$log" 2>&1 && found=$work/bench_$1
    fi
  fi
  [ -z "$found" ] || printf '%s\n' "$found"
}

if [[ " $parts " == *" replay "* ]]; then
  if [ -z "${RONDO_BENCH_LIBS:-}" ]; then
    RONDO_BENCH_LIBS=$(python3 -c 'import glob, nvidia, os
print(":".join(sorted({os.path.dirname(p) for root in nvidia.__path__ for p in glob.glob(root + "/*/lib/libcu[bd]*.so.*")})))' 2>/dev/null)
  fi
  # The limits of a call's cost are looked at, and reported, but do not fail the suite: a busy host misses them.
  for spec in "replay_overhead" "replay_discovery --trials ${RONDO_REPLAY_TRIALS:-1000} --libs $RONDO_BENCH_LIBS:" "replay_regions --libs $RONDO_BENCH_LIBS:"; do
    read -r name options <<<"$spec"
    program=$(bench_binary "$name")
    if [ -z "$program" ]; then
      row "bench $name" skip "$(head -n 1 "$out/build.$name.log" | cut -c 1-100)"
      continue
    fi
    # shellcheck disable=SC2086
    try "bench $name" "bench.$name.txt" "$program" $options --json "$out/bench.$name.json"
    cat "$out/bench.$name.txt"
    row "  in short" "" "$(grep -E 'over their limit|random trials|kinds of work|^auto / (plain|best) +both +period' "$out/bench.$name.txt" | tr -s ' ' | paste -sd ';' | cut -c 1-400)"
  done
fi

printf '\n== gpu suite ==\n'
printf '%s\n' "${rows[@]}" | tee "$out/summary.txt"
exit $failed
