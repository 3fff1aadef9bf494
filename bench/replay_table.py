#!/usr/bin/env python3
"""The tables of docs/replay.md, section 12, from what the benchmarks print.

    tools/gpu_suite.sh replay
    python3 bench/replay_table.py build/gpu_suite/bench.replay_regions.txt build/gpu_suite/bench.replay_overhead.txt
"""
import re
import sys


def figure(us):
    return us if us == "-" else f"{float(us):.4g}" if float(us) < 1000 else f"{float(us):.0f}"


def regions(lines):
    """Mode "changing" of bench_replay_regions: us a call back to back, then one call with a wait."""
    print("| region | plain | graph | staged | auto | chose | auto / plain | one call: plain | auto | auto / plain |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for line in lines:
        row = re.match(r"(\S.*?) +changing +((?:[\d.]+|-) .*)", line)
        if not row:
            continue
        plain, graph, staged, auto, plain1, _, _, auto1, chose, period, latency = row[2].split()[:11]
        times = [figure(t) for t in (plain, graph, staged, auto)]
        print(f"| {row[1]} | {' | '.join(times)} | {chose} | {period} | {figure(plain1)} | {figure(auto1)} | {latency} |")
    columns = [(mode, measure) for mode in ("changing", "constant") for measure in ("period", "latency")]
    sums = {}
    for line in lines:
        row = re.match(r"(\S.*? / \S.*?) +(changing|constant) +(period|latency) +\d+ +([\d.]+) +([\d.]+) +(.*)", line)
        if row:
            name, mode, measure, mean, worst, of = row.groups()
            sums.setdefault(name, {})[mode, measure] = f"{mean} ({worst}, {of.removesuffix(' (constant)')})"
    print("\n| geometric mean (worst) | " + " | ".join(f"{mode}, {measure}" for mode, measure in columns) + " |")
    print("|---" * (1 + len(columns)) + "|")
    for name, of in sums.items():
        print(f"| {name} | " + " | ".join(of.get(c, "") for c in columns) + " |")


def overhead(lines):
    print("| nodes | arguments | driver's launch | with its patches | region | over the driver, us |\n|---|---|---|---|---|---|")
    for line in lines:
        row = re.match(r" *(\d+)  (\S.*?)  +([\d.]+) +([\d.]+) +([\d.]+) +(-?[\d.]+) +[\d.]+ +\d+ +\d+", line)
        if row:
            nodes, what, raw, raw_set, region, over = row.groups()
            if not what.startswith("unchanged"):
                over = float(region) - float(raw_set)
            print(f"| {nodes} | {what} | {raw} | {raw_set} | {region} | {float(over):.2f} |")


for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    print(lines[0] + "\n")
    (overhead if any(line.startswith("nodes ") for line in lines) else regions)(lines)
    print()
