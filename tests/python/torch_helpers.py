"""What the tests of the PyTorch door share: the two doors, inputs that can be made twice, comparison with eager.

A case is written once and run through both doors where both apply: `door` is rondo.torch.graphed or
torch.compile(backend="rondo"). `pytest -k graphed` and `-k backend` run one of them.

`agree` is the usual test: fresh inputs at each call, made twice from the same seed, one set for eager. Inputs
are dropped after each call, so that their memory is used again while work may still be in the stream; outputs
are kept, and compared when all calls are done. Outputs that a later call overwrites are found that way.
"""
import collections
import contextlib
import dataclasses
import gc
import importlib.metadata
import importlib.util
import json
import os
import tempfile

import pytest

# Before rondo is loaded: decisions of other runs say nothing here, and what is forced from outside neither.
os.environ.pop("RONDO_REPLAY", None)
_cache = tempfile.TemporaryDirectory(prefix="rondo_tests_")
os.environ["RONDO_CACHE_DIR"] = _cache.name

torch = pytest.importorskip("torch", reason="torch is not installed")
if importlib.util.find_spec("rondo") is None:
    pytest.skip("the package rondo is not installed (pip install .)", allow_module_level=True)
# Installed and broken is a failure, not a skip.
import rondo._core  # noqa: E402
import rondo.torch  # noqa: E402

DEVICE = "cuda"
CALLS = 14        # policy "always": one plain, one recorded and proved, the others replays
AUTO_CALLS = 400  # policy "auto": timed on the way, some hundred at most

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(),
                               reason="no GPU for torch: torch.cuda.is_available() is False")
needs_entry_point = pytest.mark.skipif(
    not [e for e in importlib.metadata.entry_points(group="torch_dynamo_backends") if e.name == "rondo"],
    reason="rondo is on the path but not installed, so its entry point is not known (pip install .)")


# ---------------------------------------------------------------- inputs
def randn(*shape, seed=0, dtype=torch.float32, device=None):
    """The same numbers for the same seed, and the default generator is left alone."""
    device = DEVICE if device is None else device
    generator = torch.Generator(device).manual_seed(1000003 * (seed + 1))
    values = torch.randn(*shape, generator=generator, device=device)
    return values.to(dtype) if dtype.is_floating_point else (values * 8).to(dtype)


def mlp(width=32, layers=2, seed=0, dropout=0.0):
    """A small module with the same weights for the same seed."""
    parts = []
    for i in range(layers):
        linear = torch.nn.Linear(width, width, device=DEVICE)
        with torch.no_grad():
            linear.weight.copy_(randn(width, width, seed=100 + 2 * i + seed) / width**0.5)
            linear.bias.copy_(randn(width, seed=101 + 2 * i + seed) / 10)
        parts += [linear, torch.nn.GELU()]
        if dropout:
            parts.append(torch.nn.Dropout(dropout))
    return torch.nn.Sequential(*parts)


# ---------------------------------------------------------------- the doors
class Graphed:
    name = "graphed"
    exact = True  # the kernels are those of eager
    rtol, atol = 0.0, 0.0

    def __call__(self, target, policy="always", **options):
        return rondo.torch.graphed(target, policy=policy, **options)


class Backend:
    name = "backend"
    exact = False  # Inductor's kernels: other rounding, other order of sums
    rtol, atol = 2e-4, 2e-5

    def __call__(self, target, policy="always", dynamic=None, **options):
        return torch.compile(target, backend="rondo", dynamic=dynamic, options={"policy": policy, **options})


@pytest.fixture(params=[Graphed, Backend], ids=["graphed", "backend"])
def door(request):
    return request.param()


@pytest.fixture(params=["always", "auto"])
def policy(request):
    return request.param


def calls_for(policy):
    return CALLS if policy == "always" else AUTO_CALLS


@pytest.fixture(autouse=True)
def fresh():
    """Nothing is left of the test before: no compiled code, no regions, no seeds; sums are not shortened."""
    torch._dynamo.reset()
    gc.collect()
    _old.clear()
    _old.update(region["name"] for region in all_regions())
    torch.manual_seed(0)
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = before
    torch._dynamo.reset()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.synchronize()  # an error of the device belongs to the test that made it


# ---------------------------------------------------------------- reports
_old = collections.Counter()  # by name: regions that something still holds from before this test


def all_regions():
    return json.loads(rondo._core.report_json())["regions"]


def regions():
    """Those of this test, in the order of their making."""
    left, found = collections.Counter(_old), []
    for region in all_regions():
        if left[region["name"]] > 0:
            left[region["name"]] -= 1
        else:
            found.append(region)
    return found


def graph_calls():
    """By region name: the calls that were launched as a graph."""
    count = collections.Counter()
    for region in regions():
        count[region["name"]] += region["replays"] + region.get("recaptures", 0)
    return count


@contextlib.contextmanager
def graphs_used(at_least=1):
    """What is called inside must have been launched as a graph. The callable must live until the end."""
    before = graph_calls()
    yield
    after = graph_calls()
    used = sum(max(0, after[name] - before[name]) for name in after)
    assert used >= at_least, f"{used} calls were launched as a graph, expected {at_least}:\n{rondo._core.report_text()}"


def executables():
    """Executable graphs that are kept: recordings that are alike share one."""
    return [r for r in recordings() if "shares the executable" not in r["reason"]]


def recordings():
    """Recordings that are kept as graphs, over all regions."""
    return [r for region in regions() for r in region["recordings"] if r["nodes"] > 0 and r["state"] != "dropped"]


def reasons():
    """All that the reports say about what was not replayed, in small letters."""
    words = []
    for region in regions():
        words += region["fallbacks"] + [r["reason"] for r in region["recordings"]]
    return "\n".join(words).lower()


# ---------------------------------------------------------------- comparing
def leaves(value, path="result"):
    """(path, leaf) of all that nested containers hold."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        for key in value:
            yield from leaves(value[key], f"{path}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield from leaves(item, f"{path}[{i}]")
    else:
        yield path, value


def snapshot(value):
    """As leaves, with tensors as they are now."""
    return [(path, leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf) for path, leaf in leaves(value)]


def same(got, want, rtol=0.0, atol=0.0, where=""):
    """Containers, types, shapes, devices and values; bit for bit where no tolerance is given."""
    assert type(got) is type(want), f"{where}: {type(got)} instead of {type(want)}"
    got, want = list(leaves(got)), list(leaves(want))
    assert [path for path, _ in got] == [path for path, _ in want], where
    for (path, a), (_, b) in zip(got, want):
        at = f"{where} {path}"
        if not isinstance(b, torch.Tensor):
            assert type(a) is type(b) and a == b, f"{at}: {a!r} instead of {b!r}"
            continue
        assert isinstance(a, torch.Tensor), f"{at}: {type(a)} instead of a tensor"
        assert (a.dtype, a.shape, a.device) == (b.dtype, b.shape, b.device), f"{at}: {a.dtype} {a.shape} {a.device}"
        assert a.requires_grad == b.requires_grad, f"{at}: requires_grad is {a.requires_grad}"
        if a.numel() == 0:
            continue
        if not b.dtype.is_floating_point:
            right = torch.equal(a, b) if rtol == 0.0 and atol == 0.0 else torch.allclose(a, b, rtol=rtol, atol=atol)
        else:  # what is no number in eager is to be none here
            right = torch.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
        if not right:
            off = (a.detach().cfloat() - b.detach().cfloat()).abs()
            pytest.fail(f"{at}: {int((off != 0).sum())} of {off.numel()} elements differ, by {off.max().item()} at most")


def is_close(door, got, want, where=""):
    same(got, want, door.rtol, door.atol, where)


def as_call(made):
    """make() gives a tuple of arguments, or (tuple, dict)."""
    if len(made) == 2 and isinstance(made[0], tuple) and isinstance(made[1], dict):
        return made
    return made, {}


def agree(door, fn, eager, make, calls=CALLS, graphs=True, tolerance=None):
    """fn(*make(i)) is eager(*make(i)), with what either does to its arguments; graphs: some calls are replays.
    Returns the outputs of fn."""
    rtol, atol = (door.rtol, door.atol) if tolerance is None else (tolerance, tolerance)
    got, want, touched = [], [], []
    with graphs_used() if graphs else contextlib.nullcontext():
        for i in range(calls):
            args, kwargs = as_call(make(i))
            their_args, their_kwargs = as_call(make(i))
            got.append(fn(*args, **kwargs))
            want.append(eager(*their_args, **their_kwargs))
            touched.append((snapshot([args, kwargs]), snapshot([their_args, their_kwargs])))
            del args, kwargs, their_args, their_kwargs
        for i in range(calls):
            same(got[i], want[i], rtol, atol, f"call {i},")
            for (path, a), (_, b) in zip(*touched[i]):
                same([a], [b], rtol, atol, f"call {i}, arguments after it, {path}")
    return got


def share_storage(a, b):
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def same_state(door, got, want):
    """Parameters and buffers of two modules."""
    got, want = got.state_dict(), want.state_dict()
    assert list(got) == list(want)
    for name in want:
        same([got[name]], [want[name]], door.rtol, door.atol, name)


def same_gradients(door, got, want, tolerance=0.0):
    for (name, a), (_, b) in zip(got.named_parameters(), want.named_parameters()):
        assert (a.grad is None) == (b.grad is None), f"{name}: only one of the two has a gradient"
        if b.grad is not None:
            same([a.grad], [b.grad], max(door.rtol, tolerance), max(door.atol, tolerance), f"gradient of {name}")
