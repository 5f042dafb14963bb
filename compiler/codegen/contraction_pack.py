"""Packing: panels of B with k-major rows of whole vectors, tiles of A with k-major rows of one tile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.contraction_kernel import Kernel, Panel
from shapescript.compiler.codegen.contraction_plan import RightLayout
from shapescript.compiler.codegen.contraction_transpose import transposer
from shapescript.compiler.codegen.emit import I64, PTR, Builder, ElementType, Size, Value, at, load, load_strided, loop, store
from shapescript.compiler.codegen.extents import least


def pack_right_panel(b: Builder, kernel: Kernel, panel: Panel, source: Value, packed: Value, depth: Size) -> None:
    """Write `depth` rows of a panel of B, of one run, from where the first of them lies to `packed`, which has room for depth rounded up to
    lanes.

    Columns past the end hold numbers of no meaning.
    """
    contraction = kernel.contraction
    if kernel.plan.right is RightLayout.COPIED:
        _copy_panel(b, kernel, panel, source, packed, depth)
        return
    make = transposer if kernel.plan.right is RightLayout.TRANSPOSED else _gatherer
    lanes, strides = kernel.plan.lanes, [contraction.b_column]
    if kernel.plan.right is RightLayout.GATHERED:
        strides.append(contraction.b_k)
    pack = make(b.module, contraction.element, lanes)
    for v in range(panel.vectors):
        valid = lanes if panel.valid is None else least(b, extents.minus(b, panel.valid, v * lanes), lanes)
        columns = at(b, source, extents.times(b, v * lanes, contraction.b_column), contraction.element)
        numbers = [*strides, depth, panel.vectors * lanes, extents.minus(b, valid, 1)]
        b.call(pack, [columns, at(b, packed, v * lanes, contraction.element), *(emit.size(number) for number in numbers)])


def _copy_panel(b: Builder, kernel: Kernel, panel: Panel, source: Value, packed: Value, depth: Size) -> None:
    contraction, lanes = kernel.contraction, kernel.plan.lanes
    element, width = contraction.element, panel.vectors * lanes
    masks = panel.masks(b, lanes)

    def row(k: Value, _: Sequence[Value]) -> None:
        start = at(b, source, extents.times(b, k, contraction.b_k), element)
        for v in range(panel.vectors):
            value = load(b, at(b, start, v * lanes, element), element, lanes, masks[v])
            store(b, value, at(b, packed, b.add(b.mul(k, I64(width)), I64(v * lanes)), element))

    loop(b, 0, depth, 1, row)


def _gatherer(module: Any, element: ElementType, lanes: int) -> Any:
    """gather(source, packed, column stride, k stride, depth, width, last): as transpose, with any stride along k; number by number."""
    name = f"gather.{element}.{lanes}"
    if name in module.globals:
        return module.globals[name]
    fn, b = emit.function(module, name, [PTR, PTR, *[I64] * 5])
    source, packed, column_stride, k_stride, depth, width, last = fn.args

    def row(k: Value, _: Sequence[Value]) -> None:
        here = at(b, source, b.mul(k, k_stride), element)
        value = load_strided(b, here, column_stride, element, lanes, b.add(last, I64(1)))
        store(b, value, at(b, packed, b.mul(k, width), element))

    loop(b, 0, depth, 1, row)
    b.ret_void()
    return fn


STEPS_AT_ONCE = 16  # of k that all tiles are copied for in turn: so many far rows of A stay in the first cache until each line is used up


def pack_left(b: Builder, kernel: Kernel, packed: Value, k_start: Size, depth: Size) -> None:
    """Copy steps k_start to k_start + depth, of one run, of the share's rows of A to tiles with k-major rows of `plan.rows` numbers; the
    last tile's missing rows stay unwritten.

    Only for A whose rows are adjacent (a_row = 1).
    """
    contraction, tile = kernel.contraction, kernel.plan.rows
    element = contraction.element
    start = at(b, kernel.a, kernel.along(b, k_start, contraction.a_k, contraction.a_run), element)
    rest = b.and_(b.sub(kernel.row_high, kernel.row_low), I64(tile - 1))
    rest_mask = emit.lane_mask(b, rest, tile)

    def copy_steps(low: Value, _: Sequence[Value]) -> None:
        high = least(b, b.add(low, I64(STEPS_AT_ONCE)), depth)

        def copy_tile(i: Value, mask: Value | None) -> None:
            source = at(b, start, i, element)
            target = at(b, packed, b.mul(b.sub(i, kernel.row_low), emit.size(depth)), element)

            def copy_row(step: Value, _: Sequence[Value]) -> None:
                value = load(b, at(b, source, extents.times(b, step, contraction.a_k), element), element, tile, mask)
                store(b, value, at(b, target, b.mul(step, I64(tile)), element))

            loop(b, low, high, 1, copy_row)

        loop(b, kernel.row_low, b.sub(kernel.row_high, I64(tile - 1)), tile, lambda i, _: copy_tile(i, None))
        with b.if_then(b.icmp_signed(">", rest, I64(0))):
            copy_tile(b.sub(kernel.row_high, rest), rest_mask)

    loop(b, 0, depth, STEPS_AT_ONCE, copy_steps)
