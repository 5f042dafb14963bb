"""Sizes of what leaves a loop or branch that may not be entered.

An axis of n-3 inside of one says that n is at least 3 there, not that it is outside. What is kept of such a tensor has an axis of
max(0, n-3) instead, a size of its own that is bound in front of the outermost loop or branch; the tensor is cut to it on the way out, and
to n-3 on the way back.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from shapescript.compiler.ir.nodes import Block, Op, Value, values_read, walk_ops
from shapescript.compiler.ir.sizes import Size, Symbol, fresh, of
from shapescript.compiler.ir.types import Element, TensorType
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.passes.numbers import Numbers
from shapescript.compiler.passes.symbols import is_doubtful, rows_bound


class SafeSizes:
    """Those for one operation of the outermost block after another; `known_outside` are sizes that are bound before it too."""

    def __init__(self, numbers: Numbers, known_outside: Collection[Symbol]) -> None:
        self._numbers, self._known_outside = numbers, known_outside
        self._sound: set[Size] = set()
        self._bound: set[Symbol] = set()
        self._found: dict[Size, Size] = {}
        self._builder = Builder()

    def begin(self, op: Op) -> None:
        self._builder, self._found = Builder(op.span), {}
        if op.regions:
            outside = [*op.results, *values_read(op)]
            self._sound = {size for value in outside for size in _axes(value)}
            self._bound = bound_inside(op.regions).difference(self._known_outside)

    def of(self, size: Size) -> Size:
        """The size itself where it is one whether or not the program gets to where it stands; or where it is known there only."""
        if not is_doubtful(size) or size in self._sound or not self._bound.isdisjoint(size.symbols()):
            return size
        if size not in self._found:
            self._found[size] = of(fresh(str(size)))
            self._builder.emit("bind_size", self._numbers.not_below_zero(size, self._builder), size=self._found[size])
        return self._found[size]

    def bindings(self) -> Sequence[Op]:
        """What stands in front of the operation."""
        return self._builder.ops


def cut(builder: Builder, value: Value, axes: Sequence[Size]) -> Value:
    """The tensor with sizes that are the same in this run, and written otherwise."""
    for position, size in enumerate(axes):
        if result_type(value).axes[position] != size:
            value = builder.op("slice", value, builder.constant(0, Element.I64), position=position, length=size, hint=value.hint)
    return value


def _axes(value: Value) -> Sequence[Size]:
    return value.type.axes if isinstance(value.type, TensorType) else ()


def bound_inside(blocks: Collection[Block]) -> set[Symbol]:
    """The sizes that these blocks, or blocks in them, bind."""
    found: set[Symbol] = set()
    for block in blocks:
        found.update(block.symbols)
        for op in walk_ops(block.ops):
            found.update(rows_bound(op))
            for region in op.regions:
                found.update(region.symbols)
    return found
