"""`graphed`: functions and modules whose GPU work is recorded and replayed, without Dynamo.

A call is flattened to tensors and other values. What it is like (shapes, types, the modes that torch is in, other
values) is its signature; each signature has a frame of the region (_region.py). In the first call of a signature
all operations are watched (_watch.py): which tensors that are no arguments the work reads, and which it writes.
Where gradients are asked for, AOTAutograd splits the work into a forward and a backward function of lists of
tensors, and each is a region.
"""

from __future__ import annotations

import copy
import functools
import threading

import torch
from torch.utils import _device as _default
from torch.utils import _pytree as pytree

from .. import _core
from . import _watch
from ._capture import CannotCapture, Device
from ._held import PLAIN as _PLAIN
from ._held import TENSORS as _TENSORS
from ._held import Found
from ._held import Swapped as _Swapped
from ._held import lists as _lists
from ._held import same_memory as _same_memory
from ._held import search as _search
from ._held import storage_of as _storage
from ._region import BoxedRegion, Frame, GraphInfo, Options, _layout

_NAMES: dict[str, int] = {}
_MOST_SIGNATURES = 256


def graphed(
    fn=None,
    sample_args=None,
    sample_kwargs=None,
    *,
    policy: str = "auto",
    goal: str = "both",
    proof: str = "auto",
    tolerance: float = 1e-5,
    most_recordings: int = 64,
    most_bytes: int = 256 << 20,
    remember: bool = True,
    name: str | None = None,
    compile: bool | dict = False,
    dynamic: bool | None = None,
):
    """Records the GPU work of a function or module and replays it as a CUDA graph where that is faster.

    `fn`: a function of tensors, containers of tensors and plain values, or an nn.Module. With `sample_args` (and
    `sample_kwargs`) it is called with these until it is recorded; else that happens in the calls that come.
    `compile`: Inductor makes the kernels (True, or keyword arguments of torch.compile); Dynamo is then used for
    calls that are not replayed only. As a decorator: `@graphed` or `@graphed(policy="always")`.

    policy "auto": what is faster, by measuring; "always": the graph wherever there is one; "never": plain.
    proof: a recording is compared with a plain call, bit for bit ("exact"), within `tolerance` of the largest
    magnitude ("tolerance"), bit for bit unless the work does not repeat itself ("auto"), or not ("off").

    Calls return what the function returns; results are the caller's own. Errors: ValueError for an option that
    there is not; what `fn` raises.
    """
    options = Options(policy, goal, proof, tolerance, most_recordings, most_bytes, remember)
    _check(options)
    if fn is None:
        return lambda f: graphed(
            f, sample_args, sample_kwargs, policy=policy, goal=goal, proof=proof, tolerance=tolerance,
            most_recordings=most_recordings, most_bytes=most_bytes, remember=remember, name=name, compile=compile,
            dynamic=dynamic,
        )  # fmt: skip
    if not callable(fn):
        raise TypeError(f"graphed takes a function or a module, not a {type(fn).__name__}")
    out = (GraphedModule if isinstance(fn, torch.nn.Module) else Graphed)(fn, options, name, compile, dynamic)
    if sample_args is not None or sample_kwargs is not None:
        if not isinstance(sample_args, (tuple, list)):
            sample_args = () if sample_args is None else (sample_args,)
        out.prepare(sample_args, sample_kwargs or {})
    return out


def _check(o: Options):
    for name, value, allowed in (
        ("policy", o.policy, ("auto", "always", "never")),
        ("goal", o.goal, ("both", "period", "latency")),
        ("proof", o.proof, ("auto", "exact", "tolerance", "off")),
    ):
        if value not in allowed:
            raise ValueError(f"{name} is {value!r}, expected one of {', '.join(allowed)}")
    for name, value in (("most_recordings", o.most_recordings), ("most_bytes", o.most_bytes)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ValueError(f"{name} is {value!r}, expected a whole number of at least 0")


def _unique(name: str) -> str:
    n = _NAMES[name] = _NAMES.get(name, 0) + 1
    return name if n == 1 else f"{name} {n}"


class _Anew(Exception):
    """The function has other modules than were known: signatures begin anew."""


# ---- a call of one signature


class _Signature:
    """What is known of the calls that are alike: which tensors besides the arguments take part, and the region's
    frame that takes all of them as a list."""

    def __init__(self, owner, key, number):
        self.owner, self.key, self.number = owner, key, number
        self.frame: Frame | None = None
        self.plain: str | None = None
        self.lock = threading.RLock()

    def call(self, leaves, spec, tensors):
        if self.plain is not None:
            return self.owner.run(leaves, spec)
        frame = self.frame  # other threads may replace it, and it takes the externals that it was made for
        if frame is None:
            return self.first(leaves, spec, tensors)
        if not self.unchanged():
            with self.lock:
                self.frame = None
            return self.first(leaves, spec, tensors)
        outputs = frame([leaves[i] for i in tensors] + frame.externals)
        return pytree.tree_unflatten(outputs, self.out_spec)

    # ---- calls with tensors only, like the last one

    def quick(self, args, kwargs, key) -> bool:
        """Prepares fits() for calls like this one; False where it cannot judge them."""
        if kwargs or not all(type(x) in (torch.Tensor, torch.nn.Parameter) for x in args):
            return False
        self.shapes = [(tuple(x.shape), x.stride(), x.dtype, x.get_device()) for x in args]
        self.modes = _modes()
        modules = [m.__dict__ for m in self.owner._submodules]
        structure = self.owner._structure
        self.places = [
            modules + structure[0] + self.containers,
            ["training"] * len(modules) + structure[1] + self.keys,
            [m["training"] for m in modules] + structure[2] + self.held,
        ]
        self.single = self.out_spec.is_leaf()
        return True

    def fits(self, args) -> bool:
        if len(args) != len(self.shapes) or torch.is_grad_enabled() or _looked_at():
            return False
        for x, (shape, stride, dtype, device) in zip(args, self.shapes):
            if (
                type(x) not in _TENSORS
                or x.dtype is not dtype
                or x.shape != shape
                or x.stride() != stride
                or x.get_device() != device
                or x.is_neg()
                or (dtype.is_complex and x.is_conj())
            ):
                return False
        return self.modes == _modes() and _core.identical(*self.places)

    def unflatten(self, outputs):
        return pytree.tree_unflatten(outputs, self.out_spec)

    def unchanged(self) -> bool:
        """Whether what is held in modules and closures is what was there."""
        return _core.identical(self.containers, self.keys, self.held)

    def first(self, leaves, spec, tensors):
        with self.lock:
            inputs = [leaves[i] for i in tensors]
            watch = _watch.Compiled(inputs, self.owner._submodules) if self.owner._has_compiled else _watch.Watch(inputs)
            seen = {}

            def once(_):
                with watch:
                    out = self.owner.run(leaves, spec)
                flat, seen["spec"] = pytree.tree_flatten(out)
                seen["out"] = out
                return flat

            on = next((x.device.index for x in inputs if x.device.type == _watch.GPU), None)
            if on is None and torch.cuda.is_available():
                on = torch.cuda.current_device()
            device = None if on is None else Device.of(on)
            before = device and device.random_offset()
            flat = once(None)
            advance = device.random_offset() - before if device and watch.random else 0
            watch.written = watch.changed()
            try:
                if torch.is_grad_enabled() and any(
                    isinstance(t, torch.Tensor) and t.requires_grad and not isinstance(t, torch.nn.Parameter)
                    for t in (*flat, *inputs, *(x for at, x in watch.externals.items() if at in watch.written))
                ):
                    raise CannotCapture("gradients go to a tensor that the function holds: pass it as an argument")
                self.prepare(inputs, leaves, spec, tensors, watch, flat, seen["spec"], advance)
            except _Anew:
                pass
            except CannotCapture as e:
                self.plain = str(e)
                self.owner.skip(self.plain)
            return seen["out"]

    def prepare(self, inputs, leaves, spec, tensors, watch, flat, out_spec, advance):
        devices = {x.device for x in (*inputs, *watch.externals.values()) if x.device.type == _watch.GPU}
        if not devices:
            raise CannotCapture("nothing of it is on a GPU")
        if len(devices) > 1:
            raise CannotCapture("it works on several devices: " + ", ".join(sorted(map(str, devices))))
        device = devices.pop()
        externals = [x for x in watch.externals.values() if x.device.type == _watch.GPU or x.dim() > 0]
        for x in externals:
            if x.device != device:
                raise CannotCapture(f"it uses a tensor on {x.device} that is no argument")
        for at in watch.written:
            x = watch.inputs.get(at, watch.externals.get(at))
            if x is not None and x.device.type != _watch.GPU:
                raise CannotCapture(f"it writes to a tensor on {x.device}, which a replay does not")
        # All that is held and used of the same memory: each has a place of its own, and may be replaced by itself.
        wanted = {_storage(x) for x in externals} | watch.written
        found = _search(self.owner.fn, lambda t: _same_memory(t, wanted))
        if self.owner._look(found):
            raise _Anew
        used = watch.extents
        held = [
            x for x, _ in found.tensors.values()
            if _storage(x) not in used or (x.data_ptr(), _layout(x).bytes) in used[_storage(x)]
        ]
        held_in = {_storage(x) for x in held}
        externals = [*held, *(x for x in externals if _storage(x) not in held_in)]
        externals = [x for x in externals if not any(x is y for y in inputs)]
        mutated = [i for i, x in enumerate(inputs) if _storage(x) in watch.written]
        for at in watch.written:
            given = [(x.data_ptr(), _layout(x).bytes) for x in (*inputs, *externals) if _storage(x) == at]
            for begin, size in watch.extents.get(at, ()):
                if not any(b <= begin and begin + size <= b + n for b, n in given):
                    raise CannotCapture(
                        "it writes to memory of which it uses more than arguments and held tensors: pass the whole of it"
                    )
        swapped = []
        for k, x in enumerate(externals):
            if _storage(x) in watch.written:
                if id(x) not in found.tensors:
                    raise CannotCapture(
                        f"it writes to a tensor {tuple(x.shape)} that is neither an argument nor held by the module: pass it as an argument"
                    )
                swapped.append(k)
                mutated.append(len(inputs) + k)
        count = len(inputs)
        place = [found.tensors[id(x)][1] if id(x) in found.tensors else [] for x in externals]
        swaps = [(p, count + k) for k in swapped for p in place[k]]

        def work(all_inputs):
            values = list(leaves_template)
            for i, t in zip(tensors, all_inputs):
                values[i] = t
            with _Swapped([p for p, _ in swaps], [all_inputs[k] for _, k in swaps]):
                out = self.owner.run(values, spec)
            return pytree.tree_flatten(out)[0]

        leaves_template = list(leaves)
        for i in tensors:
            leaves_template[i] = None
        entries = [(c, k, x) for where, x in zip(place, externals) for c, k in where]
        for container, _, _ in list(entries):
            entries += found.way(found.owner[id(container)])
        self.containers, self.keys, self.held = _lists(entries)
        self.out_spec = out_spec
        region = self.owner.region_on(device.index)
        frame = Frame(region, self.number, fn=work, static=range(count, count + len(externals)), mutated=mutated)
        frame.advance = advance
        frame.watched = not self.owner._has_compiled
        frame.externals = externals
        frame.prepare(inputs + externals, flat)
        self.frame = frame


class Graphed:
    """A function whose calls are replayed. `.region` reports, `.function` is the function."""

    rondo_graphed = True  # for _held.search

    def __init__(self, fn, options, name, compile, dynamic):
        self.fn = self.function = fn
        self.options = options
        self.name = _unique(name or getattr(fn, "__qualname__", type(fn).__name__))
        self._run = fn
        self._compile, self._dynamic = compile, dynamic
        self._bound: dict = {}
        self._grads: dict = {}
        if compile:
            how = dict(compile) if isinstance(compile, dict) else {}
            self._run = torch.compile(fn, dynamic=dynamic, **how)
        self.signatures: dict = {}
        self._last: _Signature | None = None
        self.skips: list[str] = []
        self._regions: dict[int, BoxedRegion] = {}
        self._lock = threading.RLock()
        self._submodules: list = []
        self._structure: tuple = ([], [], [])
        self._has_compiled = bool(compile)
        self._look(_search(fn))
        if not isinstance(fn, torch.nn.Module):
            functools.update_wrapper(self, fn, updated=())

    # ---- for people

    @property
    def rondo_regions(self) -> list[BoxedRegion]:
        return [*self._regions.values(), *(r for g in self._grads.values() for r in g.regions)]

    @property
    def rondo_skips(self) -> list[str]:
        return self.skips

    def skip(self, why: str):
        if why not in self.skips:
            self.skips.append(why)

    def prepare(self, args, kwargs):
        """Calls of this kind are recorded now. Nothing that lasts is changed: neither arguments, buffers and
        gradients, nor random numbers."""
        buffers = [b for m in self._submodules for b in m._buffers.values() if b is not None]
        kept = [(b, b.detach().clone()) for b in buffers]
        random = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
        random_host = torch.get_rng_state()
        args, kwargs = pytree.tree_map_only(torch.Tensor, _like, (args, kwargs))
        try:
            for _ in range(3):
                self(*args, **kwargs)
        finally:
            with torch.no_grad():
                for b, was in kept:
                    b.copy_(was)
            torch.set_rng_state(random_host)
            if random:
                torch.cuda.set_rng_state_all(random)

    def __get__(self, instance, owner=None):
        """A method: each instance has recordings of its own, as long as it lives."""
        if instance is None:
            return self
        # The instance has it, so that it goes with the instance, which it holds.
        try:
            all_bound = instance.__dict__
        except AttributeError:
            all_bound = self._bound
        key = f"_rondo_{id(self)}" if all_bound is not self._bound else id(instance)
        bound = all_bound.get(key)
        if bound is None or bound.method.fn.__self__ is not instance or bound.of is not self:
            method = Graphed(self.fn.__get__(instance, owner), self.options, self.name, self._compile, self._dynamic)
            bound = all_bound[key] = _Bound(self, method)
        return bound.method

    def reset(self):
        """Forgets recordings and decisions."""
        with self._lock:
            self.signatures.clear()
            self._last = None
            for r in self._regions.values():
                r.region.reset()

    # ---- calls

    def _look(self, found: Found) -> bool:
        """Which modules the function has, and where it has them from. Whether they are others than they were: then all
        that was recorded is of another function."""
        with self._lock:
            modules = found.modules
            structure = _lists([entry for m in modules for entry in found.way(id(m))])
            same = len(modules) == len(self._submodules) and all(a is b for a, b in zip(modules, self._submodules))
            same = same and len(structure[2]) == len(self._structure[2])
            self._has_compiled = self._has_compiled or found.compiled
            if same and all(a is b for a, b in zip(structure[2], self._structure[2])):
                return False
            self._submodules, self._structure = modules, structure
            self.signatures.clear()
            self._grads.clear()
            self._last = None
            return True

    def region_on(self, device: int) -> BoxedRegion:
        region = self._regions.get(device)
        if region is None:
            suffix = "" if not self._regions else f" on cuda:{device}"
            region = BoxedRegion(None, GraphInfo(self.name + suffix, device_index=device), self.options)
            self._regions[device] = region
        return region

    def run(self, leaves, spec):
        args, kwargs = pytree.tree_unflatten(leaves, spec)
        return self._run(*args, **kwargs)

    def __call__(self, *args, **kwargs):
        last = self._last
        if last is not None and not kwargs and (frame := last.frame) is not None and last.fits(args):
            outputs = frame([*args, *frame.externals])
            return outputs[0] if last.single else last.unflatten(outputs)
        if self.options.policy == "never" or _looked_at():
            return self._run(*args, **kwargs)
        if not _core.identical(*self._structure):
            self._look(_search(self.fn))
        leaves, spec = pytree.tree_flatten((args, kwargs))
        tensors = []
        key = [spec]
        grad = torch.is_grad_enabled()
        needs_grad = False
        for i, x in enumerate(leaves):
            if isinstance(x, torch.Tensor):
                tensors.append(i)
                strided = x.layout == torch.strided
                key.append((
                    type(x), x.shape, x.stride() if strided else x.layout, x.dtype, x.device, x.requires_grad,
                    strided and (x.is_neg(), x.is_conj()),
                ))  # fmt: skip
                needs_grad = needs_grad or x.requires_grad
            elif isinstance(x, _PLAIN):
                # By bits: 0.0 equals -0.0, and NaN not even itself.
                key.append((type(x), x.hex() if type(x) is float else repr(x) if isinstance(x, (float, complex)) else x))
            else:
                self.skip(f"an argument is a {type(x).__name__}: tensors, containers of tensors and plain values are understood")
                return self._run(*args, **kwargs)
        key.append(_modes())
        key.append(grad)
        key.append(tuple(m.training for m in self._submodules))
        key = tuple(key)
        if grad and (needs_grad or self._trained()):
            # What is right of inputs apart, AOTAutograd's code need not do right where they share memory.
            at = [_storage(leaves[i]) if leaves[i].layout == torch.strided else i for i in tensors]
            return self._with_grad(args, kwargs, (*key, tuple(map(at.index, at))))
        signature = self.signatures.get(key)
        if signature is None:
            if len(self.signatures) < _MOST_SIGNATURES and self._look(_search(self.fn)):  # modules that were made since
                return self(*args, **kwargs)
            with self._lock:
                if len(self.signatures) >= _MOST_SIGNATURES:
                    self.skip(f"more than {_MOST_SIGNATURES} signatures: those that come now are plain")
                    return self._run(*args, **kwargs)
                signature = self.signatures.setdefault(key, _Signature(self, key, len(self.signatures)))
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            return self._run(*args, **kwargs)
        out = signature.call(leaves, spec, tensors)
        # The next call is probably alike; a look is enough then.
        self._last = signature if signature.frame is not None and signature.quick(args, kwargs, key) else None
        return out

    def _trained(self) -> bool:
        return any(p.requires_grad for m in self._submodules for p in m._parameters.values() if p is not None)

    def _with_grad(self, args, kwargs, key):
        from ._autograd import WithGrad

        key = (*key, *(p.requires_grad for m in self._submodules for p in m._parameters.values() if p is not None))
        with_grad = self._grads.get(key)
        if with_grad is None:
            if len(self._grads) < _MOST_SIGNATURES and self._look(_search(self.fn)):
                return self(*args, **kwargs)
            with self._lock:
                if len(self._grads) >= _MOST_SIGNATURES:
                    self.skip(f"more than {_MOST_SIGNATURES} signatures: those that come now are plain")
                    return self._run(*args, **kwargs)
                with_grad = self._grads.setdefault(key, WithGrad(self, len(self._grads)))
        return with_grad(args, kwargs)


_transforms = torch._C._functorch.peek_interpreter_stack
_dispatch_modes = torch._C._len_torch_dispatch_stack


def _looked_at() -> bool:
    """Whether something sees each operation of the work (vmap, a counter of operations): a replay shows none."""
    return _transforms() is not None or _dispatch_modes() != 0


class _Bound:
    """A method of an instance, among its attributes. Copies of the instance get methods of their own."""

    __slots__ = ("method", "of")

    def __init__(self, of, method):
        self.of, self.method = of, method

    def __deepcopy__(self, _):
        return None

    def __reduce__(self):
        return type(None), ()


def _modes():
    return (
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda"),
        torch.are_deterministic_algorithms_enabled(),
        torch.get_default_dtype(),
        _default.CURRENT_DEVICE,
        *_precision(),
    )


def _precision():
    try:
        return torch._C._get_cublas_allow_tf32(), torch._C._get_cudnn_allow_tf32()
    except RuntimeError:  # set by the new names, of which the old ones know nothing
        of = torch._C._get_fp32_precision_getter
        return of("cuda", "matmul"), of("cuda", "conv"), of("cuda", "rnn")


def _like(x):
    y = x.detach().clone()
    return y.requires_grad_(x.requires_grad)


class GraphedModule(Graphed):
    """A module whose calls are replayed: shares parameters and everything else with `.module`."""

    @property
    def module(self):
        return self.fn

    def __getattr__(self, name):
        if name == "fn":
            raise AttributeError(name)
        return getattr(self.fn, name)

    def train(self, mode: bool = True):
        self.fn.train(mode)
        return self

    def eval(self):
        return self.train(False)

    def __deepcopy__(self, memo):
        return GraphedModule(copy.deepcopy(self.fn, memo), self.options, self.name, False, None)

    def __repr__(self):
        return f"graphed({self.fn!r})"
