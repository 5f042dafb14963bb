"""Batches of a shuffled dataset: which examples come at which places of an order (numerics/permutation.py), and their fields side by side.

The permutation gives any place alone, but a place may need several passes of its network, each a long chain of dependent operations. So the
examples of many places are found together: all that are still searched for lie next to each other and go through the network in wide
vectors, until none is left. A loop over batches does so for a window of places at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llvmlite import ir

from shapescript.compiler.codegen import emit, scalars
from shapescript.compiler.codegen.emit import I1, I32, I64, LANES, PTR, Builder, Value, at, iota, lane_mask, load, loop, splat, store
from shapescript.compiler.codegen.lowering import MEMORY_TYPES, Lowering, Registers
from shapescript.compiler.codegen.random import emit_run, stream
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.sizes import product
from shapescript.compiler.numerics import permutation
from shapescript.compiler.numerics.philox import GROUP_WORDS, Domain
from shapescript.compiler.numerics.scalar import U32, U64, Argument
from shapescript.compiler.ops.build import result_type

WINDOW = 1024  # places
WIDTH = 32  # places that go through the network together
UNROLLED_VECTORS = 8  # of an example, copied without a loop
_FIRST, _END, _ROWS = range(3)  # words of a window: its first place, its end, then the examples' numbers

_PASS = permutation.feistel(Argument(0, U64), Argument(1, U64), [Argument(2 + place, U32) for place in range(permutation.KEYS)])


def window_capacity(b: Builder, rows: Value, size: Value) -> emit.Size:
    """Places that a window has: at least a batch, no more than the order, in whole vectors."""
    return emit.round_up(b, emit.least(b, emit.most(b, size, WINDOW), rows), WIDTH)


def window_words(b: Builder, capacity: emit.Size) -> emit.Size:
    """Of memory: the window's own, and as many again for the numbers that are searched and where they belong."""
    return emit.plus(b, emit.times(b, capacity, 3), _ROWS)


@dataclass(frozen=True)
class Window:
    """The examples at some following places of an order (its registers: object, block, k, seed)."""

    order: Registers
    memory: Value
    capacity: emit.Size

    def clear(self, b: Builder) -> None:
        """No place is known."""
        store(b, I64(0), at(b, self.memory, _FIRST, I64))
        store(b, I64(0), at(b, self.memory, _END, I64))

    def rows(self, low: Lowering, start: Value, end: Value, count: emit.Size) -> Value:
        """The address of the numbers of the examples at places start to start + count, which are all before `end`."""
        b, (_, block, k, seed) = low.b, self.order
        rows = at(b, self.memory, _ROWS, I64)
        known = load(b, at(b, self.memory, _END, I64), I64)
        with b.if_then(b.icmp_signed(">", b.add(start, emit.size(count)), known)):
            wanted = emit.size(emit.least(b, b.sub(end, start), self.capacity))
            store(b, start, at(b, self.memory, _FIRST, I64))
            store(b, b.add(start, wanted), at(b, self.memory, _END, I64))
            numbers = at(b, rows, self.capacity, I64)
            arguments = [rows, numbers, at(b, numbers, self.capacity, I64), load(b, block, I64), seed, k, start, wanted]
            low.shared("order_rows", None, arguments, _emit_rows)
        return at(b, rows, b.sub(start, load(b, at(b, self.memory, _FIRST, I64), I64)), I64)


def _half_bits(b: Builder, n: Value) -> Value:
    """numerics.permutation.half_bits of n >= 1."""
    name = "llvm.ctlz.i64"
    known = b.module.globals.get(name)
    leading = known if known is not None else ir.Function(b.module, ir.FunctionType(I64, [I64, I1]), name)
    bits = b.sub(I64(64), b.call(leading, [b.sub(n, I64(1)), I1(0)]))
    return emit.size(emit.most(b, b.lshr(b.add(bits, I64(1)), I64(1)), 1))


def _emit_rows(b: Builder, arguments: Sequence[Value]) -> None:
    """rows[i] = the example at place start + i, for i < count. `numbers` and `places` have room for count in whole vectors of WIDTH."""
    rows, numbers, places, n, seed, k, start, count = arguments
    words = emit_run(b, stream(b, seed, Domain.ORDER, k), I64(0))
    found = [b.extract_element(words[place % GROUP_WORDS], I32(place // GROUP_WORDS)) for place in range(permutation.KEYS)]
    keys = [splat(b, b.trunc(key, I32), WIDTH) for key in found]
    half = splat(b, _half_bits(b, n), WIDTH)

    def begin(i: Value, _: Sequence[Value]) -> None:
        lanes = b.add(splat(b, i, LANES), iota(LANES))
        store(b, b.add(lanes, splat(b, start, LANES)), at(b, numbers, i, I64))
        store(b, lanes, at(b, places, i, I64))

    def through_network(i: Value, _: Sequence[Value]) -> None:
        here = at(b, numbers, i, I64)
        store(b, scalars.emit(b, _PASS, [load(b, here, I64, WIDTH), half, *keys]), here)

    def settle(i: Value, left: Sequence[Value]) -> list[Value]:
        """Every number goes to its row; one that is no example's is written over when its search ends."""
        value, place = load(b, at(b, numbers, i, I64), I64), load(b, at(b, places, i, I64), I64)
        store(b, value, at(b, rows, place, I64))
        store(b, value, at(b, numbers, left[0], I64))
        store(b, place, at(b, places, left[0], I64))
        return [b.add(left[0], b.zext(b.icmp_unsigned(">=", value, n), I64))]

    def turn(left: Sequence[Value]) -> list[Value]:
        loop(b, 0, left[0], WIDTH, through_network)
        return loop(b, 0, left[0], 1, settle, [I64(0)])

    loop(b, 0, count, LANES, begin)
    emit.while_loop(b, lambda left: b.icmp_signed(">", left[0], I64(0)), turn, [count])


# ---- fields


def field_address(low: Lowering, block: Value, field: int) -> Value:
    """Where a dataset's field begins."""
    return low.b.load(at(low.b, block, 1 + field, I64), align=8, typ=PTR)


def gather(low: Lowering, rows: Value, count: emit.Size, block: Value, fields: Mapping[int, nodes.Value]) -> None:
    """Copy the fields of `count` examples to where these values of the program lie, in one pass."""
    copies = []
    for value in fields.values():
        of_one = product(result_type(value).axes[1:]).constant()
        assert of_one is not None, "the sizes of one example are known"
        copies.append(_FieldCopy(MEMORY_TYPES[result_type(value).element], of_one))
    pointers = [pointer for field, value in fields.items() for pointer in (field_address(low, block, field), low.pointer(value))]
    low.shared("gather", tuple(copies), [rows, emit.size(count), *pointers], lambda b, given: _emit_gather(b, copies, given))


@dataclass(frozen=True)
class _FieldCopy:
    """A field's element type and how many of them an example has."""

    element: emit.ElementType
    count: int

    def build(self, b: Builder, source: Value, target: Value) -> None:
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
            here, there = (emit.times(b, number, copy.count) for number in (row, i))
            copy.build(b, at(b, source, here, copy.element), at(b, target, there, copy.element))

    loop(b, 0, count, 1, example)
