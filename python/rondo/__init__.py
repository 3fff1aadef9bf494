"""Rondo: GPU work recorded once and replayed as a CUDA graph with each call's arguments, where that is faster.

This package needs no PyTorch; rondo.torch is what PyTorch sees of it.
"""

import json as _json

from ._core import DeviceError, Error, UnavailableError, UsageError, available
from ._core import report_json as _report_json
from ._core import report_text
from ._core import version as _version

__version__ = _version()
__all__ = ["DeviceError", "Error", "UnavailableError", "UsageError", "available", "report", "report_text"]


def report():
    """What was decided for each region of this process, and why: a list of dicts (docs/replay.md has the keys)."""
    return _json.loads(_report_json())["regions"]
