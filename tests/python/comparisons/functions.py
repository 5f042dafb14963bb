"""Elementwise functions beyond arithmetic: exponentials, trigonometry, powers, activations, steps.

Where PyTorch gives NaN at an infinity though the function has a limit there, the twin here says the limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from comparisons.comparison import EXACT, Comparison, Within, integers, number, uniform

UNARY = "fn f(x: T[b n]) -> T[b n]:\n    return {}\n"
TWO_SIDES = "each side within 2 units"
LOST = "ours within 4 units; PyTorch adds 1 to what is near -1 on the left, and slopes are sums that cancel"


def limits(function: Callable[[Tensor], Tensor], far: float = math.inf) -> Callable[[Tensor], Tensor]:
    """The function with its limits from `far` on: -0 below, x above. There PyTorch's slope is NaN, an infinity times 0."""

    def twin(x: Tensor) -> Tensor:
        is_far = torch.abs(x) >= far
        ends = torch.where(x > 0, x, torch.full_like(x, -0.0))
        return torch.where(is_far, ends, function(torch.where(is_far, torch.zeros_like(x), x)))

    return twin


def gelu(x: Tensor) -> Tensor:
    """By erfc, which keeps its digits on the left."""
    return x * 0.5 * torch.erfc(-x / math.sqrt(2))


def sign(x: Tensor) -> Tensor:
    """PyTorch makes 0 of NaN."""
    return torch.where(torch.isnan(x), x, torch.sign(x))


def unary(name: str, twin: Callable[[Tensor], Tensor], within: Within, text: str = "", smooth: bool = True, **more: object) -> Comparison:
    return Comparison(
        name,
        (name, f"{name}_slope") if name in ("gelu", "gelu_tanh", "silu") else (name,),
        UNARY.format(text or f"{name}(x)"),
        twin,
        within,
        elementwise=True,
        smooth=smooth,
        **more,  # type: ignore[arg-type]
    )


ENTRIES = (
    unary("expm1", torch.expm1, Within(4, f"{TWO_SIDES}; PyTorch's slope is the result plus 1", gradient=(4, 2))),
    unary("log1p", torch.log1p, Within(4, TWO_SIDES, gradient=(2, 0)), inputs={"x": uniform(-0.9, 5.0)}),
    unary("rsqrt", torch.rsqrt, Within(4, TWO_SIDES, gradient=(12, 0)), inputs={"x": uniform(0.1, 4.0)}),
    unary("sin", torch.sin, Within(4, TWO_SIDES)),
    unary("cos", torch.cos, Within(4, TWO_SIDES)),
    unary("erf", torch.erf, Within(4, TWO_SIDES)),
    unary("softplus", lambda x: torch.logaddexp(x, torch.zeros_like(x)), Within(5, TWO_SIDES)),
    unary("log_sigmoid", functional.logsigmoid, Within(5, TWO_SIDES)),
    unary("gelu", limits(gelu), Within(6, LOST, absolute=4, gradient=(6, 8))),
    unary("gelu_tanh", limits(lambda x: functional.gelu(x, approximate="tanh"), far=1e4), Within(6, LOST, absolute=8, gradient=(6, 8))),
    unary("silu", limits(functional.silu), Within(6, LOST, absolute=4, gradient=(6, 8))),
    *(
        Comparison(name, (name,), UNARY.format(f"{name}(x)"), twin, EXACT, wrt=(), elementwise=True)
        for name, twin in (("sign", sign), ("floor", torch.floor), ("ceil", torch.ceil), ("round", torch.round))
    ),
    Comparison(
        "sign of whole numbers",
        ("sign",),
        "fn f(x: int[b n]) -> int[b n]:\n    return sign(x)\n",
        torch.sign,
        elements=("f32",),
        extremes=(),
    ),
    Comparison(
        "pow",
        ("pow",),
        "fn f(x: T[b n], y: T[n]) -> T[b n]:\n    return x ** y\n",
        torch.pow,
        Within(4, TWO_SIDES, gradient=(16, 64)),
        inputs={"x": uniform(0.2, 3.0)},
        elementwise=True,
    ),
    Comparison(
        "pow of a number",
        ("pow",),
        "fn f(x: T[b n]) -> T[b n]:\n    return pow(2.5, x) + pow(x, 2) + x ** 0.5\n",
        lambda x: torch.pow(2.5, x) + torch.pow(x, 2) + torch.pow(x, 0.5),
        Within(8, "a sum of three"),
        inputs={"x": uniform(0.2, 3.0)},
        elementwise=True,
        extremes=(),
    ),
    Comparison(
        "elu",
        ("elu",),
        "fn f(x: T[b n], alpha: float) -> T[b n]:\n    return elu(x) + elu(x, alpha)\n",
        lambda x, alpha: functional.elu(x) + functional.elu(x, alpha),
        Within(5, TWO_SIDES),
        inputs={"alpha": number(0.75)},
        elementwise=True,
    ),
    Comparison(
        "leaky_relu",
        ("select", "gt", "mul"),
        "fn f(x: T[b n], slope: float) -> T[b n]:\n    return leaky_relu(x) * leaky_relu(x, slope)\n",
        lambda x, slope: functional.leaky_relu(x) * functional.leaky_relu(x, slope),
        Within(2, "three products"),
        inputs={"slope": number(0.25)},
        elementwise=True,
        extremes=(),
    ),
    Comparison(
        "clamp",
        ("minimum", "maximum"),
        UNARY.format("clamp(x, -0.5, 0.75)"),
        lambda x: torch.clamp(x, -0.5, 0.75),
        elementwise=True,
    ),
    Comparison(
        "clamp of whole numbers",
        ("minimum", "maximum"),
        "fn f(x: int[b n], low: int) -> int[b n]:\n    return clamp(x, low, 3)\n",
        lambda x, low: torch.clamp(x, low, 3),
        inputs={"low": number(-2)},
        elements=("f32",),
        extremes=(),
    ),
    *(
        Comparison(
            name,
            (name, "check", "any"),
            f"fn f(x: int[b n], y: int[n]) -> int[b n]:\n    return x {sign} y\n",
            twin,
            inputs={"x": integers(-(2**62), 2**62), "y": lambda rng, shape, dtype: rng.choice([-7, -3, -1, 1, 2, 5, 2**40], shape)},
            elements=("f32",),
            extremes=(),
        )
        for name, sign, twin in (("floor_quotient", "//", torch.floor_divide), ("floor_remainder", "%", torch.remainder))
    ),
)
