"""What the tests of profiles run, and how they read the rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from shapescript.profile_rows import ProfileRow

PROGRAM = """
data Line:
    step: int

data Row:
    x: [3]
    label: int

model Net:
    weight: [3 4] = ones

fn product(x: [b k], w: [k e]) -> [b e]:
    return x @ w

fn activated(x: [b k], w: [k e], bias: [e]) -> [b e]:
    return relu(x @ w + bias)

fn chained(x: [b n], y: [n]) -> [b n]:
    return (x - y) * x + 1.0

fn added(x: [b n]) -> [b]:
    return sum(x, over=n)

fn shares(x: [b n]) -> [b n]:
    return softmax(x, over=n)

fn repeated(x: [k k], turns: int) -> [k k]:
    mut y = x
    for i in 0..turns:
        y = y @ x
    return y

fn repeated_or_not(x: [k k], turns: int, goes: bool) -> [k k]:
    mut y = x
    if goes:
        for i in 0..turns:
            y = y @ x
    return y

fn trained(mut m: Net, mut opt: AdamW[Net], rows: Dataset[Row]) -> float:
    mut total = 0.0
    for batch in rows |> shuffle(1) |> batches(2):
        l, g = value_and_grad(cross_entropy(batch.x @ m.weight, batch.label), wrt=m)
        update(mut m, mut opt, g, lr=0.1)
        total = total + float(l)
    return total

fn logged(x: [k k], sink: LogSink, turns: int) -> [k k]:
    mut y = x
    for i in 0..turns:
        y = y @ x
        write(sink, Line(step=i))
    return y
"""


def tensor(*shape: int) -> Any:
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


def row(rows: list[ProfileRow], name: str) -> ProfileRow:
    (found,) = [one for one in rows if one.kernel.name == name]
    return found


def counted(rows: list[ProfileRow], name: str) -> tuple[int, int, int]:
    one = row(rows, name)
    return one.calls, one.flops, one.bytes
