"""What the first call of a signature tells: which tensors that are no arguments its work reads, and what it writes."""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ._held import storage_of as _storage
from ._region import _layout

GPU = "cuda"  # the type of device whose work is recorded
_MOST_COPIED = 256 << 20  # bytes that the first call of a signature keeps, to see what it changes


class Watch(TorchDispatchMode):
    """What operations read and write that was there before the call: found in one call, by storages."""

    def __init__(self, inputs):
        super().__init__()
        self.inputs = {_storage(x): x for x in inputs if x.layout == torch.strided}
        self.random = False
        self.room = _MOST_COPIED
        self.before: dict[int, tuple] = {}
        for at, x in self.inputs.items():
            self.copy(at, x)
        self.externals: dict[int, torch.Tensor] = {}
        self.written: set[int] = set()
        self.fresh: set[int] = set()
        self.extents: dict[int, set] = {}  # what was touched of storages that were there before
        self.keep: list = []  # a storage's number is one as long as it lives

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        for k, argument in enumerate(func._schema.arguments):
            value = args[k] if k < len(args) else kwargs.get(argument.name)
            writes = argument.alias_info is not None and argument.alias_info.is_write
            for t in value if isinstance(value, (list, tuple)) else (value,):
                if not isinstance(t, torch.Tensor) or t.layout != torch.strided:
                    continue
                at = _storage(t)
                if at not in self.inputs and at not in self.fresh and at not in self.externals:
                    self.externals[at] = t
                    if not isinstance(t, torch.nn.Parameter):
                        self.copy(at, t)
                if at not in self.fresh:
                    self.extents.setdefault(at, set()).add((t.data_ptr(), _layout(t).bytes))
                    if writes:
                        self.written.add(at)
        self.random = self.random or torch.Tag.nondeterministic_seeded in func.tags
        out = func(*args, **kwargs)
        for t in out if isinstance(out, (list, tuple)) else (out,):
            if isinstance(t, torch.Tensor) and t.layout == torch.strided:
                at = _storage(t)
                if at not in self.inputs and at not in self.externals and at not in self.fresh:
                    self.fresh.add(at)
                    self.keep.append(t.untyped_storage())
        return out

    # Not all operators say what they write (those of batch normalisation do not): what was there before is compared.
    def copy(self, at, x):
        bytes = x.untyped_storage().nbytes()
        if x.device.type == GPU and bytes <= self.room:
            self.room -= bytes
            with torch.no_grad():
                self.before[at] = (x, torch.clone(x.detach()))

    def changed(self) -> set[int]:
        return self.written | {
            at for at, (x, was) in self.before.items()
            if at not in self.written and not torch.equal(_bits(x), _bits(was))
        }


class Compiled:
    """The same of work that torch.compile takes part in, which gives up for good where operations are watched: what
    modules hold, and what has changed of it."""

    def __init__(self, inputs, modules):
        self.inputs = {_storage(x): x for x in inputs if x.layout == torch.strided}
        held = [t for m in modules for t in (*m._parameters.values(), *m._buffers.values())]
        self.externals = {
            _storage(t): t
            for t in held
            if t is not None and t.layout == torch.strided and t.device.type == GPU and _storage(t) not in self.inputs
        }
        self.random = True  # perhaps
        self.extents: dict[int, set] = {}  # not known
        self.written: set[int] = set()
        self.room = _MOST_COPIED
        self.before: dict[int, tuple] = {}
        for at, x in (*self.inputs.items(), *self.externals.items()):
            if not isinstance(x, torch.nn.Parameter):
                Watch.copy(self, at, x)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def changed(self):
        return Watch.changed(self)


def _bits(x):
    """Equal where the bytes are, not a number included."""
    x = x.detach()
    return x.contiguous().view(torch.uint8) if x.dim() and x.numel() else x
