"""What a tile asks of memory while it is computed, so that nothing waits for it later: a row or a few at a time, between its steps,
since a core follows some ten lines at once, and those of the panel in use come from the second cache.

- The next panel of a large B, whose rows are far apart: copying it would wait for each of them. Every whole tile copies its part of it,
  and asks for rows that come soon.
- The tile's own rows of C, where these are far apart: storing to them would.
- The next tile's rows of A, where these are: the machine follows too few of them by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.contraction_kernel import Coming, Kernel, Panel, Stage
from shapescript.compiler.codegen.contraction_zeros import Steps
from shapescript.compiler.codegen.emit import I64, Builder, ElementType, Size, Value, at, element_bytes, load, loop, prefetch, store

LINE_BYTES = 64  # of a cache
FAR_BYTES = 1024  # rows nearer than this reach the first cache without being asked for
LEAST_STEPS = 8  # of a part, before whose steps rows of B are copied
ROWS_AHEAD = 8  # 4 and 8 took least time; 16 and more rows, so far apart, don't stay in the first cache


def are_far_apart(stride: Size, element: ElementType) -> bool:
    return not isinstance(stride, int) or stride * element_bytes(element) >= FAR_BYTES


def steps_with_fetches(
    b: Builder, kernel: Kernel, panel: Panel, stage: Stage, i: Value, start: Sequence[Value], steps: Steps, *, fetches_result: bool
) -> list[Value]:
    """All steps of the whole tile of row `i`, with what is fetched between; `steps(low, high, sums)` emits those of a part."""
    rows, depth, coming = kernel.plan.rows, emit.size(stage.depth), stage.coming
    tiles = extents.quotient(b, b.sub(kernel.row_high, kernel.row_low), rows)
    steps_of_a_part: Size = extents.most(b, tiles, LEAST_STEPS) if coming is not None else depth
    if fetches_result:
        steps_of_a_part = extents.least(b, steps_of_a_part, extents.quotient(b, depth, rows))
    steps_of_a_part = emit.size(extents.most(b, steps_of_a_part, 1))
    parts = b.udiv(b.add(depth, b.sub(steps_of_a_part, I64(1))), steps_of_a_part)
    copied = [] if coming is None else _copied_before(b, coming, b.udiv(b.sub(i, kernel.row_low), I64(rows)), parts, emit.size(tiles))

    def part(low: Value, state: Sequence[Value]) -> list[Value]:
        number, *rest = state
        copied, sums = rest[: -len(start)], rest[-len(start) :]
        if coming is not None:
            copied = _copy_rows(b, kernel, panel, coming, copied, b.mul(emit.size(tiles), parts))
        if fetches_result:
            fetch_result_row(b, kernel, panel, b.add(i, emit.size(extents.least(b, number, rows - 1))))
        high = emit.size(extents.least(b, b.add(low, steps_of_a_part), depth))
        return [b.add(number, I64(1)), *copied, *steps(low, high, sums)]

    return loop(b, 0, depth, steps_of_a_part, part, [I64(0), *copied, *start])[-len(start) :]


def _copied_before(b: Builder, coming: Coming, tile: Value, parts: Value, tiles: Value) -> list[Value]:
    """How many rows earlier tiles have copied, and the rest of the division that says so: rows are spread evenly over all tiles' parts."""
    done, every = b.mul(b.mul(tile, parts), coming.rows), b.mul(tiles, parts)
    row = b.udiv(done, every)
    return [row, b.sub(done, b.mul(row, every))]


def _copy_rows(b: Builder, kernel: Kernel, panel: Panel, coming: Coming, copied: Sequence[Value], every: Value) -> list[Value]:
    """Those of a part. `every`: parts of all tiles."""
    row, rest = copied

    def copy(state: Sequence[Value]) -> list[Value]:
        _copy_row(b, kernel, panel, coming, state[0])
        return [b.add(state[0], I64(1)), b.sub(state[1], every)]

    return emit.while_loop(b, lambda state: b.icmp_unsigned(">=", state[1], every), copy, [row, b.add(rest, coming.rows)])


def fetch_row(b: Builder, kernel: Kernel, panel: Panel, start: Value, *, to_write: bool = False) -> None:
    """A row of a panel."""
    element = kernel.contraction.element
    for column in range(0, panel.vectors * kernel.plan.lanes, LINE_BYTES // element_bytes(element)):
        prefetch(b, at(b, start, column, element), to_write=to_write)


def _copy_row(b: Builder, kernel: Kernel, panel: Panel, coming: Coming, row: Value) -> None:
    """And ask for a later one, which need not be there."""
    element, lanes, b_k = kernel.contraction.element, kernel.plan.lanes, kernel.contraction.b_k
    fetch_row(b, kernel, panel, at(b, coming.source, extents.times(b, b.add(row, I64(ROWS_AHEAD)), b_k), element))
    source = at(b, coming.source, extents.times(b, row, b_k), element)
    target = at(b, coming.target, b.mul(row, I64(panel.vectors * lanes)), element)
    for v in range(panel.vectors):
        store(b, load(b, at(b, source, v * lanes, element), element, lanes), at(b, target, v * lanes, element))


def fetch_result_row(b: Builder, kernel: Kernel, panel: Panel, row: Value) -> None:
    place = extents.plus(b, extents.times(b, row, kernel.contraction.c_row), panel.column)
    fetch_row(b, kernel, panel, at(b, kernel.c, place, kernel.contraction.element), to_write=True)


def fetch_left(b: Builder, next_left: Value, k: Value, row_stride: Size, element: ElementType) -> None:
    """One line of the next tile's rows of A. As k goes through the numbers of a line, all rows (and some behind them) get their turn."""
    numbers = LINE_BYTES // element_bytes(element)
    row, column = b.and_(k, I64(numbers - 1)), b.and_(k, I64(-numbers))
    prefetch(b, at(b, next_left, extents.plus(b, extents.times(b, row, row_stride), column), element))
