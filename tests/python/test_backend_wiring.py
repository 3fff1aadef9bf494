"""The backend "rondo" without a GPU: which ways through Inductor end in a region, and what explain() says.

mock_graphs.py tells what is mocked. Run: PYTHONPATH=python python -m pytest tests/python/test_backend_wiring.py
"""

import gc
import json
import logging
import os
import subprocess
import sys
import textwrap
import threading

import pytest

torch = pytest.importorskip("torch")

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.path.join(HERE, "..", "..", "python")
sys.path[:0] = [HERE, PYTHON]

import mock_graphs  # noqa: E402
import rondo.torch.backend as rondo_backend  # noqa: E402
from rondo.torch import _explain  # noqa: E402
from rondo.torch._explain import Skip  # noqa: E402
from torch._dynamo.exc import BackendCompilerFailed  # noqa: E402
from torch._inductor.utils import fresh_cache  # noqa: E402

backend = rondo_backend.backend
Options = rondo_backend.Options


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    rondo_backend._said.clear()
    mock_graphs.made.clear()
    with fresh_cache():
        yield
    torch._dynamo.reset()


def mock(monkeypatch, partitioned=lambda node: None):
    for name, module in mock_graphs.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    for target, name, value in mock_graphs.patches(partitioned):
        monkeypatch.setattr(target, name, value)


@pytest.fixture
def mocked(monkeypatch):
    mock(monkeypatch)


def extern(node):
    """Calls of libraries are taken for what cannot be captured."""
    from torch._inductor import ir

    return "CUDAGraph-unsafe custom ops" if isinstance(node.node, ir.ExternKernel) else None


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)
        self.register_buffer("steps", torch.zeros(8))

    def forward(self, x):
        self.steps.add_(1)
        y = torch.sigmoid(self.a(x)).sin()
        return torch.tanh(self.b(y)) + self.steps


def infos():
    return [region.info for region in mock_graphs.made]


# ---------------------------------------------------------------- options


@pytest.mark.parametrize(
    "options, words",
    [
        ({"polcy": "auto"}, "unknown option 'polcy'.*policy, proof, tolerance, most_recordings, most_bytes, report"),
        ({"policy": "sometimes"}, "policy.*'sometimes'.*\"auto\", \"always\" or \"never\""),
        ({"proof": True}, "proof.*expected \"auto\", \"exact\""),
        ({"tolerance": -1}, "tolerance.*at least 0"),
        ({"most_recordings": 0}, "most_recordings.*above 0"),
        ({"most_bytes": 1.5}, "most_bytes.*above 0"),
        ({"most_bytes": True}, "most_bytes.*above 0"),
        ({"report": 3}, "report.*path"),
        ({"inductor": "max_autotune"}, "inductor.*dict"),
    ],
)
def test_an_option_that_is_none_is_named_with_what_is_allowed(options, words):
    with pytest.raises(ValueError, match=words):
        Options.parse(options)
    with pytest.raises(BackendCompilerFailed, match=words):
        torch.compile(lambda x: x + 1, backend=backend, options=dict(options))(torch.ones(2))


def test_options_reach_the_region_and_the_library():
    options = Options.parse({"policy": "always", "proof": "tolerance", "tolerance": 1e-3, "most_bytes": 1 << 20})
    assert json.loads(options.json()) == {"policy": "always", "proof": "tolerance", "tolerance": 1e-3,
                                          "most_recordings": 64, "most_bytes": 1 << 20}


def test_a_mode_of_inductor_is_taken_without_its_graphs():
    assert rondo_backend._mode_patches("max-autotune") and not any(
        "cudagraph" in key for key in rondo_backend._mode_patches("max-autotune"))
    with pytest.raises(ValueError, match="unknown mode 'fast'.*reduce-overhead"):
        rondo_backend._mode_patches("fast")


# ---------------------------------------------------------------- plain


def test_without_a_gpu_it_is_plain_inductor_and_said_once(caplog):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    x = torch.randn(4, 8)
    with caplog.at_level(logging.WARNING, "rondo.torch"):
        for net in (Net(), Net()):
            compiled, steps = torch.compile(net, backend=backend), net.steps.clone()
            y = compiled(x)
            net.steps.copy_(steps)
            torch.testing.assert_close(y, net(x))
            torch._dynamo.reset()
    assert [r.message for r in caplog.records if "plain Inductor" in r.message] == [
        'backend="rondo" compiles with plain Inductor: CUDA is not available to torch '
        "(torch.cuda.is_available() is False)"
    ]
    assert "CUDA is not available" in str(rondo_backend.explain(compiled))


def test_rondo_replay_never_is_plain_inductor(monkeypatch):
    monkeypatch.setenv("RONDO_REPLAY", "never")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert rondo_backend._why_plain(Options()) == "RONDO_REPLAY=never"
    monkeypatch.delenv("RONDO_REPLAY")
    assert rondo_backend._why_plain(Options(policy="never")) == 'policy="never"'


def test_a_library_that_was_not_built_is_said_with_what_to_do(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setitem(sys.modules, "rondo._core", None)
    import rondo

    monkeypatch.delattr(rondo, "_core", raising=False)
    with pytest.raises(ImportError, match="needs rondo._core.*pip install"):
        rondo_backend._why_plain(Options())


def test_the_entry_point_needs_no_import(tmp_path):
    info = tmp_path / "rondo_entry-0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rondo-entry\nVersion: 0.0\n")
    (info / "entry_points.txt").write_text("[torch_dynamo_backends]\nrondo = rondo.torch.backend:rondo\n")
    out = run(tmp_path, """
        import torch
        net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU())
        compiled = torch.compile(net, backend="rondo")
        x = torch.randn(3, 4)
        torch.testing.assert_close(compiled(x), net(x))
        compiled(x).sum().backward()
        import sys
        print("rondo.torch.backend" in sys.modules)
    """, path=[str(tmp_path), PYTHON])
    assert out.splitlines()[-1] == "True"


# ---------------------------------------------------------------- cold


def test_forward_and_backward_become_one_region_each(mocked):
    net, plain = Net(), Net()
    plain.load_state_dict(net.state_dict())
    compiled = torch.compile(net, backend=backend, options={"policy": "always", "most_recordings": 3})
    x = torch.randn(4, 8)
    for _ in range(2):
        compiled(x).sum().backward()
        plain(x).sum().backward()
    for p, q in zip(net.parameters(), plain.parameters()):
        torch.testing.assert_close(p.grad, q.grad)
    torch.testing.assert_close(net.steps, plain.steps)
    forward, backward = mock_graphs.made
    assert [forward.calls, backward.calls] == [2, 2] and forward.cleared and backward.cleared
    assert forward.info.name.startswith("Net.forward forward ") and not forward.info.is_backward
    assert backward.info.name.startswith("Net.forward backward ") and backward.info.is_backward
    assert forward.options == backward.options == Options(policy="always", most_recordings=3)
    # Parameters and the buffer, not x; the buffer is written.
    names = [p.name for p in forward.info.placeholders]
    assert len(names) == 6 and len(forward.info.static_input_idxs) == 5
    assert len(forward.info.mutated_input_idxs) == 1
    assert forward.info.mutated_input_idxs[0] in forward.info.static_input_idxs


def test_of_what_a_backward_reads_only_the_parameters_are_static(mocked):
    compiled = torch.compile(Net(), backend=backend)
    compiled(torch.randn(4, 8, requires_grad=True)).sum().backward()
    forward, backward = infos()
    names = [p.name for p in backward.placeholders]
    static = {names[i] for i in backward.static_input_idxs}
    assert static and all(name.startswith("primals_") for name in static)
    assert {int(name.removeprefix("primals_")) - 1 for name in static} <= set(forward.static_input_idxs)
    saved = [name for name in names if not name.startswith(("primals_", "tangents_"))]
    assert saved, "nothing was saved: the test says nothing"


def test_memory_of_inputs_that_the_code_gives_away_is_called_written(mocked):
    compiled = torch.compile(lambda x, w: torch.sigmoid(x @ w).exp().sum(), backend=backend)
    compiled(torch.randn(8, 8), torch.randn(8, 8, requires_grad=True)).backward()
    backward = infos()[1]
    assert backward.is_backward and len(backward.mutated_input_idxs) == 1
    assert not backward.placeholders[backward.mutated_input_idxs[0]].name.startswith(("primals", "tangents"))


def test_the_first_backward_on_another_thread_is_wired(mocked):
    loss = torch.compile(Net(), backend=backend)(torch.randn(4, 8)).sum()
    assert len(mock_graphs.made) == 1
    seen = []
    thread = threading.Thread(target=lambda: (seen.append(rondo_backend._compiling.get()), loss.backward()))
    thread.start()
    thread.join()
    assert seen == [None] and [info.is_backward for info in infos()] == [False, True]


def test_dynamic_sizes_are_one_region(mocked):
    net = Net().eval()
    compiled = torch.compile(net, backend=backend, dynamic=True)
    with torch.no_grad():
        for size in (3, 5, 9):
            steps = net.steps.clone()
            y = compiled(x := torch.randn(size, 8))
            net.steps.copy_(steps)
            torch.testing.assert_close(y, net(x))
    assert [region.calls for region in mock_graphs.made] == [3]
    assert infos()[0].is_inference


def test_parts_are_regions_and_what_they_hand_on_is_written(monkeypatch):
    mock(monkeypatch, extern)
    net = Net()
    compiled = torch.compile(net, backend=backend)
    with torch.no_grad():
        y = compiled(x := torch.randn(4, 8))
        net.steps.sub_(1)
        torch.testing.assert_close(y, net(x))
    assert len(infos()) >= 2
    assert infos()[0].name.endswith(f" part 1/{len(infos())}")
    for info in infos():
        for i, placeholder in enumerate(info.placeholders):
            if placeholder.name.startswith("partition_"):
                assert i in info.mutated_input_idxs
    text = str(rondo_backend.explain(compiled))
    assert "skip: CUDAGraph-unsafe custom ops (aten.addmm.default)" in text
    assert "y = torch.sigmoid(self.a(x)).sin()" in text and "test_backend_wiring.py:" in text
    assert "outside of graphs: 1 launch a call" in text


def test_inductor_without_parts_is_one_region(mocked):
    compiled = torch.compile(Net(), backend=backend, options={"inductor": {"graph_partition": False}})
    with torch.no_grad():
        compiled(torch.randn(4, 8))
    assert len(infos()) == 1 and infos()[0].is_inference


def test_what_inductor_refuses_is_a_skip_with_remedy_and_the_backward_is_not_lost(mocked):
    from torch._inductor import config

    with config.patch(always_complex_memory_overlap_TESTING_ONLY=True):
        compiled = torch.compile(Net(), backend=backend)
        loss = compiled(torch.randn(4, 8)).sum()
    loss.backward()
    assert [info.is_backward for info in infos()] == [True]
    (skip,) = rondo_backend.explain(compiled).skips
    assert skip.reason == "complex memory overlap" and "contiguous" in skip.remedy


def test_a_fault_of_ours_leaves_the_compiled_code_and_is_said(mocked, monkeypatch):
    monkeypatch.setattr(mock_graphs.BoxedRegion, "__init__", lambda *a: (_ for _ in ()).throw(OSError("no device")))
    net = Net()
    compiled = torch.compile(net, backend=backend)
    with torch.no_grad():
        y = compiled(x := torch.randn(4, 8))
        net.steps.sub_(1)
        torch.testing.assert_close(y, net(x))
    assert rondo_backend.explain(compiled).skips[0].reason == "Rondo failed: OSError: no device"


def test_a_graph_break_is_said_with_its_line(mocked):
    def f(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    compiled = torch.compile(f, backend=backend)
    compiled(torch.ones(3))
    explained = rondo_backend.explain(compiled)
    assert explained.graphs == 2 and len(explained.regions) == 2
    (skip,) = explained.skips
    assert skip.reason.startswith("graph break") and "torch._dynamo.graph_break()" in skip.where


def test_records_keep_no_region_alive(mocked):
    compiled = torch.compile(lambda x: x.sin() + 1, backend=backend)
    compiled(torch.ones(3))
    assert len(rondo_backend.explain(compiled).regions) == 1
    mock_graphs.made.clear()
    torch._dynamo.reset()
    gc.collect()
    assert rondo_backend.explain(compiled).regions == []


# ---------------------------------------------------------------- others in the process


def test_reduce_overhead_of_the_same_process_is_as_it_was(mocked, monkeypatch):
    import torch._inductor.compile_fx as compile_fx

    trees = []

    def cudagraphify(model, *args, **kwargs):
        trees.append(kwargs["is_inference"])
        return model

    monkeypatch.setattr(compile_fx, "cudagraphify", cudagraphify)
    ours = torch.compile(lambda x: x.sin() + 1, backend=backend)
    theirs = torch.compile(lambda x: x.cos() + 1, mode="reduce-overhead")
    ours(torch.ones(3))
    assert (len(trees), len(infos())) == (0, 1)
    theirs(torch.ones(3))
    assert (len(trees), len(infos())) == (1, 1)
    ours(torch.ones(4))  # compiled again
    assert len(trees) == 1 and len(infos()) == 2
    assert rondo_backend._compiling.get() is None
    torch.compile(lambda x: x.tan() + 1)(torch.ones(3))
    assert len(trees) == 1 and len(infos()) == 2


def test_no_manager_of_cudagraph_trees_is_made(mocked):
    from torch._inductor import cudagraph_trees

    compiled = torch.compile(Net(), backend=backend)
    compiled(torch.randn(4, 8)).sum().backward()
    assert len(infos()) == 2
    assert not getattr(cudagraph_trees.local, "tree_manager_containers", {})


def test_a_partition_wrapper_of_someone_else_is_left_alone(mocked):
    from torch._inductor.utils import set_customized_partition_wrappers

    seen = []
    set_customized_partition_wrappers(lambda fn, metadata: seen.append(metadata) or fn)
    try:
        compiled = torch.compile(lambda x: x.sin() + 1, backend=backend)
        torch.testing.assert_close(compiled(torch.ones(3)), torch.ones(3).sin() + 1)
    finally:
        set_customized_partition_wrappers(None)
    assert len(seen) == 1 and infos() == []
    assert "vLLM" in str(rondo_backend.explain(compiled))


# What torch 2.12 is told to do with a CUDAGraphPolicy, done by hand here: that torch itself is not tested.
def test_a_policy_makes_the_same_regions(mocked, monkeypatch):
    from torch._inductor import cudagraph_utils
    from torch._inductor.output_code import CompiledFxGraph
    from torch._inductor.utils import BoxedBool

    monkeypatch.setattr(cudagraph_utils, "CUDAGraphPolicy", type("CUDAGraphPolicy", (), {}), raising=False)
    policy = rondo_backend._policy.__wrapped__()
    monkeypatch.setattr(rondo_backend, "_policy", lambda: None)  # this torch has no place for it
    original = CompiledFxGraph.post_compile
    original = getattr(original, "__wrapped__", original)

    def post_compile(self, example_inputs, constants, graph_kwargs):
        assert policy.should_wrap(self) is False
        original(self, example_inputs, constants, {**graph_kwargs, "cudagraphs": BoxedBool(False)})
        policy.wrap_output(self)

    post_compile.rondo = True
    monkeypatch.setattr(CompiledFxGraph, "post_compile", post_compile)
    compiled = torch.compile(Net(), backend=backend)
    compiled(torch.randn(4, 8)).sum().backward()
    assert [info.is_backward for info in infos()] == [False, True]


def test_a_torch_that_is_not_known_is_said(monkeypatch):
    from torch._inductor.output_code import CompiledFxGraph

    monkeypatch.setattr(CompiledFxGraph, "post_compile", lambda self, something_else: None)
    assert "is not known to this version of Rondo" in rondo_backend._install()


# ---------------------------------------------------------------- warm

_TWICE = """
    import json
    import mock_graphs
    import test_backend_wiring as t
    import torch
    mock_graphs.install({partitioned})
    torch.manual_seed(0)
    {setup}
    net, plain = t.Net(), t.Net()
    plain.load_state_dict(net.state_dict())
    compiled = torch.compile(net, backend=t.backend, options={{"policy": "always"}}, dynamic={dynamic})
    for size in (4, 6):
        x = torch.randn(size, 8)
        y = compiled(x)
        torch.testing.assert_close(y, plain(x))
        y.sum().backward()
    from torch._dynamo.utils import counters
    explained = t.rondo_backend.explain(compiled)
    print(json.dumps({{
        "regions": [[r.info.name, r.info.static_input_idxs, r.info.mutated_input_idxs, r.info.is_backward,
                     r.options.policy, len(r.info.placeholders)] for r in mock_graphs.made],
        "skips": [[s.reason, s.where, s.operation, s.kernels] for s in explained.skips],
        "loaded": explained.loaded, "graphs": explained.graphs,
        "aot_hit": counters["aot_autograd"]["autograd_cache_hit"], "fx_hit": counters["inductor"]["fxgraph_cache_hit"],
        "fx_miss": counters["inductor"]["fxgraph_cache_miss"],
    }}))
"""


def run(folder, code, path=(HERE, PYTHON), **env):
    out = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=300,
        env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": os.pathsep.join(path), **env},
    )
    assert out.returncode == 0, out.stderr
    return out.stdout


@pytest.mark.parametrize("partitioned, dynamic", [("lambda node: None", False), ("t.extern", True)])
def test_a_second_process_has_the_same_regions_from_the_cache(tmp_path, partitioned, dynamic):
    code = _TWICE.format(partitioned=partitioned, dynamic=dynamic, setup="")
    cold, warm = (json.loads(run(tmp_path, code).splitlines()[-1]) for _ in range(2))
    assert cold["regions"] and cold["regions"] == warm["regions"] and cold["skips"] == warm["skips"]
    assert any(region[3] for region in warm["regions"]), "there is a backward"
    assert cold["loaded"] == 0 and cold["aot_hit"] == 0 and cold["fx_miss"] > 0
    assert warm["aot_hit"] > 0 and warm["fx_miss"] == 0 and warm["loaded"] == warm["graphs"] == cold["graphs"]
    assert bool(warm["skips"]) == (partitioned == "t.extern")


def test_a_second_process_without_the_cache_of_autograd_loads_by_inner_compile(tmp_path):
    code = _TWICE.format(partitioned="t.extern", dynamic=False,
                         setup="torch._functorch.config.enable_autograd_cache = False")
    cold, warm = (json.loads(run(tmp_path, code).splitlines()[-1]) for _ in range(2))
    assert warm["aot_hit"] == 0 and warm["fx_hit"] > 0 and warm["fx_miss"] == 0
    assert cold["regions"] == warm["regions"] and cold["skips"] == warm["skips"] and warm["skips"]
    assert warm["loaded"] == warm["graphs"]


# ---------------------------------------------------------------- Inductor's code, read


def test_code_counts_what_is_outside_of_parts():
    text = textwrap.dedent('''
        kernel = async_compile.triton("k", """ def call(self, args): foo.run() """)

        def partition_0(args):
            buf0, arg0_1 = args
            args.clear()
            buf2 = buf0; del buf0  # reuse
            k.run(buf2, arg0_1, 8, stream=stream0)
            return (buf2, )

        async_compile.wait(globals())
        del async_compile

        class Runner:
            def __init__(self, partitions):
                self.partitions = partitions

            def call(self, args):
                s0, arg0_1, buf0 = args
                args.clear()
                s1 = arg0_1.size()[0]
                assert_size_stride(arg0_1, (8, ), (1, ))
                {outside}
                partition0_args = [buf0, arg0_1]
                (buf2, ) = self.partitions[0](partition0_args)
                return (reinterpret_tensor(buf2, (4, 2), (2, 1), 0), s0, )

        runner = Runner(partitions=[partition_0,])

        def get_args():
            return [rand_strided((8, ), (1, ))]
    ''')
    code = rondo_backend.Code(text.replace("{outside}", ""))
    assert code.outside == 0 and code.reused_inputs(3) == [2]
    assert rondo_backend.Code(text.replace("{outside}", "buf1 = torch.ops.aten.nonzero.default(arg0_1)")).outside == 1
    assert rondo_backend.Code(text.replace("{outside}", "while s0:\n            pass")).outside == 1


def test_code_that_is_not_understood_is_taken_for_the_worst():
    for text in ("", "def call(:", "def other(args): pass"):
        code = rondo_backend.Code(text)
        assert code.outside > 0 and code.reused_inputs(2) == [0, 1]


# ---------------------------------------------------------------- words

_REASONS = """\
graph with symbolic shapes inputs and config.triton.cudagraph_skip_dynamic_graphs=True.
disabling cudagraphs due to incompatible op aten._local_scalar_dense.default
disabling cudagraphs due to incompatible op aten._assert_scalar.default
disabling cudagraphs due to incompatible op run_and_save_rng_state
disabling cudagraphs due to incompatible op fbgemm.dense_to_jagged.default
disabling cudagraphs due to incompatible op aten._fused_moving_avg_obs_fq_helper.default
disabling cudagraphs due to incompatible op aten.scatter_add_.default
disabling cudagraphs due to incompatible op mine.op.default
index put with accumulate.
deterministic index put.
index_put_ fallback with boolean indexing is not compatible with CUDA graphs
control flow operator: torch.cond.
control flow operator: torch.while_loop.
sparsity not handled. Please file issue for sparse inference weights.
skipping cudagraphs due to cpu device (arg0_1)
skipping cudagraphs due to multiple devices: device(type='cuda', index=0), device(type='cuda', index=1)
cpp wrapper enabled
mutated inputs (3 instances)
complex memory overlap
non-Tensor inputs
bisector
exceeding max re-recording limit (=128) on cudagraph node 1 due to static input data pointer changed
custom partition op: mine::op
partition includes all ops when cudagraphs is disabled
cpu ops
DeviceCopy ops
Conditional ops
unbacked binding ops
CUDAGraph-unsafe custom ops
uses cudagraph-unsafe unbacked symint: u0
dynamic shape ops
nothing to capture: no part of the graph is work on the GPU alone
graph break: generic_jump TensorVariable()
""".splitlines()


@pytest.mark.parametrize("reason", _REASONS)
def test_every_reason_has_a_remedy(reason):
    assert not _explain.remedy(reason).startswith("none known")


def test_remedies_belong_to_their_reasons():
    def has(reason, words):
        assert words in _explain.remedy(reason), (reason, _explain.remedy(reason))

    has("deterministic index put.", "use_deterministic_algorithms(False)")
    has("index put with accumulate.", "torch.where(mask, value, x)")
    has("cpu device (arg0_1)", "device=x.device")
    has("uses cudagraph-unsafe unbacked symint: u0", "fixed size")
    has("disabling cudagraphs due to incompatible op aten._local_scalar_dense.default", ".item()")
    has("graph break: call of print", "fullgraph=True")
    has("nothing of it is on a GPU", "no work on a GPU")
    has("input 1 is on cpu, the work on cuda:0", "move the tensor to the GPU")
    has("it uses a tensor on cpu that is no argument", "move the tensor to the GPU")
    has("it writes to a tensor (8,) that is neither an argument nor held by the module", "buffer of the module")
    has("an argument is a Generator: tensors, containers of tensors and plain values are understood", "dictionaries")
    has("gradients go to parameters of a module that the function holds: give graphed() the module", "graphed(module)")
    assert _explain.remedy("something new").startswith("none known")


def test_a_reason_is_split_from_the_line_that_it_names():
    text = ("skipping cudagraphs due to skipping cudagraphs due to cpu device (arg0_1). Found from : \n"
            '   File "/home/me/net.py", line 12, in forward\n    y = x.cpu()\n')
    assert _explain.split_reason(text) == ("cpu device (arg0_1)", "/home/me/net.py:12, in forward: y = x.cpu()")
    assert _explain.split_reason("bisector") == ("bisector", "")


class Reported:
    def __init__(self, **report):
        self._report = report

    def report(self):
        return json.dumps({"rondo_replay_report": 1, "regions": [self._report]})


def made_up():
    return Reported(
        name="Net.forward inference abcd", policy="always", calls=1000, plain_calls=4, replays=996, failures=1,
        recaptures=0, recapture="", fallbacks=["out of memory while recording"],
        recordings=[{
            "signature": "in 4096 B, out 4096 B", "state": "decided", "choice": "graph", "reason": "graph is faster",
            "nodes": 10, "kernels": 9, "slots": 2, "copied_bytes_a_call": 2048, "device_bytes": 1 << 20,
            "remembered": True,
            "alternatives": [{"name": "plain", "latency_us": 0, "period_us": 50.0, "samples": 8},
                             {"name": "graph", "latency_us": 0, "period_us": 5.0, "samples": 8}],
        }],
    )


def test_an_explanation_prints_decisions_skips_and_gains():
    text = str(_explain.explain_regions("Net", [made_up()], [
        Skip("unbacked binding ops", "net.py:7, in forward: i = m.nonzero()", "aten.nonzero.default", kernels=4),
        Skip("unbacked binding ops", "net.py:7, in forward: i = m.nonzero()", "aten.nonzero.default", kernels=4),
    ]))
    assert text == textwrap.dedent(f"""\
        Net: 1 region, 2 skips
          region Net.forward inference abcd: 1,000 calls, 996 replayed (100 %), policy always, 1 failure
            in 4096 B, out 4096 B: decided, graph; plain 50.0 us, replayed 5.00 us a call (10.00 times as fast)
              graph is faster (decided by an earlier process)
              9 kernels, 2 slots, 2.0 KiB copied a call, 1.0 MiB on the device
            fallback: out of memory while recording
          skip: unbacked binding ops (aten.nonzero.default), in 2 graphs
            at net.py:7, in forward: i = m.nonzero()
            remedy: {_explain.remedy("unbacked binding ops")}
            outside of graphs: 4 launches a call; about 20.0 us a call to gain (estimate: a replay saves 5.00 us a kernel in the regions above)""")


def test_a_graphed_callable_is_explained_by_its_regions():
    class Graphed:
        rondo_regions = [made_up()]

    assert "region Net.forward inference abcd" in str(rondo_backend.explain(Graphed()))


def test_why_a_graphed_callable_and_its_regions_are_plain_is_explained():
    class Graphed:
        rondo_regions = [made_up()]
        rondo_skips = ["more than 256 signatures: those that come now are plain"]

    Graphed.rondo_regions[0].skips = ["input 1 is on cpu, the work on cuda:0"]
    explained = rondo_backend.explain(Graphed())
    assert [skip.reason for skip in explained.skips] == Graphed.rondo_skips + Graphed.rondo_regions[0].skips
    text = str(explained)
    assert "tensors without dimensions on the CPU" in text and "move the tensor to the GPU" in text


def test_what_is_not_ours_is_said():
    for fn in (len, torch.nn.Linear(2, 2), torch.compile(lambda x: x)):
        with pytest.raises(ValueError, match="neither a function of torch.compile"):
            rondo_backend.explain(fn)


def test_a_report_is_written_when_the_process_ends(tmp_path):
    code = """
        import mock_graphs, test_backend_wiring as t, torch
        mock_graphs.install()
        compiled = torch.compile(t.Net(), backend=t.backend, options={"report": "REPORT"})
        with torch.no_grad():
            compiled(torch.randn(4, 8))
    """
    run(tmp_path, code.replace("REPORT", str(tmp_path / "report.txt")))
    assert "region Net.forward inference" in (tmp_path / "report.txt").read_text()
