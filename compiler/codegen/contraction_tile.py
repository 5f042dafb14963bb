"""One tile of C in registers: `rows` rows by the vectors of a panel, over a stage of k; and the walk over the rows of a panel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from shapescript.compiler.codegen import emit
from shapescript.compiler.codegen.contraction_plan import Contraction, Plan
from shapescript.compiler.codegen.emit import (
    I64,
    Builder,
    Size,
    Value,
    at,
    constant,
    intrinsic,
    is_float,
    load,
    loop,
    splat,
    store,
    vector_of,
)
from shapescript.compiler.codegen.target import Target


@dataclass(frozen=True)
class Place:
    """Where a finished vector lies: C(row, column), C(row, column + 1), ..., in the batch of those indices.

    row, column, batch are I64 values. mask: the valid lanes, None for all. The vector has as many lanes as the target for the element
    (64-bit elements half as many as f32).
    """

    row: Value
    column: Value
    mask: Value | None
    batch: tuple[Value, ...]


@dataclass(frozen=True)
class Kernel:
    """A kernel being built: its numbers, as that function sees them, and its arguments."""

    target: Target
    plan: Plan
    contraction: Contraction
    a: Value
    right: Value
    c: Value
    row_low: Value
    row_high: Value
    epilogue: Callable[[Builder, Sequence[Value], Value, Place], Value | None] | None = None
    batch: tuple[Value, ...] = ()
    captured: tuple[Value, ...] = ()

    def along(self, b: Builder, k: Size, step: Size, run: Size) -> Size:
        """How far step k of an operand lies from its first, given how far steps and runs are apart."""
        shape = self.contraction
        if not shape.has_runs or (isinstance(k, int) and k == 0):
            return emit.times(b, k, step)
        length = emit.size(emit.most(b, shape.run, 1))
        whole = b.udiv(emit.size(k), length)
        return emit.plus(b, emit.times(b, whole, run), emit.times(b, b.sub(emit.size(k), b.mul(whole, length)), step))

    @property
    def vector(self) -> Any:
        return vector_of(self.contraction.element, self.plan.lanes)


@dataclass(frozen=True)
class Panel:
    """Adjacent columns: the first one, how many vectors, and how many columns are valid (None: all)."""

    column: Size
    vectors: int
    valid: Size | None

    def masks(self, b: Builder, lanes: int) -> list[Value | None]:
        if self.valid is None:
            return [None] * self.vectors
        return [emit.lane_mask(b, emit.minus(b, self.valid, v * lanes), lanes) for v in range(self.vectors)]


@dataclass(frozen=True)
class Sums:
    """Running sums in memory: of one panel, or of all panels from `first_column` on, one behind the other; rows by columns each.

    elements: how many there are; earlier blocks' sums follow in buffers of as many.
    """

    pointer: Value
    elements: Value
    first_column: Value | None

    def row(self, b: Builder, kernel: Kernel, panel: Panel, row: Value) -> Value:
        """Where the sums of a panel's row begin."""
        width = panel.vectors * kernel.plan.lanes
        place = b.mul(b.sub(row, kernel.row_low), I64(width))
        if self.first_column is not None:
            columns = b.sub(emit.size(panel.column), self.first_column)
            place = b.add(place, b.mul(columns, b.sub(kernel.row_high, kernel.row_low)))
        return at(b, self.pointer, place, kernel.contraction.element)


@dataclass(frozen=True)
class Stage:
    """Steps k_start to k_start + depth of a panel's product, within one run.

    right: the panel's row k_start. left: A's packed tiles, where A is packed. first: whether sums begin at +0.0, None for always; else
    they go on from `sums`. last: whether sums are finished in registers (True, False, or known at run time); else they go to `sums`.
    """

    right: Value
    left: Value | None
    k_start: Size
    depth: Size
    first: Value | None
    last: Value | bool
    sums: Sums


def finish_vector(b: Builder, kernel: Kernel, value: Value, row: Value, column: Value, mask: Value | None) -> None:
    """Hand finished sums to the epilogue and store what it gives."""
    contraction = kernel.contraction
    result: Value | None = value
    if kernel.epilogue:
        result = kernel.epilogue(b, kernel.captured, value, Place(row, column, mask, kernel.batch))
    if result is not None:
        place = emit.plus(b, emit.times(b, row, contraction.c_row), column)
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
        left = at(b, _packed_rows(b, kernel, stage.left, i), emit.times(b, stage.k_start, k_stride), element)
    else:
        row_stride, k_stride = contraction.a_row, contraction.a_k
        left = at(b, kernel.a, emit.times(b, i, contraction.a_row), element)
        left = at(b, left, kernel.along(b, stage.k_start, k_stride, contraction.a_run), element)
    left_rows = [emit.times(b, r, row_stride) for r in range(rows)]
    right_stride = vectors * lanes if plan.reads_panels else contraction.b_k
    right_masks = [None] * vectors if plan.reads_panels else masks
    cells = _sums_cells(b, kernel, panel, stage, rows, i)

    def step(k: Value, sums: Sequence[Value]) -> list[Value]:
        here = at(b, left, emit.times(b, k, k_stride), element)
        row = at(b, stage.right, emit.times(b, k, right_stride), element)
        right = [load(b, at(b, row, v * lanes, element), element, lanes, right_masks[v]) for v in range(vectors)]
        grown = []
        for r in range(rows):
            one = splat(b, load(b, at(b, here, left_rows[r], element), element), lanes)
            grown += [_multiply_add(b, one, right[v], sums[r * vectors + v]) for v in range(vectors)]
        return grown

    zeros = [constant(0, kernel.vector)] * (rows * vectors)
    start = zeros
    if stage.first is not None:
        start = emit.choose(b, stage.first, lambda: zeros, lambda: [load(b, cell, element, lanes) for cell in cells])
    sums = loop(b, 0, stage.depth, 1, step, start)

    def finish() -> None:
        for r in range(rows):
            for v in range(vectors):
                column = emit.size(emit.plus(b, panel.column, v * lanes))
                finish_vector(b, kernel, sums[r * vectors + v], b.add(i, I64(r)), column, masks[v])

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


def _packed_rows(b: Builder, kernel: Kernel, packed: Value, i: Value) -> Value:
    """Where row i of packed A begins: in its whole tile, a lesser tile of the last rows too."""
    row, tile = b.sub(i, kernel.row_low), kernel.plan.rows
    start = b.mul(b.and_(row, I64(-tile)), emit.size(kernel.contraction.k))
    return at(b, packed, b.add(start, b.and_(row, I64(tile - 1))), kernel.contraction.element)


def _sums_cells(b: Builder, kernel: Kernel, panel: Panel, stage: Stage, rows: int, i: Value) -> list[Value]:
    """Where the tile's running sums lie between stages, vector by vector."""
    if stage.first is None and stage.last is True:
        return []
    lanes = kernel.plan.lanes
    start = stage.sums.row(b, kernel, panel, i)
    return [at(b, start, place * lanes, kernel.contraction.element) for place in range(rows * panel.vectors)]


def _multiply_add(b: Builder, x: Value, y: Value, total: Value) -> Value:
    return intrinsic(b, "fma", x, y, total) if is_float(emit.scalar_of(x.type)) else b.add(total, b.mul(x, y))
