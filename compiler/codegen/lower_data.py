"""Modes, datasets, their orders, and loops over batches."""

from __future__ import annotations

from collections.abc import Mapping

from shapescript.compiler.codegen import emit
from shapescript.compiler.codegen.block import UNHEARD_OF_BYTES
from shapescript.compiler.codegen.emit import I64, Builder, Value, at, load, store
from shapescript.compiler.codegen.lower_control import counted_loop
from shapescript.compiler.codegen.lowering import Lowering, Site, lowers
from shapescript.compiler.codegen.memory import ALIGNMENT
from shapescript.compiler.codegen.orders import (
    Window,
    copy_rows,
    example_bytes,
    field_address,
    gather,
    rows_follow,
    window_capacity,
    window_words,
)
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.sizes import of
from shapescript.compiler.ir.types import OrderedType
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


@lowers("mode_is_train")
def _mode_is_train(low: Lowering, op: Op) -> None:
    b, (_, block) = low.b, low.values[op.operands[0]]
    low.define(op.result, b.icmp_signed("!=", load(b, at(b, block, KIND, I64), I64), I64(0)))


@lowers("dataset_all")
def _dataset_all(low: Lowering, op: Op) -> None:
    """Whole fields where they lie; only where rows overlap they are copied apart."""
    b, (_, block) = low.b, low.values[op.operands[0]]
    examples = load(b, block, I64)
    kept = {field: value for field, value in enumerate(op.results) if low.has_place(value)}
    if kept:
        in_place = rows_follow(low, block, kept)
        memory = low.take(b.select(in_place, I64(0), _room(b, kept, examples)))
        _borrow(low, block, kept, I64(0), examples, (in_place, memory))


@lowers("order")
def _order(low: Lowering, op: Op) -> None:
    """An order is its dataset and numbers: (object, block, k, seed, its first place, how many places)."""
    data, k, seed = op.operands
    object_, block = low.values[data]
    low.define(op.result, object_, block, low.number(k), low.number(seed), I64(0), load(low.b, block, I64))


@lowers("sample_order")
def _sample_order(low: Lowering, op: Op) -> None:
    b, (data, *numbers) = low.b, op.operands
    object_, block = low.values[data]
    count, k, seed = map(low.number, numbers)
    examples = load(b, block, I64)
    impossible = b.or_(b.icmp_signed("<", count, I64(0)), b.icmp_signed("==", examples, I64(0)))
    low.fail_if(impossible, Site("no sample", op), [examples, count])
    low.define(op.result, object_, block, k, seed, I64(0), count)


@lowers("order_part")
def _order_part(low: Lowering, op: Op) -> None:
    b = low.b
    object_, block, k, seed, first, count = low.values[op.operands[0]]
    start, stop = map(low.number, op.operands[1:])
    outside = [b.icmp_signed(">", x, y) for x, y in ((I64(0), start), (start, stop), (stop, count))]
    low.fail_if(b.or_(b.or_(*outside[:2]), outside[2]), Site("part", op), [start, stop, count])
    low.define(op.result, object_, block, k, seed, b.add(first, start), b.sub(stop, start))


@lowers("order_size")
def _order_size(low: Lowering, op: Op) -> None:
    low.define(op.result, low.values[op.operands[0]][-1])


# ---- batches


@lowers("for_batches")
def _for_batches(low: Lowering, op: Op) -> None:
    b = low.b
    data, batch_size, drop_last, *operands = op.operands
    (body,) = op.regions
    dataset = dataset_of(data.type)
    assert dataset is not None
    ordered = data.type if isinstance(data.type, OrderedType) else None
    block = low.values[data][1]
    rows = low.values[data][-1] if ordered else load(b, block, I64)
    size, drops = low.number(batch_size), low.number(drop_last)
    too_few = b.or_(b.icmp_signed("==", rows, I64(0)), b.and_(drops, b.icmp_signed("<", rows, size)))
    nothing = b.or_(b.icmp_signed("<=", size, I64(0)), too_few)
    low.fail_if(nothing, Site("no batches", op), [rows, size, b.zext(drops, I64)])
    size = emit.size(emit.least(b, size, rows))
    whole = b.mul(b.sdiv(rows, size), size)
    end = b.select(drops, whole, rows)
    own = len(body.parameters) - len(operands)
    fields, carried = body.parameters[:own], body.parameters[own:]
    kept = {field: value for field, value in enumerate(fields) if low.has_place(value)}

    def begin(start: Value) -> None:
        low.sizes.bind(body.symbols[0], emit.size(emit.least(b, b.sub(end, start), size)))

    limits = (I64(0), end, size)
    if ordered is None:
        in_place = rows_follow(low, block, kept)
        with low.scratch(b.select(in_place, I64(0), _room(b, kept, size)) if kept else 0) as memory:

            def borrow(start: Value) -> None:
                _borrow(low, block, kept, start, emit.size(low.size(of(body.symbols[0]))), (in_place, memory))

            counted_loop(low, limits, operands, op, carried, begin, borrow)
        return
    capacity = window_capacity(b, rows, size)
    with low.scratch(emit.times(b, window_words(b, capacity), 8)) as memory:
        window = Window(low.values[data], memory, capacity, ordered.repeats)
        window.clear(b)

        def fill(start: Value) -> None:
            examples = low.size(of(body.symbols[0]))
            gather(low, window.rows(low, start, end, examples), examples, block, kept)

        counted_loop(low, limits, operands, op, carried, begin, fill)


def _borrow(low: Lowering, block: Value, fields: Mapping[int, nodes.Value], start: Value, count: Value, apart: tuple[Value, Value]) -> None:
    """`count` examples from `start` on, in the dataset's own order: a piece of each field where `apart[0]` says that rows follow each other
    there, else a copy in the memory that `apart[1]` is."""
    b, (in_place, memory) = low.b, apart
    copies = dict(zip(fields, _pieces(b, fields, memory, count), strict=True))
    if fields:
        with b.if_then(b.not_(in_place), likely=False):
            copy_rows(low, start, count, block, fields, copies)
    for field, value in fields.items():
        here = at(b, field_address(low, block, field), emit.times(b, start, example_bytes(value)), emit.I8)
        low.borrowed[value] = b.select(in_place, here, copies[field])


def _pieces(b: Builder, fields: Mapping[int, nodes.Value], memory: Value, count: Value) -> list[Value]:
    """Where each field's copy begins: one behind the other."""
    found: list[Value] = []
    for value in fields.values():
        found.append(memory)
        memory = at(b, memory, emit.round_up(b, emit.times(b, count, example_bytes(value)), ALIGNMENT), emit.I8)
    return found


def _room(b: Builder, fields: Mapping[int, nodes.Value], count: Value) -> Value:
    """The bytes of all pieces; where that would wrap, more than any machine has."""
    total: emit.Size = 0
    for value in fields.values():
        total = emit.plus(b, total, emit.round_up(b, emit.times(b, count, example_bytes(value)), ALIGNMENT))
    most = UNHEARD_OF_BYTES // sum(example_bytes(value) + ALIGNMENT for value in fields.values())
    return b.select(b.icmp_signed(">", count, I64(most)), I64(UNHEARD_OF_BYTES), emit.size(total))
