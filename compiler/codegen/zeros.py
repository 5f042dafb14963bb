"""Looks at numbers in memory: whether zeros change nothing that they are multiplied with and added to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shapescript.compiler.codegen import emit
from shapescript.compiler.codegen.emit import F32, I1, I32, I64, LANES, Builder, ElementType, Size, Value, at, load, loop


def are_zeros(b: Builder, element: ElementType, pointer: Value, count: Size, stride: Size) -> Value:
    """Whether so many numbers, that far apart, are zeros of either sign."""
    zero = emit.constant(0.0, element)

    def look(i: Value, found: Sequence[Value]) -> list[Value]:
        number = load(b, at(b, pointer, b.mul(i, emit.size(stride)), element), element)
        return [b.and_(found[0], b.fcmp_ordered("==", number, zero))]

    (found,) = loop(b, 0, count, 1, look, [I1(1)])
    return found


def are_zeros_in_groups(
    b: Builder, element: ElementType, pointer: Value, groups: Size, group_stride: Size, count: Size, stride: Size
) -> Value:
    """As `are_zeros`, of several groups of numbers."""

    def look(i: Value, found: Sequence[Value]) -> list[Value]:
        start = at(b, pointer, b.mul(i, emit.size(group_stride)), element)
        return [b.and_(found[0], are_zeros(b, element, start, count, stride))]

    (found,) = loop(b, 0, groups, 1, look, [I1(1)])
    return found


def are_finite(b: Builder, element: ElementType, pointer: Value, rows: Size, stride: Size, width: int) -> Value:
    """Whether all numbers of so many rows are."""
    zeros = emit.constant(0.0, emit.vector_of(element, LANES))
    return b.not_(_is_any(b, element, pointer, rows, stride, width, lambda x: b.fcmp_unordered("!=", b.fsub(x, x), zeros)))


def has_minus_zero(b: Builder, element: ElementType, pointer: Value, rows: Size, stride: Size, width: int) -> Value:
    """Whether a number of so many rows is -0.0."""
    return _is_any(b, element, pointer, rows, stride, width, lambda x: are_minus_zeros(b, x))


def are_minus_zeros(b: Builder, numbers: Value) -> Value:
    """Which lanes of a vector are -0.0."""
    bits = emit.vector_of(I32 if emit.scalar_of(numbers.type) == F32 else I64, numbers.type.count)
    return b.icmp_signed("==", b.bitcast(numbers, bits), b.bitcast(emit.constant(-0.0, numbers.type), bits))


def _is_any(
    b: Builder, element: ElementType, pointer: Value, rows: Size, stride: Size, width: int, test: Callable[[Value], Value]
) -> Value:
    """Whether the test holds for a number of rows of `width`; not for +0.0."""
    none = emit.constant(0, emit.vector_of(I1, LANES))

    def look(i: Value, found: Sequence[Value]) -> list[Value]:
        (total,), row = found, at(b, pointer, b.mul(i, emit.size(stride)), element)
        for column in range(0, width, LANES):
            mask = emit.lane_mask(b, min(LANES, width - column), LANES)
            numbers = load(b, at(b, row, column, element), element, LANES, mask)
            total = b.or_(total, test(numbers))
        return [total]

    (found,) = loop(b, 0, rows, 1, look, [none])
    return b.icmp_signed("!=", b.bitcast(found, emit.I16), emit.I16(0))
