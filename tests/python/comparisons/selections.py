"""Selections by a mask, and what holds of some or of all elements."""

from __future__ import annotations

import torch

from comparisons.comparison import EXACT, Comparison, Within, number

SPREAD = Within(0, "elements as they are; a gradient that is summed along the spread axis, in another order", gradient=(4, 64))

ENTRIES = (
    Comparison(
        "where, three ways",
        ("select",),
        "fn f(mask: bool[b n], x: T[b], y: T[n]) -> T[b n]:\n    return where(mask, x, y)\n",
        lambda mask, x, y: torch.where(mask, x[:, None], y),
        SPREAD,
        elementwise=True,
        extremes=(),
    ),
    Comparison(
        "where of a narrow mask",
        ("select",),
        "fn f(mask: bool[n], x: T[b n], y: T[b n]) -> T[b n]:\n    return where(mask, x, y)\n",
        torch.where,
        elementwise=True,
    ),
    Comparison(
        "where of comparisons",
        ("select", "gt"),
        "fn f(x: T[b n], y: T[n]) -> T[b n]:\n    return where(x > y, exp(x), 1.0)\n",
        lambda x, y: torch.where(x > y, torch.exp(x), torch.ones_like(x)),
        Within(3, "exp on each side within 2 units"),
        wrt=("x",),
        elementwise=True,
        extremes=(),
    ),
    Comparison(
        "where of two numbers",
        ("select",),
        "fn f(x: T[b n]) -> f32[b n]:\n    return where(x > 0.0, 1.5, -2)\n",
        lambda x: torch.where(x > 0, torch.tensor(1.5), torch.tensor(-2.0)),
        EXACT,
        extremes=(),
        elementwise=True,
    ),
    Comparison(
        "where of whole numbers and truth values",
        ("select",),
        "fn f(mask: bool[b n], x: int[n], y: bool[b n]) -> int[b n]:\n    return where(where(mask, y, true), x, 7)\n",
        lambda mask, x, y: torch.where(torch.where(mask, y, True), x, 7),
        elements=("f32",),
        extremes=(),
    ),
    Comparison(
        "masked_fill",
        ("select",),
        "fn f(x: T[b n], mask: bool[n], value: float) -> T[b n]:\n    return masked_fill(x, mask, value)\n",
        lambda x, mask, value: x.masked_fill(mask, value),
        inputs={"value": number(0.1)},
        elementwise=True,
    ),
    *(
        Comparison(
            f"{name} over {over}",
            (name,),
            f"fn f(x: bool[b n c]) -> bool[{left}]:\n    return {name}(x, over={over})\n",
            lambda x, name=name, axes=axes: x.sum(axes) > 0 if name == "any" else (~x).sum(axes) == 0,
            elements=("f32",),
            extremes=(),
        )
        for name in ("any", "all")
        for over, left, axes in (("n", "b c", 1), ("c", "b n", 2), ("(b, c)", "n", (0, 2)), ("(b, n, c)", "", (0, 1, 2)))
    ),
)
