"""What became of a compiled function: its regions with their figures, its skips with line and remedy.

Comes in: the records that the backend keeps of each compilation, or the regions of a graphed callable, and
the JSON report of each region (include/rondo/replay.h, RegionReport). Goes out: an Explanation, for people by
str(), for programs by its lists.
"""

from __future__ import annotations

import dataclasses
import json
import re
import weakref
from typing import Any, Iterable, Optional


# ---------------------------------------------------------------- records


@dataclasses.dataclass
class Skip:
    """Work that stays outside of graphs."""

    reason: str  # as Inductor or Dynamo words it
    where: str = ""  # "model.py:12, in forward: y = x.cpu()", where known
    operation: str = ""  # "aten.nonzero.default"
    kernels: int = 0  # launched one by one because of it; 0: not known

    @property
    def remedy(self) -> str:
        return remedy(self.reason)


@dataclasses.dataclass
class Graph:
    """One graph that Inductor compiled, or loaded."""

    name: str
    loaded: bool = False  # from a cache of Inductor's or AOTAutograd's
    skips: list[Skip] = dataclasses.field(default_factory=list)
    # Weakly: a region lives as long as the compiled function that calls it.
    regions: list["weakref.ref[Any]"] = dataclasses.field(default_factory=list)

    def alive(self) -> list[Any]:
        return [region for ref in self.regions if (region := ref()) is not None]


# ---------------------------------------------------------------- remedies

# Reason (searched for in Inductor's words, the first one counts), and what to do about it.
_REMEDIES: tuple[tuple[str, str], ...] = (
    (r"graph break", "rewrite the line so that Dynamo can trace it (torch.compile(fullgraph=True) names the cause); "
     "every break ends a region"),
    (r"cudagraph_skip_dynamic_graphs|dynamic shape ops", "set torch._inductor.config.triton.cudagraph_skip_dynamic_graphs "
     "= False: Rondo needs no graph a size"),
    (r"unbacked", "the size of this result is known on the GPU only: use a form with a fixed size (torch.where, a mask, "
     "topk with a fixed k) instead of nonzero, boolean indexing or .item()"),
    (r"_local_scalar_dense|\.item\(\)", "keep the value in a tensor: .item(), bool(t) and int(t) make the host wait for "
     "the GPU"),
    (r"_assert_scalar|_assert_async", "remove the check from the compiled part, or make it on the host before the call"),
    (r"run_and_save_rng_state|run_with_rng_state", "torch.utils.checkpoint(..., preserve_rng_state=False) where nothing in "
     "it is random; otherwise move the dropout out of the checkpoint"),
    (r"deterministic", "this operation is captured only with torch.use_deterministic_algorithms(False)"),
    (r"index[_ ]put|boolean indexing", "index with integers, or write "
     "torch.where(mask, value, x) instead of x[mask] = value"),
    (r"scatter|_unsafe_masked_index", "captured only with torch.use_deterministic_algorithms(False)"),
    (r"fbgemm|jagged", "pad to dense tensors outside of the compiled part"),
    (r"_fused_moving_avg_obs", "convert the observers (quantization is calibrated) before compiling"),
    (r"torch\.cond|torch\.while_loop|[Cc]ondition|[Cc]ontrol flow|WhileLoop", "compute both sides and choose with "
     "torch.where, or decide on the host and compile the two sides by themselves"),
    (r"spars", "densify the weight (.to_dense()), or keep this layer out of the compiled part"),
    (r"DeviceCopy", "move the copy between devices out of the compiled part; make constants on the GPU "
     "(device=x.device)"),
    (r"cpu device|cpu ops", "make the tensor on the GPU (device=x.device), or move the line out of the compiled part"),
    (r"multiple devices", "compile the parts of each device by themselves"),
    (r"cpp wrapper", "leave torch._inductor.config.cpp_wrapper off: a replay makes no use of it"),
    (r"mutated inputs", "set torch._inductor.config.triton.cudagraph_support_input_mutation = True"),
    (r"complex memory overlap", "pass x.contiguous(): elements of this input share memory in a way that is not a plain "
     "expand"),
    (r"non-Tensor inputs", "pass tensors and numbers only; make other objects attributes of the module"),
    (r"bisector", "the compiler bisector (TORCH_COMPILE_BISECT_*) has turned graphs off: end the bisection"),
    (r"custom partition op", "remove the operation from torch._inductor.config.custom_should_partition_ops"),
    (r"unsafe|incompatible op", "the operation is marked as one that cannot be captured (it waits for the GPU, or "
     "allocates by data). If it is your own, remove torch.Tag.cudagraph_unsafe where that is not so"),
    (r"partition includes all ops when cudagraphs is disabled", "Inductor was told not to prepare graphs: leave "
     "triton.cudagraphs out of options"),
    (r"max re-recording|data pointer changed|pending, uninvoked backwards|expected dead indices|cudagraph_capture_sizes",
     "does not happen with Rondo; another compiled function of this program runs with mode=\"reduce-overhead\""),
    (r"nothing to capture|no part|nothing of it is on a GPU|no argument is on a GPU", "there is no work on a GPU in it"),
    (r"signatures: those that come now", "pass numbers that are new at each call as tensors without dimensions on the CPU, "
     "or as tensors on the GPU"),
    (r"neither an argument nor held", "pass the tensor as an argument, or make it a buffer of the module"),
    (r"tensors, containers of tensors and plain values", "pass tensors, numbers and texts in lists, tuples and "
     "dictionaries"),
    (r"give graphed\(\) the module", "graphed(module) in place of graphed(function)"),
    (r"is on cpu|is on cuda|several devices|a tensor on", "move the tensor to the GPU of the work before the call"),
    (r"partition wrapper", "another library (vLLM) has set torch._inductor.utils.set_customized_partition_wrappers: "
     "compile outside of it"),
    (r"Rondo failed", "please report this, with the text: the call is right, without a graph"),
    (r"RONDO_REPLAY|policy", "leave RONDO_REPLAY unset and policy at \"auto\""),
    (r"CUDA is not available|rondo._core", "run it on a machine with an NVIDIA GPU and its driver"),
)


def remedy(reason: str) -> str:
    for pattern, text in _REMEDIES:
        if re.search(pattern, reason):
            return text
    return "none known; TORCH_LOGS=cudagraphs says more"


# ---------------------------------------------------------------- the answer


@dataclasses.dataclass
class Explanation:
    """What rondo.torch.explain() returns: print it."""

    title: str
    regions: list[dict[str, Any]]  # RegionReport of each, as JSON has it
    skips: list[Skip]
    graphs: int = 0
    loaded: int = 0

    def __str__(self) -> str:
        head = self.title + ": "
        if self.graphs:
            head += _count(self.graphs, "graph")
            head += f" ({self.loaded} from a cache), " if self.loaded else ", "
        head += f"{_count(len(self.regions), 'region')}, {_count(len(self.skips), 'skip')}"
        lines = [head]
        for region in self.regions:
            lines += _region_lines(region)
        gain = _gain_a_kernel(self.regions)
        # Recompilations of one function skip the same lines.
        alike: dict[Any, list[Skip]] = {}
        for skip in self.skips:
            alike.setdefault(dataclasses.astuple(skip), []).append(skip)
        for skips in alike.values():
            lines += _skip_lines(skips[0], len(skips), gain)
        return "\n".join(lines)

    __repr__ = __str__


def explain_graphs(title: str, graphs: Iterable[Graph], more: Iterable[Skip] = ()) -> Explanation:
    graphs = list(graphs)
    regions = [report for graph in graphs for region in graph.alive() for report in report_of(region)]
    skips = [*more, *(skip for graph in graphs for skip in graph.skips)]
    skips += [skip for graph in graphs for skip in _skips_of(graph.alive())]
    return Explanation(title, regions, skips, len(graphs), sum(graph.loaded for graph in graphs))


def explain_regions(title: str, regions: Iterable[Any], skips: Iterable[Skip] = ()) -> Explanation:
    regions = list(regions)
    skips = [*skips, *_skips_of(regions)]
    return Explanation(title, [report for region in regions for report in report_of(region)], skips)


def _skips_of(regions: Iterable[Any]) -> list[Skip]:
    """Why calls of these regions are plain, where the region was not asked."""
    return [Skip(reason) for region in regions for reason in getattr(region, "skips", ())]


def report_of(region: Any) -> list[dict[str, Any]]:
    """RegionReports of something with report() -> JSON, as rondo._core.Region has it."""
    report = region.report()
    if isinstance(report, (str, bytes)):
        report = json.loads(report)
    return list(report["regions"]) if "regions" in report else [report]


# ---------------------------------------------------------------- words and figures


def _count(n: int, one: str, many: str = "") -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def _us(value: float) -> str:
    return f"{value:.2f} us" if value < 9.95 else f"{value:.1f} us" if value < 9999.5 else f"{value / 1e3:.2f} ms"


def _bytes(value: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def _times(recording: dict[str, Any]) -> Optional[tuple[float, float]]:
    """us a call, plain and replayed, where both were timed by one measure."""
    plain = other = None
    for alternative in recording.get("alternatives", ()):
        if alternative["name"] == "plain":
            plain = alternative
        elif other is None or alternative["name"] == recording.get("choice"):
            other = alternative
    if plain and other:
        for measure in ("period_us", "latency_us"):
            if plain.get(measure, 0) > 0 and other.get(measure, 0) > 0:
                return plain[measure], other[measure]
    return None


def _gain_a_kernel(regions: Iterable[dict[str, Any]]) -> Optional[float]:
    """us that a replay saved for each kernel, over the timed recordings of these regions."""
    saved = kernels = 0.0
    for region in regions:
        for recording in region.get("recordings", ()):
            times = _times(recording)
            if times and recording.get("kernels", 0) > 0:
                saved += max(0.0, times[0] - times[1])
                kernels += recording["kernels"]
    return saved / kernels if kernels else None


def _region_lines(region: dict[str, Any]) -> list[str]:
    calls, replays = region.get("calls", 0), region.get("replays", 0)
    line = f"  region {region['name']}: {_count(calls, 'call')}"
    if calls:
        line += f", {replays:,} replayed ({100 * replays / calls:.0f} %)"
    if region.get("policy", "auto") not in ("", "auto"):
        line += f", policy {region['policy']}"
    if region.get("failures"):
        line += f", {_count(region['failures'], 'failure')}"
    lines = [line]
    for recording in region.get("recordings", ()):
        line = f"    {recording.get('signature') or 'no arguments'}: {recording.get('state', '')}"
        if recording.get("choice"):
            line += f", {recording['choice']}"
        times = _times(recording)
        if times:
            line += f"; plain {_us(times[0])}, replayed {_us(times[1])} a call"
            if times[1] > 0:
                line += f" ({times[0] / times[1]:.2f} times as fast)"
        lines.append(line)
        if recording.get("reason"):
            remembered = " (decided by an earlier process)" if recording.get("remembered") else ""
            lines.append(f"      {recording['reason']}{remembered}")
        if recording.get("nodes"):
            copied = recording.get("copied_bytes_a_call", 0)
            line = f"      {_count(recording.get('kernels', 0), 'kernel')}, {_count(recording.get('slots', 0), 'slot')}, "
            line += f"{_bytes(copied)} copied a call" if copied else "nothing copied"
            if recording.get("device_bytes"):
                line += f", {_bytes(recording['device_bytes'])} on the device"
            lines.append(line)
    if region.get("recapture"):
        lines.append(f"    new signatures: {_count(region.get('recaptures', 0), 'call')} captured and launched; "
                     f"{region['recapture']}")
    lines += [f"    fallback: {fallback}" for fallback in region.get("fallbacks", ())]
    return lines


def _skip_lines(skip: Skip, graphs: int, gain_a_kernel: Optional[float]) -> list[str]:
    line = f"  skip: {skip.reason}"
    if skip.operation and skip.operation not in skip.reason:
        line += f" ({skip.operation})"
    if graphs > 1:
        line += f", in {graphs} graphs"
    lines = [line]
    if skip.where:
        lines.append(f"    at {skip.where}")
    lines.append(f"    remedy: {skip.remedy}")
    if skip.kernels:
        line = f"    outside of graphs: {_count(skip.kernels, 'launch', 'launches')} a call"
        if gain_a_kernel is not None:
            line += (f"; about {_us(gain_a_kernel * skip.kernels)} a call to gain (estimate: a replay saves "
                     f"{_us(gain_a_kernel)} a kernel in the regions above)")
        lines.append(line)
    return lines


# ---------------------------------------------------------------- where in the source


def line_of(stack_trace: Optional[str]) -> str:
    """The innermost line of a stack trace as Dynamo keeps it: 'model.py:12, in forward: y = x.cpu()'."""
    found = re.findall(r'File "([^"]+)", line (\d+), in (\S+)\n?\s*([^\n]*)', stack_trace or "")
    if not found:
        return ""
    path, line, function, code = found[-1]
    return f"{path}:{line}, in {function}" + (f": {code.strip()}" if code.strip() else "")


def split_reason(text: str) -> tuple[str, str]:
    """Inductor's message into the reason by itself and the source line that it names."""
    reason = re.sub(r"^(skipping cudagraphs due to\s+)+", "", text.strip())
    head, found, trace = reason.partition("Found from")
    return head.strip().rstrip(".:") or reason, line_of(trace) if found else ""
