"""Fusion keeps the orders that operands don't say: a read in front of what overwrites the tensor, which would be copied for it, and a slice
behind its check, so that its error comes first."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from evaluating import function_of, tensor

from shapescript.compiler.ir.nodes import Value, walk
from shapescript.compiler.ir.sizes import number
from shapescript.compiler.ir.types import INT, Element
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.passes.copies import insert_copies
from shapescript.compiler.passes.fuse import fuse

SQUARE = tensor(4, 4)
Early = Callable[[Builder, Value], list[Value]]


def copies(early: Early) -> int:
    """Of a function that computes `early` of a tensor, then overwrites a row of that, then multiplies the last of `early` with a product
    of what is there now."""

    def build(b: Builder, x: Value, row: Value) -> list[Value]:
        y = b.op("cumsum", x, position=0, reverse=False)
        *others, last = early(b, y)
        changed = b.op("put", y, row, b.constant(1, Element.I64), position=0)
        product = b.op("contraction", changed, x, left=(0, 1), right=(1, 2), out=(0, 2))
        return [b.op("mul", product, last), *others]

    function = insert_copies(fuse(function_of([SQUARE, tensor(1, 4)], build)))
    return sum(op.name == "copy" for op in walk(function.body))


def alone(b: Builder, y: Value) -> list[Value]:
    return [b.op("exp", y)]


def derivative(b: Builder, y: Value) -> list[Value]:
    """That of tanh at y, which would be computed in the product's epilogue if y still were there."""
    return [b.op("exp", y), b.op("sub", b.full(1.0, result_type(y)), b.op("mul", y, y))]


@pytest.mark.parametrize("early", [alone, derivative])
def test_what_reads_a_tensor_stays_in_front_of_what_overwrites_it(early: Early) -> None:
    assert copies(early) == 0


def test_a_slice_stays_behind_its_check() -> None:
    """Though the sum would join the first exponential, in front of both."""

    def build(b: Builder, x: Value, place: Value, stop: Value) -> Value:
        powers = b.op("exp", x)
        b.emit("check_slice", place, stop, size=number(4), axis="n")
        row = b.op("slice", x, place, position=0, length=number(1))
        spread = b.broadcast(b.op("reshape", row, axes=SQUARE.axes[1:]), SQUARE.axes, (1,))
        return b.op("add", powers, spread)

    order = [op.name for op in fuse(function_of([SQUARE, INT, INT], build)).body.ops]
    assert order == ["check_slice", "slice", "reshape", "kernel"]
