"""Batches of a shuffled dataset: which examples come at which places of an order (numerics/permutation.py), and their fields side by side.

The permutation gives any place alone, but a place may need several passes of its network, each a long chain of dependent operations. So the
examples of many places are found together: all that are still searched for lie next to each other and go through the network in wide
vectors, until none is left. A loop over batches does so for a window of places at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from shapescript.compiler.codegen import emit, extents, scalars
from shapescript.compiler.codegen.emit import I1, I8, I32, I64, LANES, PTR, Builder, Value, at, iota, lane_mask, load, loop, splat, store
from shapescript.compiler.codegen.lowering import MEMORY_TYPES, Lowering, Registers
from shapescript.compiler.codegen.random import emit_first_groups, emit_words, stream
from shapescript.compiler.codegen.split import PICOSECONDS_A_BYTE, Part, shares_of, split
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.sizes import product
from shapescript.compiler.numerics import permutation
from shapescript.compiler.numerics.philox import GROUP_WORDS, Domain
from shapescript.compiler.numerics.sampling import ROW, WORDS_A_ROW
from shapescript.compiler.numerics.scalar import U32, U64, Argument
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.records.dataclass import dataclass

WINDOW = 1024  # places
WIDTH = 32  # places that go through the network together
UNHEARD_OF_PLACES = 1 << 56  # no machine has memory for as many; the bytes for them are still a number
UNROLLED_VECTORS = 8  # of an example, copied without a loop
SIZE, ORDER_KIND, ORDER_K, ORDER_SEED, ORDER_FIRST = range(5)  # words of an order's block; SIZE and FED of a dataset's
FED, FIRST_FIELD = 1, 2
_FIRST, _END, _ROWS = range(3)  # words of a window: its first place, its end, then the examples' numbers

_MASK = permutation.half_mask(Argument(0, U64))
_HALVES = permutation.halves(Argument(0, U64), Argument(1, U64))
_MIXED = permutation.mixed(*(Argument(place, U32) for place in range(4)))
_JOINED = permutation.joined(Argument(0, U32), Argument(1, U32), Argument(2, U64), Argument(3, U32))


def window_capacity(b: Builder, rows: Value, size: Value) -> emit.Size:
    """Places that a window has: at least a batch, no more than the order, in whole vectors. A sample may be larger than any memory."""
    wanted = extents.least(b, extents.most(b, size, WINDOW), rows)
    return extents.round_up(b, extents.least(b, wanted, UNHEARD_OF_PLACES), WIDTH)


def window_words(b: Builder, capacity: emit.Size) -> emit.Size:
    """Of memory: the window's own, and as many again for the numbers that are searched and where they belong."""
    return extents.plus(b, extents.times(b, capacity, 3), _ROWS)


@dataclass(frozen=True)
class Window:
    """The examples at some following places of an order (its registers: object, block, its dataset's block) that native code computes."""

    order: Registers
    memory: Value
    capacity: emit.Size
    repeats: bool  # whether rows are drawn, each from all

    def clear(self, b: Builder) -> None:
        """No place is known."""
        store(b, I64(0), at(b, self.memory, _FIRST, I64))
        store(b, I64(0), at(b, self.memory, _END, I64))

    def rows(self, low: Lowering, start: Value, end: Value, count: emit.Size) -> Value:
        """The address of the numbers of the examples at places start to start + count, which are all before `end`."""
        b, (_, block, data) = low.b, self.order
        rows = at(b, self.memory, _ROWS, I64)
        known = load(b, at(b, self.memory, _END, I64), I64)
        with b.if_then(b.icmp_signed(">", b.add(start, emit.size(count)), known)):
            wanted = emit.size(extents.least(b, b.sub(end, start), self.capacity))
            store(b, start, at(b, self.memory, _FIRST, I64))
            store(b, b.add(start, wanted), at(b, self.memory, _END, I64))
            numbers = at(b, rows, self.capacity, I64)
            k, seed, first = (load(b, at(b, block, word, I64), I64) for word in (ORDER_K, ORDER_SEED, ORDER_FIRST))
            arguments = [rows, numbers, at(b, numbers, self.capacity, I64), load(b, data, I64), seed, k, b.add(first, start), wanted]
            if self.repeats:
                low.shared("sampled_rows", None, arguments, _emit_sampled_rows)
            else:
                low.shared("order_rows", None, arguments, _emit_rows)
        return at(b, rows, b.sub(start, load(b, at(b, self.memory, _FIRST, I64), I64)), I64)


def _half_bits(b: Builder, n: Value) -> Value:
    """numerics.permutation.half_bits of n >= 1."""
    leading = emit.declared(b, "llvm.ctlz.i64", I64, [I64, I1])
    bits = b.sub(I64(64), b.call(leading, [b.sub(n, I64(1)), I1(0)]))
    return emit.size(extents.most(b, b.lshr(b.add(bits, I64(1)), I64(1)), 1))


def _emit_rows(b: Builder, arguments: Sequence[Value]) -> None:
    """rows[i] = the example at place start + i, for i < count. `numbers` and `places` have room for count in whole vectors of WIDTH."""
    rows, numbers, places, n, seed, k, start, count = arguments
    words = emit_first_groups(b, stream(b, seed, Domain.ORDER, k), 1 << (permutation.KEYS // GROUP_WORDS - 1).bit_length())
    found = [b.extract_element(words[place % GROUP_WORDS], I32(place // GROUP_WORDS)) for place in range(permutation.KEYS)]
    keys = emit.stack(b, I32, permutation.ROUNDS)
    for place, key in enumerate(found[: permutation.ROUNDS]):
        store(b, b.trunc(key, I32), at(b, keys, place, I32))
    last = splat(b, b.trunc(found[permutation.ROUNDS], I32), WIDTH)
    half = splat(b, _half_bits(b, n), WIDTH)
    mask = scalars.emit(b, _MASK, [half])

    def begin(i: Value, _: Sequence[Value]) -> None:
        lanes = b.add(splat(b, i, LANES), iota(LANES))
        store(b, b.add(lanes, splat(b, start, LANES)), at(b, numbers, i, I64))
        store(b, lanes, at(b, places, i, I64))

    def through_network(i: Value, _: Sequence[Value]) -> None:
        here = at(b, numbers, i, I64)
        index = load(b, here, I64, WIDTH)
        ends = loop(b, 0, permutation.ROUNDS, 1, one_round, [scalars.emit(b, part, [index, half]) for part in _HALVES])
        store(b, scalars.emit(b, _JOINED, [*ends, half, last]), here)

    def one_round(number: Value, ends: Sequence[Value]) -> list[Value]:
        """In a loop: written out they would be a fifth of what a small program makes LLVM do."""
        key = splat(b, load(b, at(b, keys, number, I32), I32), WIDTH)
        return [ends[1], scalars.emit(b, _MIXED, [*ends, key, mask])]

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


def _emit_sampled_rows(b: Builder, arguments: Sequence[Value]) -> None:
    """rows[i] = the example that is drawn for place start + i, for i < count. There is room for count in whole vectors of WIDTH."""
    rows, _, _, n, seed, k, start, count = arguments
    source = stream(b, seed, Domain.SAMPLE, k)

    def draw(i: Value, _: Sequence[Value]) -> None:
        count_of_words = WORDS_A_ROW * LANES
        drawn = emit_words(b, source, b.mul(b.add(start, i), I64(WORDS_A_ROW)), count_of_words)
        words = b.trunc(drawn, emit.vector_of(I32, count_of_words))
        high, low = (emit.shuffle(b, words, words, range(word, count_of_words, WORDS_A_ROW)) for word in range(WORDS_A_ROW))
        store(b, scalars.emit(b, ROW, [high, low, n]), at(b, rows, i, I64))

    loop(b, 0, count, LANES, draw)


# ---- fields: a dataset's block has the address of each and how many bytes apart its rows are


def is_fed(b: Builder, block: Value) -> Value:
    """Whether the host alone knows a dataset's examples (I1)."""
    return b.icmp_signed("!=", load(b, at(b, block, FED, I64), I64), I64(0))


def field_address(low: Lowering, block: Value, field: int) -> Value:
    """Where a dataset's field begins."""
    return low.b.load(at(low.b, block, FIRST_FIELD + 2 * field, I64), align=8, typ=PTR)


def _row_bytes(low: Lowering, block: Value, field: int) -> Value:
    return load(low.b, at(low.b, block, FIRST_FIELD + 1 + 2 * field, I64), I64)


def example_bytes(value: nodes.Value) -> int:
    """Of a field of one example."""
    return _example_size(value) * result_type(value).element.bytes


def _example_size(value: nodes.Value) -> int:
    count = product(result_type(value).axes[1:]).constant()
    assert count is not None, "the sizes of one example are known"
    return count


def rows_follow(low: Lowering, block: Value, fields: Mapping[int, nodes.Value]) -> Value:
    """Whether the rows of all these fields lie one behind the other, neither apart nor overlapping (I1)."""
    found: Value = I1(1)
    for field, value in fields.items():
        found = low.b.and_(found, low.b.icmp_signed("==", _row_bytes(low, block, field), I64(example_bytes(value))))
    return found


def gather(low: Lowering, rows: Value, count: emit.Size, block: Value, fields: Mapping[int, nodes.Value]) -> None:
    """Copy the fields of the examples with these numbers to where these values of the program lie, in one pass."""
    targets = {field: low.pointer(value) for field, value in fields.items()}
    _copy(low, "gather", rows, count, block, fields, targets, lambda b, rows, i: load(b, at(b, rows, i, I64), I64))


def copy_rows(
    low: Lowering, start: Value, count: Value, block: Value, fields: Mapping[int, nodes.Value], targets: Mapping[int, Value]
) -> None:
    """Copy the fields of `count` examples from `start` on to the targets."""
    _copy(low, "copy_rows", start, count, block, fields, targets, lambda b, start, i: b.add(start, i))


def _copy(
    low: Lowering,
    name: str,
    which: Value,
    count: emit.Size,
    block: Value,
    fields: Mapping[int, nodes.Value],
    targets: Mapping[int, Value],
    row: Callable[[Builder, Value, Value], Value],
) -> None:
    """`row(b, which, i)` gives the number of the i-th of `count` examples."""
    copies = [_FieldCopy(MEMORY_TYPES[result_type(value).element], _example_size(value)) for value in fields.values()]
    words = [word for field in fields for word in (field_address(low, block, field), _row_bytes(low, block, field), targets[field])]

    def body(b: Builder, given: Sequence[Value], part: Part) -> None:
        which_, *fields_ = given

        def example(i: Value, _: Sequence[Value]) -> None:
            number = row(b, which_, i)
            for place, copy in enumerate(copies):
                source, apart, target = fields_[3 * place : 3 * place + 3]
                here = at(b, source, b.mul(number, apart), I8)
                copy.build(b, here, at(b, target, extents.times(b, i, copy.count), copy.element))

        loop(b, part.low, part.high, 1, example)

    work = 2 * PICOSECONDS_A_BYTE * sum(copy.count * emit.element_bytes(copy.element) for copy in copies)
    split(low, name, tuple(copies), [which, *words], count, shares_of(low, count, extents.times(low.b, count, work)), body)


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
