"""The tables of bench/torch_models.py, from its JSON."""
import math
import statistics

OTHERS = ("eager", "inductor", "graphs")


def geometric(values):
    return math.exp(sum(math.log(v) for v in values) / len(values)) if values else float("nan")


def figure(value):
    return "-" if value is None else f"{value:.4g}" if value < 1000 else f"{value:.0f}"


def ratio(result, other, mode, what):
    """How many times as fast `mode` is: the median over rounds of the two modes' ratio; None where either failed."""
    a, b = (result["modes"].get(m, {}).get("rounds", {}).get(what) for m in (other, mode))
    if not a or not b or "failed" in result["modes"][other] or "failed" in result["modes"][mode]:
        return None
    return statistics.median(x / y for x, y in zip(a, b))


def best(result, what):
    """The fastest of the other modes."""
    times = {m: result["modes"][m][f"{what}_us"] for m in OTHERS
             if f"{what}_us" in result["modes"].get(m, {}) and "failed" not in result["modes"][m]}
    return min(times, key=times.get) if times else None


def starved(result):
    """Whether the GPU waits for its launches in plain Inductor, as measured: busy less than half of the period."""
    of = result["modes"].get("inductor", {})
    busy = of.get("launches", {}).get("gpu_us")
    return result["launch_bound"] if busy is None or "period_us" not in of else busy < 0.5 * of["period_us"]


def cell(result, mode, what):
    of = result["modes"].get(mode)
    if of is None:
        return "-"
    return "failed" if "failed" in of else figure(of.get(f"{what}_us"))


def times(results, modes):
    print("Microseconds a call. L: launch-bound (measured: the GPU is busy less than half of plain Inductor's period)\n")
    last = [m for m in ("rondo", "graphed") if m in modes]
    names = ["model", "", "L", *modes, *(f"best/{m}" for m in last), *(f"1 call: {m}" for m in modes[1:]),
             *(f"CPU: {m}" for m in modes[1:])]
    print("| " + " | ".join(names) + " |\n|" + "---|" * len(names))
    for r in results:
        row = [r["name"], "train" if r["train"] else "infer", "L" if starved(r) else ""]
        row += [cell(r, m, "period") for m in modes]
        other = best(r, "period")
        row += [f"{v:.2f}" if other and (v := ratio(r, other, m, "period")) else "-" for m in last]
        row += [cell(r, m, what) for what in ("latency", "cpu") for m in modes[1:]]
        print("| " + " | ".join(row) + " |")


def costs(results, modes):
    print("\nBeside it: seconds to a first result, and further ones above steady calls; MiB that steady calls reserve "
          "beyond what was there, and MiB that recording took as the driver sees it; kernels of a call inside of "
          "graphs and outside, graph launches; skips of the built-in graphs; results against plain Inductor over 3 "
          "fresh inputs\n")
    compiled = modes[1:]
    names = ["model", *(f"s: {m}" for m in compiled), *(f"MiB: {m}" for m in compiled),
             *(f"in/out/launches: {m}" for m in compiled), "skips", "Dynamo's graphs",
             *(f"equal: {m}" for m in compiled)]
    print("| " + " | ".join(names) + " |\n|" + "---|" * len(names))
    for r in results:
        of = {m: r["modes"].get(m, {}) for m in compiled}
        row = [r["name"]]
        row += [f"{of[m]['first_s']:.1f} + {of[m]['settle_s']:.1f}" if "settle_s" in of[m] else "-"
                for m in compiled]
        row += [f"{k['steady_peak'] / 2**20:.0f}, {k['driver'] / 2**20:.0f}" if (k := of[m].get("memory")) else "-"
                for m in compiled]
        row += [f"{k['inside']:.0f}/{k['outside']:.0f}/{k['graph_launches']:.0f}" if (k := of[m].get("launches")) else
                "-" for m in compiled]
        row += [str(of.get(m, {}).get(key, "-")) for m, key in (("graphs", "cudagraph_skips"), ("inductor", "graphs"))]
        row += [equality(of[m]) for m in compiled]
        print("| " + " | ".join(row) + " |")


def equality(of):
    n = of.get("numerics")
    if not n:
        return "-"
    if n["equal"]:
        return "yes"
    return n["where"] if n["max"] is None else f"{n['max']:.2g} of {n['scale']:.2g} ({n['where']})"


def sums(results, modes):
    halves = {"all": results, "launch-bound": [r for r in results if starved(r)],
              "not launch-bound": [r for r in results if not starved(r)],
              "inference": [r for r in results if not r["train"]], "training": [r for r in results if r["train"]]}
    for mode in ("rondo", "graphed"):
        if not any("period_us" in r["modes"].get(mode, {}) for r in results):
            continue
        print(f"\nHow many times as fast {mode} is: geometric mean (worst, of)\n")
        print("| over | of | back to back | one call | CPU |\n|---|---|---|---|---|")
        for half, group in halves.items():
            for other in (*(o for o in OTHERS if o in modes), "best"):
                cells, count = [], 0
                for what in ("period", "latency", "cpu"):
                    values = {}
                    for r in group:
                        against = best(r, what) if other == "best" else other
                        value = ratio(r, against, mode, what) if against else None
                        if value:
                            values[r["name"]] = value
                    worst = min(values, key=values.get, default=None)
                    mean = geometric(list(values.values()))
                    cells.append(f"{mean:.2f} ({values[worst]:.2f}, {worst})" if worst else "-")
                    count = max(count, len(values))
                print(f"| {'the best of them' if other == 'best' else other} | {half}: {count} | "
                      + " | ".join(cells) + " |")
        slower = {r["name"]: v for r in results
                  if (o := best(r, "period")) and (v := ratio(r, o, mode, "period")) and v < 0.97}
        print(f"\n{mode} is more than 3 % slower than the best of the others, back to back: "
              + (", ".join(f"{n} ({v:.2f})" for n, v in sorted(slower.items(), key=lambda i: i[1])) or "nowhere"))
        unequal = []
        for r in results:
            n = r["modes"].get(mode, {}).get("numerics")
            if n and not n["equal"] and r["modes"][n["against"]].get("numerics", {}).get("equal"):
                unequal.append(f"{r['name']}: {equality(r['modes'][mode])}")
        print(f"{mode} differs from Inductor where Inductor repeats itself bit for bit: "
              + ("; ".join(unequal) or "nowhere"))
    loose = [r["name"] for r in results if r["modes"].get("inductor", {}).get("numerics", {}).get("equal") is False]
    if "inductor" in modes:
        print("Inductor does not repeat itself bit for bit: " + (", ".join(loose) or "nowhere"))
    for mode in modes[2:]:
        counts = [k for r in results if (k := r["modes"].get(mode, {}).get("launches"))]
        total = sum(k["kernels"] for k in counts)
        if total:
            share = statistics.mean(k["inside"] / k["kernels"] for k in counts if k["kernels"])
            print(f"kernels inside of graphs, {mode}: {sum(k['inside'] for k in counts) / total:.1%} of all, "
                  f"{share:.1%} as a mean of {len(counts)} models")


def failures(data):
    for r in data["results"]:
        for mode, of in r["modes"].items():
            if "failed" in of:
                print(f"{r['name']}, {mode}: {of['failed']}")
    for name, why in data["left_out"].items():
        print(f"{name}: left out: {why}")


def table(data):
    m, results = data["machine"], data["results"]
    print(f"\n{m['device']}, torch {m['torch']}, Python {m['python']}, commit {data['commit'] or '?'}: "
          f"{len(results)} models, {data['rounds']} rounds in turns\n")
    modes = [mode for mode in data["modes"] if any(mode in r["modes"] for r in results)]
    if not results or not modes:
        print("nothing was measured")
        failures(data)
        return 1
    times(results, modes)
    costs(results, modes)
    sums(results, modes)
    print()
    failures(data)
    return 0
