"""Elementwise functions beyond arithmetic. Where the well-behaved slope is a formula of its own, it is an operation of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from shapescript.compiler.ir.nodes import Op, Value
from shapescript.compiler.ir.types import Element
from shapescript.compiler.numerics import elementary
from shapescript.compiler.numerics.activations import NORMAL_PEAK
from shapescript.compiler.numerics.scalar import Expr, ceil, floor, roundeven
from shapescript.compiler.ops.build import Builder
from shapescript.compiler.ops.elementwise import FLOATS, NUMBERS, Gradients, like, of_one_result, uniform
from shapescript.compiler.ops.table import NoDerivative, OpEntry, Scalar, register

TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)
GELU_LINEAR = 2 * math.sqrt(2 / math.pi)  # gelu's tanh form is x sigmoid(LINEAR x + CUBIC x^3)
GELU_CUBIC = GELU_LINEAR * 0.044715
FAR = 30.0  # that sigmoid is 0 or 1 from here on


def _function(name: str, build: Callable[[Expr], Expr], slope: Callable[[Builder, Value, Op], Value]) -> None:
    """Of one operand: `slope(builder, x, op)` times the gradient comes back."""

    def rule(b: Builder, op: Op, g: Value) -> Gradients:
        return [b.op("mul", g, slope(b, op.operands[0], op))]

    register(OpEntry(name, uniform(1, FLOATS), of_one_result(rule), Scalar(lambda x: build(x[0]))))


def _steps(name: str, build: Callable[[Expr], Expr], allowed: Sequence[Element] = FLOATS) -> None:
    """Goes in steps: its slope of 0 would be a silent one, so a gradient through it is an error."""
    register(OpEntry(name, uniform(1, allowed), NoDerivative.FORBIDDEN, Scalar(lambda x: build(x[0]))))


# ---- exponentials, trigonometry, powers


def _erf_slope(b: Builder, x: Value, op: Op) -> Value:
    return b.op("mul", b.op("exp", b.op("neg", b.op("mul", x, x))), like(b, TWO_OVER_ROOT_PI, x))


def _log1p(b: Builder, op: Op, g: Value) -> Gradients:
    return [b.op("div", g, b.op("add", op.operands[0], like(b, 1.0, g)))]


def _rsqrt_slope(b: Builder, x: Value, op: Op) -> Value:
    cube = b.op("mul", b.op("mul", op.result, op.result), op.result)
    return b.op("mul", cube, like(b, -0.5, x))


_function("sin", elementary.sin, lambda b, x, op: b.op("cos", x))
_function("cos", elementary.cos, lambda b, x, op: b.op("neg", b.op("sin", x)))
_function("erf", elementary.erf, _erf_slope)
_function("expm1", elementary.expm1, lambda b, x, op: b.op("exp", x))
register(OpEntry("log1p", uniform(1, FLOATS), of_one_result(_log1p), Scalar(lambda x: elementary.log1p(x[0]))))
_function("rsqrt", elementary.rsqrt, _rsqrt_slope)


def _pow(b: Builder, op: Op, g: Value) -> Gradients:
    """g (y x^(y-1)), 0 where y is 0; g (x^y log x), 0 where x is 0 and y isn't negative."""
    x, y = op.operands
    zero, one = like(b, 0.0, g), like(b, 1.0, g)
    by_base = b.op("mul", y, b.op("pow", x, b.op("sub", y, one)))
    is_flat = b.op("and", b.op("eq", x, zero), b.op("ge", y, zero))
    by_exponent = b.op("mul", g, b.op("mul", op.result, b.op("log", x)))
    return [
        b.op("mul", g, b.op("select", b.op("eq", y, zero), zero, by_base)),
        b.op("select", is_flat, zero, by_exponent),
    ]


register(OpEntry("pow", uniform(2, FLOATS), of_one_result(_pow), Scalar(lambda x: elementary.pow(x[0], x[1]))))


# ---- activations


def _gelu_curvature(b: Builder, x: Value, op: Op) -> Value:
    """p(x) (2 - x^2), p the normal distribution's density; the square is kept where it can't overflow."""
    square = b.op("minimum", b.op("mul", x, x), like(b, 2000.0, x))
    density = b.op("mul", b.op("exp", b.op("mul", square, like(b, -0.5, x))), like(b, NORMAL_PEAK, x))
    return b.op("mul", density, b.op("sub", like(b, 2.0, x), square))


def _silu_curvature(b: Builder, x: Value, op: Op) -> Value:
    """s (1 - s) (2 + x (1 - 2 s)), s = sigmoid(x)."""
    left, right = b.op("sigmoid", x), b.op("sigmoid", b.op("neg", x))
    tilt = b.op("add", like(b, 2.0, x), b.op("mul", x, b.op("sub", right, left)))
    return b.op("mul", b.op("mul", left, right), tilt)


def _gelu_tanh_curvature(b: Builder, x: Value, op: Op) -> Value:
    """s (1 - s) (2 w' + x w'' + x w'^2 (1 - 2 s)), s = sigmoid(w), w = LINEAR x + CUBIC x^3."""
    x = b.op("maximum", b.op("minimum", x, like(b, FAR, x)), like(b, -FAR, x))
    cubic = b.op("mul", b.op("mul", x, x), like(b, GELU_CUBIC, x))
    linear = like(b, GELU_LINEAR, x)
    w = b.op("mul", x, b.op("add", cubic, linear))
    growth = b.op("add", b.op("mul", cubic, like(b, 3.0, x)), linear)
    left, right = b.op("sigmoid", w), b.op("sigmoid", b.op("neg", w))
    bend = b.op("add", b.op("mul", growth, like(b, 2.0, x)), b.op("mul", cubic, like(b, 6.0, x)))
    tilt = b.op("mul", b.op("mul", b.op("mul", x, growth), growth), b.op("sub", right, left))
    return b.op("mul", b.op("mul", left, right), b.op("add", bend, tilt))


_function("gelu", elementary.gelu, lambda b, x, op: b.op("gelu_slope", x))
_function("gelu_slope", elementary.gelu_slope, _gelu_curvature)
_function("gelu_tanh", elementary.gelu_tanh, lambda b, x, op: b.op("gelu_tanh_slope", x))
_function("gelu_tanh_slope", elementary.gelu_tanh_slope, _gelu_tanh_curvature)
_function("silu", elementary.silu, lambda b, x, op: b.op("silu_slope", x))
_function("silu_slope", elementary.silu_slope, _silu_curvature)
_function("softplus", elementary.softplus, lambda b, x, op: b.op("sigmoid", x))
_function("log_sigmoid", elementary.log_sigmoid, lambda b, x, op: b.op("sigmoid", b.op("neg", x)))


def _elu(b: Builder, op: Op, g: Value) -> Gradients:
    """By x 1 above 0, else alpha e^x; by alpha e^x - 1 below 0. The power is of min(x, 0), which can't overflow."""
    x, alpha = op.operands
    zero = like(b, 0.0, g)
    is_above, below = b.op("gt", x, zero), b.op("minimum", x, zero)
    slope = b.op("mul", alpha, b.op("exp", below))
    return [b.op("select", is_above, g, b.op("mul", g, slope)), b.op("mul", g, b.op("expm1", below))]


register(OpEntry("elu", uniform(2, FLOATS), of_one_result(_elu), Scalar(lambda x: elementary.elu(x[0], x[1]))))


# ---- steps

_steps("sign", elementary.sign, NUMBERS)
_steps("floor", floor)
_steps("ceil", ceil)
_steps("round", roundeven)


# ---- quotients of whole numbers

# As Python's // and %; where there is no result, some number: the checker puts a `check` before them.
for _name, _build in (("floor_quotient", elementary.floor_divide), ("floor_remainder", elementary.modulo)):
    register(OpEntry(_name, uniform(2, (Element.I64,)), NoDerivative.ZERO, Scalar(lambda x, build=_build: build(x[0], x[1]))))  # type: ignore[misc]
