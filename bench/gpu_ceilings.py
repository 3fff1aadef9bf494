#!/usr/bin/env python3
"""What the card's own library reaches, to judge the generated kernels by: python3 bench/gpu_ceilings.py [HIDDEN]

Needs PyTorch with CUDA. Prints cuBLAS' fp32 rate (TF32 off) on a large product, and for the row counts of a TreeLSTM's
levels the time of one product of all gates in a CUDA graph, alone and after gathering its rows (no activations in either).
Beside it: `bench_gpu_levels HIDDEN` for whole levels."""
import statistics
import sys

import torch

hidden = int(sys.argv[1]) if len(sys.argv) > 1 else 256
torch.backends.cuda.matmul.allow_tf32 = False


def microseconds(work, count=20, rounds=9):
    """Median of one `work` among `count` in a graph."""
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            work()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times = []
    for _ in range(rounds):
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1000 / count)
    return statistics.median(times)


n = 8192
a, b, out = (torch.randn(n, n, device="cuda") for _ in range(3))
print(f"{torch.cuda.get_device_name()}: fp32 product of {n}: "
      f"{2 * n**3 / microseconds(lambda: torch.matmul(a, b, out=out), 1) / 1e6:.1f} TFLOP/s")
states = torch.randn(8192, hidden, device="cuda")
weights = torch.randn(2 * hidden, 5 * hidden, device="cuda")
print(f"hidden {hidden}, us\n{'rows':>6} {'product':>10} {'+ gather':>10}")
for rows in (1, 8, 32, 64, 128, 256, 384, 512, 1024, 2048):
    left, right = (torch.randint(0, 8192, (rows,), device="cuda") for _ in range(2))
    operand = torch.randn(rows, 2 * hidden, device="cuda")
    result = torch.empty(rows, 5 * hidden, device="cuda")

    def gathered():
        operand[:, :hidden].copy_(states[left])
        operand[:, hidden:].copy_(states[right])
        torch.matmul(operand, weights, out=result)

    print(f"{rows:6} {microseconds(lambda: torch.matmul(operand, weights, out=result)):10.2f} {microseconds(gathered):10.2f}")
