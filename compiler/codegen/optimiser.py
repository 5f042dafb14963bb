"""The optimiser's kernels over flat buffers of float32 (docs/exactness.md, optimisers): AdamW's update, and clipping by the norm.

Buffers are 64-byte aligned; each parameter begins at a multiple of 64 bytes, and what lies between them holds zeros. `emit_adamw` works
on elements low to high of the four buffers, so any cut at multiples of 16 shares it out. The norm's kernels (gradient_norm.py) can be had
from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from shapescript.compiler.codegen import scalars
from shapescript.compiler.codegen.emit import (
    F32,
    F64,
    I64,
    LANES,
    PTR,
    Builder,
    Size,
    Value,
    at,
    constant,
    function,
    intrinsic,
    load,
    loop,
    size,
    splat,
    store,
    while_loop,
)
from shapescript.compiler.codegen.gradient_norm import (
    Parameter,
    block_total,
    emit_all_finite,
    emit_norm,
    emit_square_blocks,
    norm_scratch_bytes,
)
from shapescript.compiler.numerics import elementary
from shapescript.compiler.numerics.moments import SMALLEST_MOMENT
from shapescript.compiler.numerics.scalar import Argument, Kind

__all__ = [
    "AdamwNumbers",
    "Parameter",
    "block_total",
    "emit_adamw",
    "emit_adamw_numbers",
    "emit_all_finite",
    "emit_norm",
    "emit_power_of_step",
    "emit_square_blocks",
    "norm_scratch_bytes",
]


@dataclass(frozen=True)
class AdamwNumbers:
    """What an update's arithmetic needs beside tensors, each f64 arithmetic rounded once to f32."""

    first_weight: Value  # 1 - beta1
    second_keep: Value  # beta2
    second_weight: Value  # 1 - beta2
    root: Value  # 1 / sqrt(1 - beta2^t)
    eps: Value
    value_keep: Value  # 1 - rate * decay
    rate: Value  # rate / (1 - beta1^t)


def emit_power_of_step(b: Builder, base: Value, t: Value) -> Value:
    """base ** t in f64 for an I64 t >= 0, by numerics' binary powers."""
    arguments = [Argument(0, Kind.F64), Argument(1, Kind.F64), Argument(2, Kind.I64)]
    turn = elementary.power_loop_turn(*arguments)

    def body(state: Sequence[Value]) -> list[Value]:
        return scalars.emit_all(b, [turn.result, turn.base, turn.remaining], list(state))

    return while_loop(b, lambda state: b.icmp_signed("!=", state[2], I64(0)), body, [constant(1.0, F64), base, t])[0]


def emit_adamw_numbers(b: Builder, t: Value, rate: Value, beta1: Value, beta2: Value, eps: Value, decay: Value) -> AdamwNumbers:
    """For update number t, counted from 1 (I64); the others are f64."""
    one = constant(1.0, F64)
    first, second = (b.fsub(one, emit_power_of_step(b, beta, t)) for beta in (beta1, beta2))
    numbers = [
        b.fsub(one, beta1),
        beta2,
        b.fsub(one, beta2),
        b.fdiv(one, intrinsic(b, "sqrt", second)),
        eps,
        b.fsub(one, b.fmul(rate, decay)),
        b.fdiv(rate, first),
    ]
    return AdamwNumbers(*(b.fptrunc(number, F32) for number in numbers))


def emit_adamw(
    b: Builder, parameter: Value, gradient: Value, first: Value, second: Value, low: Size, high: Size, factor: Value, numbers: AdamwNumbers
) -> None:
    """Update elements low to high (multiples of 16) of the flat buffers with the gradient times `factor` (f32).

    m += (g - m)(1 - beta1), flushed; v = g g (1 - beta2) + v beta2; p = p (1 - rate decay) - m / (sqrt(v) root + eps) * rate', all unfused.
    """
    fn = _adamw(b.module)
    b.call(fn, [parameter, gradient, first, second, size(low), size(high), factor, *vars(numbers).values()])


def _adamw(module: ir.Module) -> Any:
    if "adamw" in module.globals:
        return module.globals["adamw"]
    fn, b = function(module, "adamw", [PTR] * 4 + [I64] * 2 + [F32] * 8)
    p, g, m, v, low, high = fn.args[:6]
    factor, *rest = (splat(b, number, LANES) for number in fn.args[6:])
    numbers = AdamwNumbers(*rest)
    zero, smallest = constant(0.0, factor.type), constant(SMALLEST_MOMENT, factor.type)

    def turn(i: Value, _: Sequence[Value]) -> None:
        gradient = b.fmul(load(b, at(b, g, i, F32), F32, LANES, align=64), factor)
        first, second, value = (load(b, at(b, buffer, i, F32), F32, LANES, align=64) for buffer in (m, v, p))
        first = b.fadd(b.fmul(b.fsub(gradient, first), numbers.first_weight), first)
        first = b.select(b.fcmp_ordered("<", intrinsic(b, "fabs", first), smallest), zero, first)
        second = b.fadd(b.fmul(b.fmul(gradient, gradient), numbers.second_weight), b.fmul(second, numbers.second_keep))
        spread = b.fadd(b.fmul(intrinsic(b, "sqrt", second), numbers.root), numbers.eps)
        value = b.fsub(b.fmul(value, numbers.value_keep), b.fmul(b.fdiv(first, spread), numbers.rate))
        for buffer, new in ((m, first), (v, second), (p, value)):
            store(b, new, at(b, buffer, i, F32), align=64)

    loop(b, low, high, LANES, turn)
    b.ret_void()
    return fn
