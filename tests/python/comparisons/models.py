"""Gradients by models: their parts read, and the gradient packed as the model is."""

from __future__ import annotations

import torch

from comparisons.comparison import Comparison, Within, number

PARTS = """
dim D = 5

model Part[I, O]:
    weight: [O I] = normal(0, 1)
    scale: [] = ones

model Net:
    first: Part[D, D]
    others: Part[D, D] * 2
    bias: [D] = normal(0, 1)

fn apply[I, O](x: [b I], part: Part[I, O]) -> [b O]:
    return tanh(einsum(x, part.weight: b I, O I -> b O)) * part.scale

fn f(x: T[b D], m: Net) -> T[b D]:
    mut y = apply(x, m.first)
    for part in m.others:
        y = apply(y, part)
    return y + m.bias
"""


def parts(x: torch.Tensor, m: dict[str, torch.Tensor]) -> torch.Tensor:
    for part in ("first", "others.0", "others.1"):
        x = torch.tanh(x @ m[f"{part}.weight"].T) * m[f"{part}.scale"]
    return x + m["bias"]


VECTORS = (
    PARTS[: PARTS.index("fn f(x")]
    + """fn f(x: T[b D], m: Net) -> T[b D]:
    mixed = m * 0.5 + sqrt(m * m + 1.0) * 0.25 - zeros_like(m)
    return apply(x, mixed.first) + mixed.bias * f32(dot(m, mixed)) / 100
"""
)


def vectors(x: torch.Tensor, m: dict[str, torch.Tensor]) -> torch.Tensor:
    mixed = {name: value * 0.5 + torch.sqrt(value * value + 1.0) * 0.25 for name, value in m.items()}
    product = sum((value.double() * mixed[name].double()).sum() for name, value in m.items())
    y = torch.tanh(x @ mixed["first.weight"].T) * mixed["first.scale"]
    return y + mixed["bias"] * product.float() / 100


MOVED = """
dim D = 4
dim H = 3
model Net:
    weight: [D H] = normal(0, 1)
fn f(m: Net, g: Net, rate: float) -> T[D H]:
    mut moved = m
    mut opt = Sgd(moved)
    update(mut moved, mut opt, g, lr=rate)
    return moved.weight
"""


def moved(m: dict[str, torch.Tensor], g: dict[str, torch.Tensor], rate: float) -> torch.Tensor:
    return m["weight"] - rate * g["weight"]


ENTRIES = (
    Comparison(
        "a step at a computed rate",
        ("check_range",),
        MOVED,
        moved,
        Within(2, "a product and a difference"),
        inputs={"rate": number(0.3)},
        wrt=(),
        elements=("f32",),
        extremes=(),
    ),
    Comparison(
        "parts of a model",
        ("leaf", "submodel", "pack", "call", "for_list"),
        PARTS,
        parts,
        Within(64, "three products one after another", absolute=64),
        elements=("f32",),
    ),
    Comparison(
        "models as vectors",
        ("zip_leaves", "fill_leaves", "dot_leaves"),
        VECTORS,
        vectors,
        Within(64, "a product, and a sum over all parameters in f64", absolute=64),
        elements=("f32",),
    ),
)
