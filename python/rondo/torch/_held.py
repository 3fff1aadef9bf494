"""Where tensors are held that are no arguments: modules, closures, global variables, lists, dictionaries, attributes.

Comes in: a function or module. Goes out: the places of tensors, so that others can stand there for the time of a
capture, and so that a call can see at a look whether what was there is there still.
"""

from __future__ import annotations

import functools

import torch

PLAIN = (int, float, bool, str, bytes, type(None), complex)
TENSORS = (torch.Tensor, torch.nn.Parameter)


def storage_of(t) -> int:
    return t.untyped_storage()._cdata


class Cell:
    """A closure's variable as a mapping."""

    def __init__(self, cell):
        self.cell = cell

    def __getitem__(self, _):
        return self.cell.cell_contents

    def __setitem__(self, _, value):
        self.cell.cell_contents = value


class Found:
    """What can be reached from a function or module. `tensors`: {id: (tensor, [(container, key), ...])} of those whose
    storage is wanted; `modules`; `compiled`: whether something on the way is of torch.compile."""

    def __init__(self):
        self.tensors: dict[int, tuple] = {}
        self.modules: list = []
        self.compiled = False
        self.links: dict[int, tuple] = {}  # by id: the container, key and object, and the id of what has the container
        self.owner: dict[int, int] = {}  # by id of a container: of what has it

    def way(self, at) -> list:
        """(container, key, object) of all that lies between the root and the object of this id."""
        out = []
        while at in self.links:
            container, key, x, at = self.links[at]
            # Modules never give these to another.
            if container is not None and key not in ("_modules", "_parameters", "_buffers"):
                out.append((container, key, x))
        return out


def lists(entries):
    """Three lists for _core.identical(), of (container, key, object), each once."""
    entries = list({(id(c), k): (c, k, x) for c, k, x in entries}.values())
    return [c for c, _, _ in entries], [k for _, k, _ in entries], [x for _, _, x in entries]


def search(root, wanted=lambda t: False, most: int = 200_000) -> Found:
    out, seen, todo, alive = Found(), set(), [root], []

    def go(x, parent, container=None, key=None):
        if id(x) not in seen and id(x) not in out.links and x is not root:
            out.links[id(x)] = (container, key, x, id(parent))
        todo.append(x)

    def offer(parent, container, key, value):
        if isinstance(value, torch.Tensor):
            if wanted(value):
                out.tensors.setdefault(id(value), (value, []))[1].append((container, key))
                out.owner[id(container)] = id(parent)
        elif not isinstance(value, (*PLAIN, type, torch.dtype, torch.device)):
            go(value, parent, container, key)

    while todo and len(seen) < most:
        x = todo.pop()
        if id(x) in seen:
            continue
        seen.add(id(x))
        alive.append(x)  # its number is one as long as it lives
        if getattr(type(x), "rondo_graphed", False):
            go(x.fn, x)
            continue
        if isinstance(x, (list, dict)):
            for key, value in enumerate(x) if isinstance(x, list) else list(x.items()):
                offer(x, x, key, value)
            continue
        if isinstance(x, (tuple, set, frozenset)):
            for v in x:
                if not isinstance(v, (*PLAIN, torch.Tensor)):
                    go(v, x)
            continue
        out.compiled = out.compiled or getattr(x, "_torchdynamo_orig_callable", None) is not None
        if isinstance(x, torch.nn.Module):
            out.modules.append(x)
            out.compiled = out.compiled or getattr(x, "_compiled_call_impl", None) is not None
            # Its module takes questions for its attributes.
            out.compiled = out.compiled or type(x).__name__ == "OptimizedModule"
        inner = getattr(x, "__wrapped__", None)
        if inner is not None:
            go(inner, x)
        if hasattr(x, "__self__") and hasattr(x, "__func__"):
            go(x.__self__, x)
            go(x.__func__, x)
            continue
        if isinstance(x, functools.partial):
            for part in (x.func, list(x.args), x.keywords):
                go(part, x)
            continue
        code = getattr(x, "__code__", None)
        if code is not None:
            for cell in x.__closure__ or ():
                try:
                    offer(x, Cell(cell), 0, cell.cell_contents)
                except ValueError:  # an empty cell
                    pass
            for name in code.co_names:
                if name in x.__globals__:
                    offer(x, x.__globals__, name, x.__globals__[name])
            continue
        module = getattr(type(x), "__module__", "")
        if isinstance(x, torch.nn.Module) or not module.startswith(("torch", "builtins")):
            attributes = getattr(x, "__dict__", None)
            if isinstance(attributes, dict):
                for key, value in list(attributes.items()):
                    offer(x, attributes, key, value)
    return out


class Swapped:
    """Other tensors in the places of some, for the time of a capture."""

    def __init__(self, places, tensors):
        self.places, self.tensors = places, tensors

    def __enter__(self):
        self.before = [container[key] for container, key in self.places]
        for (container, key), t in zip(self.places, self.tensors):
            container[key] = t

    def __exit__(self, *_):
        for (container, key), t in zip(self.places, self.before):
            container[key] = t


def same_memory(t, storages) -> bool:
    if type(t) not in (*TENSORS, torch.nn.Buffer) or t.layout != torch.strided or t.is_neg() or t.is_conj():
        return False
    try:
        return storage_of(t) in storages
    except (NotImplementedError, RuntimeError):  # it has none
        return False
