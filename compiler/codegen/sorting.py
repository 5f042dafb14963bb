"""argsort (ops/ordering.py): a stable merge sort of each row, from runs of one element up, between two buffers of scratch.

What is sorted are pairs of a key and a position. The key is a whole number that orders as the element does: a float's bits, turned so that
they ascend, with one key for both zeros and the greatest for NaN; its complement where the order descends, which leaves equals in place.
"""

from __future__ import annotations

from collections.abc import Sequence

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.along import Range, ranges_of, three_axes, units_of
from shapescript.compiler.codegen.emit import F32, I32, I64, Builder, ElementType, Value, at, is_float, load, store
from shapescript.compiler.codegen.lowering import MEMORY_TYPES, Lowering, lowers
from shapescript.compiler.codegen.nests import SizeArguments, unless_empty, where_any
from shapescript.compiler.codegen.split import Part, shares_of, split
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.sizes import Size, product
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.records.dataclass import dataclass

PAIR = emit.vector_of(I64, 2)
PAIR_BYTES = 16
PICOSECONDS_A_MOVE = 4000  # of an element, in one pass of merging
USUAL_PASSES = 10


@lowers("argsort")
def _argsort(low: Lowering, op: Op) -> None:
    x, descending = op.operands
    kind = result_type(x)
    axes = three_axes(kind, op.attributes["position"])
    names = SizeArguments()
    sizes = names.names(axes)

    def body(b: Builder, given: Sequence[Value], part: Part) -> None:
        values = names.values(given)
        before, count, behind = (values.of(b, size) for size in sizes)
        sort = _Sort(b, MEMORY_TYPES[kind.element], b.sext(given[3], I64), count, behind)
        own = at(b, given[2], extents.times(b, part.share, extents.times(b, count, 2)), PAIR)
        ranges = ranges_of(b, before, behind, part)
        where_any(b, (before, count, behind), lambda: sort.rows(given[0], given[1], own, *ranges))

    units, buffer = units_of(low, axes), extents.times(low.b, low.size(axes[1]), 2 * PAIR_BYTES)
    shares = shares_of(low, units, _work(low, axes))
    with low.scratch(extents.times(low.b, unless_empty(low.b, [low.size(axis) for axis in axes], buffer), shares)) as scratch:
        arguments = [low.pointer(x), low.pointer(op.result), scratch, low.number(descending)]
        arguments += [emit.size(low.size(size)) for size in names.run_time]
        split(low, "argsort", (kind.element, sizes), arguments, units, shares, body)


def _work(low: Lowering, axes: Sequence[Size]) -> emit.Size:
    """Of each element in each pass of merging."""
    count = low.size(axes[1])
    passes = count.bit_length() if isinstance(count, int) else USUAL_PASSES
    return extents.times(low.b, low.size(product(axes)), passes * PICOSECONDS_A_MOVE)


@dataclass(frozen=True)
class _Sort:
    """Sorts rows of `count` elements, `behind` apart from each other. `complement`: all bits where the order descends, else none."""

    b: Builder
    element: ElementType
    complement: Value
    count: emit.Size
    behind: emit.Size

    def rows(self, source: Value, result: Value, scratch: Value, before: Range, behind: Range) -> None:
        """Those of these places before the axis and behind it."""
        b = self.b

        def block(i: Value, _: Sequence[Value]) -> None:
            start = b.mul(i, emit.size(extents.times(b, self.count, self.behind)))
            emit.loop(b, *behind, 1, lambda k, _: self._row(source, result, scratch, b.add(start, k)))

        emit.loop(b, *before, 1, block)

    def _row(self, source: Value, result: Value, scratch: Value, start: Value) -> None:
        b, behind = self.b, emit.size(self.behind)
        other = at(b, scratch, self.count, PAIR)

        def fill(j: Value, _: Sequence[Value]) -> None:
            value = load(b, at(b, source, b.add(start, b.mul(j, behind)), self.element), self.element)
            store(b, self._key(value), at(b, scratch, b.mul(j, I64(2)), I64))
            store(b, j, at(b, scratch, b.add(b.mul(j, I64(2)), I64(1)), I64))

        emit.loop(b, 0, self.count, 1, fill)
        (_, sorted_, _) = emit.while_loop(b, self._is_longer, self._merged, [I64(1), scratch, other])

        def write(j: Value, _: Sequence[Value]) -> None:
            position = load(b, at(b, sorted_, b.add(b.mul(j, I64(2)), I64(1)), I64), I64)
            store(b, position, at(b, result, b.add(start, b.mul(j, behind)), I64))

        emit.loop(b, 0, self.count, 1, write)

    def _key(self, value: Value) -> Value:
        return self.b.xor(_ascending_bits(self.b, value) if is_float(self.element) else value, self.complement)

    # ---- merging

    def _is_longer(self, state: Sequence[Value]) -> Value:
        return self.b.icmp_signed("<", state[0], emit.size(self.count))

    def _merged(self, state: Sequence[Value]) -> list[Value]:
        """Pairs of neighbouring runs of `width` merged from one buffer into the other."""
        b, (width, source, target) = self.b, state
        twice = b.shl(width, I64(1))

        def pair(start: Value, _: Sequence[Value]) -> None:
            middle, end = (emit.size(extents.least(b, b.add(start, length), self.count)) for length in (width, twice))
            self._merge(source, target, start, middle, end)

        emit.loop(b, 0, self.count, twice, pair)
        return [twice, target, source]

    def _merge(self, source: Value, target: Value, start: Value, middle: Value, end: Value) -> None:
        """Of equal keys that of the first run comes first."""
        b = self.b

        def both_left(state: Sequence[Value]) -> Value:
            return b.and_(b.icmp_signed("<", state[0], middle), b.icmp_signed("<", state[1], end))

        def smaller(state: Sequence[Value]) -> list[Value]:
            left, right, place = state
            is_left = b.icmp_signed("<=", *(load(b, at(b, source, b.mul(run, I64(2)), I64), I64) for run in (left, right)))
            self._move(source, b.select(is_left, left, right), target, place)
            step = b.zext(is_left, I64)
            return [b.add(left, step), b.add(right, b.sub(I64(1), step)), b.add(place, I64(1))]

        left, right, place = emit.while_loop(b, both_left, smaller, [start, middle, start])
        rest = b.sub(middle, left)
        emit.loop(b, 0, rest, 1, lambda i, _: self._move(source, b.add(left, i), target, b.add(place, i)))
        emit.loop(b, right, end, 1, lambda i, _: self._move(source, i, target, i))

    def _move(self, source: Value, from_: Value, target: Value, to: Value) -> None:
        b = self.b
        store(b, load(b, at(b, source, from_, PAIR), I64, 2), at(b, target, to, PAIR))


def _ascending_bits(b: Builder, value: Value) -> Value:
    """A float as a whole number of 64 bits that orders as it does."""
    bits = I32 if value.type == F32 else I64
    whole = b.bitcast(value, bits)
    negative = b.icmp_signed("<", whole, bits(0))
    key = b.select(negative, b.xor(whole, bits((1 << (bits.width - 1)) - 1)), whole)
    zero = emit.constant(0.0, value.type)
    key = b.select(b.fcmp_ordered("==", value, zero), bits(0), key)
    key = b.select(b.fcmp_unordered("uno", value, zero), bits((1 << (bits.width - 1)) - 1), key)
    return b.sext(key, I64) if bits is I32 else key
