"""What a profile says of the operations of compiled programs: the line that each came from, its name and shapes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from shapescript.compiler.codegen.measurement import Row
from shapescript.compiler.diagnostics.model import Span
from shapescript.compiler.ir.nodes import Function, Op, Value
from shapescript.compiler.ir.types import Element, TensorType
from shapescript.compiler.ops.table import Control, entry

OWN = "own work"  # of a function: what no operation of its own stands for


@dataclass(frozen=True)
class Origin:
    """Where an operation came from. `others` counts the other lines of which it does a part; `text` is the line's."""

    path: str
    line: int
    text: str
    others: int = 0

    def __str__(self) -> str:
        return f"{self.path}:{self.line}{f' +{self.others}' if self.others else ''}"


@dataclass(frozen=True)
class Kernel:
    """An operation as `build --emit=final` names it, with its shapes; `element` is what it calculates in."""

    name: str
    shapes: str
    element: Element | None = None

    def __str__(self) -> str:
        return f"{self.name} {self.shapes}".rstrip()


@dataclass(frozen=True)
class ProfileRow:
    """Operations of one kernel that came from one line: how often they were done, in how many seconds of the calling thread, without those
    of operations inside of them; what arithmetic they did, how many bytes they read and wrote, and the most threads that shared in one."""

    origin: Origin
    kernel: Kernel
    calls: int
    seconds: float
    flops: int
    bytes: int
    threads: int


def described(function: Function, row: Row) -> tuple[Origin, Kernel]:
    if row.op is None:
        return _origin([function.span] if function.span else [], function.name), Kernel(function.name, OWN)
    spans = _spans(row.op)
    origin = _origin(spans, function.name)
    if row.part:
        return origin, Kernel(f"{row.op.name}: {row.part}", "")
    shapes = "" if isinstance(entry(row.op.name).lowering, Control) else _shapes(row.op)
    return origin, Kernel(row.op.name, shapes, _element(row.op))


def _spans(op: Op) -> list[Span]:
    """The line that it mostly came from first: of a contraction the product's, of a kernel the most frequent one of its region."""
    own = [op.span] if op.span else []
    if not op.regions or isinstance(entry(op.name).lowering, Control):
        return own
    inside = [inner.span for inner in op.regions[0].ops if inner.span and inner.name != "constant"]
    if "contraction" in op.name:
        return [*own, *inside]
    counts = Counter((span.source.path, span.line) for span in inside)
    frequent = max(counts.values(), default=0)
    first = [span for span in (*own, *reversed(inside)) if counts[span.source.path, span.line] == frequent]
    return [*first, *own, *inside]


def _origin(spans: list[Span], function: str) -> Origin:
    """The first span's line, and how many other lines there are."""
    if not spans:
        return Origin(function, 0, "")
    first = spans[0]
    lines = {(span.source.path, span.line) for span in spans}
    return Origin(shown_path(first.source.path), first.line, first.source.line_text(first.line).strip(), len(lines) - 1)


def shown_path(path: str) -> str:
    """Files of the working directory are named from there, those of the standard library from it."""
    inside = os.path.relpath(path)
    if not inside.startswith(os.pardir):
        return inside
    library = os.path.relpath(path, os.path.dirname(__file__))
    return path if library.startswith(os.pardir) else os.path.join("shapescript", library)


def _shapes(op: Op) -> str:
    """Types of operands and results, without those of numbers in registers."""
    operands, results = _joined(op.operands), _joined(op.results)
    return f"{operands} -> {results}".strip() if results else operands


def _joined(values: Iterable[Value]) -> str:
    return " ".join(str(value.type) for value in values if not isinstance(value.type, TensorType) or value.type.axes)


def _element(op: Op) -> Element | None:
    """That of the first tensor of floats."""
    kinds = (value.type for value in (*op.results, *op.operands))
    return next((kind.element for kind in kinds if isinstance(kind, TensorType) and kind.axes and kind.element.is_float), None)
