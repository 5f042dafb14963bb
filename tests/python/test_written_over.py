"""Operations whose results lie upon what they read: the bits are those of the reference evaluator, which never writes over an operand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from both_engines import Both
from gradient_programs import compiled

from shapescript.compiler.passes.plan import plan_memory

# `cumsum` is fused with nothing: what it makes is read, for the last time, by the operation behind it.
PRODUCTS = """
fn one(x: [b k], w: [n k], z: [b n]) -> [b n]:
    c = cumsum(z, over=n)
    return cumsum(einsum(x, w: b k, n k -> b n) + c, over=b)

fn two(x: [b k], w: [n k], z: [b n]) -> [b n]:
    c = cumsum(z, over=n)
    e = cumsum(z, over=b)
    p = einsum(x, w: b k, n k -> b n)
    return cumsum(p * c + e, over=b) + cumsum(p * e - c, over=n)
"""

CONVOLUTIONS = """
fn forward(x: [b c h w], k: [o c 3 3], z: [b o h w]) -> [b o h w]:
    t = cumsum(z, over=w)
    return cumsum(convolve(x, k, over=(h, w), padding=1) * t + t, over=h)

fn total(x: [b c h w], k: [o c 3 3], z: [b o h w]) -> []:
    return sum(convolve(x, k, over=(h, w), padding=1) * z, over=(b, o, h, w))

fn backward(x: [b c h w], k: [o c 3 3], z: [b o h w]) -> [o c 3 3]:
    t = cumsum(k, over=c)
    l, d = value_and_grad(total(x, k, z), wrt=k)
    return cumsum(d * t - t, over=o)
"""


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    generator = np.random.default_rng(len(shapes))
    return [generator.normal(0, 1, shape).astype(np.float32) for shape in shapes]


def lies_upon_an_operand(text: str, name: str) -> bool:
    """Whether some product's result takes the place of what its epilogue reads."""
    function = compiled(text, name)
    places = plan_memory(function).locations
    products = [op for op in function.body.ops if op.name in ("fused_contraction", "windows_contraction")]
    return any(places[value] in [places.get(operand) for operand in op.operands[2:]] for op in products for value in op.results)


@pytest.mark.parametrize("name", ["one", "two"])
def test_epilogues_of_products_in_one_and_in_several_blocks(name: str, tmp_path: Path) -> None:
    assert lies_upon_an_operand(PRODUCTS, name)
    both = Both(tmp_path, PRODUCTS)
    for b, k, n in ((3, 9000, 20), (17, 600, 1), (5, 0, 9), (33, 40, 65)):
        both.call(name, *arrays((b, k), (n, k), (b, n)))


@pytest.mark.parametrize("name", ["forward", "backward"])
def test_epilogues_of_convolutions_and_of_what_is_summed_over_examples(name: str, tmp_path: Path) -> None:
    assert lies_upon_an_operand(CONVOLUTIONS, name)
    both = Both(tmp_path, CONVOLUTIONS)
    for b, c, o, h, w in ((3, 2, 16, 9, 8), (2, 3, 5, 4, 17), (1, 1, 1, 1, 1)):
        both.call(name, *arrays((b, c, h, w), (o, c, 3, 3), (b, o, h, w)))
