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
