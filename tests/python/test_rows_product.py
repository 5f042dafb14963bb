"""Attention from the scores to the mixed values by blocks of rows: the bits of the parts, in both engines and with any number of threads,
and no tensor of the shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from evaluating import function_of, type_of
from native_harness import NotingHost, assert_same, outcome
from native_samples import F32, F64
from planned_bytes import planned_bytes, rows
from test_reduced_contraction import PRODUCT, arguments, attention, forward, fused, joined, masked, names, softmax, type_for, types

from shapescript.compiler.codegen import behind_rows
from shapescript.compiler.codegen.thread_count import asked_for
from shapescript.compiler.ir.nodes import Function, Value
from shapescript.compiler.ir.sizes import fresh, number, of
from shapescript.compiler.ir.types import Element
from shapescript.compiler.ir.verifier import verify_function
from shapescript.compiler.ops.build import Builder
from shapescript.compiler.ops.table import infer
from shapescript.compiler.passes.copies import insert_copies
from shapescript.compiler.passes.join_reductions import join_reductions
from shapescript.compiler.passes.join_row_products import join_row_products
from shapescript.compiler.passes.plan import plan_memory
from shapescript.compiler.passes.rows_again import make_rows_again
from shapescript.compiler.reference.engine import Evaluator

LAST = {"left": (0, 1, 3), "right": (0, 3, 2), "out": (0, 1, 2)}
Build = Callable[[Builder, Value, Value, Value, Value], Sequence[Value]]


def done(function: Function) -> Function:
    function = fused(function)
    for pass_ in (join_reductions, make_rows_again, join_row_products, insert_copies):
        function = pass_(function)
        verify_function(function, infer)
    return function


def compare(function: Function, calls: Sequence[Sequence[Any]], threads: Sequence[int] = (1, 3)) -> None:
    assert "rows_product" in names(done(function))
    apart = Evaluator(insert_copies(fused(function)))
    expected = [outcome(apart.run, given, NotingHost()) for given in calls]
    for count in threads:
        with asked_for(count, grain=1):
            assert assert_same(done(function), calls) == expected


def compare_at(build: Build, *given: np.ndarray) -> None:
    compare(function_of([type_of(one) for one in given], build), [list(given)])


def mixed(filling: float = -1e30, name: str = "le", swapped: bool = False) -> Build:
    """`swapped`: the values are the left operand."""

    def build(b: Builder, q: Value, k: Value, v: Value, given: Value) -> Sequence[Value]:
        shares = softmax(b, masked(b, b.op("contraction", q, k, **PRODUCT), name, filling))
        if swapped:
            return [b.op("contraction", v, shares, left=(0, 3, 2), right=(0, 1, 3), out=(0, 1, 2))]
        return [b.op("contraction", shares, v, **LAST)]

    return build


# Groups, rows, columns, steps: the last one is also how many columns the values have.
SHAPES = [(2, 3, 256, 5), (1, 130, 130 * 2, 17), (3, 5, 267, 1), (0, 3, 264, 2), (2, 0, 264, 2), (1, 5, 4099, 2)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_bits_of_the_parts(shape: tuple[int, int, int, int]) -> None:
    compare_at(forward, *arguments(*shape))


@pytest.mark.parametrize("element", [F32, F64])
def test_groups_and_rows_known_at_run_time(element: Element) -> None:
    known = types(of(fresh("g")), of(fresh("r")), number(300), number(3), element)
    compare(function_of(known, forward), [arguments(*shape, 300, 3, element) for shape in ((2, 40), (1, 7), (3, 1), (0, 4), (4, 0))])


def test_any_number_of_threads() -> None:
    given = arguments(5, 70, 300, 3)
    compare(function_of([type_of(one) for one in given], forward), [given], (1, 2, 3, 8))


def test_blocks_of_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(behind_rows, "NEAR", 1)
    compare_at(forward, *arguments(2, 37, 267, 5))


@pytest.mark.parametrize("name", ["le", "lt", "ge"])
@pytest.mark.parametrize("swapped", [False, True])
def test_masks_and_operands_the_other_way_round(name: str, swapped: bool) -> None:
    compare_at(mixed(name=name, swapped=swapped), *arguments(2, 30, 260, 3))


@pytest.mark.parametrize("filling", [0.0, -0.0, float("-inf"), float("nan")], ids=str)
def test_masks_that_leave_shares(filling: float) -> None:
    compare_at(mixed(filling), *arguments(2, 20, 260, 3))


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_values_without_a_share_that_are_not_finite(value: float) -> None:
    q, k, v, given = arguments(2, 20, 260, 3)
    v[0, 200, 1] = value
    compare_at(mixed(), q, k, v, given)
    v[1] = value
    compare_at(mixed(), q, k, v, given)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_zeros_of_the_second_product(sign: float) -> None:
    """A chain that stands at -0.0, from products too small to have another number, goes on through zeros of either sign."""
    q, k, v, given = arguments(1, 20, 260, 3)
    v[:] = -np.float32(1e-45)
    v[:, 100:] = sign
    q[:, :, :] = 0.0  # equal shares, so that the products round to zeros
    compare_at(mixed(), q, k, v, given)
    v[:, 100:] = 0.0 * sign
    compare_at(mixed(), q, k, v, given)


@pytest.mark.parametrize("number_", [-3e38, float("nan")])
def test_rows_of_which_the_mask_leaves_all(number_: float) -> None:
    q, k, v, given = arguments(2, 20, 260, 1)
    q[0], k[:] = number_, np.abs(k)
    compare_at(mixed(), q, k, v, given)


def test_where_nothing_is_masked() -> None:
    def build(b: Builder, q: Value, k: Value, v: Value, given: Value) -> Sequence[Value]:
        return [b.op("contraction", softmax(b, b.op("contraction", q, k, **PRODUCT)), v, **LAST)]

    compare_at(build, *arguments(2, 37, 267, 5))


def test_values_of_all_groups() -> None:
    """The last operand lacks the groups, and rows lie apart in the result."""

    def build(b: Builder, q: Value, k: Value, v: Value, given: Value) -> Sequence[Value]:
        shares = softmax(b, masked(b, b.op("contraction", q, k, **PRODUCT), "le", -1e30))
        one = b.op("sum", v, positions=(0,))
        return [b.op("contraction", shares, one, left=(0, 1, 3), right=(3, 2), out=(1, 0, 2))]

    compare_at(build, *arguments(3, 20, 260, 4))


def test_the_gradient() -> None:
    """The shares are made again for it, so the way forward keeps none."""
    given = arguments(2, 9, 520, 3)
    function = function_of([type_of(one) for one in given], attention)
    assert [name for name in names(done(function)) if "rows" in name or "reduced" in name] == ["rows_product", *["reduced_contraction"] * 2]
    compare(function, [given])


def test_no_tensor_of_the_shares() -> None:
    """What is planned grows with the rows, not with the number of pairs."""
    known = types(of(fresh("g")), of(fresh("r")), number(1024), number(3), F32)
    function = function_of(known, forward)
    kept, left_out = (planned_bytes(plan_memory(form(function)), rows(100)) for form in (joined, done))
    assert kept >= 4 * 100 * 100 * 1024
    assert left_out == 0


def test_what_is_not_joined() -> None:
    def count(build: Build, columns: int = 300) -> int:
        return names(done(function_of([type_of(one) for one in arguments(2, 5, columns, 3)], build))).count("rows_product")

    def is_read_twice(b: Builder, q: Value, k: Value, v: Value, given: Value) -> Sequence[Value]:
        shares = softmax(b, b.op("contraction", q, k, **PRODUCT))
        return [b.op("contraction", shares, v, **LAST), shares]

    def across(b: Builder, q: Value, k: Value, v: Value, given: Value) -> Sequence[Value]:
        shares = softmax(b, b.op("contraction", q, k, **PRODUCT))
        return [b.op("contraction", shares, given, left=(0, 1, 3), right=(0, 1, 2), out=(0, 3, 2))]

    def of_each_row(b: Builder, q: Value, k: Value, v: Value, given: Value) -> Sequence[Value]:
        shares = softmax(b, b.op("contraction", q, k, **PRODUCT))
        wide = b.op("mul", shares, b.full(2.0, type_for(q, k)))
        return [b.op("contraction", shares, wide, left=(0, 1, 3), right=(0, 2, 3), out=(0, 1, 2))]

    assert count(mixed()) == 1
    assert count(mixed(), 255) == 0
    assert count(is_read_twice) == count(across) == count(of_each_row) == 0
