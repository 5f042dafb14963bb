"""Modes, datasets, their orders, and loops over batches."""

from __future__ import annotations

from collections.abc import Sequence

from shapescript.compiler.codegen import emit
from shapescript.compiler.codegen.emit import I64, Value, at, load, store
from shapescript.compiler.codegen.lower_control import counted_loop
from shapescript.compiler.codegen.lowering import Lowering, Site, lowers
from shapescript.compiler.codegen.orders import Window, field_address, gather, window_capacity, window_words
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.sizes import Size, number, of, product
from shapescript.compiler.ir.types import OrderedType
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.ops.host import dataset_of

KIND, SEED, DRAWS = range(3)  # words of a mode's block


@lowers("mode_draw")
def _mode_draw(low: Lowering, op: Op) -> None:
    """In Train the stream's position moves; Eval gives -1."""
    b, (_, block) = low.b, low.values[op.operands[0]]
    kind, seed, draws = (load(b, at(b, block, word, I64), I64) for word in (KIND, SEED, DRAWS))
    trains = b.icmp_signed("!=", kind, I64(0))
    with b.if_then(trains):
        store(b, b.add(draws, I64(1)), at(b, block, DRAWS, I64))
    low.define(op.results[0], seed)
    low.define(op.results[1], b.select(trains, draws, I64(-1)))


@lowers("dataset_all")
def _dataset_all(low: Lowering, op: Op) -> None:
    _, block = low.values[op.operands[0]]
    for field, result in enumerate(op.results):
        if low.has_place(result):
            low.borrowed[result] = field_address(low, block, field)


@lowers("order")
def _order(low: Lowering, op: Op) -> None:
    """An order is its dataset and two numbers: (object, block, k, seed)."""
    data, k, seed = op.operands
    low.define(op.result, *low.values[data], low.number(k), low.number(seed))


# ---- batches


@lowers("for_batches")
def _for_batches(low: Lowering, op: Op) -> None:
    b = low.b
    data, batch_size, drop_last, *operands = op.operands
    (body,) = op.regions
    dataset = dataset_of(data.type)
    assert dataset is not None
    block = low.values[data][1]
    rows, size, drops = load(b, block, I64), low.number(batch_size), low.number(drop_last)
    too_few = b.or_(b.icmp_signed("==", rows, I64(0)), b.and_(drops, b.icmp_signed("<", rows, size)))
    nothing = b.or_(b.icmp_signed("<=", size, I64(0)), too_few)
    low.fail_if(nothing, Site("no batches", op), [rows, size, b.zext(drops, I64)])
    size = emit.size(emit.least(b, size, rows))
    whole = b.mul(b.sdiv(rows, size), size)
    end = b.select(drops, whole, rows)
    own = len(body.parameters) - len(operands)
    fields, carried = body.parameters[:own], body.parameters[own:]

    def begin(start: Value) -> None:
        low.sizes.bind(body.symbols[0], emit.size(emit.least(b, b.sub(end, start), size)))

    limits = (I64(0), end, size)
    if not isinstance(data.type, OrderedType):
        counted_loop(low, limits, operands, op, carried, begin, lambda start: _borrow(low, block, fields, start))
        return
    capacity = window_capacity(b, rows, size)
    with low.scratch(emit.times(b, window_words(b, capacity), 8)) as memory:
        window = Window(low.values[data], memory, capacity)
        window.clear(b)
        kept = {field: value for field, value in enumerate(fields) if low.has_place(value)}

        def fill(start: Value) -> None:
            examples = low.size(of(body.symbols[0]))
            gather(low, window.rows(low, start, end, examples), examples, block, kept)

        counted_loop(low, limits, operands, op, carried, begin, fill)


def _borrow(low: Lowering, block: Value, fields: Sequence[nodes.Value], start: Value) -> None:
    """A batch in the dataset's own order is a piece of each field."""
    for place, value in enumerate(fields):
        if low.has_place(value):
            first = emit.times(low.b, start, low.size(_example_bytes(value)))
            low.borrowed[value] = at(low.b, field_address(low, block, place), first, emit.I8)


def _example_bytes(value: nodes.Value) -> Size:
    kind = result_type(value)
    return product(kind.axes[1:]) * number(kind.element.bytes)
