"""torch.compile(model, backend="rondo"): Inductor makes the kernels, Rondo the graphs.

Each graph that Dynamo finds is one call of backend(), and one Compilation here. It runs Inductor's compile_fx
with CUDA graphs asked for, so that the code is cut where something cannot be captured. All ways through
Inductor then end in CompiledFxGraph.post_compile, which never is part of what the caches keep:

    cold, forward    backend -> compile_fx -> AOTAutograd -> _inner -> compile_fx_inner -> post_compile
    cold, backward   the first backward, perhaps on a thread of autograd -> _inner -> ... -> post_compile
    warm, both       backend -> compile_fx -> AOTAutogradCache (inner_compile is not called) -> post_compile
    warm, one        as cold, with the code from FxGraphCache

There the Compilation of this context (backend and _inner set it) makes regions of what can be captured. With no
Compilation set, post_compile is Inductor's own: mode="reduce-overhead" of the same process is as it was. No
cudagraph tree is ever made for a graph of ours.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import functools
import inspect
import json
import logging
import os
import re
import sys
import tempfile
import threading
import weakref
from typing import Any, Callable, Iterator, Optional, Sequence

import torch

from rondo.torch import _explain
from rondo.torch._code import Code
from rondo.torch._explain import Skip

log = logging.getLogger("rondo.torch")


# ---------------------------------------------------------------- options


@dataclasses.dataclass(frozen=True)
class Options:
    """What torch.compile(backend="rondo", options={...}) takes."""

    policy: str = "auto"  # "auto", "always", "never"
    proof: str = "auto"  # "auto", "exact", "tolerance", "off"
    tolerance: float = 1e-5
    most_recordings: int = 64
    most_bytes: int = 256 << 20
    report: Any = False  # True: explained on stderr when the process ends; a path: into that file
    inductor: Any = None  # a dict: options of torch._inductor.config for this compilation

    @staticmethod
    def parse(options: Optional[dict[str, Any]]) -> "Options":
        allowed = [field.name for field in dataclasses.fields(Options)]
        unknown = [name for name in options or {} if name not in allowed]
        if unknown:
            raise ValueError(
                f"unknown option {', '.join(map(repr, unknown))} of backend=\"rondo\": it has {', '.join(allowed)}. "
                "Options of Inductor go into options={'inductor': {...}}"
            )
        parsed = Options(**(options or {}))
        parsed._check("policy", parsed.policy in ("auto", "always", "never"), '"auto", "always" or "never"')
        parsed._check("proof", parsed.proof in ("auto", "exact", "tolerance", "off"), '"auto", "exact", "tolerance" or "off"')
        parsed._check("tolerance", _number(parsed.tolerance) and parsed.tolerance >= 0, "a number of at least 0")
        for name in ("most_recordings", "most_bytes"):
            value = getattr(parsed, name)
            parsed._check(name, isinstance(value, int) and _number(value) and value > 0, "a whole number above 0")
        parsed._check("report", isinstance(parsed.report, (bool, str, os.PathLike)), "True, False or a path")
        parsed._check("inductor", parsed.inductor is None or isinstance(parsed.inductor, dict), "a dict")
        return parsed

    def _check(self, name: str, right: bool, expected: str) -> None:
        if not right:
            raise ValueError(f"option {name} of backend=\"rondo\" is {getattr(self, name)!r}: expected {expected}")

    def json(self) -> str:
        """For rondo._core.Region: the options of include/rondo/rondo_c.h."""
        names = ("policy", "proof", "tolerance", "most_recordings", "most_bytes")
        return json.dumps({name: getattr(self, name) for name in names})


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


# ---------------------------------------------------------------- a compilation

_compiling: contextvars.ContextVar[Optional["Compilation"]] = contextvars.ContextVar("rondo_compiling", default=None)
_compilations: "weakref.WeakSet[Compilation]" = weakref.WeakSet()


class Compilation:
    """One graph of Dynamo's, forward and backward, while it is compiled and for explain() afterwards."""

    def __init__(self, function: str, options: Options) -> None:
        self.function = function
        self.options = options
        self.graphs: list[_explain.Graph] = []
        self.skips: list[Skip] = []  # of Dynamo's
        self.backend_id = ""  # the name that Dynamo's code calls it by
        self._static_forward: frozenset[int] = frozenset()
        self._found = threading.local()  # skips of the graph that is being lowered on this thread

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        token = _compiling.set(self)
        self._found.skips = None
        try:
            yield
        finally:
            _compiling.reset(token)

    # Called by Inductor's scheduler, for a graph that is cut into parts.
    def note_parts(self, skips: list[Skip]) -> None:
        self._found.skips = skips

    def make_regions(self, graph: Any, constants: dict[str, Any]) -> None:
        """Puts regions into a CompiledFxGraph whose post_compile is done, without graphs."""
        from torch._inductor import config

        if "cuda" not in graph.device_types:
            return
        kwargs = graph.fx_kwargs
        kind = "backward" if kwargs.get("is_backward") else "inference" if kwargs.get("is_inference") else "forward"
        lowered = getattr(self._found, "skips", None)
        self._found.skips = None
        record = _explain.Graph(f"{self.function} {kind}", loaded=lowered is None and config.graph_partition)
        record.skips = _kept_skips(graph.cache_key, lowered)
        self.graphs.append(record)
        try:
            reason = _why_no_graph(graph)
            if reason:
                record.skips.append(Skip(*_explain.split_reason(reason)))
            else:
                self._wrap(graph, constants, record, f"{record.name} {graph.cache_key[-8:]}")
        except Exception as error:  # the compiled code is right without us
            log.warning("no graph for %s", record.name, exc_info=True)
            record.skips.append(Skip(f"Rondo failed: {type(error).__name__}: {error}"))

    def _wrap(self, graph: Any, constants: dict[str, Any], record: _explain.Graph, name: str) -> None:
        from torch._inductor.cudagraph_utils import CudagraphMetadata, get_partition_cudagraph_metadata
        from torch.utils._ordered_set import OrderedSet

        from rondo.torch._region import BoxedRegion, GraphInfo

        info, kwargs = graph.cudagraph_info, graph.fx_kwargs
        code = Code(graph.source_code)
        inputs = len(info.placeholders)
        written = {*graph.mutated_input_idxs, *code.reused_inputs(inputs)}
        whole = CudagraphMetadata(
            info.placeholders,
            OrderedSet(self._static(info.placeholders, kwargs)),
            OrderedSet(sorted(written)),
            info.stack_traces,
            {key: value for key, value in constants.items() if isinstance(value, torch.Tensor)},
        )

        def region(fn: Callable[..., Any], name: str, metadata: CudagraphMetadata) -> Any:
            boxed = BoxedRegion(
                fn,
                GraphInfo(
                    name=name,
                    static_input_idxs=tuple(metadata.static_input_idxs),
                    mutated_input_idxs=tuple(metadata.mutated_input_idxs),
                    is_backward=bool(kwargs.get("is_backward")),
                    is_inference=bool(kwargs.get("is_inference")),
                    device_index=next(iter(graph.device_idxs)),
                    placeholders=tuple(metadata.placeholders),
                    namespace=_namespace(graph),
                ),
                self.options,
            )
            record.regions.append(weakref.ref(boxed))
            return boxed

        parts = graph.partition_maps if graph.recursively_apply_fns is not None else None
        if parts is None or (len(parts) == 1 and code.outside == 0):
            # All of it, with what Inductor does about misaligned inputs: that is recorded too, and the alignment
            # of an argument belongs to a region's signature. So no replay looks at it.
            graph.current_callable = region(graph.current_callable, name, whole)
            return
        if not parts:
            record.skips.append(Skip("nothing to capture: no part of the graph is work on the GPU alone"))
            return
        if code.outside and not record.skips:
            record.skips.append(Skip("not recorded by the process that compiled it", kernels=code.outside))
        wrapped = []
        for i, (fn, part) in enumerate(zip(graph.compiled_fn_runner.partitions, parts, strict=True)):
            metadata = get_partition_cudagraph_metadata(part, whole)
            # What parts hand on to each other may be written in place, which Inductor notes nowhere.
            handed_on = {k for k, source in enumerate(part.input_index_mapping) if source is None}
            metadata = dataclasses.replace(
                metadata, mutated_input_idxs=OrderedSet(sorted(handed_on | set(metadata.mutated_input_idxs)))
            )
            wrapped.append(region(fn, f"{name} part {i + 1}/{len(parts)}", metadata))
        graph.recursively_apply_fns([lambda _, boxed=boxed: boxed for boxed in wrapped])

    def _static(self, placeholders: Sequence[Any], kwargs: dict[str, Any]) -> list[int]:
        """Inputs that are likely where they were: parameters and buffers.

        Inductor calls all that is saved for a backward static, since with its trees it lies in the pool of the
        forward. Here it is new at each call, but for the forward's inputs, which keep their names: primals_1, ...
        """
        static = [int(i) for i in kwargs.get("static_input_idxs") or ()]
        if not kwargs.get("is_backward"):
            self._static_forward = frozenset(static)
            return static
        names = [re.fullmatch(r"primals_(\d+)", placeholders[i].name) for i in static]
        return [i for i, name in zip(static, names) if name and int(name[1]) - 1 in self._static_forward]


def _namespace(graph: Any) -> Optional[dict[str, Any]]:
    """The names of the module that Inductor's code is."""
    call = getattr(type(getattr(graph, "compiled_fn_runner", None)), "call", None)
    return getattr(call, "__globals__", None)


def _why_no_graph(graph: Any) -> str:
    """Inductor's reason against capturing any of it; "" where there is none."""
    from torch._inductor import config
    from torch._inductor.compiler_bisector import CompilerBisector

    if graph.disabled_cudagraphs_reason:
        return graph.disabled_cudagraphs_reason
    if graph.cudagraph_info is None:
        return "cpp wrapper enabled" if config.cpp_wrapper else "partition includes all ops when cudagraphs is disabled"
    if graph.cudagraph_info.cudagraph_fail_reasons:
        return ", ".join(graph.cudagraph_info.cudagraph_fail_reasons)
    if CompilerBisector.disable_subsystem("inductor", "cudagraphs"):
        return "bisector"
    return ""


# ---------------------------------------------------------------- skips of a graph, for later processes


def _kept_skips(key: str, skips: Optional[list[Skip]]) -> list[Skip]:
    """The skips of lowering are kept beside Inductor's caches: a warm process lowers nothing."""
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    path = os.path.join(cache_dir(), "rondo", f"{key}.json")
    try:
        if skips is None:
            with open(path, encoding="utf-8") as file:
                return [Skip(**skip) for skip in json.load(file)]
        if skips:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=os.path.dirname(path), delete=False) as file:
                json.dump([dataclasses.asdict(skip) for skip in skips], file)
            os.replace(file.name, path)
    except (OSError, ValueError, TypeError):  # none kept, or another format: the count of operations is left
        pass
    return list(skips or ())


def _parts_skips(scheduler: Any, partitions: Sequence[Any], signatures: Sequence[Any]) -> list[Skip]:
    """One skip for each reason and source line of the parts that are not captured."""
    found: dict[tuple[str, str], Skip] = {}
    for part, signature in zip(partitions, signatures):
        if not signature.skip_cudagraph:
            continue
        for node in part:
            reason = scheduler.should_partition(node)
            origin = node.node.get_origin_node() if getattr(node, "node", None) is not None else None
            where = _explain.line_of(origin.meta.get("stack_trace")) if origin is not None else ""
            reason = reason if isinstance(reason, str) else "CUDAGraph-unsafe custom ops"  # before 2.11: a bool
            skip = found.setdefault((reason, where), Skip(reason, where, str(origin.target) if origin else ""))
            skip.kernels += 1
    return list(found.values())


# ---------------------------------------------------------------- into Inductor, once

_install_lock = threading.Lock()


def _install() -> str:
    """Two functions of Inductor's get one in front that does nothing unless a Compilation of ours is active.
    Where this torch has no such place: why."""
    from torch._inductor.output_code import CompiledFxGraph
    from torch._inductor.scheduler import Scheduler

    with _install_lock:
        if hasattr(Scheduler, "graph_partition") and not hasattr(Scheduler.graph_partition, "rondo"):
            Scheduler.graph_partition = _graph_partition(Scheduler.graph_partition)
        if _policy() is not None or hasattr(CompiledFxGraph.post_compile, "rondo"):
            return ""
        if list(inspect.signature(CompiledFxGraph.post_compile).parameters)[1:] != [
            "example_inputs", "constants", "graph_kwargs"
        ]:
            return f"torch {torch.__version__} is not known to this version of Rondo, which is made for 2.9 to 2.11"
        CompiledFxGraph.post_compile = _post_compile(CompiledFxGraph.post_compile)
    return ""


@functools.cache
def _policy() -> Optional[Any]:
    """The official place, from torch 2.12 on. Made from torch's source, not run on such a torch."""
    from torch._inductor import cudagraph_utils

    base = getattr(cudagraph_utils, "CUDAGraphPolicy", None)
    if base is None:
        return None

    class Policy(base):
        def should_wrap(self, compiled_graph: Any) -> bool:
            return False

        # Called with what post_compile has made ready, cold and warm.
        def wrap_output(self, output_code: Any) -> Any:
            from torch._inductor.output_code import CompiledFxGraph, CompiledFxGraphConstants
            from torch._inductor.utils import align_inputs_from_check_idxs

            compilation = _compiling.get()
            if compilation is not None and isinstance(output_code, CompiledFxGraph):
                output_code.current_callable = align_inputs_from_check_idxs(
                    output_code.current_callable, output_code.inputs_to_check, output_code.mutated_input_idxs
                )
                compilation.make_regions(output_code, CompiledFxGraphConstants().unwrap(output_code))
            return output_code

    return Policy()


def _post_compile(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def post_compile(self: Any, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        compilation = _compiling.get()
        if compilation is None:
            return original(self, example_inputs, constants, graph_kwargs)
        from torch._inductor import utils

        foreign = getattr(utils, "_unstable_customized_partition_wrapper", None)
        if foreign is not None and foreign.wrapper:
            # The parts are wrapped by someone else, who expects to be the only one.
            compilation.graphs.append(_explain.Graph(compilation.function, skips=[Skip("a partition wrapper is set")]))
            return original(self, example_inputs, constants, graph_kwargs)
        # All that Inductor does without graphs: strides of the results, alignment of the inputs.
        original(self, example_inputs, constants, {**graph_kwargs, "cudagraphs": utils.BoxedBool(False)})
        compilation.make_regions(self, constants.unwrap(self))

    post_compile.rondo = True
    return post_compile


def _graph_partition(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def graph_partition(self: Any) -> Any:
        partitions, signatures = original(self)
        compilation = _compiling.get()
        if compilation is not None:
            try:
                compilation.note_parts(_parts_skips(self, partitions, signatures))
            except Exception:  # only words are lost
                log.debug("no reasons for the parts of this graph", exc_info=True)
        return partitions, signatures

    graph_partition.rondo = True
    return graph_partition


def _inner(compilation: Compilation, gm: Any, example_inputs: Any, **kwargs: Any) -> Any:
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.utils import BoxedBool

    with compilation.active():
        # A box of its own: that the forward cannot be captured is no reason against the backward.
        return compile_fx_inner(gm, example_inputs, **{**kwargs, "cudagraphs": BoxedBool(config.triton.cudagraphs)})


# ---------------------------------------------------------------- the backend

_said: set[str] = set()


def backend(gm: Any, example_inputs: Any, *, mode: Optional[str] = None,
            options: Optional[dict[str, Any]] = None) -> Any:
    """The backend "rondo" of torch.compile. Errors: ValueError for options that are none; ImportError where the
    package is there but its library was not built. Without a GPU: plain Inductor, and a warning once."""
    from torch._inductor.compile_fx import compile_fx

    parsed = Options.parse(options)
    patches = {**_mode_patches(mode), **(parsed.inductor or {})}
    why_plain = _why_plain(parsed) or _install()
    if why_plain:
        if why_plain not in _said:
            _said.add(why_plain)
            log.warning('backend="rondo" compiles with plain Inductor: %s', why_plain)
        return compile_fx(gm, example_inputs, config_patches={**patches, "triton.cudagraphs": False})

    owner, function = _caller()
    compilation = Compilation(function, parsed)
    compilation.backend_id = getattr(gm, "meta", {}).get("backend_id", "")
    _note_break(compilation, getattr(gm, "compile_subgraph_reason", None))
    _compilations.add(compilation)
    if owner is not None:
        owner.__dict__.setdefault("rondo_compilations", []).append(compilation)
    if parsed.report:
        _report_at_end(compilation)
    patches = {
        "triton.cudagraph_support_input_mutation": True,
        "triton.cudagraph_skip_dynamic_graphs": False,
        **patches,
        "triton.cudagraphs": True,
        "triton.cudagraph_trees": True,  # False would make every dynamic size a constant
    }
    if _policy() is not None:
        patches["cudagraph_policy"] = _policy()
    with compilation.active():
        return compile_fx(gm, example_inputs, inner_compile=functools.partial(_inner, compilation),
                          config_patches=patches)


rondo = backend  # the entry point's name: torch_dynamo_backends: rondo = rondo.torch.backend:rondo


def _why_plain(options: Options) -> str:
    if os.environ.get("RONDO_REPLAY") == "never":
        return "RONDO_REPLAY=never"
    if options.policy == "never":
        return 'policy="never"'
    if not torch.cuda.is_available():
        return "CUDA is not available to torch (torch.cuda.is_available() is False)"
    if torch.version.hip:
        return "CUDA is not available: this torch is built for ROCm"
    try:
        from rondo import _core
    except ImportError as error:
        raise ImportError(
            f'backend="rondo" needs rondo._core, which cannot be loaded ({error}). Install the package with '
            "`pip install .` from a clone, or a wheel for this Python"
        ) from error
    return _core.available()


def _mode_patches(mode: Optional[str]) -> dict[str, Any]:
    from torch._inductor import list_mode_options

    if mode in (None, "default"):
        return {}
    known = list_mode_options()
    if mode not in known:
        raise ValueError(f"unknown mode {mode!r}: expected {', '.join(known)}")
    return {key: value for key, value in known[mode].items() if not key.startswith("triton.cudagraph")}


def _caller() -> tuple[Optional[Any], str]:
    """The object of torch.compile() that asks, which lives as long as its compiled function, and the name of the
    Python function that is compiled. Dynamo hands neither to a backend."""
    owner, function = None, ""
    frame = sys._getframe(2)
    for _ in range(16):
        if frame is None or function:
            break
        caller = frame.f_locals.get("self")
        if owner is None and isinstance(caller, torch._TorchCompileWrapper):
            owner = caller
        tx = getattr(caller, "root_tx", None)
        if tx is not None:
            function = getattr(tx.f_code, "co_qualname", tx.f_code.co_name).replace("<locals>.", "")
        frame = frame.f_back
    return owner, function or "graph"


def _note_break(compilation: Compilation, reason: Any) -> None:
    if not getattr(reason, "graph_break", False):
        return
    stack = getattr(reason, "user_stack", None) or ()
    where = ""
    if stack:
        last = stack[-1]
        where = f"{last.filename}:{last.lineno}, in {last.name}" + (f": {last.line}" if last.line else "")
    text = str(reason.reason).strip().splitlines()
    compilation.skips.append(Skip("graph break: " + (text[0] if text else "unknown"), where))


# ---------------------------------------------------------------- explain


def explain(fn: Any) -> _explain.Explanation:
    """What became of a function or module of torch.compile(backend="rondo"), or of a graphed callable."""
    title = getattr(fn, "__qualname__", None) or type(getattr(fn, "_orig_mod", fn)).__name__
    regions = getattr(fn, "rondo_regions", None)
    if regions is not None:
        return _explain.explain_regions(title, regions() if callable(regions) else regions,
                                        map(Skip, getattr(fn, "rondo_skips", ())))
    owner = _owner_of(fn)
    if owner is None:
        raise ValueError(
            f"{title} is neither a function of torch.compile(..., backend=\"rondo\") nor of rondo.torch.graphed()"
        )
    compilations = owner.__dict__.get("rondo_compilations", [])
    explained = _explain.explain_graphs(
        title,
        [graph for compilation in compilations for graph in compilation.graphs],
        [skip for compilation in compilations for skip in compilation.skips],
    )
    if not compilations:
        why = next(iter(_said), "") or "it was not called yet, or its graphs were compiled by an equal torch.compile()"
        explained.skips.append(Skip(f"no graphs: {why}"))
    return explained


def _owner_of(fn: Any) -> Optional[Any]:
    fn = getattr(fn, "_compiled_call_impl", None) or fn  # module.compile()
    context = getattr(fn, "dynamo_ctx", None)
    if context is None:
        code, cells = getattr(fn, "__code__", None), getattr(fn, "__closure__", None) or ()
        context = dict(zip(code.co_freevars, cells)).get("self") if code else None
        context = context.cell_contents if context is not None else None
    callback = getattr(context, "callback", None)
    while callback is not None and not isinstance(callback, torch._TorchCompileWrapper):
        callback = getattr(callback, "_torchdynamo_orig_backend", None) or getattr(
            callback, "_torchdynamo_orig_callable", None
        )
    return callback if callback is not None and callback.compiler_fn is backend else None


_reported: list["weakref.ref[Compilation]"] = []


def _report_at_end(compilation: Compilation) -> None:
    import atexit

    if not _reported:
        atexit.register(_write_reports)
    _reported.append(weakref.ref(compilation))


def _write_reports() -> None:
    files: dict[Any, list[str]] = {}
    for ref in _reported:
        compilation = ref()
        if compilation is not None:
            text = str(_explain.explain_graphs(compilation.function, compilation.graphs, compilation.skips))
            files.setdefault(compilation.options.report, []).append(text)
    for path, texts in files.items():
        text = "\n".join(texts) + "\n"
        if path is True:
            sys.stderr.write(text)
        else:
            try:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            except OSError as error:
                log.warning("the report cannot be written: %s", error)
