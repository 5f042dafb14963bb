"""Panels of B as tiles read them: where they lie, or copied, transposed or gathered to scratch first.

A panel's rows of a stage are packed to one buffer, at the stage's beginning. Where blocks of rows go through all panels, each panel has a
place of its own, and later blocks find it packed. Else a large B, whose rows are far apart, has two buffers: while a panel is computed
with, the rows of the next one are copied to the other, some with each tile, since to copy them at once would wait for memory.
"""

from __future__ import annotations

from dataclasses import replace

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.contraction_kernel import Coming, Kernel, Panel, Step
from shapescript.compiler.codegen.contraction_pack import pack_right_panel
from shapescript.compiler.codegen.contraction_plan import REUSES_WORTH_A_COPY, Contraction, Plan, RightLayout
from shapescript.compiler.codegen.emit import I64, Builder, Size, Value, at
from shapescript.compiler.codegen.extents import least, most
from shapescript.compiler.records.dataclass import dataclass

MOST_KEPT = 1 << 21  # elements that each share keeps of B; of a larger one panels are packed for each block of rows


@dataclass(frozen=True)
class Blocks:
    """Of rows: how many rows all blocks have, and whether this block is a later one than the first."""

    rows: Value
    is_later: Value


@dataclass(frozen=True)
class Buffer:
    """Where a panel's rows of a stage are packed, for how many rows of A, whether they are there already (None: no), and what is copied
    ahead meanwhile."""

    start: Value
    rows: Value
    is_packed: Value | None = None
    coming: Coming | None = None


@dataclass(frozen=True)
class Right:
    """A panel's rows of a stage: the first one as tiles read it, how far rows are apart, and the same row where it lies in B."""

    start: Value
    stride: Size
    unpacked: Value
    coming: Coming | None


def packed_elements(b: Builder | None, plan: Plan, contraction: Contraction, rows: Size) -> Size:
    """Of scratch, for what is packed of B while `rows` rows go through its panels."""
    if not plan.packs_right:
        return 0
    one = extents.times(b, stage_depth(b, plan, contraction), plan.columns)
    if plan.keeps_panels:
        return extents.where_greater(b, _are_kept(b, plan, contraction, rows), 0, _every_panel(b, plan, contraction), one)
    return extents.times(b, one, 2) if plan.copy_ahead else one


def _every_panel(b: Builder | None, plan: Plan, contraction: Contraction) -> Size:
    return extents.times(b, _whole_depth(b, plan, contraction), extents.round_up(b, most(b, contraction.n, 1), plan.columns))


def _are_kept(b: Builder | None, plan: Plan, contraction: Contraction, rows: Size) -> Size:
    """1 where panels have places of their own, for several blocks of rows, if that takes little memory; else 0."""
    fit = extents.where_greater(b, _every_panel(b, plan, contraction), MOST_KEPT, 0, 1)
    return extents.where_greater(b, rows, plan.row_block, fit, 0)


def stage_depth(b: Builder | None, plan: Plan, contraction: Contraction) -> Size:
    """Rows that a buffer has room for."""
    return extents.round_up(b, least(b, contraction.k, most_steps(b, plan, contraction)), plan.lanes)


def most_steps(b: Builder | None, plan: Plan, contraction: Contraction) -> Size:
    """Of k in one stage."""
    return least(b, contraction.run, plan.k_block) if contraction.has_runs else plan.k_block


def _whole_depth(b: Builder | None, plan: Plan, contraction: Contraction) -> Size:
    """Rows of a panel with a place of its own, with room for whole vectors of k, which begin anywhere where there are runs."""
    return extents.plus(b, extents.round_up(b, contraction.k, plan.lanes), plan.lanes if contraction.has_runs else 0)


def panel_of(
    b: Builder, kernel: Kernel, panel: Panel, step: Step, scratch: Value, panels: tuple[Value, Value], blocks: Blocks | None
) -> Right:
    """A panel's rows of a step; they are packed first, where that pays and wasn't done. panels: the share's, half-open."""
    plan, width, b_k = kernel.plan, panel.vectors * kernel.plan.lanes, kernel.contraction.b_k
    unpacked = at(b, kernel.right, _right_start(b, kernel, panel, step.start), kernel.contraction.element)
    if plan.right is RightLayout.IN_PLACE:
        return Right(unpacked, b_k, unpacked, None)
    buffer = _buffer(b, kernel, panel, step, scratch, panels, blocks)
    # A single row reads a transposed B where it lies, and a few rows one that is else copied.
    least_rows = {RightLayout.TRANSPOSED: I64(2), RightLayout.COPIED: I64(REUSES_WORTH_A_COPY)}.get(plan.right, I64(1))
    rows = buffer.rows if plan.right is RightLayout.COPIED else _rows(b, kernel)
    pays = b.icmp_signed(">=", rows, least_rows)
    with b.if_then(b.and_(pays, b.not_(buffer.is_packed)) if buffer.is_packed is not None else pays):
        pack_right_panel(b, kernel, panel, unpacked, buffer.start, step.depth)
    if plan.right is RightLayout.COPIED:
        stride = b.select(pays, I64(width), emit.size(b_k))
        return Right(b.select(pays, buffer.start, unpacked), stride, unpacked, buffer.coming)
    return Right(buffer.start, width, unpacked, None)


def _buffer(
    b: Builder, kernel: Kernel, panel: Panel, step: Step, scratch: Value, panels: tuple[Value, Value], blocks: Blocks | None
) -> Buffer:
    plan = kernel.plan
    if plan.keeps_panels:
        assert blocks is not None
        return _kept(b, kernel, panel, step, scratch, panels[0], blocks)
    if plan.copy_ahead and panel.valid is None and kernel.takes_all_steps:
        return _ahead(b, kernel, panel, step, scratch, panels)
    return Buffer(scratch, _rows(b, kernel))


def _kept(b: Builder, kernel: Kernel, panel: Panel, step: Step, scratch: Value, panel_low: Value, blocks: Blocks) -> Buffer:
    """The panel's own place; a single block of rows has one buffer for all, which stays in a cache, as all have where B is large."""
    plan, contraction = kernel.plan, kernel.contraction
    before = b.sub(emit.size(panel.column), b.mul(panel_low, I64(plan.columns)))
    place = extents.times(b, before, _whole_depth(b, plan, contraction))
    place = extents.plus(b, place, extents.times(b, step.start, panel.vectors * plan.lanes))
    are_kept = b.icmp_signed(">", emit.size(_are_kept(b, plan, contraction, blocks.rows)), I64(0))
    start = at(b, scratch, b.select(are_kept, emit.size(place), I64(0)), contraction.element)
    return Buffer(start, b.select(are_kept, blocks.rows, _rows(b, kernel)), b.and_(are_kept, blocks.is_later))


def _ahead(b: Builder, kernel: Kernel, panel: Panel, step: Step, scratch: Value, panels: tuple[Value, Value]) -> Buffer:
    """The one of two buffers whose turn it is. The last stage of the last whole panel copies nothing: a narrower one is packed at once."""
    plan, contraction, k = kernel.plan, kernel.contraction, kernel.contraction.k
    low, high = panels
    number = extents.quotient(b, panel.column, plan.columns)
    stages, stage = extents.ceil_quotient(b, k, plan.k_block), extents.quotient(b, step.start, plan.k_block)
    turn = b.add(b.mul(b.sub(emit.size(number), low), emit.size(stages)), emit.size(stage))
    size = extents.times(b, stage_depth(b, plan, contraction), plan.columns)

    def buffer(turn: Value) -> Value:
        return at(b, scratch, b.mul(b.and_(turn, I64(1)), emit.size(size)), contraction.element)

    behind = extents.plus(b, step.start, step.depth)
    start = extents.where_greater(b, k, behind, behind, 0)
    next_panel = replace(panel, column=extents.plus(b, panel.column, plan.columns))
    here, there = (_right_start(b, kernel, place, start) for place in (panel, next_panel))
    source = at(b, kernel.right, extents.where_greater(b, k, behind, here, there), contraction.element)

    whole = least(b, high, extents.quotient(b, contraction.n, plan.columns))
    rows = least(b, extents.minus(b, k, start), plan.k_block)
    of_next_panel = extents.where_greater(b, whole, extents.plus(b, number, 1), rows, 0)
    rows = extents.where_greater(b, k, behind, rows, of_next_panel)
    pays = b.icmp_signed(">=", _rows(b, kernel), I64(REUSES_WORTH_A_COPY))
    rows = b.select(pays, emit.size(rows), I64(0))
    coming = Coming(source, buffer(b.add(turn, I64(1))), rows)
    return Buffer(buffer(turn), _rows(b, kernel), b.icmp_signed(">", turn, I64(0)), coming)


def _rows(b: Builder, kernel: Kernel) -> Value:
    return b.sub(kernel.row_high, kernel.row_low)


def _right_start(b: Builder, kernel: Kernel, panel: Panel, k_start: Size) -> Size:
    """Where B(k_start, first column of the panel) lies, in elements from `right`."""
    contraction = kernel.contraction
    start = kernel.along(b, k_start, contraction.b_k, contraction.b_run)
    return extents.plus(b, start, extents.times(b, panel.column, contraction.b_column))
