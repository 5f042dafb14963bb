"""Products of a tensor that a mask has put zeros into: the steps of zeros are left out, with the bits of all steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from evaluating import function_of, type_of
from native_harness import NotingHost, assert_same, outcome
from native_samples import F32, F64
from test_reduced_contraction import PRODUCT, along_rows, arguments, fused, masked, softmax, type_for

from shapescript.compiler.codegen.thread_count import asked_for
from shapescript.compiler.ir.nodes import Function, Op, Value
from shapescript.compiler.ir.types import Element
from shapescript.compiler.ir.verifier import verify_function
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.ops.table import infer
from shapescript.compiler.passes.copies import insert_copies
from shapescript.compiler.passes.join_reductions import join_reductions
from shapescript.compiler.passes.mark_zeros import SHORTEST, mark_zeros
from shapescript.compiler.reference.engine import Evaluator

FORMS = ("le", "lt", "ge", "gt")


def grown(b: Builder, q: Value, k: Value, name: str, filling: float = 0.0) -> Value:
    """As the gradient of attention's scores."""
    back = b.op("contraction", q, k, **PRODUCT)
    total = b.op("sum", b.op("mul", back, back), positions=(2,))
    return masked(b, b.op("sub", back, along_rows(b, total, back)), name, filling)


def of_queries_and_keys(name: str, filling: float = 0.0) -> object:
    def build(b: Builder, q: Value, k: Value, v: Value, given: Value) -> Sequence[Value]:
        made = grown(b, q, k, name, filling)
        by_query = b.op("contraction", made, v, left=(0, 1, 3), right=(0, 3, 2), out=(0, 1, 2))
        by_key = b.op("contraction", made, given, left=(0, 1, 3), right=(0, 1, 2), out=(0, 3, 2))
        return [by_query, by_key, b.op("contraction", v, made, left=(0, 3, 2), right=(0, 1, 3), out=(0, 1, 2))]

    return build


def done(function: Function) -> Function:
    function = fused(function)
    for pass_ in (join_reductions, mark_zeros, insert_copies):
        function = pass_(function)
        verify_function(function, infer)
    return function


def marked(function: Function) -> list[Op]:
    return [op for op in done(function).body.ops if "zeros" in op.attributes]


def compare(build: object, *given: np.ndarray, threads: Sequence[int] = (1, 3), count: int = 3) -> None:
    function = function_of([type_of(one) for one in given], build)
    assert len(marked(function)) == count
    expected = [outcome(Evaluator(insert_copies(fused(function))).run, list(given), NotingHost())]
    for number in threads:
        with asked_for(number, grain=1):
            assert assert_same(done(function), [list(given)]) == expected


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("element", [F32, F64])
def test_the_bits_of_all_steps(name: str, element: Element) -> None:
    compare(of_queries_and_keys(name), *arguments(2, 261, 270, 3, element))


@pytest.mark.parametrize("shape", [(1, 600, 600, 2), (1, 256, 300, 17), (0, 256, 256, 3), (1, 257, 1100, 1)], ids=str)
def test_shapes(shape: tuple[int, int, int, int]) -> None:
    compare(of_queries_and_keys("le"), *arguments(*shape), threads=(1, 2, 8))


def test_minus_zero_is_no_other_number() -> None:
    compare(of_queries_and_keys("le", -0.0), *arguments(1, 261, 270, 3))


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("place", [0, 100, 255])
def test_what_is_not_finite_is_multiplied_with_zeros(value: float, place: int) -> None:
    q, k, v, given = arguments(1, 261, 270, 3)
    v[0, place, 1] = given[0, place, 2] = value
    compare(of_queries_and_keys("le"), q, k, v, given, threads=(1,))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_sums_that_stand_at_minus_zero(sign: float) -> None:
    """Products too small to have another number come first; what is multiplied with zeros then may make +0.0 of it."""
    q, k, v, given = arguments(1, 261, 270, 3)
    q[:], k[:] = 1e-30, 1e-15
    v[:], given[:] = -1e-15, -1e-15
    v[:, 200:] = given[:, 200:] = sign
    compare(of_queries_and_keys("le"), q, k, v, given, threads=(1,))
    compare(of_queries_and_keys("ge"), q, k, v, given, threads=(1,))


def of_shares(filling: float, name: str = "le") -> object:
    """What masks leave of them is zeros mostly: it is looked at in a run."""

    def build(b: Builder, q: Value, k: Value, v: Value, given: Value) -> Sequence[Value]:
        shares = softmax(b, masked(b, b.op("contraction", q, k, **PRODUCT), name, filling))
        by_row = b.op("contraction", shares, v, left=(0, 1, 3), right=(0, 3, 2), out=(0, 1, 2))
        return [by_row, b.op("contraction", shares, given, left=(0, 1, 3), right=(0, 1, 2), out=(0, 3, 2))]

    return build


@pytest.mark.parametrize("name", ["le", "lt"])
@pytest.mark.parametrize("shape", [(2, 300, 260, 3), (1, 260, 300, 3), (0, 256, 256, 3), (1, 256, 256, 1)], ids=str)
def test_shares(name: str, shape: tuple[int, int, int, int]) -> None:
    compare(of_shares(-1e30, name), *arguments(*shape), count=2)


@pytest.mark.parametrize("filling", [0.0, float("-inf"), float("nan")], ids=str)
def test_masks_that_leave_shares(filling: float) -> None:
    compare(of_shares(filling), *arguments(1, 257, 260, 2), threads=(1,), count=2)


@pytest.mark.parametrize("row", [0, 100, 258])
def test_a_row_of_which_the_mask_leaves_all(row: int) -> None:
    q, k, v, given = arguments(2, 260, 260, 1)
    q[1, row], k[:] = -3e38, np.abs(k)
    compare(of_shares(-1e30), q, k, v, given, threads=(1,), count=2)


def test_what_is_not_marked() -> None:
    def count(build: object, rows: int = 260, columns: int = 260) -> int:
        return len(marked(function_of([type_of(one) for one in arguments(1, rows, columns, 3)], build)))

    def by_number(b: Builder, q: Value, k: Value, v: Value, given: Value) -> Sequence[Value]:
        made = grown(b, q, k, "le")
        limit = b.op("gt", made, b.full(0.0, result_type(made)))
        kept = b.op("select", limit, made, b.full(0.0, type_for(q, k)))
        return [b.op("contraction", kept, v, left=(0, 1, 3), right=(0, 3, 2), out=(0, 1, 2))]

    assert count(of_queries_and_keys("le")) == 3
    assert count(of_queries_and_keys("le"), SHORTEST - 1) == count(of_queries_and_keys("le"), 260, SHORTEST - 1) == 0
    assert count(of_queries_and_keys("le", 1.0)) == count(by_number) == 0
