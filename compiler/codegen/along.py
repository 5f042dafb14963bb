"""Along one axis: running sums, and elements taken or added at positions along it (ops/ordering.py).

A tensor is looked at with three axes: those before the axis as one, the axis itself, and those behind it as one. Threads share out the
first; or the last, where there is none before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shapescript.compiler.codegen import emit, extents, scalars
from shapescript.compiler.codegen.elements import expression
from shapescript.compiler.codegen.emit import I64, LANES, Builder, ElementType, Value, at, load, store
from shapescript.compiler.codegen.indexing import SCRATCH_BYTES, WORD, address, fail_if_outside, load_inside
from shapescript.compiler.codegen.leaf_updates import each_vector
from shapescript.compiler.codegen.lowering import MEMORY_TYPES, Lowering, lowers
from shapescript.compiler.codegen.nests import SizeArguments, where_any
from shapescript.compiler.codegen.split import Part, shares_of, split
from shapescript.compiler.codegen.storage import clear_storage
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.sizes import ONE, Size, product
from shapescript.compiler.ir.types import Element, TensorType
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.ops.locations import has_storage, storage_bytes

COLUMNS = LANES  # of a unit of work
PICOSECONDS_A_SUM = 1000
PICOSECONDS_A_PLACE = 1500  # that is taken or added to


Sizes = tuple[emit.Size, emit.Size, emit.Size]
Range = tuple[emit.Size, emit.Size]


def three_axes(kind: TensorType, position: int) -> tuple[Size, Size, Size]:
    return product(kind.axes[:position]), kind.axes[position], product(kind.axes[position + 1 :])


def units_of(low: Lowering, axes: Sequence[Size]) -> emit.Size:
    """What threads share out of a tensor with these three axes."""
    before, _, behind = axes
    return extents.ceil_quotient(low.b, low.size(behind), COLUMNS) if before == ONE else low.size(before)


def ranges_of(b: Builder, before: emit.Size, behind: emit.Size, part: Part) -> tuple[Range, Range]:
    """A share's places before the axis and behind it."""
    if isinstance(before, int) and before == 1:
        start, end = (extents.times(b, unit, COLUMNS) for unit in (part.low, part.high))
        return (0, 1), (start, extents.least(b, end, behind))
    return (part.low, part.high), (0, behind)


# ---- running sums


@lowers("cumsum")
def _cumsum(low: Lowering, op: Op) -> None:
    kind, reverse = result_type(op.result), bool(op.attributes["reverse"])
    names, axes = SizeArguments(), three_axes(kind, op.attributes["position"])
    sizes = names.names(axes)

    def body(b: Builder, given: Sequence[Value], part: Part) -> None:
        values = names.values(given)
        before, count, behind = (values.of(b, size) for size in sizes)
        _emit_cumsum(b, kind.element, reverse, given[0], given[1], (before, count, behind), part)

    arguments = [low.pointer(op.operands[0]), low.pointer(op.result), *(emit.size(low.size(size)) for size in names.run_time)]
    units, work = units_of(low, axes), extents.times(low.b, low.size(product(kind.axes)), PICOSECONDS_A_SUM)
    split(low, "cumsum", (kind.element, reverse, sizes), arguments, units, shares_of(low, units, work), body)


def _emit_cumsum(b: Builder, kind: Element, reverse: bool, source: Value, result: Value, sizes: Sizes, part: Part) -> None:
    """The source and the result may be one tensor."""
    element, total, (before, count, behind) = MEMORY_TYPES[kind], expression("add", (kind, kind)), sizes
    own_before, (low, high) = ranges_of(b, before, behind, part)
    block = extents.times(b, count, behind)

    def row(place: Value) -> Value:
        """The number of the place that comes at a turn, as an offset in elements."""
        return emit.size(extents.times(b, b.sub(b.sub(emit.size(count), I64(1)), place) if reverse else place, behind))

    def column(start: Value, j: Value, lanes: int | None, mask: Value | None) -> None:
        """From the first row to the last: of one column, or of as many as a vector has."""

        def turn(place: Value, sums: Sequence[Value]) -> list[Value]:
            here = b.add(b.add(start, row(place)), j)
            grown = scalars.emit(b, total, [sums[0], load(b, at(b, source, here, element), element, lanes, mask)])
            store(b, grown, at(b, result, here, element), mask)
            return [grown]

        here = b.add(b.add(start, row(I64(0))), j)
        first = load(b, at(b, source, here, element), element, lanes, mask)
        store(b, first, at(b, result, here, element), mask)
        emit.loop(b, 1, count, 1, turn, [first])

    def rows(i: Value, _: Sequence[Value]) -> None:
        start = b.mul(i, emit.size(block))
        if behind == 1:
            column(start, I64(0), None, None)
        else:
            width, first = extents.minus(b, high, low), b.add(start, emit.size(low))
            each_vector(b, width, lambda j, mask: column(first, j, LANES, mask))

    where_any(b, sizes, lambda: emit.loop(b, *own_before, 1, rows))


# ---- elements at positions


@lowers("take_along")
def _take_along(low: Lowering, op: Op) -> None:
    x, index = op.operands
    fail_if_outside(low, op, index, low.pointer(index), result_type(x).axes[op.attributes["position"]])
    _call(low, op, result_type(x), [low.pointer(x), low.pointer(index), low.pointer(op.result)], _emit_take)


@lowers("put_along")
def _put_along(low: Lowering, op: Op) -> None:
    g, index = op.operands
    clear_storage(low, low.pointer(op.result), low.size(storage_bytes(op.result.type)))
    _call(low, op, result_type(op.result), [low.pointer(g), low.pointer(index), low.pointer(op.result)], _emit_put)


@lowers("pick")
def _pick(low: Lowering, op: Op) -> None:
    """As `take_along` by an index whose axis has one place."""
    with low.scratch(SCRATCH_BYTES) as scratch:
        x, index = op.operands
        result = low.pointer(op.result) if has_storage(op.result) else at(low.b, scratch, WORD, emit.I8)
        axes = three_axes(result_type(x), op.attributes["position"])
        _call(low, op, result_type(x), [low.pointer(x), address(low, index, scratch), result], _emit_take, (axes[0], ONE, axes[2]))
        if not has_storage(op.result):
            low.define(op.result, low.load_number(result, result_type(x).element))


Kernel = Callable[[Builder, ElementType, Sequence[Value], Sizes, emit.Size, Part], None]


def _call(
    low: Lowering, op: Op, whole: TensorType, tensors: Sequence[Value], kernel: Kernel, axes: tuple[Size, Size, Size] | None = None
) -> None:
    """A kernel on the tensors, given the sizes (before the axis, along it in the index, behind it) and how many places the whole has."""
    names, element, position = SizeArguments(), MEMORY_TYPES[whole.element], op.attributes["position"]
    axes = axes or three_axes(result_type(op.operands[1]), position)
    sizes, places = names.names(axes), names.name(whole.axes[position])

    def body(b: Builder, given: Sequence[Value], part: Part) -> None:
        values = names.values(given)
        before, count, behind = (values.of(b, own) for own in sizes)
        kernel(b, element, given[: len(tensors)], (before, count, behind), values.of(b, places), part)

    arguments = [*tensors, *(emit.size(low.size(size)) for size in names.run_time)]
    units, work = units_of(low, axes), extents.times(low.b, low.size(product(axes)), PICOSECONDS_A_PLACE)
    split(low, op.name, (element, sizes, places), arguments, units, shares_of(low, units, work), body)


Place = Callable[[Value, Value, Value], None]


def _each_place(b: Builder, sizes: Sizes, size: emit.Size, part: Part, body: Place) -> None:
    """body(place in the index, where the whole's block begins, place in a row), with the positions along the axis ascending."""
    before, count, behind = sizes
    own_before, own_behind = ranges_of(b, before, behind, part)

    def block(i: Value, _: Sequence[Value]) -> None:
        start = b.mul(i, emit.size(extents.times(b, size, behind)))

        def row(j: Value, _: Sequence[Value]) -> None:
            first = b.mul(b.add(b.mul(i, emit.size(count)), j), emit.size(behind))
            emit.loop(b, *own_behind, 1, lambda k, _: body(b.add(first, k), start, k))

        emit.loop(b, 0, count, 1, row)

    where_any(b, sizes, lambda: emit.loop(b, *own_before, 1, block))


def _emit_take(b: Builder, element: ElementType, tensors: Sequence[Value], sizes: Sizes, size: emit.Size, part: Part) -> None:
    """tensors: the addresses of x, index and result. An index into nothing, whose check is still to come, reads nothing."""
    (source, index, result), behind = tensors, sizes[2]

    def take(place: Value, start: Value, k: Value) -> None:
        row = load_inside(b, index, place, size)
        here = b.add(b.add(start, b.mul(row, emit.size(behind))), k)
        store(b, load(b, at(b, source, here, element), element), at(b, result, place, element))

    where_any(b, [size], lambda: _each_place(b, sizes, size, part, take))


def _emit_put(b: Builder, element: ElementType, tensors: Sequence[Value], sizes: Sizes, size: emit.Size, part: Part) -> None:
    """tensors: the addresses of what is added, index and result, which holds zeros."""
    (source, index, result), behind = tensors, sizes[2]

    def add(place: Value, start: Value, k: Value) -> None:
        row = load(b, at(b, index, place, I64), I64)
        with b.if_then(b.icmp_unsigned("<", row, emit.size(size)), likely=True):
            here = at(b, result, b.add(b.add(start, b.mul(row, emit.size(behind))), k), element)
            store(b, b.fadd(load(b, here, element), load(b, at(b, source, place, element), element)), here)

    _each_place(b, sizes, size, part, add)
