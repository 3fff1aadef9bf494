"""Trains a small model on data that it makes itself, then serves it: eager against Rondo, on the same batches.

    python train_and_serve.py [--steps 300] [--requests 2000] [--device cuda]

The model reads 16 x 16 pictures of ten kinds of strokes, shifted and noisy, and says which kind it is. Training
goes through torch.compile(backend="rondo") (or --train graphed, or eager), serving through rondo.torch.graphed
and the compiled model. On the CPU everything runs plainly; the program is the same.
"""
import argparse
import sys
import time

import torch
from torch import nn

import rondo.torch

SIDE, KINDS, BATCH = 16, 10, 64


# ---------------------------------------------------------------- data
def strokes():
    """Ten pictures: bars, diagonals, a cross, a frame, a dot, an L, a T, stairs."""
    p = torch.zeros(KINDS, SIDE, SIDE)
    step = torch.arange(3, 13)
    p[0, 7:9, 3:13] = 1
    p[1, 3:13, 7:9] = 1
    p[2, step, step] = 1
    p[3, step, 15 - step] = 1
    p[4] = torch.maximum(p[0], p[1])
    p[5, 3:13, 3:13] = 1
    p[5, 5:11, 5:11] = 0
    p[6, 6:10, 6:10] = 1
    p[7, 3:13, 4:6] = 1
    p[7, 11:13, 4:12] = 1
    p[8, 3:5, 3:13] = 1
    p[8, 3:13, 7:9] = 1
    p[9, step, step // 3 * 3] = 1
    p[9, step // 3 * 3, step] = 1
    return p


def batch(pictures, size, generator):
    """`size` pictures of random kinds, shifted by up to two pixels each way, with noise; and their kinds."""
    device = pictures.device
    kinds = torch.randint(KINDS, (size,), generator=generator, device=device)
    shift = torch.randint(-2, 3, (2, size), generator=generator, device=device)
    at = torch.arange(SIDE, device=device)
    rows = (at[None] + shift[0, :, None]) % SIDE
    columns = (at[None] + shift[1, :, None]) % SIDE
    x = pictures[kinds[:, None, None], rows[:, :, None], columns[:, None, :]]
    return (x + 0.5 * torch.randn(x.shape, generator=generator, device=device))[:, None], kinds


# ---------------------------------------------------------------- model
class Reader(nn.Module):
    """Two convolutions, then three blocks with a residual each: small, and many launches."""

    def __init__(self, width=128):
        super().__init__()
        self.look = nn.Sequential(nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.GELU(),
                                  nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.GELU(), nn.Flatten(),
                                  nn.Linear(32 * 16, width))
        self.think = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
            for _ in range(3))
        self.say = nn.Linear(width, KINDS)

    def forward(self, x):
        h = self.look(x)
        for block in self.think:
            h = h + block(h)
        return self.say(h)


def synchronize(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def train(model, run, pictures, steps):
    """Returns the loss of each tenth of the steps."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    generator = torch.Generator(pictures.device).manual_seed(1)
    losses = []
    for _ in range(steps):
        x, kinds = batch(pictures, BATCH, generator)
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(run(x), kinds)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())  # kept as they are: results stay valid, nothing waits for the GPU
    losses = torch.stack(losses).cpu()
    tenth = max(1, steps // 10)
    return [losses[i:i + tenth].mean().item() for i in range(0, steps, tenth)]


@torch.no_grad()
def serve(ways, requests, device):
    """ms of each way for a request and a wait, median; ways take turns, so that all see the same machine."""
    times = {name: [] for name in ways}
    for i in range(requests):
        for name, run in ways.items():
            x = requests_of(i, device)
            synchronize(device)
            begin = time.perf_counter()
            run(x)
            synchronize(device)
            times[name].append(time.perf_counter() - begin)
    # The first half is for compiling, recording and choosing.
    return {name: sorted(t[len(t) // 2:])[len(t) // 4] * 1e3 for name, t in times.items()}


def requests_of(i, device):
    generator = torch.Generator(device).manual_seed(i % 97)
    return torch.randn(1, 1, SIDE, SIDE, generator=generator, device=device)


def main():
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument("--steps", type=int, default=300)
    parse.add_argument("--requests", type=int, default=2000)
    parse.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parse.add_argument("--train", choices=["compile", "graphed", "eager"], default="compile")
    parse.add_argument("--no-compile", action="store_true", help="leave out torch.compile (where there is no C++ compiler)")
    arguments = parse.parse_args()
    device = torch.device(arguments.device)
    torch.manual_seed(0)
    pictures = strokes().to(device)
    model = Reader().to(device)
    how = "eager" if arguments.train == "compile" and arguments.no_compile else arguments.train

    # ---- train
    run = {"compile": lambda: torch.compile(model, backend="rondo"),
           "graphed": lambda: rondo.torch.graphed(model),
           "eager": lambda: model}[how]()
    begin = time.perf_counter()
    losses = train(model, run, pictures, arguments.steps)
    print(f"trained {arguments.steps} steps ({how}) on {device} in {time.perf_counter() - begin:.1f} s")
    print("loss, by tenths:", " ".join(f"{loss:.3f}" for loss in losses))

    # ---- serve
    model.eval()
    x, kinds = batch(pictures, 1000, torch.Generator(device).manual_seed(2))
    ways = {"eager": model, "graphed": rondo.torch.graphed(model)}
    if not arguments.no_compile:
        ways["compile, backend rondo"] = torch.compile(model, backend="rondo")
    right = True
    with torch.no_grad():
        want = model(x)
        print(f"right in {(want.argmax(1) == kinds).float().mean().item() * 100:.1f} % of 1000 new pictures")
        for name, way in ways.items():
            kept = [(way(requests_of(i, device)), model(requests_of(i, device))) for i in range(20)]
            right &= all(torch.allclose(a, b, rtol=1e-2, atol=1e-2) for a, b in kept)
    times = serve(ways, arguments.requests, device)
    print(f"\none picture and a wait, median of {arguments.requests // 2}:")
    for name, ms in times.items():
        print(f"  {name:24} {ms:8.3f} ms   {times['eager'] / ms:5.2f} x eager")
    print("\nresults of all ways:", "as in eager" if right else "NOT as in eager")
    print("\nwhat Rondo did:\n" + rondo.torch.report())
    print("memory:", rondo.torch.memory())
    return 0 if right and losses[-1] < losses[0] else 1


if __name__ == "__main__":
    sys.exit(main())
