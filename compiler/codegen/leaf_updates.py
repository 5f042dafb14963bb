"""Norms and scaling of single tensors of a model, of any float type: what the flat float32 kernels of gradient_norm.py don't cover; and the
factors of gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from shapescript.compiler.codegen import emit, extents, scalars
from shapescript.compiler.codegen.emit import (
    F32,
    F64,
    I16,
    I64,
    LANES,
    Builder,
    ElementType,
    Value,
    at,
    constant,
    lane_mask,
    load,
    splat,
    store,
)
from shapescript.compiler.codegen.reductions import Reduction, reduce_run
from shapescript.compiler.numerics.bfloat16 import from_bfloat16, to_bfloat16
from shapescript.compiler.numerics.norms import FIRST_FACTOR, SECOND_FACTOR, SMALLEST_FACTOR
from shapescript.compiler.numerics.scalar import Argument, Kind

_FROM_BF16, _TO_BF16 = from_bfloat16(Argument(0, Kind.U16)), to_bfloat16(Argument(0, Kind.F32))


Factors = Mapping[ElementType, Value]


def with_factors(b: Builder, factor: Value, body: Callable[[Factors, bool], None]) -> None:
    """`body(factors, is_split)` with a gradient's factor (F32, F64) as tensors of each type take it. One of f64 may have to be split,
    which only a run shows (numerics/norms.py): the body is emitted for both."""
    if factor.type == F32:
        body(_rounded(b, factor), False)
        return
    with b.if_else(b.fcmp_ordered("<", factor, constant(SMALLEST_FACTOR, F64)), likely=False) as (split, whole):
        with split:
            second = b.fmul(factor, constant(SECOND_FACTOR, F64))
            narrow = b.fptrunc(second, F32)
            body({F32: narrow, I16: narrow, F64: second}, True)
        with whole:
            body(_rounded(b, b.fptrunc(factor, F32)), False)


def gradient_factors(b: Builder, factor: Value) -> Sequence[Factors]:
    """What elements are multiplied by, one after the other, for a gradient's factor (F32, F64). One of f64 gives two, of which the first is
    1 where it needn't be split: an element times 1 is the element, and code for both ways would take LLVM twice as long."""
    if factor.type == F32:
        return [_rounded(b, factor)]
    is_split = b.fcmp_ordered("<", factor, constant(SMALLEST_FACTOR, F64))
    second = b.fmul(factor, constant(SECOND_FACTOR, F64))
    first, narrow = b.select(is_split, constant(FIRST_FACTOR, F64), constant(1.0, F64)), b.fptrunc(b.select(is_split, second, factor), F32)
    wide = b.select(is_split, second, b.fpext(b.fptrunc(factor, F32), F64))
    narrow_first = b.fptrunc(first, F32)
    return [{F32: narrow_first, I16: narrow_first, F64: first}, {F32: narrow, I16: narrow, F64: wide}]


def _rounded(b: Builder, factor: Value) -> Factors:
    return {F32: factor, I16: factor, F64: b.fpext(factor, F64)}


def each_vector(b: Builder, count: emit.Size, body: Callable[[Value, Value | None], None]) -> None:
    """`body(i, mask)` for elements i to i + 15 of `count`."""
    whole = extents.times(b, extents.quotient(b, count, LANES), LANES)
    emit.loop(b, 0, whole, LANES, lambda i, _: body(i, None))
    rest = extents.minus(b, count, whole)
    if rest != 0:
        with b.if_then(b.icmp_signed(">", emit.size(rest), I64(0))):
            body(emit.size(whole), lane_mask(b, rest, LANES))


def load_wide(b: Builder, here: Value, element: ElementType, mask: Value | None) -> Value:
    """Sixteen floats; those of bf16 as f32."""
    value = load(b, here, element, LANES, mask)
    return scalars.emit(b, _FROM_BF16, [value]) if element == I16 else value


def emit_scale(b: Builder, element: ElementType, tensor: Value, count: emit.Size, factor: Value, is_split: bool = False) -> None:
    """tensor *= factor, which may be the second of two (numerics/norms.py)."""
    factors, first = splat(b, factor, LANES), splat(b, constant(FIRST_FACTOR, factor.type), LANES)

    def vector(i: Value, mask: Value | None) -> None:
        here = at(b, tensor, i, element)
        wide = load_wide(b, here, element, mask)
        scaled = b.fmul(b.fmul(wide, first) if is_split else wide, factors)
        store(b, scalars.emit(b, _TO_BF16, [scaled]) if element == I16 else scaled, here, mask)

    each_vector(b, count, vector)


def emit_square_sum(b: Builder, element: ElementType, tensor: Value, count: emit.Size, scale: Value | None = None) -> Value:
    """The sum of squares, in f64, of the elements times `scale`: one reduction."""

    def square(b: Builder, i: Value, mask: Value | None) -> list[Value]:
        value = load_wide(b, at(b, tensor, i, element), element, mask)
        wide = value if element == F64 else b.fpext(value, emit.vector_of(F64, LANES))
        scaled = wide if scale is None else b.fmul(wide, splat(b, scale, LANES))
        return [b.fmul(scaled, scaled)]

    (total,) = reduce_run(b, [Reduction("sum", F64)], count, square)
    return total


def emit_pairs(b: Builder, values: Sequence[Value]) -> Value:
    """The block tree of values in registers."""
    level = list(values)
    while len(level) > 1:
        pairs = [b.fadd(level[place], level[place + 1]) for place in range(0, len(level) - 1, 2)]
        level = pairs + level[2 * len(pairs) :]
    return level[0]
