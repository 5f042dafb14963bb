"""Along one axis: running sums, and elements taken or added at positions along it (ops/ordering.py).

A tensor is looked at with three axes: those before the axis as one, the axis itself, and those behind it as one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shapescript.compiler.codegen import emit, scalars
from shapescript.compiler.codegen.elements import expression
from shapescript.compiler.codegen.emit import I64, LANES, Builder, ElementType, Value, at, load, store
from shapescript.compiler.codegen.indexing import ALL_GOOD, fail_if_outside, first_outside, load_inside
from shapescript.compiler.codegen.leaf_updates import each_vector
from shapescript.compiler.codegen.lowering import MEMORY_TYPES, Lowering, lowers
from shapescript.compiler.codegen.nests import SizeArguments
from shapescript.compiler.codegen.storage import clear_bytes
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.sizes import Size, product
from shapescript.compiler.ir.types import Element, TensorType
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.ops.locations import storage_bytes

# ---- running sums


@lowers("cumsum")
def _cumsum(low: Lowering, op: Op) -> None:
    kind, reverse = result_type(op.result), bool(op.attributes["reverse"])
    names = SizeArguments()
    sizes = names.names(three_axes(kind, op.attributes["position"]))

    def body(b: Builder, given: Sequence[Value]) -> None:
        values = names.values(given)
        before, count, behind = (values.of(b, size) for size in sizes)
        _emit_cumsum(b, kind.element, reverse, given[0], given[1], before, count, behind)

    arguments = [low.pointer(op.operands[0]), low.pointer(op.result), *(emit.size(low.size(size)) for size in names.run_time)]
    low.shared("cumsum", (kind.element, reverse, sizes), arguments, body)


def three_axes(kind: TensorType, position: int) -> tuple[Size, Size, Size]:
    return product(kind.axes[:position]), kind.axes[position], product(kind.axes[position + 1 :])


def _emit_cumsum(
    b: Builder, kind: Element, reverse: bool, source: Value, result: Value, before: emit.Size, count: emit.Size, behind: emit.Size
) -> None:
    """The source and the result may be one tensor."""
    element, total = MEMORY_TYPES[kind], expression("add", (kind, kind))
    block = emit.times(b, count, behind)

    def row(place: Value) -> Value:
        """The number of the place that comes at a turn, as an offset in elements."""
        return emit.size(emit.times(b, b.sub(b.sub(emit.size(count), I64(1)), place) if reverse else place, behind))

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
            each_vector(b, behind, lambda j, mask: column(start, j, LANES, mask))

    where_any(b, (before, count, behind), lambda: emit.loop(b, 0, before, 1, rows))


def where_any(b: Builder, sizes: Sequence[emit.Size], emit_body: Callable[[], object]) -> None:
    """Emit what walks through these axes; nothing runs where there are no elements: one of them may be large beside one of 0."""
    total: emit.Size = 1
    for size in sizes:
        total = emit.times(b, total, size)
    if isinstance(total, int):
        if total:
            emit_body()
        return
    with b.if_then(b.icmp_signed("!=", total, I64(0))):
        emit_body()


# ---- elements at positions


@lowers("take_along")
def _take_along(low: Lowering, op: Op) -> None:
    x, index = op.operands
    bad = _call(low, op, result_type(x), [low.pointer(x), low.pointer(index), low.pointer(op.result)], _emit_take)
    fail_if_outside(low, op, bad, low.pointer(index), emit.size(low.size(result_type(x).axes[op.attributes["position"]])))


@lowers("put_along")
def _put_along(low: Lowering, op: Op) -> None:
    g, index = op.operands
    clear_bytes(low.b, low.pointer(op.result), low.size(storage_bytes(op.result.type)))
    _call(low, op, result_type(op.result), [low.pointer(g), low.pointer(index), low.pointer(op.result)], _emit_put)


Kernel = Callable[[Builder, ElementType, Sequence[Value], emit.Size, emit.Size, emit.Size, emit.Size], "Value | None"]


def _call(low: Lowering, op: Op, whole: TensorType, tensors: Sequence[Value], kernel: Kernel) -> Value:
    """A shared kernel on the tensors, given the sizes: before the axis, along it in the index and in the whole, behind it."""
    names, element, position = SizeArguments(), MEMORY_TYPES[whole.element], op.attributes["position"]
    before, count, behind = three_axes(result_type(op.operands[1]), position)
    sizes = names.names([before, count, whole.axes[position], behind])

    def body(b: Builder, given: Sequence[Value]) -> Value | None:
        values = names.values(given)
        before, count, size, behind = (values.of(b, own) for own in sizes)
        return kernel(b, element, given[: len(tensors)], before, count, size, behind)

    arguments = [*tensors, *(emit.size(low.size(size)) for size in names.run_time)]
    return low.shared(op.name, (element, sizes), arguments, body, I64 if op.name == "take_along" else emit.VOID)


Place = Callable[[Value, Value, Value], None]


def _each_place(b: Builder, before: emit.Size, count: emit.Size, size: emit.Size, behind: emit.Size, body: Place) -> None:
    """body(place in the index, where the whole's block begins, place in a row), with the positions along the axis ascending."""

    def block(i: Value, _: Sequence[Value]) -> None:
        start = b.mul(i, emit.size(emit.times(b, size, behind)))

        def row(j: Value, _: Sequence[Value]) -> None:
            first = b.mul(b.add(b.mul(i, emit.size(count)), j), emit.size(behind))
            emit.loop(b, 0, behind, 1, lambda k, _: body(b.add(first, k), start, k))

        emit.loop(b, 0, count, 1, row)

    where_any(b, (before, count, behind), lambda: emit.loop(b, 0, before, 1, block))


def _emit_take(
    b: Builder, element: ElementType, tensors: Sequence[Value], before: emit.Size, count: emit.Size, size: emit.Size, behind: emit.Size
) -> Value:
    """tensors: the addresses of x, index and result. Returns the first position whose index is out of range, before anything is written,
    else ALL_GOOD."""
    source, index, result = tensors
    bad = first_outside(b, index, emit.times(b, emit.times(b, before, count), behind), size)
    with b.if_then(b.icmp_signed("!=", bad, I64(ALL_GOOD)), likely=False):
        b.ret(bad)

    def take(place: Value, start: Value, k: Value) -> None:
        row = load_inside(b, index, place, size)
        here = b.add(b.add(start, b.mul(row, emit.size(behind))), k)
        store(b, load(b, at(b, source, here, element), element), at(b, result, place, element))

    _each_place(b, before, count, size, behind, take)
    return I64(ALL_GOOD)


def _emit_put(
    b: Builder, element: ElementType, tensors: Sequence[Value], before: emit.Size, count: emit.Size, size: emit.Size, behind: emit.Size
) -> None:
    """tensors: the addresses of what is added, index and result, which holds zeros."""
    source, index, result = tensors

    def add(place: Value, start: Value, k: Value) -> None:
        row = load(b, at(b, index, place, I64), I64)
        with b.if_then(b.icmp_unsigned("<", row, emit.size(size)), likely=True):
            here = at(b, result, b.add(b.add(start, b.mul(row, emit.size(behind))), k), element)
            store(b, b.fadd(load(b, here, element), load(b, at(b, source, place, element), element)), here)

    _each_place(b, before, count, size, behind, add)
