"""Packing: panels of B with k-major rows of whole vectors, tiles of A with k-major rows of one tile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shapescript.compiler.codegen import emit
from shapescript.compiler.codegen.contraction_plan import RightLayout
from shapescript.compiler.codegen.contraction_tile import Kernel, Panel
from shapescript.compiler.codegen.emit import (
    I64,
    PTR,
    Builder,
    ElementType,
    Size,
    Value,
    at,
    least,
    load,
    load_strided,
    loop,
    shuffle,
    store,
)


def transpose(b: Builder, rows: Sequence[Value]) -> list[Value]:
    """n vectors of n lanes, transposed, n a power of two: 4x4 (or 2x2) within 128 bits, then butterflies."""
    n, out, distance = len(rows), list(rows), 1
    if n >= 4 and rows[0].type.element == emit.F32:
        low = [x for l in range(0, n, 4) for x in (l, n + l, l + 1, n + l + 1)]
        high = [x for l in range(0, n, 4) for x in (l + 2, n + l + 2, l + 3, n + l + 3)]
        first = [x for l in range(0, n, 4) for x in (l, l + 1, n + l, n + l + 1)]
        last = [x for l in range(0, n, 4) for x in (l + 2, l + 3, n + l + 2, n + l + 3)]
        out, distance = [], 4
        for i in range(0, n, 4):
            r = rows[i : i + 4]
            t = [shuffle(b, r[p], r[p + 1], lanes) for p in (0, 2) for lanes in (low, high)]
            out += [shuffle(b, t[p], t[p + 2], lanes) for p in (0, 1) for lanes in (first, last)]
    while distance < n:
        stay = [l if not l & distance else n + l - distance for l in range(n)]
        move = [l + distance if not l & distance else n + l for l in range(n)]
        for i in range(n):
            if not i & distance:
                x, y = out[i], out[i + distance]
                out[i], out[i + distance] = shuffle(b, x, y, stay), shuffle(b, x, y, move)
        distance *= 2
    return out


def pack_right_panel(b: Builder, kernel: Kernel, panel: Panel, packed: Value, k_start: Size, depth: Size) -> None:
    """Write rows k_start to k_start + depth of a panel of B, of one run, to `packed`, which has room for depth rounded up to lanes.

    Columns past the end hold numbers of no meaning.
    """
    contraction = kernel.contraction
    start = kernel.along(b, k_start, contraction.b_k, contraction.b_run)
    place = emit.plus(b, start, emit.times(b, panel.column, contraction.b_column))
    source = at(b, kernel.right, place, contraction.element)
    if kernel.plan.right is RightLayout.COPIED:
        _copy_panel(b, kernel, panel, source, packed, depth)
        return
    make = _transposer if kernel.plan.right is RightLayout.TRANSPOSED else _gatherer
    lanes, strides = kernel.plan.lanes, [contraction.b_column]
    if kernel.plan.right is RightLayout.GATHERED:
        strides.append(contraction.b_k)
    pack = make(b.module, contraction.element, lanes)
    for v in range(panel.vectors):
        valid = lanes if panel.valid is None else least(b, emit.minus(b, panel.valid, v * lanes), lanes)
        columns = at(b, source, emit.times(b, v * lanes, contraction.b_column), contraction.element)
        numbers = [*strides, depth, panel.vectors * lanes, emit.minus(b, valid, 1)]
        b.call(pack, [columns, at(b, packed, v * lanes, contraction.element), *(emit.size(number) for number in numbers)])


def _copy_panel(b: Builder, kernel: Kernel, panel: Panel, source: Value, packed: Value, depth: Size) -> None:
    contraction, lanes = kernel.contraction, kernel.plan.lanes
    element, width = contraction.element, panel.vectors * lanes
    masks = panel.masks(b, lanes)

    def row(k: Value, _: Sequence[Value]) -> None:
        start = at(b, source, emit.times(b, k, contraction.b_k), element)
        for v in range(panel.vectors):
            value = load(b, at(b, start, v * lanes, element), element, lanes, masks[v])
            store(b, value, at(b, packed, b.add(b.mul(k, I64(width)), I64(v * lanes)), element))

    loop(b, 0, depth, 1, row)


def _transposer(module: Any, element: ElementType, lanes: int) -> Any:
    """transpose(source, packed, stride, depth, width, last): packed[k * width + c] = source[c * stride + k] for one vector of columns c.

    A function of its own for all products: a transposed square of vectors is more code than a product's tile. Columns past the last one
    repeat it. Rows of `packed` are written up to depth rounded up to lanes.
    """
    name = f"transpose.{element}.{lanes}"
    if name in module.globals:
        return module.globals[name]
    fn, b = emit.function(module, name, [PTR, PTR, *[I64] * 4])
    source, packed, stride, depth, width, last = fn.args
    columns = [at(b, source, b.mul(emit.size(least(b, c, last)), stride), element) for c in range(lanes)]

    def square(k: Value, mask: Value | None) -> None:
        rows = transpose(b, [load(b, at(b, column, k, element), element, lanes, mask) for column in columns])
        for r, value in enumerate(rows):
            store(b, value, at(b, packed, b.mul(b.add(k, I64(r)), width), element))

    whole = b.and_(depth, I64(-lanes))
    loop(b, 0, whole, lanes, lambda k, _: square(k, None))
    rest = b.sub(depth, whole)
    with b.if_then(b.icmp_signed(">", rest, I64(0))):
        square(whole, emit.lane_mask(b, rest, lanes))
    b.ret_void()
    return fn


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


def pack_left(b: Builder, kernel: Kernel, packed: Value) -> None:
    """Copy the share's rows of A to tiles with k-major rows of `plan.rows` numbers; the last tile's missing rows stay unwritten.

    Only for A whose rows are adjacent (a_row = 1).
    """
    contraction, tile = kernel.contraction, kernel.plan.rows
    element, k = contraction.element, contraction.k

    def copy_tile(i: Value, mask: Value | None) -> None:
        source = at(b, kernel.a, i, element)
        target = at(b, packed, b.mul(b.sub(i, kernel.row_low), emit.size(k)), element)

        def copy_row(step: Value, _: Sequence[Value]) -> None:
            value = load(b, at(b, source, emit.times(b, step, contraction.a_k), element), element, tile, mask)
            store(b, value, at(b, target, b.mul(step, I64(tile)), element))

        loop(b, 0, k, 1, copy_row)

    loop(b, kernel.row_low, b.sub(kernel.row_high, I64(tile - 1)), tile, lambda i, _: copy_tile(i, None))
    rows = b.sub(kernel.row_high, kernel.row_low)
    rest = b.and_(rows, I64(tile - 1))
    with b.if_then(b.icmp_signed(">", rest, I64(0))):
        copy_tile(b.sub(kernel.row_high, rest), emit.lane_mask(b, rest, tile))
