"""Exports a small model as an AOTInductor package, with one input and its result for main.cpp to compare with.

    python export.py [folder]      writes model.pt2, input.bin, output.bin (float32); needs a GPU
"""
import pathlib
import sys

import torch

BATCH, WIDTH, CLASSES = 8, 256, 16


class Classifier(torch.nn.Module):
    def __init__(self, blocks=8):
        super().__init__()
        self.blocks = torch.nn.Sequential(
            *(torch.nn.Sequential(torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU())
              for _ in range(blocks)))
        self.head = torch.nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        return torch.softmax(self.head(self.blocks(x)), -1)


def main():
    if not torch.cuda.is_available():
        print("torch sees no GPU: the package is made for one")
        return 77
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    model = Classifier().cuda().eval()
    x = torch.randn(BATCH, WIDTH, device="cuda")
    with torch.no_grad():
        exported = torch.export.export(model, (x,))
        path = torch._inductor.aoti_compile_and_package(exported, package_path=str(folder / "model.pt2"))
        y = model(x)
    (folder / "input.bin").write_bytes(x.cpu().numpy().tobytes())
    (folder / "output.bin").write_bytes(y.cpu().numpy().tobytes())
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
