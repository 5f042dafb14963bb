"""The register-tiled product of docs/exactness.md: per element of C one chain of fused multiply-adds over ascending k.

    shape = Contraction(F32, m=batch, n=128, k=64, a_row=64, a_k=1, b_k=1, b_column=64, c_row=128)     # x @ weight.T
    bytes_needed = scratch_bytes(target, shape, b)              # int where all is static, else an emitted I64
    emit_contraction(b, target, shape, x, weight, out, scratch, epilogue=Epilogue(add_bias, (bias,)))

The kernel is an internal function of the module, called where the builder stands; without an epilogue it is shared by all calls of equal
static numbers and plan. It reads nothing outside the operands, for any size, 0 and 1 too; k = 0 gives +0.0, which passes through the
epilogue. A, B and C must not overlap, except that an epilogue may read and write what it likes at its own [row, column].

**Epilogue.** `emit(builder, captured, value, place)` is called while the kernel is built, for each vector of finished sums. `captured` are
the values given beside it, as the kernel's arguments: an epilogue must use no other value of the caller. `place` says where the vector
lies. It returns the vector to store to C (of C's element type), or None to store nothing: then `c` may be a null pointer, and the epilogue
stores for itself, under `place.mask`. It must not read C beyond its place, and runs exactly once for each element.
Where `inline` is true it is emitted for each vector of a tile, in registers: right for a few instructions, such as a bias and relu. A
longer one should be `inline=False`: sums then go through a panel in cache, and the epilogue is emitted once in a loop over its vectors.

**Threads.** `share` gives one worker's part of C: rows [row_low, row_high), cut at multiples of `plan.rows` (anywhere where m is run-time),
and panels of `plan.columns` columns [panel_low, panel_high), of `panel_count`. Each worker needs its own scratch.

**Batches.** `batch` is a nest of outer loops around the product; the epilogue finds their indices in `place.batch`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from shapescript.compiler.codegen import emit
from shapescript.compiler.codegen.contraction_blocks import finish_panel, merge_block
from shapescript.compiler.codegen.contraction_pack import pack_left, pack_right_panel
from shapescript.compiler.codegen.contraction_plan import Contraction, Plan, RightLayout, plan_contraction
from shapescript.compiler.codegen.contraction_tile import Kernel, Panel, Place, Stage, emit_row_tiles
from shapescript.compiler.codegen.emit import BLOCK, I64, PTR, Builder, Size, Value, at, element_bytes, least, loop, most
from shapescript.compiler.codegen.target import Target

__all__ = ["BatchAxis", "Contraction", "Epilogue", "Place", "Plan", "Share", "emit_contraction", "emit_pack_right", "packed_bytes",
           "panel_count", "plan_contraction", "scratch_bytes"]


@dataclass(frozen=True)
class Epilogue:
    """What becomes of each finished vector; see the module. Values captured are passed to the kernel as arguments."""

    emit: Callable[[Builder, Sequence[Value], Value, Place], Value | None]
    captured: tuple[Value, ...] = ()
    inline: bool = True


@dataclass(frozen=True)
class Share:
    """One worker's part of C: rows and panels, half-open."""

    row_low: Size
    row_high: Size
    panel_low: Size
    panel_high: Size


@dataclass(frozen=True)
class BatchAxis:
    """An outer loop of `size` products; each turn moves A, B and C on by their strides, in elements."""

    size: Size
    a_stride: Size
    b_stride: Size
    c_stride: Size


def panel_count(plan: Plan, n: Size, b: Builder | None = None) -> Size:
    """Panels of columns that C is shared out in."""
    return emit.ceil_quotient(b, n, plan.columns)


# ---- scratch


def scratch_bytes(target: Target, contraction: Contraction, b: Builder | None = None, *, epilogue: Epilogue | None = None,
                  plan: Plan | None = None) -> Size:
    """Bytes of 64-byte-aligned scratch that one call (one worker) needs: an int, or an emitted I64 where a size is run-time.

    A panel of B: columns * (k, at most k_block, rounded up to lanes); A whole where it is packed first: m * k; and running sums of a
    panel, m * columns, where they don't fit registers from start to end: one such buffer for k > k_block or an epilogue that isn't
    inline, and for k > 4096 one more for each bit of the number of blocks less one.
    """
    plan = plan or plan_contraction(target, contraction)
    *_, end = _scratch_layout(b, plan, contraction, contraction.m, _passes(plan, contraction, epilogue))
    return emit.times(b, end, element_bytes(contraction.element))


def _passes(plan: Plan, contraction: Contraction, epilogue: Epilogue | None) -> bool:
    """Whether sums always go through a panel in cache."""
    return (epilogue is not None and not epilogue.inline) or (isinstance(contraction.k, int) and contraction.k > BLOCK)


def _scratch_layout(b: Builder | None, plan: Plan, contraction: Contraction, rows: Size, passes: bool) -> tuple[Size, Size, Size]:
    """Where A's packed tiles and the running sums begin, and where the scratch ends, in elements."""
    k, columns = contraction.k, plan.columns
    depth = emit.round_up(b, least(b, k, plan.k_block), plan.lanes)
    left = emit.times(b, depth, columns) if plan.packs_right else 0
    sums = left
    if plan.pack_left:
        sums = emit.plus(b, left, emit.round_up(b, emit.times(b, emit.round_up(b, rows, plan.rows), k), plan.lanes))
    blocks = emit.ceil_quotient(b, most(b, k, 1), BLOCK)
    buffers = emit.plus(b, 1, emit.bit_length(b, emit.minus(b, blocks, 1)))
    if not passes:
        buffers = emit.where_greater(b, k, plan.k_block, buffers, 0)
    return left, sums, emit.plus(b, sums, emit.times(b, emit.times(b, buffers, rows), columns))


# ---- packing B before the call


def packed_bytes(target: Target, contraction: Contraction, b: Builder | None = None) -> Size:
    """Bytes that `emit_pack_right` writes: whole panels, k rounded up to lanes."""
    plan = plan_contraction(target, contraction)
    panels = emit.times(b, panel_count(plan, contraction.n, b), plan.columns * element_bytes(contraction.element))
    return emit.times(b, panels, emit.round_up(b, contraction.k, plan.lanes))


def emit_pack_right(b: Builder, target: Target, contraction: Contraction, right: Value, packed: Value) -> None:
    """Pack B once for many products that differ only in A and m; they are emitted with `prepacked=True` and the same static numbers."""
    plan = plan_contraction(target, contraction)
    assert plan.right is not RightLayout.PREPACKED, "already packed"
    if not plan.packs_right:
        plan = Plan(plan.lanes, plan.rows, plan.vectors, RightLayout.COPIED, plan.pack_left, plan.k_block)
    name = _name("pack_right", target, plan, contraction)
    run_time = contraction.run_time_values()
    fn = b.module.globals.get(name)
    if fn is None:
        fn, inner = emit.function(b.module, name, [PTR, PTR, *(I64 for _ in run_time)])
        own = contraction.with_values(dict(zip(run_time, fn.args[2:], strict=True)))
        kernel = Kernel(target, plan, own.normalised(), fn.args[0], fn.args[0], fn.args[0], I64(0), I64(0))

        def pack(inner: Builder, panel: Panel) -> None:
            pack_right_panel(inner, kernel, panel, at(inner, fn.args[1], _packed_start(inner, kernel, panel), own.element), I64(0), own.k)

        _for_each_panel(inner, kernel, 0, panel_count(plan, own.n, inner), pack)
        inner.ret_void()
    b.call(fn, [right, packed, *run_time.values()])


def _packed_start(b: Builder, kernel: Kernel, panel: Panel) -> Size:
    """Where a panel of B begins among packed ones, in elements."""
    return emit.times(b, panel.column, emit.round_up(b, kernel.contraction.k, kernel.plan.lanes))


# ---- the product


def emit_contraction(b: Builder, target: Target, contraction: Contraction, a: Value, right: Value, c: Value, scratch: Value, *,
                     epilogue: Epilogue | None = None, plan: Plan | None = None, share: Share | None = None,
                     batch: Sequence[BatchAxis] = ()) -> None:
    """Emit C = A B where the builder stands; see the module. `scratch` holds `scratch_bytes`, or is null where that is 0."""
    plan = plan or plan_contraction(target, contraction)
    fn = _kernel(b.module, target, plan, contraction, epilogue, len(batch))
    share = share or Share(0, contraction.m, 0, panel_count(plan, contraction.n, b))
    limits = [emit.size(limit) for limit in (share.row_low, share.row_high, share.panel_low, share.panel_high)]
    run_time = contraction.run_time_values()
    captured = epilogue.captured if epilogue else ()

    def nest(axes: Sequence[BatchAxis], pointers: Sequence[Value], indices: tuple[Value, ...]) -> None:
        if not axes:
            b.call(fn, [*pointers, scratch, *limits, *run_time.values(), *indices, *captured])
            return
        axis, element = axes[0], contraction.element

        def turn(i: Value, _: Sequence[Value]) -> None:
            steps = zip(pointers, (axis.a_stride, axis.b_stride, axis.c_stride), strict=True)
            nest(axes[1:], [at(b, pointer, emit.times(b, i, stride), element) for pointer, stride in steps], (*indices, i))

        loop(b, 0, axis.size, 1, turn)

    nest(batch, [a, right, c], ())


def _name(prefix: str, target: Target, plan: Plan, contraction: Contraction) -> str:
    numbers = "_".join("x" if number is None else str(number) for number in contraction.normalised().signature()[1:])
    tile = f"{target.lanes}.{plan.rows}x{plan.vectors}.{plan.right.value[:4]}.{int(plan.pack_left)}.{plan.k_block}"
    return f"{prefix}.{contraction.element}.{tile}.{numbers}"


def _kernel(module: Any, target: Target, plan: Plan, contraction: Contraction, epilogue: Epilogue | None, batch_axes: int) -> Any:
    name = _name("contraction", target, plan, contraction)
    if epilogue is None and not batch_axes and name in module.globals:
        return module.globals[name]
    run_time = list(contraction.run_time_values())
    captured = [value.type for value in epilogue.captured] if epilogue else []
    types = [PTR] * 4 + [I64] * (4 + len(run_time) + batch_axes) + captured
    fn, b = emit.function(module, name, types)
    a, right, c, scratch, row_low, row_high, panel_low, panel_high = fn.args[:8]
    rest = list(fn.args[8:])
    values, rest = dict(zip(run_time, rest, strict=False)), rest[len(run_time):]
    kernel = Kernel(target, plan, contraction.with_values(values).normalised(), a, right, c, row_low, row_high,
                    epilogue.emit if epilogue else None, tuple(rest[:batch_axes]), tuple(rest[batch_axes:]))
    _emit_product(b, kernel, scratch, panel_low, panel_high, _passes(plan, contraction, epilogue))
    b.ret_void()
    return fn


def _for_each_panel(b: Builder, kernel: Kernel, low: Size, high: Size, body: Callable[[Builder, Panel], None]) -> None:
    """Full panels, then the columns that are left: one narrower panel where n is static, else one of a single vector at a time."""
    plan, n = kernel.plan, kernel.contraction.n
    full = emit.quotient(b, n, plan.columns)
    if full != 0:
        loop(b, low, least(b, high, full), 1, lambda p, _: body(b, Panel(emit.times(b, p, plan.columns), plan.vectors, None)))
    rest = emit.minus(b, n, emit.times(b, full, plan.columns))
    if rest == 0:
        return
    start = emit.times(b, full, plan.columns)
    with b.if_then(b.icmp_signed(">", emit.size(high), emit.size(full))):
        if isinstance(rest, int):
            body(b, Panel(emit.size(start), -(-rest // plan.lanes), rest))
        else:
            loop(b, start, n, plan.lanes, lambda j, _: body(b, Panel(j, 1, least(b, emit.minus(b, n, j), plan.lanes))))


def _emit_product(b: Builder, kernel: Kernel, scratch: Value, panel_low: Value, panel_high: Value, passes: bool) -> None:
    plan, contraction = kernel.plan, kernel.contraction
    element, k = contraction.element, contraction.k
    rows = b.sub(kernel.row_high, kernel.row_low)
    left_start, sums_start, _ = _scratch_layout(b, plan, contraction, rows, passes)
    packed_left = at(b, scratch, left_start, element)
    sums = at(b, scratch, sums_start, element)
    if plan.pack_left:
        pack_left(b, kernel, packed_left)

    def stage(panel: Panel, k_start: Size, depth: Size, first: Value | None, last: Value | bool) -> None:
        """Multiply A by one panel's rows k_start to k_start + depth."""
        right = at(b, kernel.right, _right_start(b, kernel, panel, k_start), element)
        if plan.packs_right:
            pack_right_panel(b, kernel, panel, scratch, k_start, depth)
            right = scratch
        emit_row_tiles(b, kernel, panel, Stage(right, packed_left if plan.pack_left else None, k_start, depth, first, last, sums))

    def panel_product(_: Builder, panel: Panel) -> None:
        if isinstance(k, int) and k <= plan.k_block:
            stage(panel, 0, k, None, not passes)
            if passes:
                finish_panel(b, kernel, panel, sums, 1)
            return
        blocks = emit.ceil_quotient(b, most(b, k, 1), BLOCK)

        def block(t: Value, _: Sequence[Value]) -> None:
            start = emit.times(b, t, BLOCK)
            block_depth = least(b, emit.minus(b, k, start), BLOCK)

            def part(k_low: Value, _: Sequence[Value]) -> None:
                depth = least(b, emit.minus(b, block_depth, k_low), plan.k_block)
                place = emit.plus(b, start, k_low)
                last = False if passes else b.icmp_signed("==", emit.size(emit.plus(b, place, depth)), emit.size(k))
                if not isinstance(k, int) and not passes:
                    last = b.and_(last, b.icmp_signed("==", emit.size(blocks), I64(1)))
                stage(panel, place, depth, b.icmp_signed("==", k_low, I64(0)), last)

            loop(b, 0, most(b, block_depth, 1), plan.k_block, part)
            if not isinstance(k, int) or k > BLOCK:
                with b.if_then(b.icmp_signed("<", emit.size(emit.plus(b, t, 1)), emit.size(blocks))):
                    merge_block(b, kernel, panel, sums, t)

        loop(b, 0, blocks, 1, block)
        if passes:
            finish_panel(b, kernel, panel, sums, blocks)
        elif not isinstance(k, int):
            with b.if_then(b.icmp_signed(">", blocks, I64(1))):
                finish_panel(b, kernel, panel, sums, blocks)

    _for_each_panel(b, kernel, panel_low, panel_high, panel_product)


def _right_start(b: Builder, kernel: Kernel, panel: Panel, k_start: Size) -> Size:
    """Where B(k_start, first column of the panel) lies, in elements from `right`."""
    contraction, plan = kernel.contraction, kernel.plan
    if plan.right is RightLayout.PREPACKED:
        return emit.plus(b, _packed_start(b, kernel, panel), emit.times(b, k_start, panel.vectors * plan.lanes))
    return emit.plus(b, emit.times(b, k_start, contraction.b_k), emit.times(b, panel.column, contraction.b_column))
