"""Every scalar function that the language defines for itself, as builders of scalar expressions for f32 and f64."""

from shapescript.compiler.numerics.activations import (
    elu,
    gelu,
    gelu_slope,
    gelu_tanh,
    gelu_tanh_slope,
    log_sigmoid,
    rsqrt,
    sign,
    silu,
    silu_slope,
    softplus,
)
from shapescript.compiler.numerics.error_function import erf
from shapescript.compiler.numerics.exponentials import exp, expm1, sigmoid, tanh
from shapescript.compiler.numerics.logarithms import log, log1p
from shapescript.compiler.numerics.powers import PowerLoop, integer_power, pow, power_loop_turn, power_of_step
from shapescript.compiler.numerics.selections import absolute, division_fails, floor_divide, maximum, minimum, modulo, relu, to_integer
from shapescript.compiler.numerics.trigonometry import cos, sin

__all__ = [
    "PowerLoop",
    "absolute",
    "cos",
    "division_fails",
    "elu",
    "erf",
    "exp",
    "expm1",
    "floor_divide",
    "gelu",
    "gelu_slope",
    "gelu_tanh",
    "gelu_tanh_slope",
    "integer_power",
    "log",
    "log1p",
    "log_sigmoid",
    "maximum",
    "minimum",
    "modulo",
    "pow",
    "power_loop_turn",
    "power_of_step",
    "relu",
    "rsqrt",
    "sigmoid",
    "sign",
    "silu",
    "silu_slope",
    "sin",
    "softplus",
    "tanh",
    "to_integer",
]
