"""What torch knows of a device that captures: one pool, one stream, and what was allocated.

A recording needs the graph as torch captures it (`CUDAGraph(keep_graph=True)`: its allocator and its random
generators must know), and where everything was that the captured work allocated, in order: then two captures
can be compared (rondo/replay_work.h). The allocator says so in its history of events, which is on during a
capture only.
"""

from __future__ import annotations

import contextlib
import threading
import traceback
import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .. import _core

_EMPTY = torch.empty
_ALLOCATES = "empty_strided_cuda"  # what Inductor's code calls for each buffer
_dead: list = []  # pools whose last recording is gone, to be freed when nobody captures
_lock = threading.RLock()  # torch captures into one pool one after the other


class CannotCapture(RuntimeError):
    """Why work is no graph, in words for the report."""


class _Alive:
    """Keeps a captured graph, and with it the pool's memory, until the region drops it."""

    __slots__ = ("__weakref__", "graph", "kept", "number", "pool")

    def __init__(self, graph, number, kept, pool):
        self.pool = pool  # its number
        self.graph = graph  # torch's, if it is
        self.number = number  # CUgraph
        self.kept = kept  # results and whatever else must stay where it is until the recording is made

    def settle(self):
        self.kept = None


class Pool:
    """Memory that the recordings of one device work in, one after the other."""

    _numbers = iter(range(1, 1 << 62))

    def __init__(self, device: int):
        self.device = device
        self.number = next(Pool._numbers)
        self.memory = torch.cuda.MemPool()
        self.alive = 0

    def bytes(self) -> int:
        return sum(
            s["total_size"]
            for s in torch.cuda.memory_snapshot()
            if s["device"] == self.device and tuple(s.get("segment_pool_id", ())) == tuple(self.memory.id)
        )


class Device:
    """A device that captures. `Device.of(index)` is the one there is."""

    _all: dict[int, Device] = {}
    capturing = 0  # whether the thread that has the lock does

    @classmethod
    def of(cls, index: int) -> Device:
        device = cls._all.get(index)
        if device is None:
            with _lock:
                device = cls._all.setdefault(index, cls(index))
        return device

    def __init__(self, index: int):
        self.index = index
        self.stream = torch.cuda.Stream(index)
        self.pool = None
        self._random = None

    # ---- captures

    def _current_pool(self) -> Pool:
        if self.pool is None:
            self.pool = Pool(self.index)
        return self.pool

    def _warm_up(self):
        """cuBLAS allocates a workspace for each thread and stream at the first product, and keeps it until somebody
        clears all: not in a capture, whose memory is not for keeping."""
        with torch.cuda.stream(self.stream), torch.no_grad():
            for dtype in (torch.float32, torch.float16):
                a = _EMPTY(64, 64, device=self.stream.device, dtype=dtype)
                b = _EMPTY(64, device=self.stream.device, dtype=dtype)
                torch.mm(a, a)
                torch.addmm(b, a, a)
                torch.bmm(a[None], a[None])
        self.stream.synchronize()

    def capture(self, work, results_of, random: bool, keep=None):
        """Captures work(). Returns (alive, addresses and bytes of all allocations, what results_of(results)
        returned). results_of runs in the capture too. `random`: work draws random numbers, which torch takes part
        in a capture for: until its end, no other thread can draw any, so that is asked for only where needed. `keep`
        (a _KeepAll): all that is allocated is kept to the end, in memory of its own."""
        with _lock, torch.cuda.device(self.index), _no_autocast_cache():
            sweep()
            self._warm_up()
            if random and self._random is None:
                self._random = self._draw()
            pool = Pool(self.index) if keep else self._current_pool()
            pool.alive += 1
            Device.capturing += 1
            try:
                begin = self._capture_random if random else self._capture
                kept = keep or contextlib.nullcontext()
                with _History(self.index, self.stream.cuda_stream) as history, torch.cuda.stream(self.stream), kept:
                    graph, number, results, found = begin(pool, work, results_of)
                    allocations = history.allocations()
            except BaseException:
                _gone(pool, 0)
                raise
            finally:
                Device.capturing -= 1
            alive = _Alive(graph, number, (results, keep), pool.number)
            weakref.finalize(alive, _gone, pool, 0 if random else number)
            return alive, allocations, found

    def _capture(self, pool, work, results_of):
        with torch.cuda.use_mem_pool(pool.memory, self.index):
            capture = _core.Capture(self.stream.cuda_stream)
            try:
                results = work()
                found = results_of(results)
            except BaseException as e:  # an interrupt, too, must not leave the thread capturing
                try:
                    _core.graph_destroy(capture.end())
                except _core.DeviceError as broken:
                    if isinstance(e, Exception):
                        raise CannotCapture(f"{where(e)}. {broken}") from e
                raise
            return None, capture.end(), results, found

    def _capture_random(self, pool, work, results_of):
        graph = torch.cuda.CUDAGraph(keep_graph=True)
        try:
            graph.capture_begin(pool=pool.memory.id, capture_error_mode="thread_local")
            results = work()
            found = results_of(results)
            graph.capture_end()
        except BaseException:
            self._abandon(graph, pool)
            raise
        return graph, graph.raw_cuda_graph(), results, found

    def _abandon(self, graph, pool):
        """The capture failed. Where it is broken, capture_end() may leave the allocator using the pool, and the
        generator believing that the capture goes on, so that it would draw no more numbers outside of one."""
        try:
            graph.capture_end()
        except Exception:
            with contextlib.suppress(Exception):
                torch._C._cuda_endAllocateToPool(self.index, pool.memory.id)
            self.pool = None  # whatever state it is in; its recordings keep it
            with contextlib.suppress(Exception):
                self._draw()  # the end of a capture that goes well tells the generator

    # ---- random numbers

    def generator(self):
        return torch.cuda.default_generators[self.index]

    def random_offset(self) -> int:
        return self.generator().get_offset()

    def before_random(self, offset: int, advance: int):
        """Lets graphs that are launched next draw the numbers that begin at `offset`, and the generator go on
        `advance` behind it. torch hands seed and offset to graphs in memory of its own, which only the replay of
        one of its graphs fills: here that of a graph with one draw."""
        generator = self.generator()
        generator.set_offset(offset)
        self._random.replay()
        generator.set_offset(offset + advance)

    def _draw(self):
        """A graph that draws. As long as there is one, the memory that torch hands seed and offset in stays where it
        is; the first would allocate it in its capture."""
        with torch.cuda.device(self.index):
            state = self.generator().get_state()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.stream(self.stream):
                graph.capture_begin(capture_error_mode="thread_local")
                self._drawn = torch.rand(4, device=self.stream.device)
                graph.capture_end()
            self.generator().set_state(state)
            return graph


@contextlib.contextmanager
def _no_autocast_cache():
    """Autocast keeps weights that it has cast: one from before the capture would be missing in the graph, and one of
    the capture was never computed."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)


def _gone(pool: Pool, graph: int):
    if graph:
        _core.graph_destroy(graph)
    pool.alive -= 1
    device = Device._all[pool.device]
    if pool.alive == 0:
        if device.pool is pool:
            device.pool = None
        # This may come from the garbage collector, in the middle of a capture, which must not free memory.
        _dead.append(pool)


def sweep():
    """Frees pools that are not used any more."""
    if _dead:
        with _lock:
            if not Device.capturing and not torch.cuda.is_current_stream_capturing():
                _dead.clear()


def where(e: BaseException) -> str:
    """The error and the line of the user's that it came from."""
    lines = traceback.extract_tb(e.__traceback__)
    theirs = [f for f in lines if "/rondo/torch/" not in f.filename and "/torch/" not in f.filename]
    at = f" at {theirs[-1].filename}:{theirs[-1].lineno} ({theirs[-1].line})" if theirs else ""
    text = str(e).strip().splitlines()
    return f"{type(e).__name__}{at}: {text[0] if text else ''}"


class KeepAll(TorchDispatchMode):
    """Keeps all that operators and Inductor's code (whose names are `namespace`) allocate while this is open."""

    def __init__(self, namespace=None):
        super().__init__()
        self.namespace = namespace if namespace and callable(namespace.get(_ALLOCATES)) else None
        self.kept: list = []

    def __enter__(self):
        if self.namespace is not None:
            allocate = self.namespace[_ALLOCATES]

            def kept(*args):
                out = allocate(*args)
                self.kept.append(out)
                return out

            self.theirs = allocate
            self.namespace[_ALLOCATES] = kept
        return super().__enter__()

    def __exit__(self, *exc):
        if self.namespace is not None:
            self.namespace[_ALLOCATES] = self.theirs
        return super().__exit__(*exc)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.kept.append(out)
        return out


class _History:
    """The allocator's events on one stream of one device while this is open."""

    def __init__(self, device: int, stream: int):
        self.device, self.stream = device, stream

    def __enter__(self):
        self.theirs = torch._C._cuda_isHistoryEnabled()  # somebody looks at the memory already: left as it is
        if self.theirs:
            self.before = len(self._events())
        else:
            torch.cuda.memory._record_memory_history(
                "all", context=None, stacks="python", max_entries=1 << 22, clear_history=True
            )
            self.before = 0
        return self

    def __exit__(self, *_):
        if not self.theirs:
            torch.cuda.memory._record_memory_history(None)

    def _events(self):
        return torch.cuda.memory._snapshot(self.device)["device_traces"][self.device]

    def allocations(self):
        return [
            (e["addr"], (e["size"] + 511) // 512 * 512)
            for e in self._events()[self.before :]
            if e["action"] == "alloc" and e["stream"] == self.stream
        ]


def tensor_at(address: int, size, stride, dtype, device, storage_bytes: int, offset: int = 0):
    """A tensor over memory that somebody else owns."""
    storage = torch._C._construct_storage_from_data_pointer(address, device, storage_bytes)
    return _EMPTY(0, dtype=dtype, device=device).set_(storage, offset, size, stride)


def memory() -> dict:
    """Bytes that recordings work in, by device."""
    sweep()
    return {
        f"cuda:{d.index}": {"pool_bytes": d.pool.bytes() if d.pool and d.pool.alive else 0,
                            "recordings": d.pool.alive if d.pool else 0}
        for d in Device._all.values()
    }
