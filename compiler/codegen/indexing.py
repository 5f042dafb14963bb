"""Rows by their numbers (ops/indexing.py): gather copies them, scatter_rows and add_rows add them up in the order of the index.

Threads share out a gather's positions. What is added to one row stays in order: each thread goes through all positions, and has columns of
its own, which are as much work for each whatever the index holds; or rows of its own, where they are too narrow for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shapescript.compiler.codegen import emit, extents, scalars
from shapescript.compiler.codegen.elements import expression
from shapescript.compiler.codegen.emit import I64, LANES, Builder, Value, at, constant, load, splat, store
from shapescript.compiler.codegen.leaf_updates import each_vector
from shapescript.compiler.codegen.lowering import MEMORY_TYPES, Lowering, Site, lowers
from shapescript.compiler.codegen.nests import SizeArguments
from shapescript.compiler.codegen.split import PICOSECONDS_A_BYTE, Part, shares_of, split
from shapescript.compiler.codegen.storage import clear_storage
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.sizes import Size, product
from shapescript.compiler.ir.types import Element
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.ops.locations import has_storage, storage_bytes
from shapescript.compiler.records.dataclass import dataclass

ALL_GOOD = -1  # where all indices are in range
WORD = 8  # bytes of scratch for a value without axes
SCRATCH_BYTES = 64
COLUMNS = LANES  # of a unit of work

Kernel = Callable[[Builder, Element, Sequence[Value], "Extent", Part], None]


@dataclass(frozen=True)
class Extent:
    """Positions of the index, rows of the matrix, elements of a row."""

    positions: emit.Size
    rows: emit.Size
    width: emit.Size


@lowers("gather")
def _gather(low: Lowering, op: Op) -> None:
    b, (rows, index) = low.b, op.operands
    with low.scratch(SCRATCH_BYTES) as scratch:
        places = address(low, index, scratch)
        result = low.pointer(op.result) if has_storage(op.result) else at(b, scratch, WORD, emit.I8)
        fail_if_outside(low, op, index, places, result_type(rows).axes[0])
        _call(low, op, rows, index, [low.pointer(rows), places, result], _emit_gather)
        if not has_storage(op.result):
            low.define(op.result, low.load_number(result, result_type(rows).element))


@lowers("check_index")
def _check_index(low: Lowering, op: Op) -> None:
    (index,) = op.operands
    with low.scratch(SCRATCH_BYTES) as scratch:
        fail_if_outside(low, op, index, address(low, index, scratch), op.attributes["size"])


@lowers("scatter_rows")
def _scatter_rows(low: Lowering, op: Op) -> None:
    rows, index = op.operands
    clear_storage(low, low.pointer(op.result), low.size(storage_bytes(op.result.type)))
    with low.scratch(SCRATCH_BYTES) as scratch:
        places, source = address(low, index, scratch), address(low, rows, at(low.b, scratch, WORD, emit.I8))
        _call(low, op, op.result, index, [source, places, low.pointer(op.result)], _emit_adding)


@lowers("add_rows")
def _add_rows(low: Lowering, op: Op) -> None:
    """The result lies where the tensor lies."""
    x, rows, index = op.operands
    with low.scratch(SCRATCH_BYTES) as scratch:
        places, source = address(low, index, scratch), address(low, rows, at(low.b, scratch, WORD, emit.I8))
        fail_if_outside(low, op, index, places, result_type(x).axes[0])
        _call(low, op, x, index, [source, places, low.pointer(op.result)], _emit_adding)


def fail_if_outside(low: Lowering, op: Op, index: nodes.Value, places: Value, size: Size) -> None:
    """Leave where an element of an index that lies there isn't in 0 to size - 1."""
    b, names = low.b, SizeArguments()
    count, limit = names.names([product(result_type(index).axes), size])

    def look(b: Builder, given: Sequence[Value]) -> Value:
        sizes = names.values(given)
        return first_outside(b, given[0], sizes.of(b, count), sizes.of(b, limit))

    arguments = [places, *(emit.size(low.size(size)) for size in names.run_time)]
    bad = low.shared("first_outside", (count, limit), arguments, look, I64)
    found = b.icmp_signed("!=", bad, I64(ALL_GOOD))
    wrong = load(b, b.select(found, at(b, places, bad, I64), low.context), I64)  # of anything, where none is wrong
    low.fail_if(found, Site("index", op), [bad, wrong, emit.size(low.size(size))])


def address(low: Lowering, value: nodes.Value, room: Value) -> Value:
    """Where a tensor lies; one without axes is put into the room."""
    if has_storage(value):
        return low.pointer(value)
    low.store_number(low.number(value), room)
    return room


def _call(low: Lowering, op: Op, matrix: nodes.Value, index: nodes.Value, tensors: Sequence[Value], kernel: Kernel) -> None:
    """A kernel on the tensors, shared out to threads."""
    b, kind, names = low.b, result_type(matrix), SizeArguments()
    own = (product(result_type(index).axes), kind.axes[0], product(kind.axes[1:]))
    sizes = names.names(own)

    def body(b: Builder, given: Sequence[Value], part: Part) -> None:
        values = names.values(given)
        kernel(b, kind.element, given[: len(tensors)], Extent(*(values.of(b, size) for size in sizes)), part)

    positions, rows, width = (low.size(size) for size in own)
    added = rows if _has_narrow_rows(width) else extents.ceil_quotient(b, width, COLUMNS)
    units = positions if kernel is _emit_gather else added
    work = extents.times(b, low.size(own[0] * own[2]), 2 * PICOSECONDS_A_BYTE * kind.element.bytes)
    arguments = [*tensors, *(emit.size(low.size(size)) for size in names.run_time)]
    split(low, op.name, (kind.element, sizes), arguments, units, shares_of(low, units, work), body)


def _has_narrow_rows(width: emit.Size) -> bool:
    return isinstance(width, int) and width <= COLUMNS


def _emit_gather(b: Builder, kind: Element, tensors: Sequence[Value], extent: Extent, part: Part) -> None:
    """tensors: the addresses of rows, index and result. Units are positions."""
    element, (source, index, result), rows, width = MEMORY_TYPES[kind], tensors, extent.rows, extent.width

    def copy(i: Value, _: Sequence[Value]) -> None:
        row = load_inside(b, index, i, rows)
        here, there = (at(b, tensor, extents.times(b, place, width), element) for tensor, place in ((source, row), (result, i)))
        if width == 1:
            store(b, load(b, here, element), there)
            return

        def vector(j: Value, mask: Value | None) -> None:
            store(b, load(b, at(b, here, j, element), element, LANES, mask), at(b, there, j, element), mask)

        each_vector(b, width, vector)

    emit.loop(b, part.low, part.high, 1, copy)


def _emit_adding(b: Builder, kind: Element, tensors: Sequence[Value], extent: Extent, part: Part) -> None:
    """tensors: the addresses of the rows to add, index and what they are added to. Units are rows of the result where they are narrow, else
    stretches of columns. A row whose index is out of range is left out."""
    element, total, (source, index, result) = MEMORY_TYPES[kind], expression("add", (kind, kind)), tensors
    width, is_narrow = extent.width, _has_narrow_rows(extent.width)
    first, rows = (part.low, extents.minus(b, part.high, part.low)) if is_narrow else (0, extent.rows)
    start, end = (0, width) if is_narrow else (extents.times(b, unit, COLUMNS) for unit in (part.low, part.high))
    columns = extents.minus(b, extents.least(b, end, width), start)

    def add(i: Value, _: Sequence[Value]) -> None:
        row = load(b, at(b, index, i, I64), I64)
        own = row if first == 0 else b.sub(row, emit.size(first))
        with b.if_then(b.icmp_unsigned("<", own, emit.size(rows)), likely=True):
            here, there = (
                at(b, tensor, extents.plus(b, extents.times(b, place, width), start), element)
                for tensor, place in ((source, i), (result, row))
            )
            if width == 1:
                store(b, scalars.emit(b, total, [load(b, there, element), load(b, here, element)]), there)
                return

            def vector(j: Value, mask: Value | None) -> None:
                operands = [load(b, at(b, place, j, element), element, LANES, mask) for place in (there, here)]
                store(b, scalars.emit(b, total, operands), at(b, there, j, element), mask)

            each_vector(b, columns, vector)

    emit.loop(b, 0, extent.positions, 1, add)


def load_inside(b: Builder, index: Value, i: Value, size: emit.Size) -> Value:
    """An index that `first_outside` has found to be in range: it still is if another thread has changed the caller's array since."""
    value = load(b, at(b, index, i, I64), I64)
    return b.select(b.icmp_unsigned("<", value, emit.size(size)), value, I64(0))


def first_outside(b: Builder, index: Value, count: emit.Size, size: emit.Size) -> Value:
    """The first of `count` positions at which an index is not in 0 to size - 1, else ALL_GOOD."""
    limit = splat(b, emit.size(size), LANES)
    nothing = constant(0, emit.vector_of(emit.I1, LANES))

    def outside(i: Value, mask: Value | None) -> Value:
        return b.icmp_unsigned(">=", load(b, at(b, index, i, I64), I64, LANES, mask), limit)

    whole = extents.times(b, extents.quotient(b, count, LANES), LANES)
    (found,) = emit.loop(b, 0, whole, LANES, lambda i, found: [b.or_(found[0], outside(i, None))], [nothing])
    mask = emit.lane_mask(b, emit.size(extents.minus(b, count, whole)), LANES)
    found = b.or_(found, b.and_(outside(emit.size(whole), mask), mask) if mask is not None else nothing)
    any_outside = emit.lane_tree(b, found, b.or_)

    def search() -> list[Value]:
        def turn(r: Value, first: Sequence[Value]) -> list[Value]:
            is_outside = b.icmp_unsigned(">=", load(b, at(b, index, r, I64), I64), emit.size(size))
            return [b.select(b.and_(is_outside, b.icmp_signed("==", first[0], I64(ALL_GOOD))), r, first[0])]

        return emit.loop(b, 0, count, 1, turn, [I64(ALL_GOOD)])

    (position,) = emit.choose(b, any_outside, search, lambda: [I64(ALL_GOOD)])
    return position
