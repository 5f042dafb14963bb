"""Programs that the tests of the Python API call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from fixtures import EXAMPLES

import shapescript

SMALL = """
dim D = 3
dim One = 1
const Rate = 0.5

data Point:
    x: [D]
    label: int

data Other:
    x: [D]

model Line:
    slope: [D] = ones
    offset: [] = zeros

model Block[N]:
    weight: [N N] = uniform(-1/sqrt(N), 1/sqrt(N))

model Stack[N, L]:
    blocks: Block[N] * L

fn predict(m: Line, x: [b D]) -> [b]:
    return x @ m.slope + m.offset

fn product[K, E](x: [b K], w: [K E]) -> [b E]:
    return x @ w

fn apply[N](block: Block[N], x: [b N]) -> [b N]:
    return x @ block.weight

fn apply_all[N, L](stack: Stack[N, L], x: [b N]) -> [b N]:
    mut h = x
    for block in stack.blocks:
        h = apply(block, h)
    return h

fn residual(prediction: [b], y: [b]) -> [b]:
    return prediction - y

fn pair(x: [b D], twice: [2*b]) -> [b D]:
    return x

fn leading(x: [..s D], v: [D]) -> [..s D]:
    return x * v

fn halves(n: int, rate: float, wide: bool = false) -> (float, int, bool):
    return rate / 2, n, wide

fn widen(x: f64[b], n: int[b], keep: bool[b]) -> (f64[b], int[b], bool[b]):
    return x, n, keep

fn scaled(x: [b], factor: []) -> [b]:
    return x * factor

fn total(x: [b]) -> []:
    return sum(x, over=b)

fn same(x: [b]) -> [b]:
    return x

fn kept(m: Line) -> Line:
    return m

fn optimiser(m: Line) -> AdamW[Line]:
    return AdamW(m, decay=0.5)

fn count(points: Dataset[Point]) -> int:
    mut found = 0
    for batch in points |> batches(2):
        found = found + 1
    return found

fn labels(batch: Point[b]) -> int[b]:
    return batch.label

fn norm(x: [b]) -> []:
    return sum(x * x, over=b)

fn norm(m: Line) -> []:
    return sum(m.slope * m.slope, over=D)

fn fit_one(mut m: Line, mut opt: AdamW[Line], batch: Point[b], other: Line) -> []:
    l, mut g = value_and_grad(mean(predict(m, batch.x), over=b), wrt=m)
    update(mut m, mut opt, g, lr=Rate)
    return l + other.offset
"""


def small_program(folder: Path, engine: shapescript.engines.EngineName = "numpy", **dims: int) -> Any:
    path = folder / "small.ss"
    path.write_text(SMALL)
    return shapescript.load(path, dims, engine=engine)


def example(**dims: int) -> Any:
    return shapescript.load(EXAMPLES / "train_mlp.ss", dims)


def digits(which: str = "train") -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Pixels and labels of the example's data."""
    with np.load(EXAMPLES / f"digits_{which}.npz") as file:
        return file["pixels"], file["label"]
