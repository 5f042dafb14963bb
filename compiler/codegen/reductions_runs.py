"""Reductions over runs of adjacent elements with gaps between them, as over all axes of [b C H W] but C; see reductions.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.emit import BLOCK, I64, LANES, Builder, Size, Value, iota, load, loop, splat, store
from shapescript.compiler.codegen.reductions_blocks import BlockTree, Reduction, combine_each, lanes_to_one, of_nothing

ProduceInRun = Callable[[Builder, Sequence[Value], Value, "Value | None"], Sequence[Value]]


def reduce_runs(b: Builder, reductions: Sequence[Reduction], sizes: Sequence[Size], produce: ProduceInRun) -> list[Value]:
    """Reduce over axes of the given sizes, row-major, where the last one's elements follow each other; a scalar for each reduction.

    `produce(builder, indices, i, mask)` gives elements i to i + 15 of the run at `indices` (of all axes but the last) as vectors of 16
    lanes. Where a run begins within a vector, i is negative by up to 15; lanes outside the mask (None: all are valid) may hold anything,
    and nothing may be read or written for them. It is called in ascending order, once for each element.
    """
    *outer, length = sizes
    count = length
    for axis in outer:
        count = extents.times(b, count, axis)
    nest = _Runs(b, reductions, emit.size(length), emit.size(count), produce)
    return of_nothing(b, reductions, count, nest.reduce(outer))


class _Runs:
    """Carries the 16 lanes of the current block from run to run."""

    def __init__(self, b: Builder, reductions: Sequence[Reduction], length: Value, total: Value, produce: ProduceInRun) -> None:
        self.b, self.reductions, self.length, self.total, self.produce = b, reductions, length, total, produce
        self.tree = BlockTree(b, reductions)
        self.results = [emit.stack(b, r.element, 1) for r in reductions]

    def reduce(self, outer: Sequence[Size]) -> list[Value]:
        for result, r in zip(self.results, self.reductions, strict=True):
            store(self.b, r.starting(), result)
        self._nest(outer, I64(0), (), self._empty_lanes())
        return [load(self.b, result, r.element) for result, r in zip(self.results, self.reductions, strict=True)]

    def _empty_lanes(self) -> list[Value]:
        return [r.starting(LANES) for r in self.reductions]

    def _nest(self, axes: Sequence[Size], run: Value, indices: tuple[Value, ...], lanes: Sequence[Value]) -> list[Value]:
        b = self.b
        if not axes:
            return self._run(b.mul(run, self.length), indices, lanes)

        def turn(i: Value, carried: Sequence[Value]) -> list[Value]:
            return self._nest(axes[1:], b.add(b.mul(run, emit.size(axes[0])), i), (*indices, i), carried)

        return loop(b, 0, axes[0], 1, turn, lanes)

    def _run(self, first: Value, indices: Sequence[Value], lanes: Sequence[Value]) -> list[Value]:
        """One run, whose first element is number `first` of all, in pieces that end with it, with its first vector, or with a block."""
        b = self.b

        def piece(state: Sequence[Value]) -> list[Value]:
            place, *carried = state
            begun = b.add(first, place)
            lane = b.and_(begun, I64(LANES - 1))
            is_aligned = b.icmp_signed("==", lane, I64(0))
            room = b.select(is_aligned, b.sub(I64(BLOCK), b.and_(begun, I64(BLOCK - 1))), b.sub(I64(LANES), lane))
            count = emit.size(extents.least(b, b.sub(self.length, place), room))
            whole = b.select(is_aligned, b.and_(count, I64(-LANES)), I64(0))

            def vector(i: Value, carried: Sequence[Value]) -> list[Value]:
                return combine_each(b, self.reductions, carried, self.produce(b, indices, i, None), None)

            carried = loop(b, place, b.add(place, whole), LANES, vector, carried)
            rest = b.sub(count, whole)

            def part() -> list[Value]:
                numbers, low = iota(LANES), splat(b, lane, LANES)
                mask = b.and_(b.icmp_signed(">=", numbers, low), b.icmp_signed("<", numbers, splat(b, b.add(lane, rest), LANES)))
                values = self.produce(b, indices, b.sub(b.add(place, whole), lane), mask)
                return combine_each(b, self.reductions, carried, values, mask)

            carried = emit.choose(b, b.icmp_signed(">", rest, I64(0)), part, lambda: carried)
            return [b.add(place, count), *self._end_block(b.add(begun, count), carried)]

        return emit.while_loop(b, lambda state: b.icmp_signed("<", state[0], self.length), piece, [I64(0), *lanes])[1:]

    def _end_block(self, done: Value, lanes: Sequence[Value]) -> list[Value]:
        """The lanes to go on with after `done` elements."""
        b = self.b
        is_last = b.icmp_signed("==", done, self.total)

        def end() -> list[Value]:
            values = [lanes_to_one(b, r, x) for r, x in zip(self.reductions, lanes, strict=True)]
            t = b.lshr(b.sub(done, I64(1)), I64(BLOCK.bit_length() - 1))
            for result, value in zip(self.results, self.tree.add(b, t, is_last, values), strict=True):
                store(b, value, result)
            return self._empty_lanes()

        ends = b.or_(b.icmp_signed("==", b.and_(done, I64(BLOCK - 1)), I64(0)), is_last)
        return emit.choose(b, ends, end, lambda: list(lanes))
