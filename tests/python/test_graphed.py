"""rondo.torch.graphed by itself: how it is called, what cannot be a graph, what it says."""
import copy

import pytest
from torch_helpers import *  # noqa: F403

pytestmark = needs_gpu


# ---------------------------------------------------------------- ways to make one
def test_as_a_decorator_without_and_with_arguments():
    @rondo.torch.graphed
    def plain(x):
        return x * 2

    @rondo.torch.graphed(policy="always", name="decorated")
    def named(x):
        """What it says."""
        return x * 3

    assert (plain.__name__, named.__name__, named.__doc__) == ("plain", "named", "What it says.")
    agree(Graphed(), plain, lambda x: x * 2, lambda i: (randn(8, seed=i),), graphs=False)
    agree(Graphed(), named, lambda x: x * 3, lambda i: (randn(8, seed=i),))
    assert any("decorated" in region["name"] for region in regions())


def test_a_decorated_method():
    class Holder:
        def __init__(self, factor):
            self.factor = factor

        @rondo.torch.graphed(policy="always")
        def scale(self, x):
            return x * self.factor

    two, three = Holder(2.0), Holder(3.0)
    for i in range(CALLS):
        x = randn(8, seed=i)
        assert torch.equal(two.scale(x), x * 2) and torch.equal(three.scale(x), x * 3), f"call {i}"


def test_sample_arguments_prepare_it_and_change_nothing():
    class Counts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(8, device=DEVICE)

        def forward(self, x, *, scale=None):
            y = self.norm(x)
            return y if scale is None else y * scale

    model, eager = Counts(), Counts()
    torch.manual_seed(5)
    want = torch.rand(4, device=DEVICE)
    torch.manual_seed(5)
    sample, scale = randn(4, 8), randn(8, seed=2)
    before = snapshot([sample, scale])
    f = rondo.torch.graphed(model, (sample,), {"scale": scale}, policy="always")
    assert torch.equal(torch.rand(4, device=DEVICE), want), "making it drew random numbers"
    same_state(Graphed(), model, eager)
    for (_, a), (_, b) in zip(before, snapshot([sample, scale])):
        assert torch.equal(a, b)
    with torch.no_grad():
        agree(Graphed(), f, eager, lambda i: ((randn(4, 8, seed=i),), {"scale": randn(8, seed=i + 9)}))
    same_state(Graphed(), model, eager)


def test_a_graphed_module_behaves_as_the_module():
    model = mlp()
    f = rondo.torch.graphed(model, policy="always")
    assert f.module is model
    assert [p.data_ptr() for p in f.parameters()] == [p.data_ptr() for p in model.parameters()]
    assert list(f.state_dict()) == list(model.state_dict())
    assert f.training
    f.eval()
    assert not model.training and not f.training
    f.train()
    assert model.training
    assert f[0] is model[0] if hasattr(type(f), "__getitem__") else True
    torch.optim.SGD(f.parameters(), lr=0.1)


def test_compiled_inside():
    def use(x, w):
        return torch.nn.functional.gelu(x @ w) * 2

    f = rondo.torch.graphed(use, policy="always", compile=True)
    agree(Backend(), f, use, lambda i: (randn(16, 16, seed=i), randn(16, 16, seed=i + 9)))


def test_a_compiled_function_graphed_from_outside():
    def use(x):
        return torch.softmax(x * 2, -1)

    f = rondo.torch.graphed(torch.compile(use), policy="always")
    agree(Backend(), f, use, lambda i: (randn(16, 16, seed=i),))


def test_one_graphed_function_inside_another():
    inner = rondo.torch.graphed(lambda x: torch.relu(x) + 1, policy="always")
    outer = rondo.torch.graphed(lambda x: inner(inner(x)) * 2, policy="always")

    def eager(x):
        return (torch.relu(torch.relu(x) + 1) + 1) * 2

    agree(Graphed(), outer, eager, lambda i: (randn(16, seed=i),))
    agree(Graphed(), inner, lambda x: torch.relu(x) + 1, lambda i: (randn(16, seed=i),))


def test_a_graphed_part_of_a_module_that_is_called_as_before():
    model, eager = torch.nn.Sequential(mlp(), torch.nn.ReLU()), torch.nn.Sequential(mlp(), torch.nn.ReLU())
    model[0].forward = rondo.torch.graphed(model[0].forward, policy="always")
    with torch.no_grad():
        agree(Graphed(), model, eager, lambda i: (randn(4, 32, seed=i),))


@pytest.mark.parametrize("wrong", [{"policy": "sometimes"}, {"proof": "maybe"}, {"most_recordings": -1}])
def test_options_that_are_none_are_refused_where_they_are_given(wrong):
    with pytest.raises(ValueError):
        rondo.torch.graphed(lambda x: x, **wrong)(randn(4))


# ---------------------------------------------------------------- what cannot be a graph
def refused(fn, eager, make, *words, calls=CALLS):
    """Right at each call, no replay, and one of the words in what the report and explain() say."""
    f = rondo.torch.graphed(fn, policy="always")
    before = sum(graph_calls().values())
    agree(Graphed(), f, eager, make, calls=calls, graphs=False)
    assert sum(graph_calls().values()) == before
    said = reasons() + str(rondo.torch.explain(f)).lower()
    assert any(word in said for word in words), said


def test_a_function_that_waits_for_the_gpu_runs_plainly_and_says_so():
    def waits(x):
        return x * x.sum().item()

    refused(waits, waits, lambda i: (randn(8, seed=i),), "synchron", "item", "captur")


def test_the_line_that_waits_is_named():
    def waits(x):
        y = x * 2
        return y if y.sum() > 0 else -y  # the condition looks at a result

    f = rondo.torch.graphed(waits, policy="always")
    agree(Graphed(), f, waits, lambda i: (randn(8, seed=i),), graphs=False)
    said = str(rondo.torch.explain(f))
    line = waits.__code__.co_firstlineno + 2
    assert f"test_graphed.py:{line}" in said, said


def test_a_shape_that_depends_on_the_data_runs_plainly():
    def positive(x):
        return x[x > 0], torch.nonzero(x > 1)

    refused(positive, positive, lambda i: (randn(64, seed=i),), "nonzero", "synchron", "captur", "shape")


def test_a_copy_to_the_host_is_right():
    def both(x):
        return x * 2, (x + 1).cpu()

    agree(Graphed(), rondo.torch.graphed(both, policy="always"), both, lambda i: (randn(8, seed=i),), graphs=False)


def test_data_from_the_host_made_inside_is_right():
    def use(x, numbers):
        return x + torch.tensor(numbers, device=x.device)

    agree(Graphed(), rondo.torch.graphed(use, policy="always"), use,
          lambda i: (randn(3, seed=i), [float(i % 3), 2.0, 3.0]), calls=30, graphs=False)


class Own(Exception):
    pass


def test_an_exception_of_the_function_comes_out_as_itself():
    def picky(x, flag):
        if flag:
            raise Own("not today")
        return x * 2

    f = rondo.torch.graphed(picky, policy="always")
    with graphs_used():
        for i in range(30):
            x = randn(8, seed=i)
            if i % 5 == 2:
                with pytest.raises(Own, match="not today"):
                    f(x, True)
            else:
                assert torch.equal(f(x, False), x * 2), f"call {i}"


def test_an_error_of_torch_comes_out_as_in_eager():
    f = rondo.torch.graphed(lambda x, y: x @ y, policy="always")
    for i in range(30):
        x = randn(4, 8, seed=i)
        if i % 4 == 1:
            with pytest.raises(RuntimeError, match="cannot be multiplied"):
                f(x, randn(4, 8))
        else:
            assert torch.equal(f(x, randn(8, 4, seed=i)), x @ randn(8, 4, seed=i)), f"call {i}"


def test_a_function_that_fails_only_while_it_is_captured():
    def shy(x):
        if torch.cuda.is_current_stream_capturing():
            raise Own("not in a capture")
        return x * 2

    refused(shy, lambda x: x * 2, lambda i: (randn(8, seed=i),), "own", "not in a capture")


def test_a_function_that_allocates_much():
    def large(x):
        total = x.sum()
        for k in range(4):
            total = total + (x.expand(64, -1) * k).exp().sum()  # 64 MiB each
        return total, x * 2

    f = rondo.torch.graphed(large, policy="always", most_bytes=64 << 20)
    agree(Graphed(), f, large, lambda i: (randn(1 << 18, seed=i) / 8,), graphs=False)
    del f
    torch.cuda.empty_cache()
    f = rondo.torch.graphed(large, policy="always", most_bytes=4 << 30)
    agree(Graphed(), f, large, lambda i: (randn(1 << 18, seed=i) / 8,), graphs=False)


def test_out_of_memory_comes_out_and_later_calls_are_right():
    f = rondo.torch.graphed(lambda x, n: torch.zeros(n, device=x.device)[:4] + x, policy="always")
    for i in range(20):
        x = randn(4, seed=i)
        if i == 8:
            with pytest.raises(torch.cuda.OutOfMemoryError):
                f(x, 1 << 45)
        else:
            assert torch.equal(f(x, 1024), x), f"call {i}"


def test_side_effects_of_python_happen_in_plain_calls_and_not_in_replays():
    """Documented: what the function does besides its result is done when it is called, not when it is replayed."""
    class Notes(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            return x * 2

    model = Notes()
    f = rondo.torch.graphed(model, policy="always")
    agree(Graphed(), f, lambda x: x * 2, lambda i: (randn(8, seed=i),), calls=40)
    assert 1 <= model.calls < 20
    never = rondo.torch.graphed(Notes(), policy="never")
    agree(Graphed(), never, lambda x: x * 2, lambda i: (randn(8, seed=i),), calls=40, graphs=False)
    assert never.module.calls == 40


# ---------------------------------------------------------------- what it says, and what bounds it
def test_policy_never_replays_nothing():
    f = rondo.torch.graphed(lambda x: x * 2, policy="never")
    before = sum(graph_calls().values())
    agree(Graphed(), f, lambda x: x * 2, lambda i: (randn(8, seed=i),), graphs=False)
    assert sum(graph_calls().values()) == before


def test_auto_decides_with_figures_of_both_ways():
    def launches(x):
        for _ in range(20):
            x = x * 0.5 + 1
        return x

    f = rondo.torch.graphed(launches, policy="auto", name="decides")
    agree(Graphed(), f, launches, lambda i: (randn(256, seed=i),), calls=1500, graphs=False)
    decided = [r for region in regions() if "decides" in region["name"] for r in region["recordings"]
               if r["state"] == "decided"]
    assert decided, rondo._core.report_text()
    assert {a["name"] for a in decided[0]["alternatives"]} >= {"plain", "graph"}
    said = str(rondo.torch.explain(f))
    assert decided[0]["choice"] in said and "us" in said


def test_reports_name_the_region_and_can_be_printed():
    f = rondo.torch.graphed(lambda x: x * 2, policy="always", name="a name of its own")
    for i in range(CALLS):
        f(randn(8, seed=i))
    assert "a name of its own" in str(rondo.torch.report())
    assert "a name of its own" in str(rondo.torch.explain(f))


def test_recordings_are_bounded_by_number():
    f = rondo.torch.graphed(lambda x: torch.relu(x) + 1, policy="always", most_recordings=3, name="bounded")
    for i in range(90):
        x = randn(16 * (1 + i % 9), seed=i)
        assert torch.equal(f(x), torch.relu(x) + 1)
    assert len(executables()) <= 3


def test_work_that_is_not_the_same_from_run_to_run_is_right_with_a_tolerance():
    def scatter(x, index):
        return torch.zeros(4, device=x.device).index_add_(0, index, x)  # atomic additions in any order

    f = rondo.torch.graphed(scatter, policy="always", proof="tolerance", tolerance=1e-4)
    agree(Graphed(), f, scatter, lambda i: (randn(1 << 12, seed=i), randn(1 << 12, seed=i, dtype=torch.int64) % 4),
          tolerance=1e-3)


def test_a_deep_copy_of_the_callable_is_independent_or_refused_clearly():
    f = rondo.torch.graphed(mlp(), policy="always")
    with torch.no_grad():
        for i in range(CALLS):
            f(randn(4, 32, seed=i))
        try:
            g = copy.deepcopy(f)
        except (TypeError, rondo._core.Error) as error:
            assert "rondo" in str(error).lower() or "copy" in str(error).lower(), str(error)
            return
        for p in g.parameters():
            p.zero_()
        for i in range(CALLS):
            x = randn(4, 32, seed=i)
            assert torch.equal(f(x), f.module(x)) and not g(x).any(), f"call {i}"


def test_hundreds_of_callables():
    keep = [rondo.torch.graphed(lambda x, k=k: x * k, policy="always", name=f"many {k}") for k in range(100)]
    for i in range(5):
        x = randn(8, seed=i)
        for k, f in enumerate(keep):
            assert torch.equal(f(x), x * k)
