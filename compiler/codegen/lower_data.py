"""Modes, datasets, their orders, and loops over batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir
from shapescript.compiler.codegen import emit, scalars
from shapescript.compiler.codegen.block import bind
from shapescript.compiler.codegen.emit import I1, I32, I64, LANES, PTR, Builder, Value, at, iota, lane_mask, load, loop, splat, store
from shapescript.compiler.codegen.lower_control import counted_loop
from shapescript.compiler.codegen.lowering import MEMORY_TYPES, Lowering, Site, lowers
from shapescript.compiler.codegen.random import emit_run, stream
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.sizes import Size, number, of, product
from shapescript.compiler.ir.types import OrderedType
from shapescript.compiler.numerics import permutation
from shapescript.compiler.numerics.philox import GROUP_WORDS, Domain
from shapescript.compiler.numerics.scalar import U32, U64, Argument
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.ops.host import dataset_of

KIND, SEED, DRAWS = range(3)  # words of a mode's block
UNROLLED_VECTORS = 8  # of an example, copied without a loop

_PASS = permutation.feistel(Argument(0, U64), Argument(1, U64), [Argument(2 + turn, U32) for turn in range(permutation.KEYS)])


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
            low.borrowed[result] = _field(low, block, field)


def _field(low: Lowering, block: Value, field: int) -> Value:
    return low.b.load(at(low.b, block, 1 + field, I64), align=8, typ=PTR)


# ---- orders: (object, block, k, seed)


@lowers("order")
def _order(low: Lowering, op: Op) -> None:
    """An order is its dataset and two numbers; positions are computed when they are asked for."""
    data, k, seed = op.operands
    low.define(op.result, *low.values[data], low.number(k), low.number(seed))


def _half_bits(b: Builder, n: Value) -> Value:
    """numerics.permutation.half_bits of n >= 1."""
    name = "llvm.ctlz.i64"
    known = b.module.globals.get(name)
    leading = known if known is not None else ir.Function(b.module, ir.FunctionType(I64, [I64, I1]), name)
    bits = b.sub(I64(64), b.call(leading, [b.sub(n, I64(1)), I1(0)]))
    return emit.size(emit.most(b, b.lshr(b.add(bits, I64(1)), I64(1)), 1))


def _emit_rows(b: Builder, arguments: Sequence[Value]) -> None:
    """rows[i] = the example at place start + i of an order, for i < count rounded up to 16; all places must exist but those past the end."""
    rows, n, seed, k, start, count = arguments
    half = _half_bits(b, n)
    words = emit_run(b, stream(b, seed, Domain.ORDER, k), I64(0))
    found = [b.extract_element(words[place % GROUP_WORDS], I32(place // GROUP_WORDS)) for place in range(permutation.KEYS)]
    keys = [splat(b, b.trunc(key, I32), LANES) for key in found]
    halves, limit, last = splat(b, half, LANES), splat(b, n, LANES), splat(b, b.sub(n, I64(1)), LANES)

    def turn(i: Value, _: Sequence[Value]) -> None:
        places = b.add(splat(b, b.add(start, i), LANES), iota(LANES))
        places = b.select(b.icmp_unsigned("<", places, limit), places, last)

        def outside(state: Sequence[Value]) -> Value:
            return emit.lane_tree(b, b.icmp_unsigned(">=", state[0], limit), lambda x, y: b.or_(x, y))

        def again(state: Sequence[Value]) -> list[Value]:
            (index,) = state
            moved = scalars.emit(b, _PASS, [index, halves, *keys])
            return [b.select(b.icmp_unsigned(">=", index, limit), moved, index)]

        first = scalars.emit(b, _PASS, [places, halves, *keys])
        (found,) = emit.while_loop(b, outside, again, [first])
        store(b, found, at(b, rows, i, I64))

    loop(b, 0, count, LANES, turn)


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
    fields, carried = body.parameters[: len(body.parameters) - len(operands)], body.parameters[len(body.parameters) - len(operands) :]

    def begin(start: Value) -> None:
        bind(low, body.symbols[0], emit.size(emit.least(b, b.sub(end, start), size)))

    def fill(start: Value) -> None:
        if isinstance(data.type, OrderedType):
            _gather(low, data, fields, start, of(body.symbols[0]))
        else:
            _borrow(low, block, fields, start)

    counted_loop(low, (I64(0), end, size), operands, op, carried, begin, fill)


def _borrow(low: Lowering, block: Value, fields: Sequence[nodes.Value], start: Value) -> None:
    """A batch in the dataset's own order is a piece of each field."""
    for place, value in enumerate(fields):
        if low.has_place(value):
            low.borrowed[value] = at(low.b, _field(low, block, place), emit.times(low.b, start, low.size(_example_bytes(value))), emit.I8)


def _example_bytes(value: nodes.Value) -> Size:
    kind = result_type(value)
    return product(kind.axes[1:]) * number(kind.element.bytes)


def _gather(low: Lowering, data: nodes.Value, fields: Sequence[nodes.Value], start: Value, count: Size) -> None:
    """The examples at places start to start + count of an order, copied to the fields' slots in one pass."""
    _, block, k, seed = low.values[data]
    kept = [(place, value) for place, value in enumerate(fields) if low.has_place(value)]
    examples = emit.size(low.size(count))
    with low.scratch(emit.times(low.b, emit.round_up(low.b, examples, LANES), 8)) as rows:
        low.shared("order_rows", None, [rows, load(low.b, block, I64), seed, k, start, examples], _emit_rows)
        copies = [_FieldCopy(MEMORY_TYPES[result_type(value).element], product(result_type(value).axes[1:]).constant() or 0) for _, value in kept]
        pointers = [pointer for place, value in kept for pointer in (_field(low, block, place), low.pointer(value))]
        low.shared("gather", tuple(copies), [rows, examples, *pointers], lambda b, given: _emit_gather(b, copies, given))


@dataclass(frozen=True)
class _FieldCopy:
    """A field's element type and how many of them an example has."""

    element: emit.ElementType
    count: int

    def emit(self, b: Builder, source: Value, target: Value) -> None:
        def vector(i: emit.Size, valid: int = LANES) -> None:
            mask = lane_mask(b, valid, LANES)
            store(b, load(b, at(b, source, i, self.element), self.element, LANES, mask), at(b, target, i, self.element), mask)

        if self.count == 1:
            store(b, load(b, source, self.element), target)
            return
        whole = self.count // LANES * LANES
        if whole <= UNROLLED_VECTORS * LANES:
            for i in range(0, whole, LANES):
                vector(i)
        else:
            loop(b, 0, whole, LANES, lambda i, _: vector(i))
        if self.count > whole:
            vector(whole, self.count - whole)


def _emit_gather(b: Builder, copies: Sequence[_FieldCopy], arguments: Sequence[Value]) -> None:
    rows, count, *pointers = arguments

    def example(i: Value, _: Sequence[Value]) -> None:
        row = load(b, at(b, rows, i, I64), I64)
        for place, copy in enumerate(copies):
            source, target = pointers[2 * place : 2 * place + 2]
            copy.emit(b, at(b, source, emit.times(b, row, copy.count), copy.element), at(b, target, emit.times(b, i, copy.count), copy.element))

    loop(b, 0, count, 1, example)
