#!/usr/bin/env python3
"""What one call costs the CPU: a small MLP (8 x Linear 256 + GELU, batch 8, fp16), called in every way, in one process.

    python3 bench/torch_overhead.py [--rounds 15] [--json FILE] [--device cpu]

Ways, in turns, another one first each round: eager; Inductor; its built-in graphs (reduce-overhead); a graph captured by
hand from the Inductor module and replayed, without and with the copy of the input; Rondo's backend; Rondo's graphed
callable over the Inductor module and over the eager one. Each with the same input tensor at every call and with a new
one. `cpu` is the time until calls return, in bursts short enough that no launch queue fills; `period` the time of many
calls back to back and a wait, divided by their number.
"""
import argparse
import json
import statistics
import sys
import time

import torch

import torch_zoo
from torch_measure import reason, rondo_missing

BURST, LONG = 16, 400


def by_hand(module, x, copies):
    """The upper bound: no checks, the result is the same tensor at every call."""
    static = x.clone()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            module(static)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = module(static)

    def replay(_):
        graph.replay()
        return out

    def copy_and_replay(y):
        static.copy_(y)
        graph.replay()
        return out
    return copy_and_replay if copies else replay


def ways(model, x, gpu):
    """Names and functions that make the callable."""
    def rondo(make):
        def made():
            if missing := rondo_missing():
                raise RuntimeError(f"no rondo here ({missing})")
            import rondo.torch
            return make(rondo.torch)
        return made

    out = {"eager": lambda: model, "inductor": lambda: torch.compile(model)}
    if gpu:
        out |= {"reduce-overhead": lambda: torch.compile(model, mode="reduce-overhead"),
                "hand-captured replay": lambda: by_hand(torch.compile(model), x, False),
                "hand-captured, with copy": lambda: by_hand(torch.compile(model), x, True)}
    out |= {"rondo": rondo(lambda r: torch.compile(model, backend="rondo")),
            "rondo graphed, compiled": rondo(lambda r: r.graphed(model, (x,), compile=True)),
            "rondo graphed, eager": rondo(lambda r: r.graphed(model, (x,)))}
    return out


def burst(call, inputs, wait):
    """Microseconds a call until calls have returned, and until they are done. Each input is dropped with its call."""
    count = len(inputs)
    inputs.reverse()
    wait()
    start = time.perf_counter()
    while inputs:
        call(inputs.pop())
    returned = time.perf_counter()
    wait()
    return (returned - start) / count * 1e6, (time.perf_counter() - start) / count * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", default="")
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    gpu = device.type == "cuda"
    wait = torch.cuda.synchronize if gpu else lambda: None
    torch._dynamo.config.recompile_limit = 64  # the ways share the module's code
    torch.manual_seed(0)
    model = torch_zoo.deep_mlp().to(device, torch.float16 if gpu else torch.float32).eval()
    x = torch.randn(8, 256, device=device, dtype=next(model.parameters()).dtype)
    calls, failed, made = {}, {}, {}
    with torch.no_grad():
        expected = model(x)
        for name, make in ways(model, x, gpu).items():
            start = time.perf_counter()
            try:
                call = make()
                for _ in range(100):  # Rondo times and decides on live calls, of both kinds
                    burst(call, [x] * BURST, wait)
                    burst(call, [x.clone() for _ in range(BURST)], wait)
                    burst(call, [x.clone()], wait)
                torch.testing.assert_close(call(x), expected, rtol=1e-2, atol=1e-2)
                calls[name] = call
            except Exception as error:
                failed[name] = reason(error)
            made[name] = time.perf_counter() - start
        kinds = {"same": lambda n: [x] * n, "new": lambda n: [x.clone() for _ in range(n)]}
        samples = {name: {f"{what} {kind}": [] for what in ("cpu", "period", "latency") for kind in kinds}
                   for name in calls}
        names = list(calls)
        for r in range(arguments.rounds):
            turn = r % max(1, len(names))
            for name in names[turn:] + names[:turn]:
                for kind, inputs in kinds.items():
                    of = samples[name]
                    of[f"cpu {kind}"].append(statistics.median(
                        burst(calls[name], inputs(BURST), wait)[0] for _ in range(20)))
                    of[f"period {kind}"].append(burst(calls[name], inputs(LONG), wait)[1])
                    of[f"latency {kind}"].append(statistics.median(
                        burst(calls[name], inputs(1), wait)[1] for _ in range(50)))
    where = torch.cuda.get_device_name() if gpu else "cpu"
    print(f"{where}, torch {torch.__version__}: us a call, medians of {arguments.rounds} rounds "
          f"(least and most of the CPU's); s: compiled, recorded and settled")
    print(f"{'':26}{'CPU, same input':>24}{'CPU, new input':>24}"
          f"{'period':>9}{'new':>9}{'1 call':>9}{'new':>9}{'s':>7}")
    for name, of in samples.items():
        def spread(key, of=of):
            values = of[key]
            return f"{statistics.median(values):.1f} ({min(values):.1f}-{max(values):.1f})"
        print(f"{name:26}{spread('cpu same'):>24}{spread('cpu new'):>24}"
              + "".join(f"{statistics.median(of[f'{what} {kind}']):>9.1f}"
                        for what in ("period", "latency") for kind in kinds) + f"{made[name]:>7.1f}")
    for name, why in failed.items():
        print(f"{name:26}{why}")
    if arguments.json:
        data = {"device": where, "torch": torch.__version__, "failed": failed, "samples": samples}
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(data, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
