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
from dataclasses import replace
from typing import Any

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.contraction_kernel import Kernel, Place
from shapescript.compiler.codegen.contraction_nest import emit_product, scratch_layout
from shapescript.compiler.codegen.contraction_plan import Contraction, Plan, plan_contraction
from shapescript.compiler.codegen.contraction_shares import Share, panel_count
from shapescript.compiler.codegen.contraction_zeros import LeftZeros
from shapescript.compiler.codegen.emit import BLOCK, I64, PTR, Builder, Size, Value, at, element_bytes, loop
from shapescript.compiler.codegen.target import Target
from shapescript.compiler.records.dataclass import dataclass


@dataclass(frozen=True)
class Epilogue:
    """What becomes of each finished vector; see the module. Values captured are passed to the kernel as arguments.

    stores: it stores all vectors by itself, none to C.
    skips: whether it reads nothing of the sums from one place to another, with all between; then they may be +0.0.
    """

    emit: Callable[[Builder, Sequence[Value], Value, Place], Value | None]
    captured: tuple[Value, ...] = ()
    inline: bool = True
    stores: bool = False
    skips: Callable[[Builder, Sequence[Value], Place, Place], Value] | None = None


@dataclass(frozen=True)
class BeforeRun:
    """What is done before a run of the summed places is read, for its number. Values captured are passed to the kernel as arguments."""

    emit: Callable[[Builder, Sequence[Value], Value], None]
    captured: tuple[Value, ...]


@dataclass(frozen=True)
class AfterRows:
    """What is done behind each block of rows (`plan.row_block`) of C, once all of their columns are stored: with the values captured, the
    indices of the batch, the first row and the one behind the last. Not for shares of panels. `is_block`: C has room for one block only."""

    emit: Callable[[Builder, Sequence[Value], Sequence[Value], Value, Value], None]
    captured: tuple[Value, ...]
    is_block: bool = False


@dataclass(frozen=True)
class BatchAxis:
    """An outer loop over products number `low` to `size`; each turn moves A, B and C on by their strides, in elements.

    `around(builder, i, inner)` emits a turn's product by `inner`, and what comes before or behind it.
    """

    size: Size
    a_stride: Size
    b_stride: Size
    c_stride: Size
    low: Size = 0
    around: Callable[[Builder, Value, Callable[[], None]], None] | None = None


# ---- scratch


def scratch_bytes(
    target: Target, contraction: Contraction, b: Builder | None = None, *, epilogue: Epilogue | None = None, plan: Plan | None = None
) -> Size:
    """Bytes of 64-byte-aligned scratch that one call (one worker) needs: an int, or an emitted I64 where a size is run-time.

    A panel of B: columns * (k, at most k_block, rounded up to lanes), twice where the next one is copied ahead, all panels with all of k
    where several blocks of rows go through them; A where it is packed: m * k, of a block of rows or a stage of k where these come first;
    and running sums, where they don't stay in registers from start to end: m * columns (m * n rounded up to columns where
    `plan.steps_first`) for k > k_block or an epilogue that isn't inline, and for k > 4096 as much again for each bit of the number of
    blocks less one.
    """
    plan = plan or plan_contraction(target, contraction)
    layout = scratch_layout(b, plan, contraction, contraction.m, contraction.n, _passes(contraction, epilogue))
    return extents.times(b, layout.end, element_bytes(contraction.element))


def _passes(contraction: Contraction, epilogue: Epilogue | None) -> bool:
    """Whether sums always go through memory, and a pass over it finishes them."""
    return (epilogue is not None and not epilogue.inline) or (isinstance(contraction.k, int) and contraction.k > BLOCK)


# ---- the product


def emit_contraction(
    b: Builder,
    target: Target,
    contraction: Contraction,
    a: Value,
    right: Value,
    c: Value,
    scratch: Value,
    *,
    epilogue: Epilogue | None = None,
    plan: Plan | None = None,
    share: Share | None = None,
    batch: Sequence[BatchAxis] = (),
    before_run: BeforeRun | None = None,
    after_rows: AfterRows | None = None,
    zeros: LeftZeros | None = None,
) -> None:
    """Emit C = A B where the builder stands; see the module. `scratch` holds `scratch_bytes`, or is null where that is 0."""
    plan = plan or plan_contraction(target, contraction)
    fn = _kernel(b.module, target, plan, contraction, epilogue, len(batch), before_run, after_rows, zeros)
    share = share or Share(0, contraction.m, 0, panel_count(plan, contraction.n, b))
    limits = [emit.size(limit) for limit in (share.row_low, share.row_high, share.panel_low, share.panel_high)]
    run_time = contraction.run_time_values()
    captured = [value for part in (epilogue, before_run, after_rows, zeros) if part for value in part.captured]

    def nest(axes: Sequence[BatchAxis], pointers: Sequence[Value], indices: tuple[Value, ...]) -> None:
        if not axes:
            b.call(fn, [*pointers, scratch, *limits, *run_time.values(), *indices, *captured])
            return
        axis, element = axes[0], contraction.element

        def turn(i: Value, _: Sequence[Value]) -> None:
            steps = zip(pointers, (axis.a_stride, axis.b_stride, axis.c_stride), strict=True)
            moved = [at(b, pointer, extents.times(b, i, stride), element) for pointer, stride in steps]
            if axis.around:
                axis.around(b, i, lambda: nest(axes[1:], moved, (*indices, i)))
            else:
                nest(axes[1:], moved, (*indices, i))

        loop(b, axis.low, axis.size, 1, turn)

    nest(batch, [a, right, c], ())


def _name(prefix: str, target: Target, plan: Plan, contraction: Contraction) -> str:
    numbers = "_".join("x" if number is None else str(number) for number in contraction.normalised().known_numbers())
    order = f"{int(plan.pack_left)}.{plan.k_block}.{int(plan.steps_first)}.{plan.row_block}.{int(plan.copy_ahead)}"
    tile = f"{target.lanes}.{plan.rows}x{plan.vectors}.{plan.right.value[:4]}.{order}"
    return f"{prefix}.{contraction.element}.{tile}.{numbers}"


def _kernel(
    module: Any,
    target: Target,
    plan: Plan,
    contraction: Contraction,
    epilogue: Epilogue | None,
    batch_axes: int,
    before_run: BeforeRun | None,
    after_rows: AfterRows | None,
    zeros: LeftZeros | None,
) -> Any:
    name = _name("contraction", target, plan, contraction)
    is_shared = epilogue is None and not batch_axes and before_run is None and after_rows is None and zeros is None
    if is_shared and name in module.globals:
        return module.globals[name]
    run_time = list(contraction.run_time_values())
    captured = [[value.type for value in part.captured] if part else [] for part in (epilogue, before_run, after_rows, zeros)]
    types = [PTR] * 4 + [I64] * (4 + len(run_time) + batch_axes) + [kind for kinds in captured for kind in kinds]
    fn, b = emit.function(module, name if is_shared else f"{name}.own", types)
    a, right, c, scratch, row_low, row_high, panel_low, panel_high = fn.args[:8]
    rest = list(fn.args[8:])
    values, rest = dict(zip(run_time, rest, strict=False)), rest[len(run_time) :]
    batch, rest = tuple(rest[:batch_axes]), rest[batch_axes:]
    own = [[rest.pop(0) for _ in kinds] for kinds in captured]
    kernel = Kernel(
        target,
        plan,
        contraction.with_values(values).normalised(),
        a,
        right,
        c,
        row_low,
        row_high,
        epilogue=epilogue.emit if epilogue else None,
        batch=batch,
        captured=tuple(own[0]),
        before_run=_before(before_run, own[1]) if before_run else None,
        stores=epilogue is None or not epilogue.stores,
        after_rows=_after(after_rows, own[2], batch) if after_rows else None,
        skips=epilogue.skips if epilogue else None,
        has_block=after_rows is not None and after_rows.is_block,
        zeros=replace(zeros, may_go=own[3][0]) if zeros else None,
    )
    emit_product(b, kernel, scratch, panel_low, panel_high, _passes(contraction, epilogue))
    b.ret_void()
    return fn


def _before(before_run: BeforeRun, captured: Sequence[Value]) -> Callable[[Builder, Value], None]:
    return lambda b, number: before_run.emit(b, captured, number)


def _after(after_rows: AfterRows, captured: Sequence[Value], batch: Sequence[Value]) -> Callable[[Builder, Value, Value], None]:
    return lambda b, low, high: after_rows.emit(b, captured, batch, low, high)
