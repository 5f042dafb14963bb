"""B with adjacent k: squares of vectors are transposed in registers, to be packed, or to be summed up at once for a single row of A."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shapescript.compiler.codegen import emit
from shapescript.compiler.codegen.emit import (
    F32,
    I64,
    PTR,
    Builder,
    ElementType,
    Value,
    at,
    load,
    load_strided,
    loop,
    multiply_add,
    shuffle,
    splat,
    store,
    vector_of,
)
from shapescript.compiler.codegen.extents import least


def transpose(b: Builder, rows: Sequence[Value]) -> list[Value]:
    """n vectors of n lanes, transposed, n a power of two: 4x4 (or 2x2) within 128 bits, then butterflies."""
    n, out, distance = len(rows), list(rows), 1
    if n >= 4 and rows[0].type.element == F32:
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


def transposer(module: Any, element: ElementType, lanes: int) -> Any:
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

    def square(k: Value, _: Sequence[Value]) -> None:
        rows = transpose(b, [load(b, at(b, column, k, element), element, lanes) for column in columns])
        for r, value in enumerate(rows):
            store(b, value, at(b, packed, b.mul(b.add(k, I64(r)), width), element))

    def step(k: Value, _: Sequence[Value]) -> None:
        value = load_strided(b, at(b, source, k, element), stride, element, lanes, b.add(last, I64(1)))
        store(b, value, at(b, packed, b.mul(k, width), element))

    whole = b.and_(depth, I64(-lanes))
    loop(b, 0, whole, lanes, square)
    loop(b, whole, depth, 1, step)
    b.ret_void()
    return fn


def row_sums(module: Any, element: ElementType, lanes: int) -> Any:
    """sums(source, stride, last, a, a_k, depth, start) -> start + a row of A times one vector of columns: c is source[c * stride + k].

    Nothing is packed: for one row that would take as long again as reading B. A function of its own for all products, as above. Columns
    past the last one repeat it.
    """
    name = f"row.{element}.{lanes}"
    if name in module.globals:
        return module.globals[name]
    kind = vector_of(element, lanes)
    fn, b = emit.function(module, name, [PTR, I64, I64, PTR, I64, I64, kind], kind)
    source, stride, last, a, a_k, depth, start = fn.args
    columns = [at(b, source, b.mul(emit.size(least(b, c, last)), stride), element) for c in range(lanes)]

    def add(k: Value, column: Value, total: Value) -> Value:
        return multiply_add(b, splat(b, load(b, at(b, a, b.mul(k, a_k), element), element), lanes), column, total)

    def square(k: Value, state: Sequence[Value]) -> list[Value]:
        (total,) = state
        for r, value in enumerate(transpose(b, [load(b, at(b, column, k, element), element, lanes) for column in columns])):
            total = add(b.add(k, I64(r)), value, total)
        return [total]

    def step(k: Value, state: Sequence[Value]) -> list[Value]:
        return [add(k, load_strided(b, at(b, source, k, element), stride, element, lanes, b.add(last, I64(1))), state[0])]

    whole = b.and_(depth, I64(-lanes))
    b.ret(loop(b, whole, depth, 1, step, loop(b, 0, whole, lanes, square, [start]))[0])
    return fn
