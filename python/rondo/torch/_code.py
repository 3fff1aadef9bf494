"""Inductor's wrapper code, read: its text is all that its caches keep of some things. Another torch, another text: what
is not understood counts as the worst case."""

from __future__ import annotations

import ast
import re
from typing import Optional


class Code:
    """What the wrapper code of a CompiledFxGraph says that nothing else keeps through the caches.

    outside: operations that call() does by itself, outside of the parts that can be captured. What is not known
    to be none counts as one.
    reused_inputs(): inputs whose memory is given to other values on the way (the donated buffers of a backward):
    they are written, and mutated_input_idxs does not name them.
    """

    _HARMLESS = re.compile(
        r"args\.clear|assert_size_stride|assert_alignment|reinterpret_tensor|get_raw_stream|\w+\.(size|stride)|"
        r"self\.partitions\[\d+\]|torch\.cuda\.(_DeviceGuard|set_device)"
    )
    _REUSE = re.compile(r"^\s*\w+ = (?:reinterpret_tensor\()?(\w+)[;,].*# reuse$", re.MULTILINE)

    def __init__(self, source: str) -> None:
        self.outside = 1
        self._inputs: Optional[list[str]] = None
        self._reused: frozenset[str] = frozenset()
        # The wrapper stands between the kernels, which are texts of other languages, and a benchmark of it.
        starts = [source.find(text) for text in ("\ndef partition_0(", "\nasync_compile.wait(globals())")]
        start = min((at for at in starts if at >= 0), default=0)
        ends = [source.find(text, start) for text in ("\ndef get_args(", "\ndef benchmark_compiled_module(")]
        text = source[start : min((at for at in ends if at >= 0), default=len(source))]
        try:
            module = ast.parse(text)
        except SyntaxError:
            return
        call = next((n for n in ast.walk(module) if isinstance(n, ast.FunctionDef) and n.name == "call"), None)
        if call is None:
            return
        self.outside = sum(map(self._operations, call.body))
        self._inputs = []
        for statement in call.body:
            if isinstance(statement, ast.Assign) and ast.unparse(statement.value) == "args":
                self._inputs = [name.id for name in ast.walk(statement.targets[0]) if isinstance(name, ast.Name)]
                break
        self._reused = frozenset(self._REUSE.findall(text))

    def reused_inputs(self, inputs: int) -> list[int]:
        if self._inputs is None or len(self._inputs) != inputs:
            return list(range(inputs))  # not read: any of them
        return [i for i, name in enumerate(self._inputs) if name in self._reused]

    def _operations(self, statement: ast.AST) -> int:
        count = 0
        for node in ast.walk(statement):
            if isinstance(node, ast.Call):
                count += not self._HARMLESS.fullmatch(ast.unparse(node.func))
            elif isinstance(node, (ast.If, ast.For, ast.While)):
                count += 1
        return count
