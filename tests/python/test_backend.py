"""torch.compile(backend="rondo") by itself: how it is reached, caches, dynamic shapes, graph breaks, options."""
import json
import subprocess
import sys
import textwrap

import pytest
from torch_helpers import *  # noqa: F403

pytestmark = needs_gpu

DOOR = Backend()


def compiled(target, policy="always", **options):
    return torch.compile(target, backend="rondo", options={"policy": policy, **options})


def other_process(code, **environment):
    """What `code` prints last, as JSON."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=300,
                          env={**os.environ, **environment})
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


# ---------------------------------------------------------------- reached by name, from any process
@needs_entry_point
def test_the_name_is_registered_without_an_import():
    said = other_process("""
        import json, sys, torch
        names = torch._dynamo.list_backends(exclude_tags=())
        early = "rondo" in sys.modules
        f = torch.compile(lambda x: x * 2, backend="rondo")
        y = f(torch.ones(4, device="cuda"))
        print(json.dumps({"names": names, "early": early, "right": y.tolist() == [2.0] * 4}))
    """)
    assert "rondo" in said["names"] and not said["early"] and said["right"]


PROGRAM = """
    import json, torch
    from torch._dynamo.utils import counters
    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.GELU(), torch.nn.Linear(32, 8)).cuda()
    with torch.no_grad():
        for k, p in enumerate(model.parameters()):
            p.copy_(torch.linspace(-1, 1, p.numel(), device="cuda").view_as(p) / (k + 2))
    f = torch.compile(model, backend="rondo", options={"policy": "always"})
    right, kept = True, []
    for i in range(14):
        x = torch.linspace(-1, 1, 8 * 32, device="cuda").view(8, 32) * (i + 1)
        MODE
    import rondo._core
    regions = json.loads(rondo._core.report_json())["regions"]
    print(json.dumps({"right": right, "replays": sum(r["replays"] for r in regions), "regions": len(regions),
                      "fx": counters["inductor"]["fxgraph_cache_hit"],
                      "aot": counters["aot_autograd"]["autograd_cache_hit"]}))
"""
INFERENCE = """with torch.no_grad():
            kept.append((f(x), model(x)))
            right = all(torch.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in kept)"""
TRAINING = """grads = []
        for run in (f, model):
            model.zero_grad()
            run(x).square().mean().backward()
            grads.append([p.grad for p in model.parameters()])
        right = right and all(torch.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in zip(*grads))"""


@pytest.mark.parametrize("mode", [INFERENCE, TRAINING], ids=["inference", "training"])
def test_a_second_process_with_warm_caches_still_uses_graphs(tmp_path, mode):
    environment = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path), "TORCHINDUCTOR_FX_GRAPH_CACHE": "1",
                   "TORCHINDUCTOR_AUTOGRAD_CACHE": "1"}
    first = other_process(PROGRAM.replace("MODE", mode), **environment)
    second = other_process(PROGRAM.replace("MODE", mode), **environment)
    assert first["right"] and first["replays"] > 0
    assert second["fx"] + second["aot"] > 0, f"the caches were not used: {second}"
    assert second["right"] and second["replays"] >= first["replays"]


def test_caches_shared_with_inductor_do_not_mix_the_two_up(tmp_path):
    """The same model by inductor first, then by rondo, and the other way round, on one cache."""
    environment = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    ours = PROGRAM.replace("MODE", INFERENCE)
    theirs = ours.replace('backend="rondo", options={"policy": "always"}', 'backend="inductor"')
    for code, graphs in ((theirs, False), (ours, True), (theirs, False)):
        said = other_process(code, **environment)
        assert said["right"] and (said["replays"] > 0) == graphs, said


@pytest.mark.parametrize("mode", ["never", "always"])
def test_the_environment_overrides_the_policy(tmp_path, mode):
    code = PROGRAM.replace("MODE", INFERENCE).replace('"always"', '"auto"')
    said = other_process(code, RONDO_REPLAY=mode, TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
    assert said["right"] and (said["replays"] > 0) == (mode == "always"), said


# ---------------------------------------------------------------- options
@pytest.mark.parametrize("wrong", [{"policy": "sometimes"}, {"no_such_option": 1}, {"most_recordings": -1}])
def test_options_that_are_none_are_refused(wrong):
    with pytest.raises(Exception) as error:
        torch.compile(lambda x: x + 1, backend="rondo", options=wrong)(randn(4))
    assert next(iter(wrong)) in str(error.value) or str(next(iter(wrong.values()))) in str(error.value)


def test_without_options_it_is_right():
    agree(DOOR, torch.compile(torch.sin, backend="rondo"), torch.sin, lambda i: (randn(16, seed=i),), graphs=False)


def test_policy_never_replays_nothing():
    before = sum(graph_calls().values())
    agree(DOOR, compiled(torch.sin, "never"), torch.sin, lambda i: (randn(16, seed=i),), graphs=False)
    assert sum(graph_calls().values()) == before


def test_fullgraph_and_a_bound_on_recordings():
    def use(x):
        return torch.softmax(x, -1)

    f = torch.compile(use, backend="rondo", fullgraph=True, dynamic=True,
                      options={"policy": "always", "most_recordings": 4})
    agree(DOOR, f, use, lambda i: (randn(3, 8 + i % 10, seed=i),), calls=100, graphs=False)
    assert len(executables()) <= 4


# ---------------------------------------------------------------- shapes
@pytest.mark.parametrize("dynamic", [None, True, False])
def test_sizes_in_turns(dynamic):
    def use(x, w):
        return torch.relu(x @ w), x.shape[0]

    sizes = [4, 9, 16, 33]
    f = torch.compile(use, backend="rondo", dynamic=dynamic, options={"policy": "always"})
    agree(DOOR, f, use, lambda i: (randn(sizes[i % 4], 16, seed=i), randn(16, 8, seed=i + 9)), calls=32)


def test_dynamic_sizes_in_training():
    mine, eager = mlp(), mlp()
    f = torch.compile(mine, backend="rondo", dynamic=True, options={"policy": "always"})
    with graphs_used():
        for i in range(40):
            mine.zero_grad()
            eager.zero_grad()
            f(randn(2 + i % 5, 32, seed=i)).square().mean().backward()
            eager(randn(2 + i % 5, 32, seed=i)).square().mean().backward()
            same_gradients(DOOR, mine, eager)


# ---------------------------------------------------------------- parts that are no graph
def test_a_graph_break_leaves_graphs_on_both_sides():
    def broken(x):
        y = torch.relu(x) + 1
        torch._dynamo.graph_break()
        return y * 2

    agree(DOOR, compiled(broken), broken, lambda i: (randn(16, seed=i),))


def test_item_between_two_parts():
    def waits(x):
        y = x * 2 + 1
        return y * y.sum().item()

    agree(DOOR, compiled(waits), waits, lambda i: (randn(16, seed=i),), graphs=False, tolerance=1e-3)


def test_a_cpu_part_in_the_middle_is_plain_and_said():
    def mixed(x):
        y = torch.relu(x @ x) + 1
        host = torch.sin(y.cpu())
        z = host.to(x.device) @ y
        return torch.tanh(z) * 2

    f = compiled(mixed)
    agree(DOOR, f, mixed, lambda i: (randn(16, 16, seed=i) / 4,), calls=20, tolerance=1e-3)
    assert "cpu" in str(rondo.torch.explain(f)).lower()


def test_a_data_dependent_shape():
    def positive(x):
        y = x * 2
        return y[y > 0].sum() + y.sum()

    agree(DOOR, compiled(positive), positive, lambda i: (randn(64, seed=i),), graphs=False, tolerance=1e-3)


SEEN = []  # whether the op was called inside a capture


@torch.library.custom_op("rondo_test::looks", mutates_args=(), tags=(torch.Tag.cudagraph_unsafe,))
def looks(x: torch.Tensor) -> torch.Tensor:
    SEEN.append(torch.cuda.is_current_stream_capturing())
    return x + x.sum().item()


@looks.register_fake
def _(x):
    return torch.empty_like(x)


def test_an_op_marked_unsafe_for_graphs_is_not_captured():
    SEEN.clear()

    def use(x):
        return torch.ops.rondo_test.looks(torch.relu(x) * 2) * 3

    agree(DOOR, compiled(use), use, lambda i: (randn(16, seed=i),), calls=20, graphs=False, tolerance=1e-3)
    assert SEEN and not any(SEEN)


def test_cond_inside():
    def choose(x):
        return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))

    agree(DOOR, compiled(choose), choose, lambda i: (randn(16, seed=i),), graphs=False)


def test_an_exception_of_the_model_comes_out_and_later_calls_are_right():
    def picky(x, flag):
        if flag:
            raise ValueError("not today")
        return x * 2

    f = compiled(picky)
    for i in range(30):
        x = randn(8, seed=i)
        if i % 5 == 2:
            with pytest.raises(ValueError, match="not today"):
                f(x, True)
        else:
            is_close(DOOR, f(x, False), x * 2, f"call {i}")


# ---------------------------------------------------------------- what Dynamo promises is kept
def test_python_side_effects_happen_at_each_call():
    class Notes(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.calls, self.scale, self.last = 0, 2.0, None

        def forward(self, x):
            self.calls += 1
            y = x * self.scale
            self.last = y
            return y + 1

    model = Notes()
    f = compiled(model)
    for i in range(40):
        if i == 20:
            model.scale = 5.0  # guarded: compiled anew
        x = randn(8, seed=i)
        y = f(x)
        is_close(DOOR, y, x * model.scale + 1, f"call {i}")
        is_close(DOOR, model.last, x * model.scale, f"attribute after call {i}")
    assert model.calls == 40


def test_two_backends_side_by_side():
    def use(x):
        return torch.softmax(x, -1) * 2

    ours = compiled(use)
    theirs = torch.compile(lambda x: use(x), backend="inductor")
    before = torch._inductor.config.triton.cudagraphs
    for i in range(CALLS):
        x = randn(8, 8, seed=i)
        is_close(DOOR, [ours(x), theirs(x)], [use(x), use(x)], f"call {i}")
    assert torch._inductor.config.triton.cudagraphs == before


def test_built_in_graph_mode_beside_it():
    def use(x):
        return torch.softmax(x, -1) * 2

    ours = compiled(use)
    theirs = torch.compile(lambda x: use(x), mode="reduce-overhead")
    for i in range(CALLS):
        x = randn(8, 8, seed=i)
        torch.compiler.cudagraph_mark_step_begin()
        is_close(DOOR, [ours(x), theirs(x).clone()], [use(x), use(x)], f"call {i}")


def test_nothing_is_left_changed_in_inductors_configuration():
    import torch._functorch.config as functorch_config
    import torch._inductor.config as inductor_config

    def settings():
        return (inductor_config.triton.cudagraphs, inductor_config.graph_partition,
                functorch_config.enable_autograd_cache, torch._inductor.utils.
                _unstable_customized_partition_wrapper.wrapper)

    before = settings()
    f = compiled(mlp())
    for i in range(4):
        f(randn(4, 32, seed=i)).sum().backward()
    assert settings() == before


def test_numbers_are_those_of_inductor_bit_for_bit():
    model = mlp(layers=3)
    ours, theirs = compiled(model), torch.compile(model, backend="inductor")
    with torch.no_grad(), graphs_used():
        kept = [(ours(randn(8, 32, seed=i)), theirs(randn(8, 32, seed=i))) for i in range(20)]
    for i, (a, b) in enumerate(kept):
        assert torch.equal(a, b), f"call {i}"


def test_gradients_are_those_of_inductor_bit_for_bit():
    a, b = mlp(layers=3), mlp(layers=3)
    ours, theirs = compiled(a), torch.compile(b, backend="inductor")
    with graphs_used():
        for i in range(20):
            a.zero_grad()
            b.zero_grad()
            ours(randn(8, 32, seed=i)).square().sum().backward()
            theirs(randn(8, 32, seed=i)).square().sum().backward()
            for p, q in zip(a.parameters(), b.parameters()):
                assert torch.equal(p.grad, q.grad), f"call {i}"


def test_explain_names_each_region_and_its_decision():
    f = compiled(mlp())
    with torch.no_grad():
        for i in range(CALLS):
            f(randn(4, 32, seed=i))
    said = str(rondo.torch.explain(f))
    assert "graph" in said and len(said.splitlines()) >= 1
    assert said.strip()
