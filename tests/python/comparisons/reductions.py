"""Reductions, and softmax with its relatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from comparisons.comparison import EXACT, Comparison, Within, integers, normal, number

# Over the axes of [b n c]: what stands behind over=, what is left, and PyTorch's numbers of them.
OVER = (("n", "b c", (1,)), ("c", "b n", (2,)), ("(c, b)", "n", (0, 2)), ("(b, n, c)", "", (0, 1, 2)))
ORDER = "sums in two orders"


def reductions(
    name: str, ops: tuple[str, ...], text: str, twin: Callable[[Tensor, tuple[int, ...]], Tensor], within: Within, **more: Any
) -> list[Comparison]:
    """An entry for each of OVER; {} in the text stands for the axes."""
    return [
        Comparison(
            f"{name} over {over}",
            ops,
            f"fn f(x: T[b n c]) -> T[{left}]:\n    return {text.format(over)}\n",
            lambda x, axes=axes: twin(x, axes),
            within,
            **more,
        )
        for over, left, axes in OVER
    ]


def extreme(x: Tensor, axes: tuple[int, ...], largest: bool) -> Tensor:
    """One axis after another, the last first: the gradient goes to one element."""
    for axis in reversed(axes):
        x = (x.max(axis) if largest else x.min(axis)).values
    return x


def argextreme(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    return x.argmax(axes[0])


def logsumexp(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """-inf of -inf alone, with gradients of 0 there."""
    nothing = (x == -torch.inf).all(dim=axes[-1], keepdim=True) if len(axes) == 1 else _all(x == -torch.inf, axes)
    found = torch.logsumexp(torch.where(nothing, torch.zeros_like(x), x), axes)
    return torch.where(nothing.reshape(found.shape), torch.full_like(found, -torch.inf), found)


def _all(mask: Tensor, axes: tuple[int, ...]) -> Tensor:
    for axis in axes:
        mask = mask.all(dim=axis, keepdim=True)
    return mask


def masked_rows(x: Tensor, function: Callable[[Tensor], Tensor], value: float) -> Tensor:
    """Along the last axis; a row of -inf alone becomes the value everywhere."""
    nothing = (x == -torch.inf).all(dim=-1, keepdim=True)
    return torch.where(nothing, torch.full_like(x, value), function(torch.where(nothing, torch.zeros_like(x), x)))


WHOLE = "fn f(x: int[b n]) -> int[b]:\n    return {}(x, over=n)\n"

ENTRIES = (
    *reductions("sum", ("sum",), "sum(x, over={})", lambda x, axes: x.sum(axes), Within(16, ORDER, absolute=16, gradient=(0, 0))),
    *reductions(
        "mean",
        ("mean",),
        "mean(x, over={})",
        lambda x, axes: x.mean(axes),
        Within(16, ORDER, absolute=16, gradient=(1, 0)),
        nonempty=("b", "n", "c"),
    ),
    *reductions("max", ("max",), "max(x, over={})", lambda x, axes: extreme(x, axes, True), EXACT, nonempty=("b", "n", "c"), twice=False),
    *reductions("min", ("min",), "min(x, over={})", lambda x, axes: extreme(x, axes, False), EXACT, nonempty=("b", "n", "c"), twice=False),
    *reductions(
        "logsumexp",
        ("logsumexp",),
        "logsumexp(x, over={})",
        logsumexp,
        Within(16, ORDER, absolute=16),
        nonempty=("b", "n", "c"),
    ),
    *reductions(
        "variance",
        ("variance", "check"),
        "variance(x, over={})",
        lambda x, axes: x.var(axes, correction=0),
        Within(32, ORDER, absolute=16, gradient=(32, 32)),
        nonempty=("b", "n", "c"),
    ),
    *(
        Comparison(
            f"{name} of {kind}",
            (name,),
            f"fn f(x: {kind}[b n c]) -> int[b c]:\n    return {name}(x, over=n)\n",
            lambda x, name=name: getattr(torch, name)(x, 1),
            nonempty=("n",),
            elements=("f32", "f64") if kind == "T" else ("f32",),
            inputs={"x": normal() if kind == "T" else integers(-(10**12), 10**12)},
            extremes=(),
        )
        for name in ("argmax", "argmin")
        for kind in ("T", "int")
    ),
    *(
        Comparison(
            f"{name} of whole numbers",
            (name,),
            WHOLE.format(name),
            twin,
            nonempty=() if name == "sum" else ("n",),
            inputs={"x": integers(-(2**63), 2**63 - 1)},
            elements=("f32",),
            extremes=(),
        )
        for name, twin in (("sum", lambda x: x.sum(1)), ("max", lambda x: x.amax(1)), ("min", lambda x: x.amin(1)))
    ),
    Comparison(
        "variance with a correction",
        ("variance", "check"),
        "fn f(x: T[b n], correction: int) -> T[b]:\n    return variance(x, over=n, correction=correction)\n",
        lambda x, correction: x.var(1, correction=correction),
        Within(32, ORDER, absolute=16, gradient=(32, 32)),
        inputs={"correction": number(0)},
        nonempty=("b", "n"),
    ),
    Comparison(
        "the usual estimate of a variance",
        ("variance",),
        "dim D = 5\n\nfn f(x: T[b D]) -> T[b]:\n    return variance(x, over=D, correction=1)\n",
        lambda x: x.var(1),
        Within(32, ORDER, absolute=16, gradient=(32, 32)),
        nonempty=("b",),
    ),
    *(
        Comparison(
            f"{name} over {over}",
            (name, "reduce", "fused_reduction"),
            f"fn f(x: T[b n c]) -> T[b n c]:\n    return {name}(x, over={over})\n",
            lambda x, name=name, axis=axis, value=value: masked_rows(
                x.movedim(axis, -1), lambda y: getattr(functional, name)(y, -1), value
            ).movedim(-1, axis),
            Within(16, ORDER, absolute=16, gradient=(32, 32)),
            nonempty=(over,),
        )
        for name, value in (("softmax", 0.0), ("log_softmax", -torch.inf))
        for over, axis in (("b", 0), ("n", 1), ("c", 2))
    ),
    Comparison(
        "cross_entropy",
        ("at_index", "cross_entropy"),
        "dim C = 7\n\nfn f(x: T[b n C], label: int[b n]) -> T[]:\n    return cross_entropy(x, label)\n",
        lambda x, label: functional.cross_entropy(x.reshape(-1, 7), label.reshape(-1)),
        Within(16, ORDER, absolute=16, gradient=(32, 4)),
        inputs={"label": integers(0, 7)},
        nonempty=("b", "n"),
    ),
    Comparison(
        "accuracy",
        ("argmax", "eq", "mean"),
        "dim C = 4\n\nfn f(x: T[b C], label: int[b]) -> float:\n    return accuracy(x, label)\n",
        lambda x, label: (x.argmax(1) == label).double().mean(),
        Within(1, "one division"),
        inputs={"label": integers(0, 4)},
        nonempty=("b",),
        extremes=(),
    ),
)
