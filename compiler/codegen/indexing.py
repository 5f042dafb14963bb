"""Rows by their numbers (ops/indexing.py): gather copies them, scatter_rows and add_rows add them up in the order of the index."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shapescript.compiler.codegen import emit, scalars
from shapescript.compiler.codegen.elements import expression
from shapescript.compiler.codegen.emit import I64, LANES, Builder, Value, at, constant, load, splat, store
from shapescript.compiler.codegen.leaf_updates import each_vector
from shapescript.compiler.codegen.lowering import MEMORY_TYPES, Lowering, Site, lowers
from shapescript.compiler.codegen.nests import SizeArguments
from shapescript.compiler.codegen.storage import clear_bytes
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.sizes import product
from shapescript.compiler.ir.types import Element
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.ops.locations import has_storage

ALL_GOOD = -1  # where all indices are in range
WORD = 8  # bytes of scratch for a value without axes
SCRATCH_BYTES = 64

Kernel = Callable[[Builder, Element, Sequence[Value], emit.Size, emit.Size, emit.Size], "Value | None"]


@lowers("gather")
def _gather(low: Lowering, op: Op) -> None:
    b, (rows, index) = low.b, op.operands
    size = emit.size(low.size(result_type(rows).axes[0]))
    with low.scratch(SCRATCH_BYTES) as scratch:
        places = _address(low, index, scratch)
        result = low.pointer(op.result) if has_storage(op.result) else at(b, scratch, WORD, emit.I8)
        bad = _call(low, op, rows, index, [low.pointer(rows), places, result], _emit_gather)
        fail_if_outside(low, op, bad, places, size)
        if not has_storage(op.result):
            low.define(op.result, low.load_number(result, result_type(rows).element))


@lowers("scatter_rows")
def _scatter_rows(low: Lowering, op: Op) -> None:
    rows, index = op.operands
    with low.scratch(SCRATCH_BYTES) as scratch:
        places, source = _address(low, index, scratch), _address(low, rows, at(low.b, scratch, WORD, emit.I8))
        _call(low, op, op.result, index, [source, places, low.pointer(op.result)], _emit_scatter_rows)


@lowers("add_rows")
def _add_rows(low: Lowering, op: Op) -> None:
    """The result lies where the tensor lies."""
    x, rows, index = op.operands
    size = emit.size(low.size(result_type(x).axes[0]))
    with low.scratch(SCRATCH_BYTES) as scratch:
        places, source = _address(low, index, scratch), _address(low, rows, at(low.b, scratch, WORD, emit.I8))
        bad = _call(low, op, x, index, [source, places, low.pointer(op.result)], _emit_add_rows)
        fail_if_outside(low, op, bad, places, size)


def fail_if_outside(low: Lowering, op: Op, bad: Value, index: Value, size: Value) -> None:
    """Leave where a kernel has found an index out of range: `bad` is its position, or ALL_GOOD."""
    b = low.b
    found = b.icmp_signed("!=", bad, I64(ALL_GOOD))
    wrong = load(b, b.select(found, at(b, index, bad, I64), low.context), I64)  # of anything, where none is wrong
    low.fail_if(found, Site("index", op), [bad, wrong, size])


def _address(low: Lowering, value: nodes.Value, room: Value) -> Value:
    """Where a tensor lies; one without axes is put into the room."""
    if has_storage(value):
        return low.pointer(value)
    low.store_number(low.number(value), room)
    return room


def _call(low: Lowering, op: Op, matrix: nodes.Value, index: nodes.Value, tensors: Sequence[Value], kernel: Kernel) -> Value:
    """A shared kernel on the tensors, given the element type and sizes: positions of the index, rows of the matrix, elements of a row."""
    kind = result_type(matrix)
    names = SizeArguments()
    sizes = names.names([product(result_type(index).axes), kind.axes[0], product(kind.axes[1:])])

    def body(b: Builder, given: Sequence[Value]) -> Value | None:
        values = names.values(given)
        positions, rows, width = (values.of(b, size) for size in sizes)
        return kernel(b, kind.element, given[: len(tensors)], positions, rows, width)

    arguments = [*tensors, *(emit.size(low.size(size)) for size in names.run_time)]
    return low.shared(op.name, (kind.element, sizes), arguments, body, emit.VOID if op.name == "scatter_rows" else I64)


def _emit_gather(b: Builder, kind: Element, tensors: Sequence[Value], positions: emit.Size, rows: emit.Size, width: emit.Size) -> Value:
    """tensors: the addresses of rows, index and result. Returns the first position whose index is out of range, before anything is written,
    else ALL_GOOD."""
    element, (source, index, result) = MEMORY_TYPES[kind], tensors
    bad = first_outside(b, index, positions, rows)
    with b.if_then(b.icmp_signed("!=", bad, I64(ALL_GOOD)), likely=False):
        b.ret(bad)

    def copy(i: Value, _: Sequence[Value]) -> None:
        row = load_inside(b, index, i, rows)
        here, there = (at(b, tensor, emit.times(b, place, width), element) for tensor, place in ((source, row), (result, i)))
        if width == 1:
            store(b, load(b, here, element), there)
            return

        def vector(j: Value, mask: Value | None) -> None:
            store(b, load(b, at(b, here, j, element), element, LANES, mask), at(b, there, j, element), mask)

        each_vector(b, width, vector)

    emit.loop(b, 0, positions, 1, copy)
    return I64(ALL_GOOD)


def _emit_scatter_rows(
    b: Builder, kind: Element, tensors: Sequence[Value], positions: emit.Size, rows: emit.Size, width: emit.Size
) -> None:
    """tensors: the addresses of the rows to add, index and result."""
    clear_bytes(b, tensors[2], emit.times(b, emit.times(b, rows, width), emit.element_bytes(MEMORY_TYPES[kind])))
    _emit_adding(b, kind, tensors, positions, rows, width)


def _emit_add_rows(b: Builder, kind: Element, tensors: Sequence[Value], positions: emit.Size, rows: emit.Size, width: emit.Size) -> Value:
    """tensors: the addresses of the rows to add, index and what they are added to. Returns the first position whose index is out of range,
    before anything is written, else ALL_GOOD."""
    bad = first_outside(b, tensors[1], positions, rows)
    with b.if_then(b.icmp_signed("!=", bad, I64(ALL_GOOD)), likely=False):
        b.ret(bad)
    _emit_adding(b, kind, tensors, positions, rows, width)
    return I64(ALL_GOOD)


def _emit_adding(b: Builder, kind: Element, tensors: Sequence[Value], positions: emit.Size, rows: emit.Size, width: emit.Size) -> None:
    """A row whose index is out of range is left out."""
    element, total, (source, index, result) = MEMORY_TYPES[kind], expression("add", (kind, kind)), tensors

    def add(i: Value, _: Sequence[Value]) -> None:
        row = load(b, at(b, index, i, I64), I64)
        with b.if_then(b.icmp_unsigned("<", row, emit.size(rows)), likely=True):
            here, there = (at(b, tensor, emit.times(b, place, width), element) for tensor, place in ((source, i), (result, row)))
            if width == 1:
                store(b, scalars.emit(b, total, [load(b, there, element), load(b, here, element)]), there)
                return

            def vector(j: Value, mask: Value | None) -> None:
                operands = [load(b, at(b, place, j, element), element, LANES, mask) for place in (there, here)]
                store(b, scalars.emit(b, total, operands), at(b, there, j, element), mask)

            each_vector(b, width, vector)

    emit.loop(b, 0, positions, 1, add)


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

    whole = emit.times(b, emit.quotient(b, count, LANES), LANES)
    (found,) = emit.loop(b, 0, whole, LANES, lambda i, found: [b.or_(found[0], outside(i, None))], [nothing])
    mask = emit.lane_mask(b, emit.size(emit.minus(b, count, whole)), LANES)
    found = b.or_(found, b.and_(outside(emit.size(whole), mask), mask) if mask is not None else nothing)
    any_outside = emit.lane_tree(b, found, b.or_)

    def search() -> list[Value]:
        def turn(r: Value, first: Sequence[Value]) -> list[Value]:
            is_outside = b.icmp_unsigned(">=", load(b, at(b, index, r, I64), I64), emit.size(size))
            return [b.select(b.and_(is_outside, b.icmp_signed("==", first[0], I64(ALL_GOOD))), r, first[0])]

        return emit.loop(b, 0, count, 1, turn, [I64(ALL_GOOD)])

    (position,) = emit.choose(b, any_outside, search, lambda: [I64(ALL_GOOD)])
    return position
