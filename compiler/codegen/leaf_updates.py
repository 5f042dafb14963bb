"""Updates and norms of single tensors of a model, of any float type: what the flat float32 kernels of optimiser.py don't cover."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shapescript.compiler.codegen import emit
from shapescript.compiler.codegen.emit import (
    F64,
    I64,
    LANES,
    Builder,
    ElementType,
    Value,
    at,
    constant,
    intrinsic,
    lane_mask,
    load,
    splat,
    store,
)
from shapescript.compiler.codegen.optimiser import emit_power_of_step
from shapescript.compiler.codegen.reductions import Reduction, reduce_run
from shapescript.compiler.numerics.moments import SMALLEST_MOMENT


def each_vector(b: Builder, count: emit.Size, body: Callable[[Value, Value | None], None]) -> None:
    """`body(i, mask)` for elements i to i + 15 of `count`."""
    whole = emit.times(b, emit.quotient(b, count, LANES), LANES)
    emit.loop(b, 0, whole, LANES, lambda i, _: body(i, None))
    rest = emit.minus(b, count, whole)
    if rest != 0:
        with b.if_then(b.icmp_signed(">", emit.size(rest), I64(0))):
            body(emit.size(whole), lane_mask(b, rest, LANES))


def emit_scale(b: Builder, element: ElementType, tensor: Value, count: emit.Size, factor: Value) -> None:
    """tensor *= factor."""
    factors = splat(b, factor, LANES)

    def vector(i: Value, mask: Value | None) -> None:
        here = at(b, tensor, i, element)
        store(b, b.fmul(load(b, here, element, LANES, mask), factors), here, mask)

    each_vector(b, count, vector)


def emit_square_sum(b: Builder, element: ElementType, tensor: Value, count: emit.Size) -> Value:
    """The sum of squares, in f64: one reduction."""

    def square(b: Builder, i: Value, mask: Value | None) -> list[Value]:
        value = load(b, at(b, tensor, i, element), element, LANES, mask)
        wide = value if element == F64 else b.fpext(value, emit.vector_of(F64, LANES))
        return [b.fmul(wide, wide)]

    (total,) = reduce_run(b, [Reduction("sum", F64)], count, square)
    return total


def emit_pairs(b: Builder, values: Sequence[Value]) -> Value:
    """The block tree of values in registers."""
    level = list(values)
    while len(level) > 1:
        pairs = [b.fadd(level[place], level[place + 1]) for place in range(0, len(level) - 1, 2)]
        level = pairs + level[2 * len(pairs) :]
    return level[0]


def emit_adamw_f64(b: Builder, arguments: Sequence[Value]) -> None:
    """optimiser.emit_adamw for one float64 tensor. arguments: the addresses of its value, gradient and moments, the count, the factor, the
    rate, the update's number, and beta1, beta2, eps and decay."""
    p, g, m, v, count, factor, rate, step, beta1, beta2, eps, decay = arguments
    one = constant(1.0, F64)
    first_correction, second_correction = (b.fsub(one, emit_power_of_step(b, beta, step)) for beta in (beta1, beta2))
    numbers = (
        b.fsub(one, beta1),
        beta2,
        b.fsub(one, beta2),
        b.fdiv(one, intrinsic(b, "sqrt", second_correction)),
        eps,
        b.fsub(one, b.fmul(rate, decay)),
        b.fdiv(rate, first_correction),
        factor,
    )
    first_weight, second_keep, second_weight, root, epsilon, value_keep, rates, factors = (splat(b, number, LANES) for number in numbers)
    zero, smallest = constant(0.0, factors.type), constant(SMALLEST_MOMENT, factors.type)

    def vector(i: Value, mask: Value | None) -> None:
        value, gradient, first, second = (load(b, at(b, buffer, i, F64), F64, LANES, mask) for buffer in (p, g, m, v))
        gradient = b.fmul(gradient, factors)
        first = b.fadd(b.fmul(b.fsub(gradient, first), first_weight), first)
        first = b.select(b.fcmp_ordered("<", intrinsic(b, "fabs", first), smallest), zero, first)
        second = b.fadd(b.fmul(b.fmul(gradient, gradient), second_weight), b.fmul(second, second_keep))
        spread = b.fadd(b.fmul(intrinsic(b, "sqrt", second), root), epsilon)
        value = b.fsub(b.fmul(value, value_keep), b.fmul(b.fdiv(first, spread), rates))
        for buffer, new in ((m, first), (v, second), (p, value)):
            store(b, new, at(b, buffer, i, F64), mask)

    each_vector(b, count, vector)
