"""Gradients through graphed(): AOTAutograd splits the work, and forward and backward are regions.

What the forward keeps for the backward is a result of the one and an input of the other, so a second forward before
the first backward has memory of its own, and gradients are the caller's like all results.
"""

from __future__ import annotations

import threading

import torch

from ._region import BoxedRegion, GraphInfo


class WithGrad:
    """Calls of one signature with gradients."""

    def __init__(self, owner, number: int):
        self.owner, self.number = owner, number
        self.regions: list[BoxedRegion] = []
        self.compiled = None
        self.plain = False
        self.lock = threading.RLock()

    def __call__(self, args, kwargs):
        if self.compiled is None and not self.plain:
            with self.lock:
                if self.compiled is None and not self.plain:
                    self.build(args, kwargs)
        if self.plain:
            return self.owner._run(*args, **kwargs)
        return self.compiled(*args, **kwargs)

    def build(self, args, kwargs):
        from torch._functorch.aot_autograd import aot_function

        fn = self.owner.fn
        device = next((x.device.index for x in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor) and x.is_cuda), None)
        module = isinstance(fn, torch.nn.Module)
        why = None
        if device is None:
            why = "no argument is on a GPU"
        elif self.owner._compile:
            why = "gradients through graphed(compile=...): use torch.compile(backend=\"rondo\")"
        elif not module and self.owner._trained():
            why = "gradients go to parameters of a module that the function holds: give graphed() the module"
        else:
            from ._held import search

            mine = {id(t) for t in (*fn.parameters(), *fn.buffers())} if module else set()
            for t, _ in search(fn, lambda t: t.requires_grad).tensors.values():
                if id(t) not in mine:
                    why = "gradients go to a tensor that the function holds: pass it as an argument, or make it a parameter"
        if why:
            self.owner.skip(why)
            self.plain = True
            return
        static = 0
        if module:
            static = len(dict(fn.named_parameters())) + len(dict(fn.named_buffers()))

        def functional(parameters, buffers, *args, **kwargs):
            return torch.func.functional_call(fn, {**parameters, **buffers}, args, kwargs)

        compiled = aot_function(
            functional if module else fn,
            fw_compiler=lambda gm, _: self.region(gm, "forward", device, static),
            bw_compiler=lambda gm, _: self.region(gm, "backward", device, 0),
            inference_compiler=lambda gm, _: self.region(gm, "inference", device, static),
            keep_inference_input_mutations=True,
            num_params_buffers=static,
        )

        def with_parameters(*args, **kwargs):  # asked at each call: they may have been replaced
            return compiled(dict(fn.named_parameters()), dict(fn.named_buffers()), *args, **kwargs)

        self.compiled = self.tried(with_parameters if module else compiled)

    def tried(self, compiled):
        """The first call compiles. What AOTAutograd cannot split runs as it is."""

        def first(*args, **kwargs):
            before = len(self.regions)
            try:
                out = compiled(*args, **kwargs)
            except Exception as e:
                if len(self.regions) > before:  # it was compiled, and the work has failed
                    raise
                self.owner.skip(f"AOTAutograd cannot split it: {type(e).__name__}: {str(e).strip().splitlines()[0] if str(e).strip() else ''}")
                self.plain = True
                return self.owner._run(*args, **kwargs)
            self.compiled = compiled
            return out

        return first

    def region(self, gm, kind, device, static):
        count = sum(n.op == "placeholder" for n in gm.graph.nodes)
        placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
        written = [
            i for i, p in enumerate(placeholders)
            if any(n.target is torch.ops.aten.copy_.default and n.args[0] is p for n in p.users)
        ]
        suffix = f" {self.number + 1}" if self.number else ""

        def work(inputs):
            args = list(inputs)
            inputs.clear()
            return gm(*args)

        region = BoxedRegion(
            work,
            GraphInfo(
                name=f"{self.owner.name} {kind}{suffix}",
                static_input_idxs=tuple(range(min(static, count))),
                mutated_input_idxs=tuple(written),
                is_backward=kind == "backward",
                is_inference=kind == "inference",
                device_index=device,
            ),
            self.owner.options,
        )
        self.regions.append(region)
        return region
