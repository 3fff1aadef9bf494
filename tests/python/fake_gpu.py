"""The fake driver (tests/install/fake_libcuda.cpp) for tests in Python: memory, streams, its kernels, captures.

RONDO_LIBCUDA names it, and Rondo opens the same one. Its kernel scale(x, n, v) multiplies n floats by v.
"""

import ctypes
import os
from ctypes import byref, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p

PATH = os.environ.get("RONDO_LIBCUDA", "")
is_there = "fake" in os.path.basename(PATH)
_library = ctypes.CDLL(PATH) if is_there else None


class DriverError(Exception):
    pass


def call(name, version, *arguments):
    """A function of the driver by its name and the version of its signature (src/rondo/driver/driver.h)."""
    address = c_void_p()
    _library.cuGetProcAddress_v2(name.encode(), byref(address), c_int(version), c_uint64(0), None)
    code = ctypes.CFUNCTYPE(c_int)(address.value)(*arguments)
    if code != 0:
        raise DriverError(f"{name} failed: {code}")


def _handle(name, version, *arguments):
    out = c_uint64()
    call(name, version, byref(out), *arguments)
    return out.value


def start():
    """A context that is current, and the kernel scale."""
    global _scale
    call("cuInit", 2000, c_uint(0))
    context = _handle("cuDevicePrimaryCtxRetain", 7000, c_int(0))
    call("cuCtxPushCurrent", 4000, c_uint64(context))
    module = _handle("cuModuleLoadDataEx", 2010, b"image", c_uint(0), None, None)
    _scale = _handle("cuModuleGetFunction", 2000, c_uint64(module), b"scale")


class Memory:
    """Floats on the GPU, which is host memory here."""

    alive = 0

    def __init__(self, n, values=None):
        self.n, self.bytes = n, 4 * n
        self.address = _handle("cuMemAlloc", 3020, c_size_t(self.bytes))
        Memory.alive += 1
        if values is not None:
            self.write(values)

    def write(self, values):
        (c_float * self.n).from_address(self.address)[:] = values

    def read(self):
        return list((c_float * self.n).from_address(self.address))

    def __del__(self):
        Memory.alive -= 1
        call("cuMemFree", 3020, c_uint64(self.address))


def new_stream():
    return _handle("cuStreamCreate", 2000, c_uint(1))


def synchronize(stream):
    call("cuStreamSynchronize", 2000, c_uint64(stream))


def copy(stream, source, target, n):
    call("cuMemcpyDtoDAsync", 3020, c_uint64(target), c_uint64(source), c_size_t(4 * n), c_uint64(stream))


def scale(stream, x, n, factor):
    values = (c_uint64(x), c_int(n), c_float(factor))
    pointers = (c_void_p * 3)(*(ctypes.addressof(v) for v in values))
    one, none = c_uint(1), c_uint(0)
    call("cuLaunchKernel", 4000, c_uint64(_scale), one, one, one, c_uint(32), one, one, none, c_uint64(stream), pointers, None)


class Graph:
    """What `work(stream)` puts into a stream."""

    alive = 0

    def __init__(self, work):
        stream = new_stream()
        call("cuStreamBeginCapture", 10010, c_uint64(stream), c_int(2))
        try:
            work(stream)
        finally:
            self.handle = _handle_of_capture(stream)
            call("cuStreamDestroy", 4000, c_uint64(stream))
        Graph.alive += 1

    def __del__(self):
        Graph.alive -= 1
        call("cuGraphDestroy", 10000, c_uint64(self.handle))


def _handle_of_capture(stream):
    graph = c_uint64()
    call("cuStreamEndCapture", 10000, c_uint64(stream), byref(graph))
    return graph.value
