"""What all reductions share: how two partial results combine, and the block tree over any number of blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from shapescript.compiler.codegen import emit, extents, scalars
from shapescript.compiler.codegen.emit import BLOCK, I1, I64, LANES, Builder, ElementType, Size, Value, at, is_float, load, store
from shapescript.compiler.numerics import elementary
from shapescript.compiler.numerics.scalar import Argument, Kind
from shapescript.compiler.records.dataclass import dataclass

LEVELS = 28  # sums kept of 1, 2, 4, ... blocks: enough for 2^40 elements
_KINDS = {emit.F32: Kind.F32, emit.F64: Kind.F64, emit.I64: Kind.I64}


@dataclass(frozen=True)
class Reduction:
    """kind: sum, max or min, of F32, F64 or I64 elements. Integer sums wrap; max and min are numerics' `maximum` and `minimum`."""

    kind: str
    element: ElementType

    @property
    def start(self) -> float:
        """What lanes begin with: adding or comparing it changes nothing."""
        if self.kind == "sum":
            return -0.0 if is_float(self.element) else 0
        if is_float(self.element):
            return -math.inf if self.kind == "max" else math.inf
        return -(1 << 63) if self.kind == "max" else (1 << 63) - 1

    def combine(self, b: Builder, x: Value, y: Value) -> Value:
        """Two partial results (scalars or vectors), the earlier one first."""
        if self.kind == "sum":
            return b.fadd(x, y) if is_float(self.element) else b.add(x, y)
        if is_float(self.element):
            return self._extreme(b, x, y)
        arguments = [Argument(i, _KINDS[self.element]) for i in range(2)]
        extreme = elementary.maximum if self.kind == "max" else elementary.minimum
        return scalars.emit(b, extreme(*arguments), [x, y])

    def _extreme(self, b: Builder, x: Value, y: Value) -> Value:
        """`maximum` and `minimum` of floats in fewer instructions: equal numbers have equal bits, but for the sign of zeros."""
        word = emit.I32 if self.element == emit.F32 else I64
        words = word if x.type == self.element else emit.vector_of(word, x.type.count)
        one, other = b.bitcast(x, words), b.bitcast(y, words)
        equal = b.bitcast((b.and_ if self.kind == "max" else b.or_)(one, other), x.type)
        is_first = b.or_(b.fcmp_ordered(">" if self.kind == "max" else "<", x, y), b.fcmp_unordered("uno", x, x))
        return b.select(is_first, x, b.select(b.fcmp_ordered("==", x, y), equal, y))

    def starting(self, count: int | None = None) -> Value:
        return emit.constant(self.start, self.element if count is None else emit.vector_of(self.element, count))


def combine_each(
    b: Builder, reductions: Sequence[Reduction], totals: Sequence[Value], values: Sequence[Value], mask: Value | None
) -> list[Value]:
    """Totals with one more value each, in the mask's lanes."""
    grown = [r.combine(b, x, y) for r, x, y in zip(reductions, totals, values, strict=True)]
    return [emit.masked(b, mask, new, old) for new, old in zip(grown, totals, strict=True)]


def of_nothing(b: Builder, reductions: Sequence[Reduction], count: Size, totals: Sequence[Value]) -> list[Value]:
    """A float sum of nothing is +0.0, though its lanes began with -0.0."""
    if isinstance(count, int) and count > 0:
        return list(totals)
    empty = b.icmp_signed("==", emit.size(count), I64(0))
    floats = [r.kind == "sum" and is_float(r.element) for r in reductions]
    return [b.select(empty, emit.constant(0.0, x.type), x) if wanted else x for wanted, x in zip(floats, totals, strict=True)]


def block_count(b: Builder, count: Size) -> Size:
    """Blocks of a reduction of `count` elements; one for none."""
    return extents.ceil_quotient(b, extents.most(b, count, 1), BLOCK)


class BlockTree:
    """The block tree of one or more reductions, fed block by block: adjacent pairs, an odd one goes up unchanged.

    Level l of a small stack keeps the result of 2^l blocks. Before block t the levels in use are the ones of t in binary. A block's result
    takes in the levels of t's trailing ones, and is kept at the level behind them; the last block's takes in all levels that are left.
    """

    def __init__(self, b: Builder, reductions: Sequence[Reduction], width: int | None = None, columns: int = 1) -> None:
        """Room on the stack for scalars, or vectors of `width` lanes, at each of `columns` adjacent places."""
        self.reductions, self.width, self.columns = reductions, width, columns
        self.rooms = [emit.stack(b, r.element, LEVELS * columns * (width or 1)) for r in reductions]

    def add(self, b: Builder, t: Value, last: Value, values: Sequence[Value], column: Size = 0) -> list[Value]:
        """Feed block t's values; what it returns is the whole result if t is the last block. `column`: in elements."""
        stride = self.columns * (self.width or 1)

        def place(room: Value, element: Any, level: Value) -> Value:
            return at(b, room, extents.plus(b, extents.times(b, level, stride), column), element)

        def take_in(state: Sequence[Value]) -> list[Value]:
            bits, level, *current = state
            rooms = zip(self.rooms, self.reductions, strict=True)
            kept = [load(b, place(room, r.element, level), r.element, self.width) for room, r in rooms]
            there = b.trunc(bits, I1)
            combined = [r.combine(b, x, y) for r, x, y in zip(self.reductions, kept, current, strict=True)]
            return [b.lshr(bits, I64(1)), b.add(level, I64(1)), *(b.select(there, x, y) for x, y in zip(combined, current, strict=True))]

        def more(state: Sequence[Value]) -> Value:
            return b.or_(b.trunc(state[0], I1), b.and_(last, b.icmp_signed("!=", state[0], I64(0))))

        _, level, *totals = emit.while_loop(b, more, take_in, [t, I64(0), *values])
        for room, r, total in zip(self.rooms, self.reductions, totals, strict=True):
            store(b, total, place(room, r.element, level))
        return totals


def lanes_to_one(b: Builder, reduction: Reduction, lanes: Value) -> Value:
    """The lane tree of a vector of 16."""
    assert lanes.type.count == LANES
    return emit.lane_tree(b, lanes, lambda x, y: reduction.combine(b, x, y))
