"""What torch knows of a device that captures: one pool, one stream, and what was allocated.

A recording needs the graph as torch captures it (`CUDAGraph(keep_graph=True)`: its allocator and its random
generators must know), and where everything was that the captured work allocated, in order: then two captures
can be compared (rondo/replay_work.h). The allocator says so in its history of events, which is on during a
capture only.
"""

from __future__ import annotations

import contextlib
import threading
import weakref

import torch

_EMPTY = torch.empty
_lock = threading.RLock()  # torch captures into one pool one after the other


class CannotCapture(RuntimeError):
    """Why work is no graph, in words for the report."""


class _Alive:
    """Keeps a captured graph, and with it the pool's memory, until the region drops it."""

    __slots__ = ("__weakref__", "graph", "kept")

    def __init__(self, graph, kept):
        self.graph = graph
        self.kept = kept  # results and whatever else must stay where it is until the recording is made

    def settle(self):
        self.kept = None


class Pool:
    """Memory that the recordings of one device work in, one after the other."""

    _numbers = iter(range(1, 1 << 62))

    def __init__(self, device: int):
        self.device = device
        self.number = next(Pool._numbers)
        self.handle = torch.cuda.graph_pool_handle()
        self.alive = 0

    def bytes(self) -> int:
        return sum(
            s["total_size"]
            for s in torch.cuda.memory_snapshot()
            if s["device"] == self.device and tuple(s.get("segment_pool_id", ())) == tuple(self.handle)
        )


class Device:
    """A device that captures. `Device.of(index)` is the one there is."""

    _all: dict[int, Device] = {}

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
        self._warm = threading.local()
        self._random = None

    # ---- captures

    def _current_pool(self) -> Pool:
        # A pool whose last graph is gone is torch's to free; its handle is not used again.
        if self.pool is None or self.pool.alive == 0:
            self.pool = Pool(self.index)
        return self.pool

    def _warm_up(self):
        """cuBLAS allocates a workspace for each thread and stream at the first product, and keeps it: not in a
        capture, whose memory is not for keeping."""
        if getattr(self._warm, "done", False):
            return
        with torch.cuda.stream(self.stream), torch.no_grad():
            for dtype in (torch.float32, torch.float16):
                a = _EMPTY(64, 64, device=self.stream.device, dtype=dtype)
                b = _EMPTY(64, device=self.stream.device, dtype=dtype)
                torch.mm(a, a)
                torch.addmm(b, a, a)
                torch.bmm(a[None], a[None])
        self.stream.synchronize()
        self._warm.done = True

    def capture(self, work, results_of):
        """Captures work(). Returns (alive, addresses and bytes of all allocations, what results_of(results)
        returned). results_of runs in the capture too."""
        with _lock, torch.cuda.device(self.index):
            self._warm_up()
            pool = self._current_pool()
            graph = torch.cuda.CUDAGraph(keep_graph=True)
            with _History(self.index, self.stream.cuda_stream) as history:
                with torch.cuda.stream(self.stream):
                    graph.capture_begin(pool=pool.handle, capture_error_mode="thread_local")
                    try:
                        results = work()
                        found = results_of(results)
                    except BaseException:
                        self._abandon(graph, pool)
                        raise
                    try:
                        graph.capture_end()
                    except BaseException:
                        self._abandon(graph, pool)
                        raise
                allocations = history.allocations()
            alive = _Alive(graph, results)
            pool.alive += 1
            weakref.finalize(alive, _gone, pool)
            return alive, allocations, found

    def _abandon(self, graph, pool):
        """The capture failed: the stream is ended, and the allocator no longer told to use the pool, which
        capture_end() leaves undone where the capture is broken."""
        try:
            graph.capture_end()
        except Exception:
            for end in (torch._C._cuda_endAllocateToPool, torch._C._cuda_releasePool):
                with contextlib.suppress(Exception):
                    end(self.index, pool.handle)

    # ---- random numbers

    def generator(self):
        return torch.cuda.default_generators[self.index]

    def random_offset(self) -> int:
        return self.generator().get_offset()

    def before_random(self, offset: int, advance: int):
        """Lets graphs that are launched next draw the numbers that begin at `offset`, and the generator go on
        `advance` behind it. torch hands seed and offset to graphs in memory of its own, which only the replay of
        one of its graphs fills: here that of a graph with one draw."""
        with _lock:
            if self._random is None:
                self._random = self._draw()
        generator = self.generator()
        generator.set_offset(offset)
        self._random.replay()
        generator.set_offset(offset + advance)

    def _draw(self):
        with torch.cuda.device(self.index):
            state = self.generator().get_state()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.stream(self.stream):
                graph.capture_begin(capture_error_mode="thread_local")
                self._drawn = torch.rand(4, device=self.stream.device)
                graph.capture_end()
            self.generator().set_state(state)
            return graph


def _gone(pool: Pool):
    pool.alive -= 1


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
    return {
        f"cuda:{d.index}": {"pool_bytes": d.pool.bytes() if d.pool and d.pool.alive else 0,
                            "recordings": d.pool.alive if d.pool else 0}
        for d in Device._all.values()
    }
