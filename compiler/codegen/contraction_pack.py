"""Packing: panels of B with k-major rows of whole vectors, tiles of A with k-major rows of one tile."""

from __future__ import annotations

from collections.abc import Sequence

from shapescript.compiler.codegen import emit
from shapescript.compiler.codegen.contraction_plan import RightLayout
from shapescript.compiler.codegen.contraction_tile import Kernel, Panel
from shapescript.compiler.codegen.emit import I64, Builder, Size, Value, at, constant, load, load_strided, loop, shuffle, store


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
    """Write rows k_start to k_start + depth of a panel of B to `packed`, which has room for depth rounded up to lanes.

    Columns past the end hold numbers of no meaning.
    """
    contraction = kernel.contraction
    place = emit.plus(b, emit.times(b, k_start, contraction.b_k), emit.times(b, panel.column, contraction.b_column))
    source = at(b, kernel.right, place, contraction.element)
    if kernel.plan.right is RightLayout.TRANSPOSED:
        _transpose_panel(b, kernel, panel, source, packed, depth)
    else:
        _copy_panel(b, kernel, panel, source, packed, depth)


def _copy_panel(b: Builder, kernel: Kernel, panel: Panel, source: Value, packed: Value, depth: Size) -> None:
    contraction, lanes = kernel.contraction, kernel.plan.lanes
    element, width = contraction.element, panel.vectors * lanes
    masks = panel.masks(b, lanes)
    gathers = contraction.b_column != 1

    def row(k: Value, _: Sequence[Value]) -> None:
        start = at(b, source, emit.times(b, k, contraction.b_k), element)
        for v in range(panel.vectors):
            here = at(b, start, emit.times(b, v * lanes, contraction.b_column), element)
            if gathers:
                valid = None if masks[v] is None else emit.minus(b, panel.valid or 0, v * lanes)
                value = load_strided(b, here, contraction.b_column, element, lanes, valid)
            else:
                value = load(b, here, element, lanes, masks[v])
            store(b, value, at(b, packed, b.add(b.mul(k, I64(width)), I64(v * lanes)), element))

    loop(b, 0, depth, 1, row)


def _transpose_panel(b: Builder, kernel: Kernel, panel: Panel, source: Value, packed: Value, depth: Size) -> None:
    contraction, lanes = kernel.contraction, kernel.plan.lanes
    element, width = contraction.element, panel.vectors * lanes

    def chunk(k: Size, mask: Value | None) -> None:
        for v in range(panel.vectors):
            columns = []
            for c in range(v * lanes, (v + 1) * lanes):
                if isinstance(panel.valid, int) and c >= panel.valid:
                    columns.append(constant(0, kernel.vector))
                    continue
                column = c
                if panel.valid is not None and not isinstance(panel.valid, int):  # columns past the end repeat the last one
                    column = least_column(c)
                start = at(b, at(b, source, k, element), emit.times(b, column, contraction.b_column), element)
                columns.append(load(b, start, element, lanes, mask))
            for r, value in enumerate(transpose(b, columns)):
                row = at(b, packed, emit.times(b, k, width), element)
                store(b, value, at(b, row, r * width + v * lanes, element))

    def least_column(c: int) -> Size:
        assert panel.valid is not None
        return emit.least(b, c, emit.minus(b, panel.valid, 1))

    if isinstance(depth, int):
        whole: Size = depth // lanes * lanes
        loop(b, 0, whole, lanes, lambda k, _: chunk(k, None))
        if depth % lanes:
            chunk(whole, emit.lane_mask(b, depth % lanes, lanes))
        return
    whole = b.and_(depth, I64(-lanes))
    loop(b, 0, whole, lanes, lambda k, _: chunk(k, None))
    left = b.sub(depth, whole)
    rest: Size = contraction.k % lanes if isinstance(contraction.k, int) else left  # blocks of k are whole vectors but for the last
    if rest != 0:
        with b.if_then(b.icmp_signed(">", left, I64(0))):
            chunk(whole, emit.lane_mask(b, rest, lanes))


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
