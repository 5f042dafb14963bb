"""Arithmetic, comparisons, conversions, and the functions that are one operation of IEEE 754 or one polynomial."""

from __future__ import annotations

import functools

import torch

from comparisons.comparison import Comparison, Within, integers, normal, uniform

UNARY = "fn f(x: T[b n]) -> T[b n]:\n    return {}\n"
PAIR = "fn f(x: T[b n], y: T[n]) -> T[b n]:\n    return {}\n"
PAIR_MASK = "fn f(x: T[b n], y: T[n]) -> bool[b n]:\n    return {}\n"
WHOLE = "fn f(x: int[b n], y: int[n]) -> int[b n]:\n    return {}\n"
SPREAD = "the same IEEE operations; a gradient that is summed along the spread axis, in another order"
TWO_SIDES = "each side within 2 units"

SPREAD_SUMS = Within(0, SPREAD, gradient=(4, 64))

ENTRIES = (
    Comparison(
        "a chain in one pass",
        ("kernel",),
        PAIR.format("sort(relu(x * y + 1.0) * x, over=n)"),
        lambda x, y: torch.sort(torch.relu(x * y + 1.0) * x, 1).values,
        SPREAD_SUMS,
        extremes=(),
        smooth=False,
    ),
    Comparison(
        "a loop by a condition",
        ("while",),
        "fn f(x: T[b n], count: int) -> T[b n]:\n    mut y = x\n    mut i = 0\n    while i < count:\n        y = y * 0.5 + x\n"
        "        i = i + 1\n    return y\n",
        lambda x, count: functools.reduce(lambda y, _: y * 0.5 + x, range(count), x),
        inputs={"count": integers(0, 5)},
        wrt=(),
        elementwise=True,
    ),
    *(
        Comparison(
            f"{name} of host numbers",
            (name,),
            f"fn f(x: int, y: int) -> int:\n    return x {sign} y\n",
            twin,
            inputs={"x": integers(-99, 99), "y": integers(-9, -1)},
            elements=("f32",),
            extremes=(),
        )
        for name, sign, twin in (("floordiv", "//", lambda x, y: x // y), ("mod", "%", lambda x, y: x % y))
    ),
    Comparison(
        "add", ("add", "broadcast", "value_and_grad", "check_finite"), PAIR.format("x + y"), torch.add, SPREAD_SUMS, elementwise=True
    ),
    Comparison("sub", ("sub",), PAIR.format("x - y"), torch.sub, SPREAD_SUMS, elementwise=True),
    Comparison("mul", ("mul",), PAIR.format("x * y"), torch.mul, SPREAD_SUMS, elementwise=True),
    Comparison(
        "div",
        ("div",),
        PAIR.format("x / y"),
        torch.div,
        Within(
            0,
            "one IEEE division; PyTorch's gradient rounds -g x / y / y in another order, and sums along the spread axis",
            gradient=(8, 512),
        ),
        inputs={"y": uniform(0.5, 2.0)},
        elementwise=True,
    ),
    Comparison("minimum", ("minimum",), PAIR.format("minimum(x, y)"), torch.minimum, SPREAD_SUMS, elementwise=True, extremes=()),
    Comparison("maximum", ("maximum",), PAIR.format("maximum(x, y)"), torch.maximum, SPREAD_SUMS, elementwise=True, extremes=()),
    Comparison("neg", ("neg",), UNARY.format("-x"), torch.neg, elementwise=True),
    Comparison("abs", ("abs",), UNARY.format("abs(x)"), torch.abs, elementwise=True),
    Comparison(
        "sqrt",
        ("sqrt",),
        UNARY.format("sqrt(x)"),
        torch.sqrt,
        Within(1, "ours is the IEEE root; PyTorch's library is off by one unit for some", gradient=(2, 0)),
        inputs={"x": uniform(0.1, 4.0)},
        elementwise=True,
    ),
    Comparison("exp", ("exp",), UNARY.format("exp(x)"), torch.exp, Within(3, TWO_SIDES), elementwise=True),
    Comparison(
        "log",
        ("log",),
        UNARY.format("log(x)"),
        torch.log,
        Within(3, TWO_SIDES, gradient=(0, 0)),
        inputs={"x": uniform(0.1, 4.0)},
        elementwise=True,
    ),
    Comparison(
        "tanh",
        ("tanh",),
        UNARY.format("tanh(x)"),
        torch.tanh,
        Within(3, f"{TWO_SIDES}; 1 - y y loses what y has lost", gradient=(3, 6)),
        elementwise=True,
    ),
    Comparison(
        "sigmoid",
        ("sigmoid",),
        UNARY.format("sigmoid(x)"),
        torch.sigmoid,
        Within(4, f"{TWO_SIDES}; 1 - y loses what y has lost", gradient=(4, 4)),
        elementwise=True,
    ),
    Comparison("relu", ("relu",), UNARY.format("relu(x)"), torch.relu, elementwise=True),
    *(
        Comparison(name, (name,), PAIR_MASK.format(f"x {sign} y"), getattr(torch, name), elementwise=True)
        for name, sign in (("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="), ("eq", "=="), ("ne", "!="))
    ),
    *(
        Comparison(
            f"{name} of whole numbers",
            (name,),
            f"fn f(x: int[b n], y: int[n]) -> bool[b n]:\n    return x {sign} y\n",
            getattr(torch, name),
            elements=("f32",),
            extremes=(),
        )
        for name, sign in (("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="), ("eq", "=="), ("ne", "!="))
    ),
    *(
        Comparison(f"{name} of whole numbers", (name,), WHOLE.format(text), twin, elements=("f32",), extremes=())
        for name, text, twin in (
            ("add", "x + y", torch.add),
            ("sub", "x - y", torch.sub),
            ("mul", "x * y * x * x", lambda x, y: x * y * x * x),
            ("neg", "-x - y", lambda x, y: -x - y),
            ("abs", "abs(x) + y", lambda x, y: torch.abs(x) + y),
            ("minimum", "minimum(x, y)", torch.minimum),
            ("maximum", "maximum(x, y)", torch.maximum),
        )
    ),
    Comparison(
        "whole numbers that wrap",
        ("add", "mul", "sub"),
        WHOLE.format("(x + y) * x - y"),
        lambda x, y: (x + y) * x - y,
        inputs={name: integers(-(2**63), 2**63 - 1) for name in ("x", "y")},
        elements=("f32",),
        extremes=(),
    ),
    Comparison(
        "masks",
        ("and", "or", "not"),
        "fn f(x: bool[b n], y: bool[n]) -> bool[b n]:\n    return x & !y | !x & y\n",
        lambda x, y: x ^ y,
        elements=("f32",),
        extremes=(),
    ),
    Comparison(
        "powers",
        ("mul", "div"),
        UNARY.format("x ** 3 + x ** -2"),
        lambda x: x**3 + x**-2,
        Within(4, "other products", absolute=4, gradient=(16, 16)),
        inputs={"x": uniform(0.5, 2.0)},
        elementwise=True,
    ),
    Comparison(
        "to_f64",
        ("to_f64", "to_f32"),
        "fn f(x: f32[b n], y: T[b n]) -> T[b n]:\n    return f64(x) * y + f64(f32(y))\n",
        lambda x, y: x.double() * y + y.float().double(),
        inputs={"x": normal()},
        wrt=("y",),
        elements=("f64",),
        extremes=(),
        smooth=False,
    ),
    Comparison(
        "to_i64", ("to_i64",), "fn f(x: T[b n]) -> int[b n]:\n    return int(x * 100.0)\n", lambda x: (x * 100.0).long(), extremes=()
    ),
    Comparison(
        "float of whole numbers",
        ("to_f32",),
        "fn f(x: int[b n]) -> f32[b n]:\n    return f32(x)\n",
        lambda x: x.float(),
        inputs={"x": integers(-(2**63), 2**63 - 1)},
        elements=("f32",),
        extremes=(),
    ),
    Comparison(
        "float of truth values",
        ("to_f32",),
        "fn f(x: bool[b n]) -> f32[b n]:\n    return f32(x)\n",
        lambda x: x.float(),
        elements=("f32",),
        extremes=(),
    ),
    Comparison(
        "stop_gradient", ("stop_gradient",), UNARY.format("x * stop_gradient(x)"), lambda x: x * x.detach(), elementwise=True, smooth=False
    ),
)
