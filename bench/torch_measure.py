"""Measuring one model of the zoo in all modes, in one process: settle each mode, compare results, then rounds in turns.

measure(entry, ...) gives a dictionary of plain numbers and words, which torch_models.py writes as JSON. Times are
microseconds a call: `period` of calls back to back, `latency` of a call with a wait, `cpu` until a call returns.
Every call gets tensors of its own, made outside of what is timed and dropped with the call, as its results are.
"""
import contextlib
import gc
import json
import statistics
import tempfile
import time

import torch
from torch._dynamo.utils import counters
from torch.utils._pytree import tree_leaves, tree_map_only

MODES = ("eager", "inductor", "graphs", "rondo", "graphed")
MOST_INPUT_BYTES = 1 << 30  # of one burst


def reason(error):
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:400]}"


def rondo_missing():
    try:
        import rondo.torch  # noqa: F401
    except Exception as error:  # an extension that does not load is any kind of error
        return reason(error)
    return ""


def compiled(mode, work, entry):
    dynamic = True if entry.dynamic else None
    if mode == "eager":
        return work.module
    if mode == "inductor":
        return torch.compile(work.module, dynamic=dynamic)
    if mode == "graphs":
        return torch.compile(work.module, dynamic=dynamic, mode="reduce-overhead")
    if missing := rondo_missing():
        raise RuntimeError(f"no rondo here ({missing})")
    if mode == "rondo":
        return torch.compile(work.module, dynamic=dynamic, backend="rondo")
    import rondo.torch
    return rondo.torch.graphed(work.module, work.inputs(0), compile=True, dynamic=dynamic)


class Bench:
    def __init__(self, entry, device):
        self.entry, self.device, self.gpu = entry, device, device.type == "cuda"
        torch.manual_seed(0)
        self.work = entry.make(device)
        self.parameters = list(self.work.module.parameters())
        self.base = []  # sets of inputs; those of a call are copies
        for i in range(self.work.distinct):
            torch.manual_seed(1000 + i)
            self.base.append(self.work.inputs(i))
        self.input_bytes = max(sum(t.nbytes for t in tree_leaves(x)) for x in self.base)
        self.turn = 0
        state = [*self.work.module.buffers(), *self.work.extra_state]
        self.state = state + (self.parameters if self.work.optimizer else [])
        self.saved = [t.detach().clone() for t in self.state]

    def wait(self):
        if self.gpu:
            torch.cuda.synchronize()

    def sets(self, count):
        """Inputs of `count` calls in tensors of their own, the last one first."""
        out = []
        for _ in range(count):
            base = self.base[self.turn % len(self.base)]
            out.append(tree_map_only(torch.Tensor, torch.clone, base))
            self.turn += 1
        out.reverse()
        return out

    def step(self, call):
        """One call as a function of its inputs, results dropped."""
        work = self.work
        if not self.entry.train:
            return lambda inputs: call(*inputs)
        optimizer = work.optimizer
        parameters = self.parameters

        def train(inputs):
            call(*inputs).backward()
            if optimizer:
                optimizer.step()
            for p in parameters:
                p.grad = None
        return train

    def burst(self, step, count):
        """Seconds until `count` calls have returned, and until they are done."""
        sets = self.sets(min(count, self.work.most_calls))
        if self.work.reset:
            self.work.reset()
        self.wait()
        start = time.perf_counter()
        while sets:
            step(sets.pop())
        returned = time.perf_counter()
        self.wait()
        return returned - start, time.perf_counter() - start

    def alone(self, step, count):
        """Seconds of each of `count` calls with a wait."""
        sets = self.sets(min(count, self.work.most_calls))
        if self.work.reset:
            self.work.reset()
        self.wait()
        times = []
        while sets:
            inputs = sets.pop()
            start = time.perf_counter()
            step(inputs)
            self.wait()
            times.append(time.perf_counter() - start)
        return times

    def restore(self):
        with torch.no_grad():
            for tensor, saved in zip(self.state, self.saved):
                tensor.copy_(saved)

    def results(self, call, count=3):
        """Named results of `count` calls with new values: outputs, gradients, what the calls changed."""
        named = []
        for i in range(count):
            self.restore()
            torch.manual_seed(5000 + i)
            inputs = self.work.inputs(i)
            torch.manual_seed(6000 + i)
            out = call(*inputs)
            if self.entry.train:
                out.backward()
            named += [(f"output {k}", t.detach().clone()) for k, t in enumerate(tree_leaves(out))
                      if isinstance(t, torch.Tensor)]
            del out
            if self.entry.train:
                named += [(f"gradient {k}", p.grad.clone()) for k, p in enumerate(self.parameters)
                          if p.grad is not None]
                for p in self.parameters:
                    p.grad = None
            named += [(f"state {k}", t.detach().clone()) for k, t in enumerate(self.state)]
        self.restore()
        return named


def compare(found, wanted):
    """How far results are from each other: equal bit for bit, or the largest difference and where."""
    if [n for n, _ in found] != [n for n, _ in wanted]:
        return {"equal": False, "where": f"{len(found)} results instead of {len(wanted)}", "max": None}
    worst = {"equal": True, "max": 0.0, "where": "", "scale": 0.0}
    for (name, a), (_, b) in zip(found, wanted):
        if a.shape != b.shape or a.dtype != b.dtype:
            return {"equal": False, "where": f"{name}: {a.dtype}{list(a.shape)} instead of {b.dtype}{list(b.shape)}",
                    "max": None}
        if a.numel() == 0 or torch.equal(a, b):
            continue
        x, y = a.double(), b.double()
        same = (x == y) | (x.isnan() & y.isnan())
        if bool(same.all()):
            continue
        difference = float((x - y).abs().masked_fill(same, 0).nan_to_num(nan=float("inf")).max())
        worst["equal"] = False
        if difference >= worst["max"]:
            worst.update(max=difference, where=name, scale=float(y.abs().nan_to_num().max()))
    return worst


def rondo_regions():
    """All regions' reports, as the core's JSON has them."""
    import rondo._core
    report = json.loads(rondo._core.report_json())
    return report.get("regions", []) if isinstance(report, dict) else report


class Decisions:
    """Which recordings of Rondo's are not decided yet, among those that calls still reach."""

    def __init__(self):
        self.last = self.look()

    @staticmethod
    def look():
        with contextlib.suppress(Exception):
            return {(i, k): (r["plain_calls"] + r["replays"], r["state"])
                    for i, region in enumerate(rondo_regions()) for k, r in enumerate(region["recordings"])}
        return None

    def open(self):
        """Their number since the last look; None when Rondo does not say."""
        now, before = self.look(), self.last or {}
        self.last = now
        if now is None:
            return None
        return sum(state in ("timing", "plain so far") and calls != before.get(key, (0, ""))[0]
                   for key, (calls, state) in now.items())


def reserved(bench):
    if not bench.gpu:
        return 0
    gc.collect()
    torch.cuda.empty_cache()
    return torch.cuda.memory_reserved()


def compile_mode(bench, mode):
    """One mode made and called once. Gives the callable, one call as a step, and figures; raises what it raises."""
    before = reserved(bench)
    counters.clear()
    start = time.perf_counter()
    call = compiled(mode, bench.work, bench.entry)
    step = bench.step(call)
    bench.alone(step, 1)
    first = time.perf_counter() - start
    return call, step, {"first_s": first, "kept": reserved(bench) - before, **counted()}


def counted():
    return {"cudagraph_skips": counters["inductor"]["cudagraph_skips"], "graphs": counters["stats"]["unique_graphs"]}


def settle(bench, mode, step, figures, seconds):
    """Calls until the mode is as it will stay: recorded for all sizes, decided. Adds what that took to `figures`."""
    work, distinct = bench.work, bench.work.distinct
    before = reserved(bench)
    free = torch.cuda.mem_get_info()[0] if bench.gpu else 0
    counters.clear()
    decisions = Decisions() if mode in ("rondo", "graphed") else None
    start = time.perf_counter()
    times, together, calls = [], 0.0, 0
    while len(times) < 3 * distinct + 8:  # the built-in graphs warm up, record and replay each size
        times += bench.alone(step, 8)
    while decisions and calls < 4000 and time.perf_counter() - start < seconds:
        left = decisions.open()
        if left == 0 or (left is None and calls >= 200):
            break
        count = min(max(16, distinct), work.most_calls)
        together += bench.burst(step, count)[1]
        times += bench.alone(step, count)
        calls += count
    usual = statistics.median(times[-max(8, distinct):])
    figures["usual_s"] = usual
    figures["settle_s"] = max(0.0, sum(times) + together - (len(times) + calls) * usual)
    figures["settle_calls"] = len(times) + calls
    if decisions:
        figures["undecided"] = decisions.open()
    for key, value in counted().items():
        figures[key] += value
    if bench.gpu:
        steady = reserved(bench)
        driver = free - torch.cuda.mem_get_info()[0]
        torch.cuda.reset_peak_memory_stats()
        bench.alone(step, max(3, distinct))
        kept = figures.pop("kept") + steady - before
        figures["memory"] = {"kept": kept, "steady_peak": kept + torch.cuda.max_memory_reserved() - steady,
                             "driver": driver}


def kernels(bench, step, count=2):
    """Kernels and graph launches of a call, by CUPTI: a kernel that no launch call was seen for came from a graph.
    (Plain Inductor is the check: all of its kernels must be outside.)"""
    from torch.profiler import ProfilerActivity, profile
    sets = bench.sets(count)
    if bench.work.reset:
        bench.work.reset()
    bench.wait()
    with profile(activities=[ProfilerActivity.CUDA]) as prof:
        while sets:
            step(sets.pop())
        bench.wait()
    with tempfile.TemporaryDirectory() as folder:
        prof.export_chrome_trace(f"{folder}/trace.json")
        with open(f"{folder}/trace.json", encoding="utf-8") as file:
            return launches(json.load(file)["traceEvents"], count)


def uses_compiled(bench, step):
    """Whether a call goes through what torch.compile has made: Dynamo gives code up for good in some cases, and then
    all modes are eager."""
    from torch.profiler import ProfilerActivity, profile
    sets = bench.sets(1)
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        step(sets.pop())
        bench.wait()
    return any("Torch-Compiled Region" in event.key for event in prof.key_averages())


def launches(events, count):
    """Figures of one of `count` calls from a trace."""
    calls = [e for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver")]
    plain = {e["args"].get("correlation") for e in calls if "LaunchKernel" in e["name"] or "Cooperative" in e["name"]}
    graphs = sum("GraphLaunch" in e["name"] for e in calls)
    ran = [e for e in events if e.get("cat") == "kernel"]
    copies = [e for e in events if e.get("cat") in ("gpu_memcpy", "gpu_memset")]
    outside = sum(e["args"].get("correlation") in plain for e in ran)
    return {"kernels": len(ran) / count, "inside": (len(ran) - outside) / count, "outside": outside / count,
            "graph_launches": graphs / count, "copies": len(copies) / count,
            "gpu_us": sum(e["dur"] for e in ran + copies) / count}


def rounds(bench, steps, found, count, seconds):
    """The rounds: modes in turns, another one first each time. Medians go to found[mode]."""
    samples = {mode: {"period": [], "latency": [], "cpu": []} for mode in steps}
    share = seconds / (count * len(steps))
    most = max(4, int(MOST_INPUT_BYTES / max(1, bench.input_bytes)))
    distinct = bench.work.distinct if bench.entry.dynamic else 1

    def calls(part, usual, least, limit):
        n = min(max(int(part * share / usual), least), limit, most)
        return -(-n // distinct) * distinct

    names = list(steps)
    for r in range(count):
        for mode in names[r % len(names):] + names[:r % len(names)]:
            step, usual, of = steps[mode], found[mode]["usual_s"], samples[mode]
            n = min(calls(0.5, usual, 4, 200), bench.work.most_calls)
            of["period"].append(bench.burst(step, n)[1] / n * 1e6)
            of["latency"].append(statistics.median(bench.alone(step, calls(0.3, usual, 3, 50))) * 1e6)
            short = 2 if not bench.entry.dynamic else distinct // 4
            of["cpu"].append(statistics.median(bench.burst(step, short)[0] / short * 1e6
                                               for _ in range(calls(0.1, usual, 2, 8) if distinct == 1 else 2)))
    for mode, of in samples.items():
        found[mode]["rounds"] = of
        found[mode].update({f"{name}_us": statistics.median(values) for name, values in of.items()})


def measure(entry, device, modes, *, count=7, seconds=1.5, settle_s=3.0, profile=True, quick=False, say=print,
            gate=lambda: None):
    """All figures of one model. `gate` is called once, between compiling, which others may do at the same time, and
    all that is timed. `quick`: compile only."""
    torch._dynamo.reset()
    torch._dynamo.config.recompile_limit = 64  # the modes share the module's code
    result = {"name": entry.name, "suite": entry.suite, "train": entry.train, "launch_bound": entry.launch_bound,
              "dynamic": entry.dynamic, "about": entry.about, "modes": {}}
    start = time.perf_counter()
    bench = Bench(entry, device)
    found, calls, steps = result["modes"], {}, {}
    with contextlib.nullcontext() if entry.train else torch.no_grad():
        bench.alone(bench.step(bench.work.module), 2)  # libraries load
        for mode in modes:
            began = time.perf_counter()
            with attempt(found, mode, say):
                bench.restore()
                calls[mode], steps[mode], found[mode] = compile_mode(bench, mode)
                say(f"{entry.name} {mode}: first call after {time.perf_counter() - began:.1f} s")
        if quick:
            for mode, step in steps.items():
                with attempt(found, mode, say):
                    bench.alone(step, 3)
            return result
        gate()
        gated = time.perf_counter()
        for mode in steps:
            with attempt(found, mode, say):
                settle(bench, mode, steps[mode], found[mode], settle_s)
        numerics(bench, calls, found, say)
        for mode, step in steps.items():  # one that fails now shall not end the others' rounds
            if "failed" not in found[mode]:
                with attempt(found, mode, say):
                    bench.burst(step, 4)
        for mode in ("inductor", "graphs", "rondo"):
            if mode in steps and "failed" not in found[mode] and not uses_compiled(bench, steps[mode]):
                found[mode]["failed"] = "torch.compile's code is not used any more"
                say(f"{mode}: failed: {found[mode]['failed']}")
        steps = {mode: step for mode, step in steps.items() if "failed" not in found[mode]}
        bench.restore()
        gc.collect()
        gc.disable()
        try:
            rounds(bench, steps, found, count, seconds)
        finally:
            gc.enable()
        for mode, step in steps.items():
            if bench.gpu and profile and mode != "eager":
                try:
                    found[mode]["launches"] = kernels(bench, step)
                except Exception as error:
                    say(f"{mode}: not profiled: {reason(error)}")
        tell_rondo(calls, found)
    result["seconds"] = {"compile": gated - start, "measure": time.perf_counter() - gated}
    return result


@contextlib.contextmanager
def attempt(found, mode, say):
    """What fails in one mode is written down, and the other modes go on."""
    try:
        yield
    except Exception as error:
        found.setdefault(mode, {})["failed"] = reason(error)
        say(f"{mode}: failed: {reason(error)}")


def numerics(bench, calls, found, say):
    """Every mode against plain Inductor, and Inductor against itself: whether equal can be asked for at all."""
    reference = "inductor" if "inductor" in calls else next(iter(calls), None)
    if reference is None:
        return
    wanted = None
    with attempt(found, reference, say):
        wanted = bench.results(calls[reference])
    if wanted is None:
        return
    bad = sum(not bool(torch.isfinite(t).all()) for _, t in wanted if t.is_floating_point())
    for mode, call in calls.items():
        if "failed" not in found[mode]:
            with attempt(found, mode, say):
                found[mode]["numerics"] = {**compare(bench.results(call), wanted), "against": reference,
                                           "not_finite": bad}
    for p in bench.parameters:
        p.grad = None


def tell_rondo(calls, found):
    """What Rondo says of itself, in words."""
    if "rondo" not in calls and "graphed" not in calls:
        return
    for mode in ("rondo", "graphed"):
        if mode in calls and "failed" not in found[mode]:
            with contextlib.suppress(Exception):
                import rondo.torch
                found[mode]["explain"] = str(rondo.torch.explain(calls[mode]))[:6000]
    with contextlib.suppress(Exception):
        keys = ("name", "policy", "calls", "plain_calls", "replays", "failures", "dropped", "fallbacks")
        found["rondo" if "rondo" in calls else "graphed"]["regions"] = [
            {**{k: region.get(k) for k in keys},
             "recordings": [{k: r.get(k) for k in ("state", "choice", "reason", "kernels", "slots")}
                            for r in region.get("recordings", [])[:8]]}
            for region in rondo_regions()]
