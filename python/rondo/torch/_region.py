"""A function of a list of tensors as a region of the replay layer.

BoxedRegion is what both doors end in: Inductor's partitions (backend.py), and functions that are called
directly (graphed.py). It takes a list of inputs, as Inductor's boxed calls do. What a call needs to know of its
results is learned in one plain call (_Results); from then on the region decides, in C++, and calls back for
what only torch can do: run, capture, allocate results, advance random numbers (_Work).
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import struct
import threading

import torch

from .. import _core
from . import _capture
from ._capture import CannotCapture, Device, tensor_at

IN, OUT, INOUT, LIVE, FIXED, MADE = range(6)
_ELEMENTS = {torch.float16: 1, torch.bfloat16: 2, torch.float32: 3, torch.float64: 4}
_NUMBERS = {t: struct.Struct(c) for t, c in ((torch.float32, "f"), (torch.float64, "d"), (torch.int32, "i"), (torch.int64, "q"))}
_BITS = {t: struct.Struct("I" if t.itemsize == 4 else "Q") for t in _NUMBERS}
_MOST_FRAMES = 256
_MOST_KEPT = 4 << 30  # bytes of intermediates that a second capture keeps apart
_raw_stream = torch._C._cuda_getCurrentRawStream if hasattr(torch._C, "_cuda_getCurrentRawStream") else None
_current_device = getattr(torch._C, "_cuda_getDevice", None)
_same_addresses = getattr(torch._C, "_tensors_data_ptrs_at_indices_equal", None)
_empty_cuda = getattr(getattr(torch._C._dynamo, "guards", None), "_empty_strided_cuda", None)


@dataclasses.dataclass(frozen=True)
class Options:
    policy: str = "auto"
    goal: str = "both"
    proof: str = "auto"
    tolerance: float = 1e-5
    most_recordings: int = 64
    most_bytes: int = 256 << 20
    remember: bool = True

    def json(self) -> str:
        return json.dumps(dataclasses.asdict(self))


@dataclasses.dataclass
class GraphInfo:
    name: str
    static_input_idxs: tuple = ()  # parameters, buffers: their addresses seldom change
    mutated_input_idxs: tuple = ()
    is_backward: bool = False
    is_inference: bool = True
    device_index: int = 0
    placeholders: tuple = ()
    namespace: dict | None = None  # the names that Inductor's code uses


# Addresses of parameters and buffers that some region was given as static: the backward of a training step gets
# them as ordinary inputs.
_statics: set[int] = set()


class BoxedRegion:
    _boxed_call = True

    def __init__(self, fn, info: GraphInfo, options: Options = Options()):
        self.fn, self.info, self.options = fn, info, options
        # One plain call of a signature has been made already when the region is asked.
        self.region = _core.Region(info.name, json.dumps({**json.loads(options.json()), "plain_calls": 0}))
        self.frames: dict[tuple, Frame] = {}
        self.skips: list[str] = []
        self._ints: tuple | None = None
        self._tags = itertools.count()
        self._only: Frame | None = None
        self._lock = threading.Lock()

    def __call__(self, inputs: list):
        frame = self._only
        if frame is None:
            frame = self._find(inputs)
            if frame is None:
                return self.fn(inputs)
        return frame(inputs)

    def _find(self, inputs):
        if self._ints is None:
            self._ints = tuple(i for i, x in enumerate(inputs) if not isinstance(x, torch.Tensor))
        key = tuple(inputs[i] for i in self._ints)
        frame = self.frames.get(key)
        if frame is None:
            with self._lock:
                if len(self.frames) >= _MOST_FRAMES:
                    return None
                frame = self.frames.setdefault(key, Frame(self, len(self.frames)))
                if not self._ints:
                    self._only = frame
        return frame

    def next_tag(self) -> int:
        """A number that keeps apart what the region could take for one signature."""
        tag = next(self._tags)
        if tag >= 1 << 16:  # from there on it could be taken for an address
            raise CannotCapture("what it holds, or where, has changed 65,536 times")
        return tag

    def skip(self, why: str):
        if why not in self.skips:
            self.skips.append(why)

    def report(self) -> dict:
        regions = json.loads(self.region.report())
        return regions if isinstance(regions, dict) and "name" in regions else regions["regions"][0]


class Frame:
    """One signature of a region: what its inputs and results are like. The first call is plain and finds out."""

    def __init__(self, owner: BoxedRegion, number: int, fn=None, static=None, mutated=None):
        self.owner, self.number = owner, number
        self.fn = fn or owner.fn
        self.given_static = owner.info.static_input_idxs if static is None else static
        self.given_mutated = owner.info.mutated_input_idxs if mutated is None else mutated
        self.call = None  # the region's, from the second call on
        self.plain = False  # no graph can be made of it
        self.results: _Results | None = None
        self.moving: set[int] = set()  # static inputs whose storage has moved: arguments from then on
        self.lock = threading.RLock()
        self.advance = 0  # of the random generator, by one call
        self.random_unclear = False
        self.watched = True  # whether operators may be looked at while it runs

    def __call__(self, inputs: list):
        call = self.call
        if call is None:
            return self.first(inputs)
        if self.several and _current_device() != self.device:  # results are made on the current one
            with torch.cuda.device(self.device):
                return self(inputs)
        static = self.static
        if static and not _same_addresses(inputs, self.static_addresses, static):
            with self.lock:
                try:
                    self.moved(inputs)
                except CannotCapture as e:
                    self.call, self.plain = None, True
                    self.owner.skip(str(e))
                    return self.fn(inputs)
                call = self.call
        work = _Work(self, inputs)
        results = self.results
        made, outputs = results.allocate(inputs) if self.replays else ((0,) * results.made_count, None)
        try:
            replayed = call(
                work, _raw_stream(self.device), *[inputs[i].data_ptr() for i in self.arguments], *made, self.tag,
                *self.numbers(inputs),
            )  # fmt: skip
            self.replays = replayed
            if not replayed:
                return work.outputs
            if outputs is None:  # make() was asked for it, if there was anything to be allocated
                outputs = work.outputs if results.made_count else results.allocate(inputs)[1]
            return outputs
        finally:
            if work.captured:
                for alive in work.captured:
                    alive.settle()  # what they kept in place for this call may go
                del alive
                work.captured = None
                _capture.sweep()
            inputs.clear()

    # ---- the first call

    def first(self, inputs):
        with self.lock:
            if self.call is not None:
                return self(inputs)
            # The generator does not tell where it is while somebody captures.
            if self.plain or (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()):
                return self.fn(inputs)
            before = list(inputs)
            random = self.random_offset()
            outputs = self.fn(inputs)
            self.advance = self.random_offset() - random
            try:
                self.prepare(before, outputs)
            except CannotCapture as e:
                self.plain = True
                self.owner.skip(str(e))
            return outputs

    def random_offset(self) -> int:
        return Device.of(self.owner.info.device_index).random_offset()

    def prepare(self, inputs, outputs):
        info = self.owner.info
        if _raw_stream is None or _same_addresses is None:
            raise CannotCapture(f"torch {torch.__version__} lacks what is needed: expected 2.9 to 2.11")
        self.device = info.device_index
        self.several = _current_device is not None and torch.cuda.device_count() > 1
        self.torch_device = torch.device("cuda", self.device)
        tensors = [i for i, x in enumerate(inputs) if isinstance(x, torch.Tensor)]
        # A number on the host that kernels take as a parameter.
        self.live = [i for i in tensors if inputs[i].dim() == 0 and inputs[i].is_cpu and inputs[i].dtype in _BITS]
        self.live_types = [inputs[i].dtype for i in self.live]
        tensors = [i for i in tensors if i not in self.live]
        for i in tensors:
            x = inputs[i]
            if x.device != self.torch_device:
                raise CannotCapture(f"input {i} is on {x.device}, the work on {self.torch_device}")
            if x.layout != torch.strided:
                raise CannotCapture(f"input {i} is sparse ({x.layout})")
            if type(x) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
                raise CannotCapture(f"input {i} is a {type(x).__name__}, which is more than its memory")
            if x.is_quantized:
                raise CannotCapture(f"input {i} is quantized")
            if x.is_conj() or x.is_neg():
                raise CannotCapture(f"input {i} is a conjugate or negative view: .resolve_conj() makes it plain")
        self.results = _Results(inputs, outputs, self.torch_device)
        given = set(self.given_static)
        mutated = set(self.given_mutated)
        known = {i for i in tensors if i in given or isinstance(inputs[i], torch.nn.Parameter)}
        for i in known:
            _statics.add(inputs[i].data_ptr())
        if info.is_backward:
            known |= {i for i in tensors if inputs[i].data_ptr() in _statics}
        self.mutated = mutated
        self.tensors = tensors
        self.known = known - mutated
        self.layout = {i: _layout(inputs[i]) for i in tensors}
        self.replays = False
        self.bind(inputs)

    def bind(self, inputs):
        """The region's arguments: what may lie elsewhere at the next call."""
        self.static = [i for i in self.tensors if i in self.known and i not in self.moving]
        self.static_addresses = [inputs[i].data_ptr() if i in self.known else 0 for i in range(len(inputs))]
        self.fixed = {i: inputs[i] for i in self.static}
        self.scalars = {i: x for i, x in enumerate(inputs) if not isinstance(x, torch.Tensor)}
        self.count = len(inputs)
        fixed = set(self.static)
        self.arguments = [i for i in self.tensors if i not in fixed]
        kinds = [INOUT if i in self.mutated else IN for i in self.arguments]
        sizes = [self.layout[i].bytes for i in self.arguments]
        elements = [_ELEMENTS.get(self.layout[i].dtype, 0) for i in self.arguments]
        made = self.results.made
        self.tag = self.owner.next_tag()
        self.call = _core.Frame(
            self.owner.region,
            kinds + [MADE] * len(made) + [FIXED] + [LIVE] * len(self.live),
            sizes + [m.bytes for m in made] + [8] + [t.itemsize for t in self.live_types],
            elements + [_ELEMENTS.get(m.dtype, 0) for m in made] + [0] + [_ELEMENTS.get(t, 0) for t in self.live_types],
        )

    def numbers(self, inputs):
        """The bits of numbers on the host."""
        if not self.live:
            return ()
        return [_BITS[t].unpack(_NUMBERS[t].pack(inputs[i].item()))[0] for i, t in zip(self.live, self.live_types)]

    def moved(self, inputs):
        for i in self.static:
            if inputs[i].data_ptr() != self.static_addresses[i]:
                self.moving.add(i)
                if self.owner.info.is_backward is False:
                    _statics.discard(self.static_addresses[i])
        if self.static and any(i in self.moving for i in self.static):
            self.bind(inputs)


@dataclasses.dataclass(frozen=True)
class _Layout:
    size: tuple
    stride: tuple
    dtype: torch.dtype
    bytes: int  # from the first element to behind the last


def _layout(x) -> _Layout:
    size, stride = tuple(x.shape), tuple(x.stride())
    last = sum((n - 1) * s for n, s in zip(size, stride)) if x.numel() else -1
    return _Layout(size, stride, x.dtype, (last + 1) * x.element_size())


@dataclasses.dataclass(frozen=True)
class _Made:
    bytes: int  # of the storage
    dtype: torch.dtype


class _Results:
    """What a call returns, learned from one: new tensors, views of inputs or of one another, other values."""

    def __init__(self, inputs, outputs, device):
        self.device = device
        self.made: list[_Made] = []
        self.build: list = []
        self.first: dict[int, int] = {}  # the first result in each storage
        owners = {}
        for i, x in enumerate(inputs):
            if isinstance(x, torch.Tensor) and x.numel():
                owners.setdefault(x.untyped_storage().data_ptr(), ("input", i))
        self.is_tuple = isinstance(outputs, tuple)
        if not isinstance(outputs, (tuple, list)):
            raise CannotCapture(f"it returns {type(outputs).__name__}, expected a tuple or list")
        for k, y in enumerate(outputs):
            if not isinstance(y, torch.Tensor):
                if not isinstance(y, (int, float, bool, str, type(None))):
                    raise CannotCapture(f"result {k} is a {type(y).__name__}")
                self.build.append(("value", y))
                continue
            if y.device != device:
                raise CannotCapture(f"result {k} is on {y.device}: the host waits for it")
            if y.layout != torch.strided:
                raise CannotCapture(f"result {k} is sparse ({y.layout})")
            if any(y is x for x in inputs):
                self.build.append(("same", next(i for i, x in enumerate(inputs) if x is y)))
                continue
            if any(y is before for before in outputs[:k]):
                self.build.append(("again", next(i for i, before in enumerate(outputs) if before is y)))
                continue
            if type(y) is not torch.Tensor:
                raise CannotCapture(f"result {k} is a {type(y).__name__}, which is more than its memory")
            if y.is_conj() or y.is_neg():
                raise CannotCapture(f"result {k} is a conjugate or negative view: .resolve_conj() makes it plain")
            if y.is_quantized:
                raise CannotCapture(f"result {k} is quantized")
            storage = y.untyped_storage()
            kind, which = owners.get(storage.data_ptr(), (None, 0)) if storage.nbytes() else (None, 0)
            if kind == "input":
                x = inputs[which]
                if (y.data_ptr() - x.data_ptr()) % y.element_size():
                    raise CannotCapture(f"result {k} is a view of input {which} between its elements")
                self.build.append(("view", which, y.dtype, tuple(y.shape), tuple(y.stride()), y.storage_offset() - (x.storage_offset() * x.element_size()) // y.element_size()))
                continue
            if kind is None:
                which = len(self.made)
                self.made.append(_Made(storage.nbytes(), y.dtype))
                if storage.nbytes():
                    owners[storage.data_ptr()] = ("made", which)
            elif self.build[self.first[which]][2] == y.dtype:
                # A view of a result shares its counter of changes in place.
                self.build.append(("part", self.first[which], y.dtype, tuple(y.shape), tuple(y.stride()), y.storage_offset()))
                continue
            self.first.setdefault(which, k)
            self.build.append(("made", which, y.dtype, tuple(y.shape), tuple(y.stride()), y.storage_offset()))
        self.made_count = len(self.made)
        # The usual case: each result has a storage of its own and fills it.
        self.simple = len(self.build) == len(self.made) and all(
            b[0] == "made" and b[5] == 0 and _dense_bytes(b) == m.bytes for b, m in zip(self.build, self.made)
        )
        self.plan = [(b[3], b[4], b[2]) for b in self.build] if self.simple else None

    def allocate(self, inputs):
        """Addresses of new storages, and the results over them."""
        if self.simple:
            if _empty_cuda is not None:
                outputs = [_empty_cuda(*p) for p in self.plan]
            else:
                outputs = [torch.empty_strided(p[0], p[1], dtype=p[2], device=self.device) for p in self.plan]
            return [y.data_ptr() for y in outputs], outputs
        storages = [torch.empty(max(m.bytes, 1), dtype=torch.uint8, device=self.device) for m in self.made]
        outputs: list = []
        for b in self.build:
            outputs.append(self._result(b, inputs, storages, outputs))
        return [s.data_ptr() if m.bytes else 0 for s, m in zip(storages, self.made)], outputs

    @staticmethod
    def _result(b, inputs, storages, outputs):
        if b[0] == "value":
            return b[1]
        if b[0] == "same":
            return inputs[b[1]]
        if b[0] == "again":
            return outputs[b[1]]
        if b[0] == "part":
            with torch.no_grad():
                return outputs[b[1]].as_strided(*b[3:])
        _, which, dtype, size, stride, offset = b
        if b[0] == "view":
            x = inputs[which]
            offset += (x.storage_offset() * x.element_size()) // dtype.itemsize
            storage = x.untyped_storage()
        else:
            storage = storages[which].untyped_storage()
        return torch.empty(0, dtype=dtype, device=storages[which].device if b[0] == "made" else inputs[which].device).set_(storage, offset, size, stride)

    def storages(self, outputs, what: str):
        """The storages of the made results among `outputs`, in order."""
        found: list = [None] * len(self.made)
        if len(outputs) != len(self.build):
            raise CannotCapture(f"it returns {len(outputs)} results in {what}, and {len(self.build)} before")
        for k, (y, b) in enumerate(zip(outputs, self.build)):
            if isinstance(y, torch.Tensor) != (b[0] != "value"):
                raise CannotCapture(f"result {k} is of another kind in {what}")
            if b[0] in ("made", "part", "view") and (y.is_conj() or y.is_neg()):
                raise CannotCapture(f"result {k} is a conjugate or negative view in {what}")
            if b[0] == "value":
                if y != b[1] and not (y != y and b[1] != b[1]):
                    raise CannotCapture(f"result {k} is {y!r} in {what}, and was {b[1]!r}: it changes from call to call")
                continue
            if b[0] != "made":
                continue
            if (y.dtype, tuple(y.shape), tuple(y.stride()), y.storage_offset()) != b[2:]:
                raise CannotCapture(
                    f"result {k} is {y.dtype} {tuple(y.shape)} in {what}, and was {b[2]} {b[3]}: its shape follows the data"
                )
            storage = y.untyped_storage()
            if found[b[1]] is None:
                found[b[1]] = storage
            elif found[b[1]].data_ptr() != storage.data_ptr():
                raise CannotCapture(f"result {k} has another storage in {what}")
        return found


def _dense_bytes(b) -> int:
    _, _, dtype, size, stride, _ = b
    if 0 in size:
        return 0
    return (sum((n - 1) * s for n, s in zip(size, stride)) + 1) * dtype.itemsize


class _Work:
    """One call, as the region's callbacks see it."""

    __slots__ = ("began", "captured", "frame", "inputs", "needed", "outputs", "storages")

    def __init__(self, frame, inputs):
        self.frame, self.inputs = frame, inputs
        self.outputs = self.captured = None

    def run(self, stream, values, prove):
        frame = self.frame
        if not prove:
            self.outputs = frame.fn(self.inputs)
            return None
        self.began = frame.random_offset()
        self.outputs = frame.fn(list(self.inputs))
        frame.random_unclear = frame.random_offset() - self.began != frame.advance
        self.storages = frame.results.storages(self.outputs, "this call")
        return [s.data_ptr() for s in self.storages]

    def capture(self, values, kinds):
        frame = self.frame
        device = Device.of(frame.device)
        inputs: list = [None] * frame.count
        for i, x in frame.scalars.items():
            inputs[i] = x
        for i, x in frame.fixed.items():
            inputs[i] = x
        for i, address in zip(frame.arguments, values):
            at = frame.layout[i]
            inputs[i] = tensor_at(address, at.size, at.stride, at.dtype, frame.torch_device, at.bytes)
        first = len(frame.arguments)
        for i, t, bits in zip(frame.live, frame.live_types, values[first + frame.results.made_count + 1 :]):
            inputs[i] = torch.tensor(_NUMBERS[t].unpack(_BITS[t].pack(bits))[0], dtype=t)
        given = list(inputs)

        def results_of(outputs):
            addresses = []
            storages = frame.results.storages(outputs, "a capture")
            for k, (storage, m) in enumerate(zip(storages, frame.results.made)):
                if m.bytes and kinds[first + k] == OUT:
                    to = tensor_at(values[first + k], (m.bytes,), (1,), torch.uint8, frame.torch_device, m.bytes)
                    to.copy_(torch.empty(0, dtype=torch.uint8, device=frame.torch_device).set_(storage, 0, (m.bytes,), (1,)))
                addresses.append(storage.data_ptr() if m.bytes and kinds[first + k] == MADE else 0)
            return addresses

        offset = device.random_offset()
        try:
            with torch.no_grad():
                # The second capture is only compared with the first. What uses no memory twice tells more.
                keep = self.captured and self.needed < _MOST_KEPT and frame.watched
                alive, allocations, addresses = device.capture(
                    lambda: frame.fn(inputs), results_of, frame.advance != 0,
                    _capture.KeepAll(frame.owner.info.namespace) if keep else None,
                )  # fmt: skip
        except CannotCapture:
            raise
        except Exception as e:
            raise CannotCapture(_capture.where(e)) from e
        if device.random_offset() != offset:
            raise CannotCapture("it sets the random generator")
        self.captured = self.captured or []
        self.captured.append(alive)
        self.needed = sum(b for _, b in allocations)
        alive.kept = (alive.kept, given)
        known = {a for a, _ in allocations}
        for k, address in enumerate(addresses):
            if address and address not in known:
                raise CannotCapture(f"result {k} is memory that was there before the call (a cached tensor)")
        return (
            alive.number,
            alive,
            addresses,
            allocations,
            frame.advance != 0,
            alive.pool,
        )

    def make(self):
        addresses, self.outputs = self.frame.results.allocate(self.inputs)
        return addresses

    def before_launch(self, stream, again):
        frame = self.frame
        if frame.random_unclear:
            raise CannotCapture("how many random numbers a call draws is not clear: they differ, or threads draw too")
        device = Device.of(frame.device)
        device.before_random(self.began if again else device.random_offset(), frame.advance)
