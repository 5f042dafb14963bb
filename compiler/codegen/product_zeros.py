"""Where a contraction's rows are zeros (passes/mark_zeros.py), and the look whether they may be left out, in front of the product."""

from __future__ import annotations

from collections.abc import Sequence

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.contraction_zeros import LeftZeros
from shapescript.compiler.codegen.emit import I64, Builder, Value
from shapescript.compiler.codegen.lowering import MEMORY_TYPES, Lowering
from shapescript.compiler.codegen.product_axes import Groups
from shapescript.compiler.codegen.zeros import are_finite, are_zeros_in_groups
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.sizes import ONE, product
from shapescript.compiler.ops.build import result_type

WIDEST = 256  # elements of a row of B


def left_zeros(low: Lowering, op: Op, groups: Groups) -> LeftZeros | None:
    """Of a contraction whose operand with zeros is A, and has one axis of rows and one that is summed."""
    place, less, greater, strict, is_looked_at = op.attributes.get("zeros", (None, 0, 0, 0, 0))
    if place != int(groups.swapped):
        return None
    zeros, other = result_type(op.operands[place]), result_type(op.operands[1 - place])
    width, element = other.axes[-1].constant() if other.axes else None, MEMORY_TYPES[other.element]
    if width is None or not 0 < width <= WIDEST or not emit.is_float(element):
        return None
    are_behind = (groups.rows, groups.summed) == ((less,), (greater,))
    if not are_behind and (groups.rows, groups.summed) != ((greater,), (less,)):
        return None

    def look(b: Builder, given: Sequence[Value]) -> Value:
        right, right_rows, left, many, apart, cut, last = given
        ends = emit.at(b, left, last, element)
        are_zeros = are_zeros_in_groups(b, element, ends, many, apart, cut, b.add(last, I64(1)))
        return b.zext(b.and_(are_zeros, are_finite(b, element, right, right_rows, width, width)), I64)

    *outer, rows, length = zeros.axes
    cut: emit.Size = 0  # the rows whose ends the mask fills, where they are to be looked at
    if is_looked_at:
        cut = extents.least(low.b, low.size(rows), extents.minus(low.b, low.size(length), strict))
    right, left = low.pointer(op.operands[1 - place]), low.pointer(op.operands[place])
    counts = (low.size(product(outer)), low.size(rows * length), cut, low.size(length - ONE))
    given = [right, emit.size(low.size(product(other.axes[:-1]))), left, *map(emit.size, counts)]
    may_go = low.shared("may_leave_out", (element, width), given, look, I64)
    return LeftZeros(are_behind, strict if are_behind else 1 - strict, may_go)
