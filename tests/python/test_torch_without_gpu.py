"""What a machine without a GPU, or without torch, gets: plain calls, or an error that says what to do."""
import subprocess
import sys
import textwrap

import pytest
from torch_helpers import *  # noqa: F403


def run(code, **environment):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=300,
                          env={**os.environ, **environment})
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout.strip()


NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}


def test_rondo_does_not_import_torch():
    assert run("import rondo, sys; print('torch' in sys.modules)") == "False"


def test_rondo_torch_without_torch_says_what_to_install():
    said = run("""
        import sys
        sys.modules["torch"] = None
        try:
            import rondo.torch
        except ImportError as error:
            print(error)
    """)
    assert "torch" in said and "install" in said.lower()


def test_importing_without_a_gpu_works_and_available_says_why_not():
    said = run("""
        import rondo._core, rondo.torch
        print(rondo._core.available())
    """, **NO_GPU, RONDO_LIBCUDA="/nowhere/libcuda.so.1")
    assert "libcuda" in said or "CUDA" in said


def test_a_region_without_a_gpu_is_an_error_that_says_what_to_do():
    said = run("""
        import rondo._core as core
        try:
            core.Region("none")
        except core.UnavailableError as error:
            assert isinstance(error, RuntimeError) and isinstance(error, core.Error)
            print(error)
    """, **NO_GPU, RONDO_LIBCUDA="/nowhere/libcuda.so.1")
    assert "CUDA is not available" in said and "RONDO_LIBCUDA" in said


def test_graphed_on_cpu_tensors_runs_plainly():
    assert run("""
        import torch, rondo.torch
        calls = []

        @rondo.torch.graphed
        def f(x, *, scale=2):
            calls.append(1)
            return {"y": x * scale, "n": 3}

        model = torch.nn.Linear(4, 4)
        g = rondo.torch.graphed(model)
        for i in range(20):
            x = torch.full((2, 4), float(i))
            assert torch.equal(f(x, scale=3)["y"], x * 3)
            assert torch.equal(g(x), model(x))
            g(x).sum().backward()
        assert len(calls) == 20
        assert model.weight.grad is not None
        print("right")
    """, **NO_GPU) == "right"


def test_explain_says_why_a_graphed_function_is_plain():
    said = run("""
        import torch, rondo.torch
        f = rondo.torch.graphed(lambda x: x * 2)
        f(torch.ones(4))
        print(rondo.torch.explain(f))
    """, **NO_GPU)
    assert "skip: nothing of it is on a GPU" in said and "remedy: there is no work on a GPU in it" in said


def test_graphed_with_samples_on_the_cpu():
    assert run("""
        import torch, rondo.torch
        f = rondo.torch.graphed(torch.nn.Linear(4, 2), (torch.ones(3, 4),))
        print(tuple(f(torch.ones(3, 4)).shape))
    """, **NO_GPU) == "(3, 2)"


def test_samples_leave_running_statistics_and_random_numbers_alone():
    assert run("""
        import torch, rondo.torch
        model = torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5))
        torch.manual_seed(3)
        want = torch.rand(4)
        torch.manual_seed(3)
        rondo.torch.graphed(model, (torch.randn(8, 4, generator=torch.Generator()),))
        assert torch.equal(torch.rand(4), want), "random numbers were drawn"
        assert model[0].num_batches_tracked.item() == 0, "running statistics advanced"
        print("right")
    """, **NO_GPU) == "right"


def test_a_decorated_method_is_bound_to_its_object():
    assert run("""
        import torch, rondo.torch

        class Holder:
            def __init__(self, factor):
                self.factor = factor

            @rondo.torch.graphed
            def scale(self, x):
                return x * self.factor

        two, three = Holder(2.0), Holder(3.0)
        for i in range(4):
            x = torch.full((3,), float(i))
            assert torch.equal(two.scale(x), x * 2) and torch.equal(three.scale(x), x * 3)
        print("right")
    """, **NO_GPU) == "right"


@needs_entry_point
def test_the_backend_on_cpu_tensors_is_inductor():
    if not any(os.access(os.path.join(folder, "g++"), os.X_OK) for folder in os.environ["PATH"].split(os.pathsep)):
        pytest.skip("Inductor needs g++ for the CPU")
    assert run("""
        import torch
        f = torch.compile(lambda x: torch.relu(x) * 2 + 1, backend="rondo")
        for i in range(14):
            x = torch.linspace(-1, 1, 64) * i
            assert torch.allclose(f(x), torch.relu(x) * 2 + 1)
        print("right")
    """, **NO_GPU) == "right"


def test_reports_of_nothing_are_empty_and_printable():
    assert run("""
        import json, rondo._core, rondo.torch
        assert json.loads(rondo._core.report_json())["regions"] == []
        str(rondo.torch.report())
        assert isinstance(rondo.torch.memory(), dict)
        print("right")
    """, **NO_GPU) == "right"


@pytest.mark.parametrize("wrong", [{"policy": "sometimes"}, {"proof": "maybe"}])
def test_options_that_are_none_are_refused_when_the_callable_is_made(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong.values()))):
        rondo.torch.graphed(lambda x: x, **wrong)


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError):
        rondo.torch.graphed(3)


def test_transforms_and_dispatch_modes_see_the_work():
    code = """
import torch, rondo.torch
from torch.utils.flop_counter import FlopCounterMode
f = rondo.torch.graphed(lambda x: x @ x)
x = torch.randn(3, 4, 4)
assert torch.allclose(torch.vmap(f)(x), x @ x)
for _ in range(3):
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        f(x[0])
    assert counter.get_total_flops() == 2 * 4 ** 3
"""
    run(code)


# ---------------------------------------------------------------- what a signature holds
def signatures_of(f, *calls):
    for args in calls:
        f(*args)
    return len(f.signatures)


def test_values_that_are_equal_and_not_the_same_are_signatures_of_their_own():
    x, z = torch.ones(3), torch.ones(3, dtype=torch.complex64)

    class Foo(torch.Tensor):
        pass

    assert signatures_of(rondo.torch.graphed(lambda x, s: x / s), (x, 0.0), (x, -0.0)) == 2
    assert signatures_of(rondo.torch.graphed(lambda x, s: x * s), (x, 1), (x, True), (x, 1.0)) == 3
    assert signatures_of(rondo.torch.graphed(lambda x, s: x * s), *((x, float("nan")) for _ in range(4))) == 1
    assert signatures_of(rondo.torch.graphed(lambda x: x * 2), (z,), (z.conj(),)) == 2
    assert signatures_of(rondo.torch.graphed(lambda x: x * 2), (x,), (z.conj().imag.contiguous(),), (torch._neg_view(x),)) == 2
    assert signatures_of(rondo.torch.graphed(lambda x: x * 2), (x,), (x.as_subclass(Foo),)) == 2


def test_grad_mode_is_part_of_a_signature():
    f, x = rondo.torch.graphed(lambda x: x * 2), torch.ones(3)
    f(x)
    with torch.no_grad():
        f(x)
    assert len(f.signatures) == 2


def test_precision_set_by_the_new_names_is_no_error():
    assert run("""
        import torch, rondo.torch
        f, x = rondo.torch.graphed(lambda x: x * 2), torch.ones(3)
        for precision in ("tf32", "ieee"):
            torch.backends.cuda.matmul.fp32_precision = precision
            assert torch.equal(f(x), x * 2)
        print(len(f.signatures))
    """, **NO_GPU) == "2"


def test_results_that_are_more_than_their_memory_are_no_results_of_a_graph():
    from rondo.torch._capture import CannotCapture
    from rondo.torch._region import _Results

    class Foo(torch.Tensor):
        pass

    x, z = torch.ones(3), torch.ones(3, dtype=torch.complex64)
    for y in (z.conj(), (z * 2).conj(), torch._neg_view(x * 2), (x * 2).as_subclass(Foo)):
        with pytest.raises(CannotCapture, match="result 0"):
            _Results([x, z], [y], x.device)


def test_an_instance_with_a_decorated_method_is_freed_and_copied():
    import copy
    import weakref

    class Holder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(3, 3)

        @rondo.torch.graphed
        def twice(self, x):
            return self.inner(x) * 2

    holder, x = Holder(), torch.ones(3)
    holder.twice(x)
    assert holder.twice is holder.twice
    for other in (copy.deepcopy(holder), copy.copy(holder)):
        assert other.twice.fn.__self__ is other
    del other
    gone = weakref.ref(holder)
    del holder
    gc.collect()
    assert gone() is None


# ---------------------------------------------------------------- what is held, with the CPU taken for the GPU
class StandIn:
    """A frame whose capture is a call on copies."""

    def __init__(self, region, number, fn, static, mutated):
        self.fn, self.mutated = fn, mutated

    def prepare(self, inputs, flat):
        self.inputs = inputs

    def __call__(self, inputs):
        self.calls = getattr(self, "calls", 0) + 1
        return self.fn(inputs)

    def capture(self):
        copies = [x.detach().clone() for x in self.inputs]
        self.fn(copies)
        return copies


@pytest.fixture
def on_the_cpu(monkeypatch):
    import sys

    module = sys.modules["rondo.torch.graphed"]
    monkeypatch.setattr(sys.modules["rondo.torch._watch"], "GPU", "cpu")
    monkeypatch.setattr(module, "Frame", StandIn)
    monkeypatch.setattr(module.Graphed, "region_on", lambda self, device: None)


def only(f):
    (signature,) = f.signatures.values()
    return signature


class Cache(torch.nn.Module):
    """Two caches in one storage."""

    def __init__(self):
        super().__init__()
        both = torch.zeros(2, 4)
        self.keys, self.values = both[0], both[1]
        self.unused = both

    def forward(self, x):
        self.keys.add_(x)
        self.values.add_(x * 2)
        return self.keys + self.values


def test_written_tensors_that_share_a_storage_are_each_exchanged_in_a_capture(on_the_cpu):
    f = rondo.torch.graphed(Cache())
    x = torch.ones(4)
    with torch.no_grad():
        f(x)
        frame = only(f).frame
        assert len(frame.mutated) == 2
        copies = frame.capture()
    assert torch.equal(f.module.keys, x) and torch.equal(f.module.values, x * 2), "a capture worked on what is held"
    assert sorted(c[0].item() for c in copies[1:]) == [2.0, 4.0]


def test_what_is_written_beside_an_argument_is_refused(on_the_cpu):
    held = torch.zeros(2, 4)
    beside = [(held[1],)]  # in a tuple: nobody can put another tensor there
    f = rondo.torch.graphed(lambda x: beside[0][0].add_(x) + 1)
    with torch.no_grad():
        f(held[0])
    assert "it writes to memory" in only(f).plain


def test_a_module_that_was_replaced_is_noticed(on_the_cpu):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Sequential(torch.nn.Linear(4, 4)))
    f, x = rondo.torch.graphed(model), torch.randn(3, 4)
    with torch.no_grad():
        for change in (lambda: None, lambda: model.__setitem__(1, torch.nn.GELU()),
                       lambda: model.__setitem__(2, torch.nn.Sequential(torch.nn.Linear(4, 4))),
                       lambda: model[2].__setitem__(0, torch.nn.Linear(4, 4))):
            change()
            for _ in range(3):
                assert torch.equal(f(x), model(x))
            assert only(f).frame.calls == 2  # the first is plain
            assert {id(p) for p in model.parameters()} == {id(p) for p in only(f).frame.externals}


def test_a_module_that_a_function_finds_later_is_known(on_the_cpu):
    later = []
    f, x = rondo.torch.graphed(lambda x: later[0](x)), torch.ones(4)
    later.append(torch.nn.Dropout(0.5))
    with torch.no_grad():
        later[0].eval()
        f(x), f(x)
        later[0].train()
        f(x)
    assert len(f.signatures) == 2


def test_gradients_of_a_tensor_that_is_held_are_not_lost(on_the_cpu):
    w, x = torch.ones(4, requires_grad=True), torch.ones(4)
    f = rondo.torch.graphed(lambda x: x * w)
    with torch.no_grad():
        f(x), f(x)
    for i in range(3):
        f(x).sum().backward()
        assert torch.equal(w.grad, x * (i + 1))
    assert any("gradients go to a tensor" in why for why in f.skips)
