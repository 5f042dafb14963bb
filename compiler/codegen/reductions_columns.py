"""Reductions over the rows of a matrix whose columns are adjacent; see reductions.py.

Two ways, the same bits. *Strips* keep the 16 lanes of one vector of columns in registers and walk down the rows: best where the matrix is
in the first caches. *Accumulators* keep 16 lanes of a few hundred columns in cache and walk along the rows: best for wide or large
matrices, where strips touch a new page at every row, and for long chains of work, which they emit once instead of up to 32 times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.emit import BLOCK, I64, LANES, Builder, Size, Value, at, element_bytes, lane_mask, load, loop, store
from shapescript.compiler.codegen.reductions_blocks import BlockTree, Reduction, block_count, combine_each, of_nothing
from shapescript.compiler.codegen.target import Target

ProduceColumns = Callable[[Builder, Value, Value, "Value | None"], Sequence[Value]]
FinishColumns = Callable[[Builder, Sequence[Value], Value, "Value | None"], None]

CHUNK = 256  # columns whose accumulators are kept in cache at a time


class Method(Enum):
    STRIPS = "strips"
    ACCUMULATORS = "accumulators"


def choose_method(columns: Size, rows: Size) -> Method:
    """Strips up to 128 columns, and for rows that lanes hold one each.

    GB/s of strips and accumulators, Zen 4, AVX-512, f32: 64x128 190 and 65, 768x128 116 and 93; 64x512 45 and 62, 256x4096 23 and 59,
    4096x512 20 and 57; with AVX2 wide matrices 8 to 18 and 52 to 57.
    """
    is_narrow, are_few = isinstance(columns, int) and columns <= 128, isinstance(rows, int) and rows <= LANES
    return Method.STRIPS if is_narrow or are_few else Method.ACCUMULATORS


def column_lanes(target: Target, reductions: Sequence[Reduction]) -> int:
    """Lanes of the vectors that `produce` gives: a native vector of the widest element."""
    return target.vector_bytes // max(element_bytes(r.element) for r in reductions)


def reduce_columns(
    b: Builder,
    target: Target,
    reductions: Sequence[Reduction],
    rows: Size,
    columns: Size,
    produce: ProduceColumns,
    finish: FinishColumns,
    *,
    low: Size = 0,
    high: Size | None = None,
    method: Method | None = None,
) -> None:
    """Reduce the columns low to high (default: all) over all rows, in vectors of `column_lanes`.

    `produce(builder, row, column, mask)` gives the elements (row, column), (row, column + 1), ... for each reduction; for lanes outside the
    mask (None: all are valid) nothing may be read or written. It is called once for each element, rows ascending within a column.
    `finish(builder, values, column, mask)` takes the results of a vector of columns. low must be a multiple of `column_lanes`.
    """
    method = method or choose_method(columns, rows)
    emitter = _strips if method is Method.STRIPS else _accumulators
    emitter(b, reductions, column_lanes(target, reductions), rows, low, columns if high is None else high, produce, finish)


def _each_vector(b: Builder, low: Size, high: Size, width: int, body: Callable[[Value, Value | None], None]) -> None:
    """Whole vectors of columns, then a masked one for what is left."""
    count = extents.minus(b, high, low)
    whole = extents.plus(b, low, extents.times(b, extents.quotient(b, count, width), width))
    if not (isinstance(count, int) and count < width):
        loop(b, low, whole, width, lambda c, _: body(c, None))
    rest = extents.minus(b, high, whole)
    if isinstance(rest, int):
        if rest:
            body(emit.size(whole), lane_mask(b, rest, width))
        return
    with b.if_then(b.icmp_signed(">", rest, I64(0))):
        body(emit.size(whole), lane_mask(b, rest, width))


def _tree_of_lanes(b: Builder, reduction: Reduction, lanes: Sequence[Value]) -> Value:
    """Of 16 lanes, or of the first of them."""
    lanes, half = list(lanes), LANES // 2
    while half:
        lanes = [reduction.combine(b, one, lanes[l + half]) if l + half < len(lanes) else one for l, one in enumerate(lanes[:half])]
        half //= 2
    return lanes[0]


def _strips(
    b: Builder,
    reductions: Sequence[Reduction],
    width: int,
    rows: Size,
    low: Size,
    high: Size,
    produce: ProduceColumns,
    finish: FinishColumns,
) -> None:
    many = len(reductions)

    def grow(lanes: Sequence[Value], lane: int, row: Size, column: Value, mask: Value | None) -> list[Value]:
        """All lanes, that one with a row more."""
        mine = lanes[lane * many : (lane + 1) * many]
        grown = combine_each(b, reductions, mine, produce(b, emit.size(row), column, mask), None)
        return [*lanes[: lane * many], *grown, *lanes[(lane + 1) * many :]]

    def block_lanes(start: Size, depth: Size, column: Value, mask: Value | None) -> list[Value]:
        whole = extents.times(b, extents.quotient(b, depth, LANES), LANES)
        rest = extents.minus(b, depth, whole)

        def sixteen(r: Value, lanes: Sequence[Value]) -> list[Value]:
            for lane in range(LANES):
                lanes = grow(lanes, lane, extents.plus(b, extents.plus(b, start, r), lane), column, mask)
            return list(lanes)

        def last_rows() -> list[Value]:
            lanes = sums
            for lane in range(LANES - 1):
                row = extents.plus(b, extents.plus(b, start, whole), lane)
                if isinstance(rest, int):
                    lanes = grow(lanes, lane, row, column, mask) if lane < rest else lanes
                else:
                    there = b.icmp_signed("<", I64(lane), rest)

                    def grow_this(now: list[Value], lane: int = lane, row: Size = row) -> list[Value]:
                        return grow(now, lane, row, column, mask)

                    lanes = _one_more_row(b, there, lanes, lane, many, grow_this)
            return lanes

        sums = [r.starting(width) for r in reductions] * LANES
        if whole != 0:
            sums = loop(b, 0, whole, LANES, sixteen, sums)
        if isinstance(rest, int):
            return last_rows()
        return emit.choose(b, b.icmp_signed(">", rest, I64(0)), last_rows, lambda: sums)

    def block_values(start: Size, depth: Size, column: Value, mask: Value | None) -> list[Value]:
        if isinstance(rows, int) and 0 < rows <= LANES:  # one for each lane: what lanes begin with changes nothing
            lanes = [value for row in range(rows) for value in produce(b, I64(row), column, mask)]
        else:
            lanes = block_lanes(start, depth, column, mask)
        return [_tree_of_lanes(b, r, lanes[place::many]) for place, r in enumerate(reductions)]

    tree = None if isinstance(rows, int) and rows <= BLOCK else BlockTree(b, reductions, width)
    blocks = block_count(b, rows)

    def strip(column: Value, mask: Value | None) -> None:
        if tree is None:
            totals = block_values(0, rows, column, mask)
        else:

            def block(t: Value, _: Sequence[Value]) -> list[Value]:
                start = b.mul(t, I64(BLOCK))
                values = block_values(start, extents.least(b, extents.minus(b, rows, start), BLOCK), column, mask)
                return tree.add(b, t, b.icmp_signed("==", b.add(t, I64(1)), emit.size(blocks)), values)

            totals = loop(b, 0, blocks, 1, block, [r.starting(width) for r in reductions])
        finish(b, of_nothing(b, reductions, rows, totals), column, mask)

    _each_vector(b, low, high, width, strip)


def _one_more_row(
    b: Builder, there: Value, lanes: list[Value], lane: int, many: int, grow: Callable[[list[Value]], list[Value]]
) -> list[Value]:
    """Lanes with a row more in one of them where it is there."""
    own = slice(lane * many, (lane + 1) * many)
    mine = emit.choose(b, there, lambda: grow(lanes)[own], lambda: lanes[own])
    return [*lanes[: own.start], *mine, *lanes[own.stop :]]


def _accumulators(
    b: Builder,
    reductions: Sequence[Reduction],
    width: int,
    rows: Size,
    low: Size,
    high: Size,
    produce: ProduceColumns,
    finish: FinishColumns,
) -> None:
    rooms = [emit.stack(b, r.element, LANES * CHUNK) for r in reductions]
    tree = BlockTree(b, reductions, width, CHUNK // width)
    blocks = block_count(b, rows)

    def chunk(first: Value, _: Sequence[Value]) -> None:
        end = extents.least(b, extents.plus(b, first, CHUNK), high)

        def cells(lane: Size, column: Value) -> list[Value]:
            place = extents.plus(b, extents.times(b, lane, CHUNK), b.sub(column, first))
            return [at(b, room, place, r.element) for room, r in zip(rooms, reductions, strict=True)]

        def sums(mine: Sequence[Value]) -> list[Value]:
            return [load(b, cell, r.element, width) for cell, r in zip(mine, reductions, strict=True)]

        def block(t: Value, _: Sequence[Value]) -> None:
            start = b.mul(t, I64(BLOCK))
            stop = extents.least(b, extents.plus(b, start, BLOCK), rows)

            def clear(i: Value, _: Sequence[Value]) -> None:
                for room, r in zip(rooms, reductions, strict=True):
                    store(b, r.starting(width), at(b, room, i, r.element))

            loop(b, 0, LANES * CHUNK, width, clear)

            def row(i: Value, _: Sequence[Value]) -> None:
                lane = b.and_(i, I64(LANES - 1))

                def vector(column: Value, mask: Value | None) -> None:
                    mine = cells(lane, column)
                    grown = combine_each(b, reductions, sums(mine), produce(b, i, column, mask), None)
                    for cell, total in zip(mine, grown, strict=True):
                        store(b, total, cell)

                _each_vector(b, first, end, width, vector)

            loop(b, start, stop, 1, row)
            last = b.icmp_signed("==", b.add(t, I64(1)), emit.size(blocks))

            def end_block(column: Value, mask: Value | None) -> None:
                lanes = [sums(cells(lane, column)) for lane in range(LANES)]
                values = [_tree_of_lanes(b, r, [lane[place] for lane in lanes]) for place, r in enumerate(reductions)]
                totals = tree.add(b, t, last, values, b.sub(column, first))
                with b.if_then(last):
                    finish(b, of_nothing(b, reductions, rows, totals), column, mask)

            _each_vector(b, first, end, width, end_block)

        loop(b, 0, blocks, 1, block)

    loop(b, low, high, CHUNK, chunk)
