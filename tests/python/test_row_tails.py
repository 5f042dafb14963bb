"""Rows whose ends a mask fills with one number: they are walked along to there only, with the bits of the whole rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from evaluating import function_of, type_of
from native_samples import F32, F64
from test_reduced_contraction import PRODUCT, arguments, attention, compare, forward, masked, softmax, type_for, types

from shapescript.compiler.codegen.row_tails import SHORTEST, tail_of
from shapescript.compiler.ir.nodes import Op, Value, walk
from shapescript.compiler.ir.sizes import fresh, number, of
from shapescript.compiler.ir.types import Element
from shapescript.compiler.ops.build import Builder
from shapescript.compiler.ops.reduced_contraction import product_op, reduction_op
from shapescript.compiler.passes.fuse import fuse
from shapescript.compiler.passes.fuse_reductions import fuse_reductions
from shapescript.compiler.passes.join_reductions import join_reductions
from shapescript.compiler.passes.simplify import simplify

Build = Callable[[Builder, Value, Value, Value, Value], Sequence[Value]]


def joined_op(build: Build, columns: int = 300) -> Op:
    function = function_of([type_of(one) for one in arguments(2, 5, columns, 3)], build)
    for pass_ in (simplify, fuse, fuse_reductions, simplify, join_reductions):
        function = pass_(function)
    return next(op for op in walk(function.body) if op.name == "reduced_contraction")


def has_tail(build: Build, columns: int = 300) -> bool:
    op = joined_op(build, columns)
    return tail_of(product_op(op).regions[0], reduction_op(op), op.attributes["place"]) is not None


def of_scores(filling: float, name: str = "le", scale: float = 1.0) -> Build:
    """The shares, the greatest scores and the means of the rows."""

    def build(b: Builder, q: Value, k: Value, v: Value, given: Value) -> Sequence[Value]:
        scores = b.op("mul", b.op("contraction", q, k, **PRODUCT), b.full(scale, type_for(q, k)))
        made = masked(b, scores, name, filling)
        return [softmax(b, made), b.op("max", made, positions=(2,)), b.op("mean", made, positions=(2,)), b.op("sum", made, positions=(2,))]

    return build


SHAPES = [(2, 3, 256, 5), (1, 270, 270, 2), (3, 18, 267, 8), (2, 7, 259, 0), (0, 3, 264, 2), (2, 0, 264, 2), (1, 5, 4099, 2)]


@pytest.mark.parametrize(
    ("name", "shape"), [*(("le", shape) for shape in SHAPES), ("lt", (1, 270, 270, 1)), ("ge", (2, 3, 256, 5))], ids=str
)
def test_the_bits_of_whole_rows(name: str, shape: tuple[int, int, int, int]) -> None:
    given = arguments(*shape)
    compare(function_of([type_of(one) for one in given], of_scores(-1e30, name)), [given])


@pytest.mark.parametrize("element", [F32, F64])
def test_the_rows_of_attention(element: Element) -> None:
    groups, rows = of(fresh("g")), of(fresh("r"))
    shapes = [(2, 40, 300, 3), (1, 7, 300, 3)]
    for form in (forward, attention):
        compare(function_of(types(groups, rows, number(300), number(3), element), form), [arguments(*shape, element) for shape in shapes])


@pytest.mark.parametrize("filling", [0.0, -0.0, 1.5, float("inf"), float("-inf"), float("nan")], ids=str)
def test_numbers_that_change_sums(filling: float) -> None:
    given = arguments(2, 20, 270, 3)
    compare(function_of([type_of(one) for one in given], of_scores(filling)), [given])


@pytest.mark.parametrize("number_", [-3e38, 3e38, float("nan"), -0.0, 0.0])
def test_rows_of_scores_below_what_the_mask_puts_there(number_: float) -> None:
    """Where every score is less than it, or none is a number, the masked ones have shares."""
    q, k, v, given = arguments(2, 20, 270, 1)
    q[0] = number_
    k[:] = np.abs(k)
    compare(function_of([type_of(one) for one in (q, k, v, given)], of_scores(-1e30)), [[q, k, v, given]])


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_the_sign_of_a_sum_of_zeros(zero: float) -> None:
    q, k, v, given = arguments(1, 20, 270, 1)
    q[:], k[:] = -0.0, np.abs(k)
    compare(function_of([type_of(one) for one in (q, k, v, given)], of_scores(zero)), [[q, k, v, given]])


def test_where_ends_are_looked_for() -> None:
    assert has_tail(forward)
    assert not has_tail(forward, SHORTEST - 1)

    def by_index(b: Builder, q: Value, k: Value, v: Value, given: Value) -> Sequence[Value]:
        made = masked(b, b.op("contraction", q, k, **PRODUCT), "le", 0.0)
        return [softmax(b, b.op("add", made, b.convert(b.op("iota", axes=type_for(q, k).axes, position=2), F32)))]

    def unmasked(b: Builder, q: Value, k: Value, v: Value, given: Value) -> Sequence[Value]:
        return [softmax(b, b.op("contraction", q, k, **PRODUCT))]

    assert not has_tail(by_index)
    assert not has_tail(unmasked)
    assert not has_tail(of_scores(-1e30, "ge"))
