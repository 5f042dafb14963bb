"""Operations whose results lie upon what they read: which may, and that the bits are those of the reference evaluator, which never writes
over an operand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from both_engines import Both
from evaluating import function_of, tensor
from gradient_programs import compiled
from test_plan import ops, planned

from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.sizes import number
from shapescript.compiler.ir.types import Element
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.passes.fuse import fuse
from shapescript.compiler.passes.fuse_reductions import fuse_reductions
from shapescript.compiler.passes.plan import plan_memory
from shapescript.compiler.passes.simplify import simplify

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


# ---- which results


def _turned(b: Builder, y: Value) -> Value:
    return b.op("transpose", y, permutation=(1, 0))


def _product(b: Builder, y: Value) -> Value:
    return b.op("contraction", y, y, left=(0, 1), right=(2, 1), out=(0, 2))


def _less_its_mean(b: Builder, y: Value, of: Value) -> Value:
    return b.op("sub", y, b.broadcast(b.op("mean", of, positions=(1,)), result_type(y).axes, (0,)))


def _first_row_of(b: Builder, y: Value) -> Value:
    """For each point that of its column; it is read where it lies."""
    row = b.op("slice", y, b.constant(0, Element.I64), position=0, length=number(1))
    column = b.op("reshape", row, axes=result_type(y).axes[1:])
    return b.broadcast(column, result_type(y).axes, (1,))


@pytest.mark.parametrize(
    ("made", "is_upon"),
    [
        (lambda b, x, y: b.op("tanh", y), True),
        (lambda b, x, y: b.op("tanh", _turned(b, y)), False),
        (lambda b, x, y: b.op("add", b.op("tanh", _turned(b, y)), y), False),
        (lambda b, x, y: b.op("add", b.op("tanh", b.op("reshape", y, axes=tuple(reversed(result_type(y).axes)))), x), True),
        (lambda b, x, y: b.op("gt", b.op("tanh", y), x), False),
        (lambda b, x, y: b.op("add", _product(b, x), y), True),
        (lambda b, x, y: b.op("add", _product(b, x), _turned(b, y)), False),
        (lambda b, x, y: b.op("add", _product(b, y), y), False),
        (lambda b, x, y: _less_its_mean(b, y, y), True),
        (lambda b, x, y: _less_its_mean(b, _turned(b, y), x), False),
        (lambda b, x, y: b.op("sub", _less_its_mean(b, y, y), _turned(b, y)), False),
        (lambda b, x, y: b.op("sub", y, _first_row_of(b, x)), True),
        (lambda b, x, y: b.op("sub", y, _first_row_of(b, y)), False),
    ],
)
def test_a_result_lies_upon_what_is_read_at_its_own_points_alone(made: Callable[[Builder, Value, Value], Value], is_upon: bool) -> None:
    """Between two operations that nothing is fused with."""

    def build(b: Builder, x: Value) -> Sequence[Value]:
        found = made(b, x, b.op("cumsum", x, position=1, reverse=False))
        return [b.op("concat", found, found, position=0)]

    function, plan = planned(simplify(fuse_reductions(fuse(function_of([tensor(32, 32)], build)))))
    (read,), (last,) = ops(function, "cumsum"), ops(function, "concat")
    assert (plan.locations[last.operands[0]] == plan.locations[read.result]) is is_upon
