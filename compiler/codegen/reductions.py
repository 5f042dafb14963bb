"""Reductions of docs/exactness.md: sum, max and min over any number of elements, in 16 lanes, blocks of 4096, and their trees.

All are emitted where the builder stands, inside the caller's loops, so `produce` and `finish` may use the caller's values, and a chain of
elementwise work is computed as it is reduced. Several reductions of the same elements run in one pass: pass several `Reduction`s, and give
one value for each from `produce`. The element index runs row-major over the reduced axes in the operand's order.

    reduce_run       elements follow each other (or `produce` can make 16 at a time): over the last axes of a row
    reduce_strided   any reduced axes, one element at a time: correct everywhere, not fast
    split_reductions                    as reduce_run, of one run, by several threads
    reductions_runs.reduce_runs         over several axes, the last one's elements adjacent, with kept axes between them
    reductions_columns.reduce_columns   over the first axes, for adjacent kept elements: sums of a matrix's columns

A sum of nothing is +0.0. max and min of nothing have no value: the caller makes it an error (they would give an infinity here).
The division of a mean is the caller's, in `finish` or after: by the count, rounded to the element type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.emit import BLOCK, I64, LANES, Builder, Size, Value, at, lane_mask, load, loop, store
from shapescript.compiler.codegen.reductions_blocks import (
    BlockTree,
    Reduction,
    block_count,
    combine_each,
    lanes_to_one,
    of_nothing,
)

__all__ = ["Reduction", "loaded", "reduce_run", "reduce_strided"]

ProduceRun = Callable[[Builder, Value, "Value | None"], Sequence[Value]]
ProduceElement = Callable[[Builder, Sequence[Value]], Sequence[Value]]


def loaded(pointer: Value, element: emit.ElementType) -> ProduceRun:
    """The source of a plain reduction of adjacent elements from `pointer` on."""
    return lambda b, i, mask: [load(b, at(b, pointer, i, element), element, LANES, mask)]


def reduce_run(b: Builder, reductions: Sequence[Reduction], count: Size, produce: ProduceRun) -> list[Value]:
    """Reduce elements 0 to count; returns one scalar for each reduction.

    `produce(builder, i, mask)` gives elements i to i + 15 as vectors of 16 lanes, i a multiple of 16; lanes outside the mask (None: all
    are valid) may hold anything, and nothing may be read or written for them. It is called in ascending order, once for each element.
    """
    if isinstance(count, int) and count <= BLOCK:
        lanes = _run_block(b, reductions, 0, count, produce)
        totals = [lanes_to_one(b, r, x) for r, x in zip(reductions, lanes, strict=True)]
        return of_nothing(b, reductions, count, totals)
    tree, blocks = BlockTree(b, reductions), block_count(b, count)

    def block(t: Value, _: Sequence[Value]) -> list[Value]:
        return tree.add(b, t, b.icmp_signed("==", b.add(t, I64(1)), emit.size(blocks)), block_values(b, reductions, count, t, produce))

    totals = loop(b, 0, blocks, 1, block, [r.starting() for r in reductions])
    return of_nothing(b, reductions, count, totals)


def block_values(b: Builder, reductions: Sequence[Reduction], count: Size, t: Value, produce: ProduceRun) -> list[Value]:
    """What block t of `count` elements is reduced to, a scalar for each; `produce` as in `reduce_run`."""
    start = b.mul(t, I64(BLOCK))
    lanes = _run_block(b, reductions, start, extents.least(b, extents.minus(b, count, start), BLOCK), produce)
    return [lanes_to_one(b, r, x) for r, x in zip(reductions, lanes, strict=True)]


def _run_block(b: Builder, reductions: Sequence[Reduction], start: Size, depth: Size, produce: ProduceRun) -> list[Value]:
    """The 16 lanes of one block."""
    whole = extents.times(b, extents.quotient(b, depth, LANES), LANES)

    def turn(i: Value, totals: Sequence[Value], mask: Value | None = None) -> list[Value]:
        return combine_each(b, reductions, totals, produce(b, emit.size(extents.plus(b, start, i)), mask), mask)

    lanes = [r.starting(LANES) for r in reductions]
    if whole != 0:
        lanes = loop(b, 0, whole, LANES, turn, lanes)
    rest = extents.minus(b, depth, whole)
    if isinstance(rest, int):
        return turn(emit.size(whole), lanes, lane_mask(b, rest, LANES)) if rest else lanes
    some = b.icmp_signed(">", rest, I64(0))
    return emit.choose(b, some, lambda: turn(emit.size(whole), lanes, lane_mask(b, rest, LANES)), lambda: lanes)


def reduce_strided(b: Builder, reductions: Sequence[Reduction], sizes: Sequence[Size], produce: ProduceElement) -> list[Value]:
    """Reduce over axes of the given sizes, in row-major order; `produce(builder, indices)` gives the element there, a scalar for each."""
    count: Size = 1
    for axis in sizes:
        count = extents.times(b, count, axis)
    total = emit.size(count)
    tree, rooms = BlockTree(b, reductions), [emit.stack(b, r.element, LANES) for r in reductions]
    results = [emit.stack(b, r.element, 1) for r in reductions]

    def begin_block() -> None:
        for room, r in zip(rooms, reductions, strict=True):
            store(b, r.starting(LANES), room)

    def end_block(done: Value) -> None:
        lanes = [lanes_to_one(b, r, load(b, room, r.element, LANES)) for room, r in zip(rooms, reductions, strict=True)]
        t = b.lshr(b.sub(done, I64(1)), I64(BLOCK.bit_length() - 1))
        for result, value in zip(results, tree.add(b, t, b.icmp_signed("==", done, total), lanes), strict=True):
            store(b, value, result)
        begin_block()

    def element(index: Value, indices: Sequence[Value]) -> None:
        lane = b.and_(index, I64(LANES - 1))
        for room, r, value in zip(rooms, reductions, produce(b, indices), strict=True):
            cell = at(b, room, lane, r.element)
            store(b, r.combine(b, load(b, cell, r.element), value), cell)
        done = b.add(index, I64(1))
        ends = b.or_(b.icmp_signed("==", b.and_(done, I64(BLOCK - 1)), I64(0)), b.icmp_signed("==", done, total))
        with b.if_then(ends):
            end_block(done)

    def nest(axes: Sequence[Size], index: Value, indices: tuple[Value, ...]) -> None:
        if not axes:
            element(index, indices)
            return
        loop(b, 0, axes[0], 1, lambda i, _: nest(axes[1:], b.add(b.mul(index, emit.size(axes[0])), i), (*indices, i)))

    begin_block()
    for result, r in zip(results, reductions, strict=True):
        store(b, r.starting(), result)
    nest(sizes, I64(0), ())
    return of_nothing(b, reductions, count, [load(b, result, r.element) for result, r in zip(results, reductions, strict=True)])
