"""One tile of C in registers: `rows` rows by the vectors of a panel, over a stage of k; and the walk over the rows of a panel."""

from __future__ import annotations

from collections.abc import Sequence

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.contraction_fetch import are_far_apart, fetch_left, fetch_result_row, steps_with_fetches
from shapescript.compiler.codegen.contraction_kernel import Kernel, Panel, Place, Stage
from shapescript.compiler.codegen.contraction_plan import RightLayout
from shapescript.compiler.codegen.contraction_transpose import row_sums
from shapescript.compiler.codegen.contraction_zeros import emit_steps
from shapescript.compiler.codegen.emit import (
    I64,
    Builder,
    Size,
    Value,
    at,
    constant,
    load,
    loop,
    multiply_add,
    splat,
    store,
)
from shapescript.compiler.codegen.extents import least


def finish_vector(b: Builder, kernel: Kernel, value: Value, row: Value, column: Value, mask: Value | None) -> None:
    """Hand finished sums to the epilogue and store what it gives."""
    contraction = kernel.contraction
    result: Value | None = value
    if kernel.epilogue:
        result = kernel.epilogue(b, kernel.captured, value, Place(row, column, mask, kernel.batch))
    if result is not None:
        place = extents.plus(b, extents.times(b, row, contraction.c_row), column)
        store(b, result, at(b, kernel.c, place, contraction.element), mask)


def emit_row_tiles(b: Builder, kernel: Kernel, panel: Panel, stage: Stage) -> None:
    """All rows of the kernel's share: whole tiles, then tiles of halving numbers of rows for what is left."""
    tile, m = kernel.plan.rows, kernel.contraction.m
    low, high = kernel.row_low, kernel.row_high
    masks = panel.masks(b, kernel.plan.lanes)

    def whole(i: Value, _: Sequence[Value]) -> list[Value]:
        _emit_tile(b, kernel, panel, masks, stage, tile, i)
        return [b.add(i, I64(tile))]

    if isinstance(m, int) and m < tile:
        i = low
    else:
        (i,) = loop(b, low, b.sub(high, I64(tile - 1)), tile, whole, [low])
    rows = 1 << (tile - 1).bit_length()
    while rows > 1:
        rows //= 2
        if isinstance(m, int) and not m % tile & rows:  # shares are cut at multiples of the tile, so this many are never left
            continue
        left = b.icmp_signed(">=", b.sub(high, i), I64(rows))
        with b.if_then(left):
            _emit_tile(b, kernel, panel, masks, stage, rows, i)
        i = b.add(i, b.select(left, I64(rows), I64(0)))


def _emit_tile(b: Builder, kernel: Kernel, panel: Panel, masks: Sequence[Value | None], stage: Stage, rows: int, i: Value) -> None:
    plan, contraction = kernel.plan, kernel.contraction
    element, lanes, vectors = contraction.element, plan.lanes, panel.vectors
    if stage.left is not None:
        row_stride, k_stride = 1, plan.rows
        left = stage.left.rows(b, kernel, i, stage.k_start)
    else:
        row_stride, k_stride = contraction.a_row, contraction.a_k
        left = at(b, kernel.a, extents.times(b, i, contraction.a_row), element)
        left = at(b, left, kernel.along(b, stage.k_start, k_stride, contraction.a_run), element)
    left_rows = [extents.times(b, r, row_stride) for r in range(rows)]
    is_whole = rows == plan.rows and rows > 1
    fetches_left = is_whole and stage.left is None and isinstance(k_stride, int) and k_stride == 1 and are_far_apart(row_stride, element)
    next_left = at(b, left, extents.times(b, rows, row_stride), element)
    right_masks = masks if plan.reads_right_in_place else [None] * vectors
    cells = _sums_cells(b, kernel, panel, stage, rows, i)

    is_stored = stage.last is not False and kernel.stores and not plan.steps_first
    fetches_result = is_whole and is_stored and are_far_apart(contraction.c_row, element)
    if fetches_result and not kernel.takes_all_steps:  # there may be few steps to spread it over
        for r in range(rows):
            fetch_result_row(b, kernel, panel, b.add(i, I64(r)))

    def step(k: Value, sums: Sequence[Value]) -> list[Value]:
        here = at(b, left, extents.times(b, k, k_stride), element)
        if fetches_left:
            fetch_left(b, next_left, k, row_stride, element)
        row = at(b, stage.right, extents.times(b, k, stage.right_stride), element)
        right = [load(b, at(b, row, v * lanes, element), element, lanes, right_masks[v]) for v in range(vectors)]
        grown = []
        for r in range(rows):
            one = splat(b, load(b, at(b, here, left_rows[r], element), element), lanes)
            grown += [multiply_add(b, one, right[v], sums[r * vectors + v]) for v in range(vectors)]
        return grown

    def steps(low: Size, high: Size, given: Sequence[Value]) -> list[Value]:
        return loop(b, low, high, 1, step, given)

    zeros = [constant(0, kernel.vector)] * (rows * vectors)
    start = zeros
    if stage.first is not None:
        start = emit.choose(b, stage.first, lambda: zeros, lambda: [load(b, cell, element, lanes) for cell in cells])

    if rows == 1 and plan.right is RightLayout.TRANSPOSED:
        sums = _single_row(b, kernel, panel, stage, left, start)
    elif kernel.zeros is not None:
        last = b.add(i, I64(rows - 1))
        sums = emit_steps(b, kernel.zeros, stage.k_start, stage.depth, i, last, start, steps)
    elif kernel.takes_all_steps and is_whole and (stage.coming is not None or fetches_result):
        sums = steps_with_fetches(b, kernel, panel, stage, i, start, steps, fetches_result=fetches_result)
    else:
        sums = steps(0, _needed_depth(b, kernel, panel, stage.depth, rows, i), start)

    def finish() -> None:
        for r in range(rows):
            for v in range(vectors):
                column = emit.size(extents.plus(b, panel.column, v * lanes))
                finish_vector(b, kernel, sums[r * vectors + v], emit.size(extents.plus(b, i, r)), column, masks[v])

    def keep() -> None:
        for cell, value in zip(cells, sums, strict=True):
            store(b, value, cell)

    if stage.last is True:
        finish()
    elif stage.last is False:
        keep()
    else:
        with b.if_else(stage.last) as (then, otherwise):
            with then:
                finish()
            with otherwise:
                keep()


def _needed_depth(b: Builder, kernel: Kernel, panel: Panel, depth: Size, rows: int, i: Value) -> Size:
    """0 for a tile of which the epilogue reads nothing."""
    if kernel.skips is None:
        return depth
    column = emit.size(panel.column)
    last = b.add(column, I64(panel.vectors * kernel.plan.lanes - 1))
    first, end = Place(i, column, None, kernel.batch), Place(b.add(i, I64(rows - 1)), last, None, kernel.batch)
    return b.select(kernel.skips(b, kernel.captured, first, end), I64(0), emit.size(depth))


def _single_row(b: Builder, kernel: Kernel, panel: Panel, stage: Stage, left: Value, start: Sequence[Value]) -> list[Value]:
    """The sums of a row of its own, with B where it lies, in which k is adjacent: of a single row nothing needs to be packed."""
    contraction, lanes = kernel.contraction, kernel.plan.lanes
    element, sums = contraction.element, row_sums(b.module, contraction.element, lanes)
    found = []
    for v in range(panel.vectors):
        valid = lanes if panel.valid is None else least(b, extents.minus(b, panel.valid, v * lanes), lanes)
        columns = at(b, stage.unpacked, extents.times(b, v * lanes, contraction.b_column), element)
        given = [contraction.b_column, extents.minus(b, valid, 1), left, contraction.a_k, stage.depth]
        found.append(b.call(sums, [columns, *(emit.size(value) if isinstance(value, int) else value for value in given), start[v]]))
    return found


def _sums_cells(b: Builder, kernel: Kernel, panel: Panel, stage: Stage, rows: int, i: Value) -> list[Value]:
    """Where the tile's running sums lie between stages, vector by vector."""
    if stage.first is None and stage.last is True:
        return []
    lanes = kernel.plan.lanes
    start = stage.sums.row(b, kernel, panel, i)
    return [at(b, start, place * lanes, kernel.contraction.element) for place in range(rows * panel.vectors)]
