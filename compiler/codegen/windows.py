"""`windows` (ops/windows.py): what windows see of a tensor, moved row by row."""

from __future__ import annotations

from collections.abc import Sequence

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.elements import known_number
from shapescript.compiler.codegen.emit import LANES, Builder, ElementType, Value, at, load, load_strided, shuffle, splat, store
from shapescript.compiler.codegen.leaf_updates import each_vector
from shapescript.compiler.codegen.lowering import Lowering, lowers
from shapescript.compiler.codegen.nests import SizeArguments
from shapescript.compiler.codegen.sizes import SizeValues
from shapescript.compiler.codegen.split import PICOSECONDS_A_BYTE, Part, shares_of, split
from shapescript.compiler.codegen.window_rows import Lanes, Row, Walk, beside
from shapescript.compiler.codegen.window_shape import Along, Shape, refuse_far_steps, shape_of
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.sizes import product
from shapescript.compiler.ir.types import Element
from shapescript.compiler.ops.build import result_type


@lowers("windows")
def _windows(low: Lowering, op: Op) -> None:
    refuse_far_steps(low, op)
    (x,) = op.operands
    names = SizeArguments()
    shape = shape_of(op, x, op.result, names)
    fill = fill_of(op)

    def body(b: Builder, given: Sequence[Value], part: Part) -> None:
        emit_windows(b, names.values(given), shape, given[0], given[1], fill, (part.low, part.high))

    kind, first = result_type(op.result), shape.axes[0]
    units = low.size(names.original(first.length if isinstance(first, Along) else first.size))
    work = extents.times(low.b, low.size(product(kind.axes)), 2 * PICOSECONDS_A_BYTE * kind.element.bytes)
    arguments = [low.pointer(x), low.pointer(op.result), *(emit.size(low.size(size)) for size in names.run_time)]
    split(low, "windows", (shape, str(fill)), arguments, units, shares_of(low, units, work), body)


def fill_of(op: Op) -> Value:
    element, fill = result_type(op.operands[0]).element, op.attributes["fill"]
    return emit.constant(int(fill), emit.I8) if element is Element.BOOL else known_number(fill, element)


def emit_windows(
    b: Builder,
    sizes: SizeValues,
    shape: Shape,
    x: Value,
    target: Value,
    fill: Value,
    outermost: tuple[emit.Size, emit.Size] | None = None,
) -> None:
    """`outermost`: as `Walk.build` has it."""
    element, filled = shape.element, splat(b, fill, LANES)

    def inside(row: Row) -> None:
        source, there = beside(b, x, row.first, element), at(b, target, row.start, element)
        if not row.is_in_vectors:
            _gather_row(b, element, row, source, there, filled)
            return

        def vector(i: emit.Size, lanes: Lanes) -> None:
            if lanes.apart is None:
                value = load(b, beside(b, source, i, element), element, LANES, lanes.inside)
            else:
                starts = (extents.plus(b, extents.times(b, i, 2), part * LANES) for part in range(2))
                parts = zip(starts, lanes.apart, strict=True)
                one, other = (load(b, beside(b, source, start, element), element, LANES, mask) for start, mask in parts)
                value = shuffle(b, one, other, range(0, 2 * LANES, 2))
            store(b, b.select(lanes.inside, value, filled), at(b, there, i, element), lanes.valid)

        row.each_vector(b, vector)

    def outside(row: Row) -> None:
        _fill(b, element, at(b, target, row.start, element), row.count, filled)

    Walk(b, sizes, shape, inside, outside).build(outermost)


def _gather_row(b: Builder, element: ElementType, row: Row, source: Value, target: Value, filled: Value) -> None:
    """A row whose elements don't lie side by side."""
    inside = extents.minus(b, row.high, row.low)
    start, there = beside(b, source, extents.times(b, row.low, row.step), element), at(b, target, row.low, element)

    def vector(i: Value, mask: Value | None) -> None:
        place, valid = at(b, start, extents.times(b, i, row.step), element), None if mask is None else extents.minus(b, inside, i)
        store(b, load_strided(b, place, row.step, element, LANES, valid), at(b, there, i, element), mask)

    _fill(b, element, target, row.low, filled)
    each_vector(b, inside, vector)
    _fill(b, element, at(b, target, row.high, element), extents.minus(b, row.count, row.high), filled)


def _fill(b: Builder, element: ElementType, target: Value, count: emit.Size, filled: Value) -> None:
    each_vector(b, count, lambda i, mask: store(b, filled, at(b, target, i, element), mask))
