"""Inductor on the CPU, told that its work is the GPU's, and regions that only count: the wiring without a GPU.

What is mocked: the scheduler takes CPU work for work that can be captured, a compiled graph says it is on cuda:0,
and rondo._core and rondo.torch._region are stand-ins. All the rest is torch's own.
"""

import dataclasses
import sys
import types

made = []  # every stand-in region of this process


@dataclasses.dataclass
class GraphInfo:
    name: str
    static_input_idxs: tuple
    mutated_input_idxs: tuple
    is_backward: bool
    is_inference: bool
    device_index: int
    placeholders: tuple
    namespace: dict


class BoxedRegion:
    def __init__(self, fn, info, options):
        self.fn, self.info, self.options, self.calls = fn, info, options, 0
        made.append(self)

    def __call__(self, inputs):
        self.calls += 1
        self.inputs = len(inputs)
        out = self.fn(inputs)
        self.cleared = not inputs
        return out

    def report(self):
        return {"regions": [{"name": self.info.name, "policy": self.options.policy, "calls": self.calls,
                             "replays": 0, "recordings": []}]}


def modules():
    core, region = types.ModuleType("rondo._core"), types.ModuleType("rondo.torch._region")
    core.available = lambda: ""
    region.BoxedRegion, region.GraphInfo = BoxedRegion, GraphInfo
    return {"rondo._core": core, "rondo.torch._region": region}


def patches(partitioned=lambda node: None):
    """(object, attribute, value) for monkeypatch.setattr; partitioned(node) -> reason not to capture it."""
    import rondo.torch.backend as backend
    import torch._inductor.cudagraph_utils as cudagraph_utils
    from torch._inductor.output_code import CompiledFxGraph
    from torch._inductor.scheduler import FusedSchedulerNode, Scheduler

    init = CompiledFxGraph.__init__

    def on_cuda(self, *args, **kwargs):
        init(self, *args, **kwargs)
        self.device_types.add("cuda")
        self.device_idxs.add(0)

    def should_partition(self, node):
        if isinstance(node, FusedSchedulerNode):
            return next((r for n in node.snodes if (r := should_partition(self, n))), None)
        return partitioned(node)

    return [
        (CompiledFxGraph, "__init__", on_cuda),
        (Scheduler, "should_partition", should_partition),
        (cudagraph_utils, "check_lowering_disable_cudagraph", lambda mapping: None),
        (backend, "_why_plain", lambda options: ""),
    ]


def install(partitioned=lambda node: None):
    """For a process of its own."""
    sys.modules.update(modules())
    for target, name, value in patches(partitioned):
        setattr(target, name, value)
