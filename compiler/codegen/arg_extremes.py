"""argmax and argmin: of equal elements the first, and before all others the first NaN."""

from __future__ import annotations

from collections.abc import Sequence

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.emit import I64, LANES, Builder, ElementType, Value, at, is_float, lane_mask, load, shuffle, splat, store
from shapescript.compiler.codegen.leaf_updates import each_vector


def _is_nan(b: Builder, x: Value) -> Value | None:
    return b.fcmp_unordered("uno", x, x) if is_float(emit.scalar_of(x.type)) else None


def _beats(b: Builder, kind: str, x: Value, y: Value) -> Value:
    """Whether x comes before y, wherever they stand: a greater (for argmin smaller) number, or a NaN where y is none."""
    sign = ">" if kind == "argmax" else "<"
    if not is_float(emit.scalar_of(x.type)):
        return b.icmp_signed(sign, x, y)
    nan_x, nan_y = _is_nan(b, x), _is_nan(b, y)
    return b.or_(b.fcmp_ordered(sign, x, y), b.and_(nan_x, b.not_(nan_y)))


def emit_arg_extreme_columns(
    b: Builder,
    kind: str,
    element: ElementType,
    source: Value,
    result: Value,
    rows: emit.Size,
    columns: emit.Size,
    low: emit.Size,
    high: emit.Size,
) -> None:
    """result[j] = the row of the extreme of column j, for columns low to high of so many; at least one row."""

    def vector(j: Value, mask: Value | None) -> None:
        def row(i: Value, best: Sequence[Value]) -> list[Value]:
            value = load(b, at(b, source, b.add(b.mul(i, emit.size(columns)), j), element), element, LANES, mask)
            better = _beats(b, kind, value, best[0])
            return [b.select(better, value, best[0]), b.select(better, splat(b, i, LANES), best[1])]

        first = load(b, at(b, source, j, element), element, LANES, mask)
        _, index = emit.loop(b, 1, rows, 1, row, [first, splat(b, I64(0), LANES)])
        store(b, index, at(b, result, j, I64), mask)

    each_vector(b, extents.minus(b, high, low), lambda i, mask: vector(emit.size(extents.plus(b, low, i)), mask))


def emit_arg_extreme_run(b: Builder, kind: str, element: ElementType, source: Value, count: emit.Size) -> Value:
    """The index of the extreme of `count` >= 1 adjacent elements: 16 lanes, each with its first extreme, then the first of those."""

    def take(i: Value, best: Sequence[Value], mask: Value | None) -> list[Value]:
        value = load(b, at(b, source, i, element), element, LANES, mask)
        better = _beats(b, kind, value, best[0])
        better = better if mask is None else b.and_(better, mask)
        return [b.select(better, value, best[0]), b.select(better, b.add(splat(b, i, LANES), emit.iota(LANES)), best[1])]

    first = splat(b, load(b, source, element), LANES)
    whole = extents.times(b, extents.quotient(b, count, LANES), LANES)
    best = emit.loop(b, 0, whole, LANES, lambda i, best: take(i, best, None), [first, splat(b, I64(0), LANES)])
    rest = extents.minus(b, count, whole)
    if rest != 0:
        best = take(emit.size(whole), best, lane_mask(b, rest, LANES))
    values, indices = best
    while values.type.count > 1:
        half = values.type.count // 2
        (x, y), (i, j) = ([shuffle(b, v, v, range(half)), shuffle(b, v, v, range(half, 2 * half))] for v in (values, indices))
        earlier = b.and_(b.icmp_signed("<", j, i), b.not_(_beats(b, kind, x, y)))
        second = b.or_(_beats(b, kind, y, x), earlier)
        values, indices = b.select(second, y, x), b.select(second, j, i)
    return b.extract_element(indices, emit.I32(0))
