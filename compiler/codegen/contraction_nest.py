"""The loops of a product around its tiles: panels of columns, blocks of 4096 k, and stages of at most `k_block` steps.

Panels come first where A is read again from a cache for each: each panel of B is packed once and C's sums of one panel wait in memory.
Steps come first where k is long beside a small C: A and B are read once, and all of C's sums wait in the second cache. Blocks of rows come
first where B as a whole stays in the second cache: C is then written row by row, as its lines follow each other; and where many rows of A
are packed: a block of them stays in the second cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.contraction_blocks import finish_panel, merge_block
from shapescript.compiler.codegen.contraction_kernel import Kernel, PackedLeft, Panel, Stage, Step, Sums
from shapescript.compiler.codegen.contraction_pack import pack_left
from shapescript.compiler.codegen.contraction_panels import Blocks, most_steps, packed_elements, panel_of
from shapescript.compiler.codegen.contraction_plan import Contraction, Plan
from shapescript.compiler.codegen.contraction_tile import emit_row_tiles
from shapescript.compiler.codegen.emit import BLOCK, I64, Builder, Size, Value, at, loop
from shapescript.compiler.codegen.extents import least, most
from shapescript.compiler.records.dataclass import dataclass


@dataclass(frozen=True)
class ScratchLayout:
    """Where A's packed tiles and the running sums begin behind B's panels, and where the scratch ends, in elements."""

    left: Size
    sums: Size
    end: Size


def scratch_layout(b: Builder | None, plan: Plan, contraction: Contraction, rows: Size, columns: Size, passes: bool) -> ScratchLayout:
    k, steps = contraction.k, most_steps(b, plan, contraction)
    sums = left = packed_elements(b, plan, contraction, rows)
    if plan.row_block:
        rows = least(b, rows, plan.row_block)
    if plan.pack_left:
        left_depth = least(b, k, steps) if plan.steps_first else k
        sums = extents.plus(b, left, extents.round_up(b, extents.times(b, extents.round_up(b, rows, plan.rows), left_depth), plan.lanes))
    buffers = extents.plus(b, 1, extents.bit_length(b, extents.minus(b, _blocks(b, k), 1)))
    if not passes:
        buffers = extents.where_greater(b, k, steps, buffers, 0)
    width = extents.round_up(b, columns, plan.columns) if plan.steps_first else plan.columns
    return ScratchLayout(left, sums, extents.plus(b, sums, extents.times(b, extents.times(b, buffers, rows), width)))


def _blocks(b: Builder | None, k: Size) -> Size:
    return extents.ceil_quotient(b, most(b, k, 1), BLOCK)


def _for_each_panel(b: Builder, kernel: Kernel, low: Size, high: Size, body: Callable[[Panel], None]) -> None:
    """Full panels, then the columns that are left: one narrower panel where n is static, else one of a single vector at a time."""
    plan, n = kernel.plan, kernel.contraction.n
    full = extents.quotient(b, n, plan.columns)
    if full != 0:
        loop(b, low, least(b, high, full), 1, lambda p, _: body(Panel(extents.times(b, p, plan.columns), plan.vectors, None)))
    start = extents.times(b, full, plan.columns)
    rest = extents.minus(b, n, start)
    if isinstance(rest, int) and rest == 0:
        return
    with b.if_then(b.icmp_signed(">", emit.size(high), emit.size(full))):
        if isinstance(rest, int):
            body(Panel(emit.size(start), -(-rest // plan.lanes), rest))
        else:
            loop(b, start, n, plan.lanes, lambda j, _: body(Panel(j, 1, least(b, extents.minus(b, n, j), plan.lanes))))


def emit_product(b: Builder, kernel: Kernel, scratch: Value, panel_low: Value, panel_high: Value, passes: bool) -> None:
    """The whole body of a kernel. passes: sums always go to memory, and a pass over them finishes C."""
    step = kernel.plan.row_block
    if not step:
        assert kernel.after_rows is None
        _emit_rows(b, kernel, scratch, panel_low, panel_high, passes, None)
        return

    def block(low: Value, _: Sequence[Value]) -> None:
        row_blocks = Blocks(b.sub(kernel.row_high, kernel.row_low), b.icmp_signed(">", low, kernel.row_low))
        high = emit.size(least(b, b.add(low, I64(step)), kernel.row_high))
        before = extents.times(b, low, kernel.contraction.c_row) if kernel.has_block else 0
        c = at(b, kernel.c, extents.minus(b, 0, before), kernel.contraction.element)
        _emit_rows(b, replace(kernel, row_low=low, row_high=high, c=c), scratch, panel_low, panel_high, passes, row_blocks)
        if kernel.after_rows:
            kernel.after_rows(b, low, high)

    loop(b, kernel.row_low, kernel.row_high, step, block)


def _emit_rows(
    b: Builder, kernel: Kernel, scratch: Value, panel_low: Value, panel_high: Value, passes: bool, row_blocks: Blocks | None
) -> None:
    """All rows of the kernel in all panels. row_blocks: which of all blocks of rows they are."""
    plan, contraction = kernel.plan, kernel.contraction
    element, k = contraction.element, contraction.k
    rows = b.sub(kernel.row_high, kernel.row_low)
    layout = scratch_layout(b, plan, contraction, row_blocks.rows if row_blocks else rows, contraction.n, passes)
    packed_left, sums_start = at(b, scratch, layout.left, element), at(b, scratch, layout.sums, element)
    whole_left = PackedLeft(packed_left, 0, k) if plan.pack_left and not plan.steps_first else None
    has_panels = b.icmp_signed(">", panel_high, panel_low)  # without, there may be no scratch
    if whole_left:
        with b.if_then(has_panels):
            pack_left(b, kernel, packed_left, 0, k)

    def stage(panel: Panel, step: Step, left: PackedLeft | None, sums: Sums) -> None:
        right = panel_of(b, kernel, panel, step, scratch, (panel_low, panel_high), row_blocks)
        read = Stage(right.start, right.stride, right.unpacked, left, step.start, step.depth, step.first, step.last, sums, right.coming)
        emit_row_tiles(b, kernel, panel, read)

    def whole_panel(panel: Panel) -> None:
        sums = Sums(sums_start, b.mul(rows, I64(panel.vectors * plan.lanes)), None)
        _for_each_step(b, kernel, sums, passes, lambda step: stage(panel, step, whole_left, sums))
        _finish_from_memory(b, k, passes, lambda blocks: finish_panel(b, kernel, panel, sums, blocks))

    if not plan.steps_first:
        _for_each_panel(b, kernel, panel_low, panel_high, whole_panel)
        return
    columns = b.mul(b.sub(panel_high, panel_low), I64(plan.columns))
    sums = Sums(sums_start, b.mul(rows, columns), b.mul(panel_low, I64(plan.columns)))

    def each_panel(body: Callable[[Panel], None]) -> None:
        _for_each_panel(b, kernel, panel_low, panel_high, body)

    def each_step(step: Step) -> None:
        left = None
        if plan.pack_left:
            with b.if_then(has_panels):
                pack_left(b, kernel, packed_left, step.start, step.depth)
            left = PackedLeft(packed_left, step.start, step.depth)
        each_panel(lambda panel: stage(panel, step, left, sums))

    _for_each_step(b, kernel, sums, passes, each_step)
    _finish_from_memory(b, k, passes, lambda blocks: each_panel(lambda panel: finish_panel(b, kernel, panel, sums, blocks)))


def _for_each_step(b: Builder, kernel: Kernel, sums: Sums, passes: bool, body: Callable[[Step], None]) -> None:
    """All steps of k, at least one; after each block but the last its sums go to the block tree."""
    k, k_block = kernel.contraction.k, kernel.plan.k_block
    if isinstance(k, int) and k <= k_block and not kernel.contraction.has_runs:
        body(Step(0, k, None, not passes))
        return
    blocks = _blocks(b, k)

    def block(t: Value, _: Sequence[Value]) -> None:
        start = extents.times(b, t, BLOCK)
        block_depth = least(b, extents.minus(b, k, start), BLOCK)

        def part(k_low: Value, _: Sequence[Value]) -> None:
            stage(k_low, least(b, extents.minus(b, block_depth, k_low), k_block))

        def part_of_run(state: Sequence[Value]) -> list[Value]:
            """As far as the run, the block and the stage go."""
            (k_low,) = state
            run = emit.size(most(b, kernel.contraction.run, 1))
            place = b.urem(emit.size(extents.plus(b, start, k_low)), run)
            depth = least(b, least(b, extents.minus(b, block_depth, k_low), k_block), b.sub(run, place))
            if kernel.before_run:
                begins = b.and_(b.icmp_signed("==", place, I64(0)), b.icmp_signed(">", emit.size(depth), I64(0)))
                with b.if_then(begins):
                    kernel.before_run(b, b.udiv(emit.size(extents.plus(b, start, k_low)), run))
            stage(k_low, depth)
            return [b.add(k_low, emit.size(most(b, depth, 1)))]

        def stage(k_low: Value, depth: Size) -> None:
            place = extents.plus(b, start, k_low)
            last: Value | bool = False
            if not passes:
                last = b.icmp_signed("==", emit.size(extents.plus(b, place, depth)), emit.size(k))
                if not isinstance(blocks, int):
                    last = b.and_(last, b.icmp_signed("==", blocks, I64(1)))
            body(Step(place, depth, b.icmp_signed("==", k_low, I64(0)), last))

        end = most(b, block_depth, 1)
        if kernel.contraction.has_runs:
            emit.while_loop(b, lambda state: b.icmp_signed("<", state[0], emit.size(end)), part_of_run, [I64(0)])
        else:
            loop(b, 0, end, k_block, part)
        if blocks != 1:
            with b.if_then(b.icmp_signed("<", b.add(t, I64(1)), emit.size(blocks))):
                merge_block(b, kernel, sums, t)

    loop(b, 0, blocks, 1, block)


def _finish_from_memory(b: Builder, k: Size, passes: bool, finish: Callable[[Size], None]) -> None:
    """The pass over sums in memory, where it is needed; in registers they were finished already."""
    blocks = _blocks(b, k)
    if passes:
        finish(blocks)
    elif not isinstance(blocks, int):
        with b.if_then(b.icmp_signed(">", blocks, I64(1))):
            finish(blocks)
