"""Tensors with one axis twice, `[n n]`: a pattern gives one of the two another name, and a last one gives it back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from both_engines import Both

PROGRAM = """
dim D = 3

fn gram(x: [n d]) -> [n n]:
    return einsum(x, x: n d, m d -> n m) |> rearrange(n n -> n n)

fn transposed(x: [b n n]) -> [b n n]:
    return rearrange(x: b i j -> b j i) |> rearrange(b n n -> b n n)

fn symmetric(x: [D D]) -> [D D]:
    return x + rearrange(rearrange(x: i j -> j i): D D -> D D)

fn behind(x: [D D b]) -> [b D D]:
    return rearrange(x: D D b -> b D D)

fn around(x: [n b n c]) -> [(n c) b n]:
    return rearrange(x: n b n c -> (n c) b n)

fn without_one(x: [n 1 n]) -> [n n]:
    return rearrange(x: n 1 n -> n n)

fn of_a_group(x: [b h w]) -> ([b], [b]):
    y = rearrange(x: b h w -> b (h w))
    return sum(y, over=h*w), y[h*w=1]
"""


def test_one_axis_twice(tmp_path: Path) -> None:
    program = Both(tmp_path, PROGRAM)
    x = np.arange(24, dtype=np.float32)
    rows = x.reshape(4, 6)
    assert np.array_equal(program.call("gram", rows), rows @ rows.T)
    squares = x[:18].reshape(2, 3, 3)
    assert np.array_equal(program.call("transposed", squares), squares.swapaxes(1, 2))
    assert np.array_equal(program.call("symmetric", squares[1]), squares[1] + squares[1].T)
    assert np.array_equal(program.call("behind", x[:18].reshape(3, 3, 2)), x[:18].reshape(3, 3, 2).transpose(2, 0, 1))
    around = x.reshape(2, 3, 2, 2)
    assert np.array_equal(program.call("around", around), around.transpose(0, 3, 1, 2).reshape(4, 3, 2))
    assert np.array_equal(program.call("without_one", x[:9].reshape(3, 1, 3)), x[:9].reshape(3, 3))


def test_a_group_goes_by_the_product_of_its_parts(tmp_path: Path) -> None:
    program = Both(tmp_path, PROGRAM)
    x = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    total, second = program.call("of_a_group", x)
    assert np.array_equal(total, x.reshape(2, 6).sum(axis=1)) and np.array_equal(second, x.reshape(2, 6)[:, 1])
