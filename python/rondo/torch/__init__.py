"""Rondo for PyTorch: GPU work recorded once and replayed as CUDA graphs where that pays.

    fast = rondo.torch.graphed(model)                 # never through Dynamo
    fast = torch.compile(model, backend="rondo")      # Inductor's kernels

See docs/pytorch.md.
"""

from __future__ import annotations

try:
    import torch as _torch
except ImportError as e:  # pragma: no cover
    raise ImportError("rondo.torch needs PyTorch 2.9 or newer: pip install torch") from e

from .. import _core
from ._capture import memory
from .graphed import Graphed, GraphedModule, graphed


def explain(fn):
    """What became of a function or module: each region with its decision and figures, each part that is no graph, with
    its line and what to do. print() it."""
    from .backend import explain as of_all

    return of_all(fn)


def report() -> str:
    """All regions of this process, in words."""
    return _core.report_text()


__all__ = ["Graphed", "GraphedModule", "explain", "graphed", "memory", "report"]
