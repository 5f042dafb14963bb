"""Products whose rows are reduced while they are near, as in attention: the bits of the parts, in both engines and with any number of
threads, at sizes known when compiled and not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from evaluating import function_of, tensor, type_of
from native_harness import NotingHost, assert_same, outcome
from native_samples import F32, F64, I64, some

from shapescript.compiler.codegen import behind_rows
from shapescript.compiler.codegen.thread_count import asked_for
from shapescript.compiler.ir.nodes import Block, Function, Value
from shapescript.compiler.ir.sizes import Size, fresh, number, of
from shapescript.compiler.ir.types import Element, TensorType
from shapescript.compiler.ir.verifier import verify_function
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.ops.table import infer
from shapescript.compiler.passes.copies import insert_copies
from shapescript.compiler.passes.fuse import fuse
from shapescript.compiler.passes.fuse_reductions import fuse_reductions
from shapescript.compiler.passes.join_reductions import join_reductions
from shapescript.compiler.passes.masked_tiles import Ascending, masked_where
from shapescript.compiler.passes.rows_again import SOON, make_rows_again
from shapescript.compiler.passes.simplify import simplify
from shapescript.compiler.reference.engine import Evaluator

PRODUCT = {"left": (0, 1, 2), "right": (0, 3, 2), "out": (0, 1, 3)}
PARTS = (simplify, fuse, fuse_reductions, simplify)


def along_rows(b: Builder, value: Value, like: Value) -> Value:
    return b.broadcast(value, result_type(like).axes, (0, 1))


def masked(b: Builder, x: Value, name: str, otherwise: float) -> Value:
    kind = result_type(x)
    column, row = (b.op("iota", axes=kind.axes, position=position) for position in (2, 1))
    return b.op("select", b.op(name, column, row), x, b.full(otherwise, kind))


def softmax(b: Builder, x: Value) -> Value:
    powers = b.op("exp", b.op("sub", x, along_rows(b, b.op("max", x, positions=(2,)), x)))
    return b.op("div", powers, along_rows(b, b.op("sum", powers, positions=(2,)), x))


def forward(b: Builder, q: Value, k: Value, v: Value, given: Value) -> Sequence[Value]:
    scores = b.op("contraction", q, k, **PRODUCT)
    shares = softmax(b, masked(b, b.op("div", scores, b.full(5.0, result_type(scores))), "le", -1e30))
    return [b.op("contraction", shares, v, left=(0, 1, 3), right=(0, 3, 2), out=(0, 1, 2))]


def attention(b: Builder, q: Value, k: Value, v: Value, given: Value) -> Sequence[Value]:
    """Forward and backward, with other work between."""
    scores = b.op("contraction", q, k, **PRODUCT)
    shares = softmax(b, masked(b, b.op("div", scores, b.full(5.0, result_type(scores))), "le", -1e30))
    mixed = b.op("contraction", shares, v, left=(0, 1, 3), right=(0, 3, 2), out=(0, 1, 2))
    between = mixed
    for _ in range(SOON + 2):
        between = b.op("cumsum", between, position=1, reverse=False)
    given = b.op("mul", given, between)
    back = b.op("contraction", given, v, **PRODUCT)
    total = b.op("sum", b.op("mul", back, shares), positions=(2,))
    grown = masked(b, b.op("mul", shares, b.op("sub", back, along_rows(b, total, back))), "le", 0.0)
    by_rows = {"left": (0, 1, 3), "right": (0, 1, 2), "out": (0, 3, 2)}
    by_query = b.op("contraction", grown, k, left=(0, 1, 3), right=(0, 3, 2), out=(0, 1, 2))
    return [mixed, between, by_query, b.op("contraction", grown, q, **by_rows), b.op("contraction", shares, given, **by_rows)]


def extremes(b: Builder, q: Value, k: Value, v: Value, given: Value) -> Sequence[Value]:
    """Several results of a row, an operand more, and a mask the other way round."""
    made = masked(b, b.op("mul", b.op("contraction", q, k, **PRODUCT), b.full(3.0, type_for(q, k))), "gt", 2.0)
    index = b.convert(b.op("iota", axes=result_type(made).axes, position=2), result_type(made).element)
    moved = b.op("add", made, index)
    greatest, mean = b.op("max", moved, positions=(2,)), b.op("mean", moved, positions=(2,))
    return [b.op("sub", moved, along_rows(b, mean, moved)), greatest, mean]


def type_for(q: Value, k: Value) -> TensorType:
    kind = result_type(q)
    return TensorType(kind.element, (*kind.axes[:2], result_type(k).axes[1]))


FORMS: dict[str, Callable[..., Sequence[Value]]] = {form.__name__: form for form in (forward, attention, extremes)}
# Groups, rows, columns, steps.
SHAPES = [(2, 3, 70, 5), (1, 1, 64, 1), (3, 37, 67, 8), (1, 130, 130, 33), (2, 70, 65, 0), (0, 3, 64, 2), (2, 0, 64, 2), (1, 5, 4099, 2)]
SHORT = [(2, 5, 1, 3), (1, 3, 7, 2), (2, 3, 0, 2)]


def types(groups: Size, rows: Size, columns: Size, steps: Size, element: Element) -> list[TensorType]:
    return [TensorType(element, (groups, count, steps)) for count in (rows, columns, columns, rows)]


def arguments(groups: int, rows: int, columns: int, steps: int, element: Element = F32) -> list[np.ndarray]:
    return [some(element, groups, count, steps, seed=seed) for seed, count in enumerate((rows, columns, columns, rows))]


def fused(function: Function) -> Function:
    for pass_ in PARTS:
        function = pass_(function)
    return function


def joined(function: Function) -> Function:
    done = fused(function)
    for pass_ in (join_reductions, make_rows_again, insert_copies):
        done = pass_(done)
        verify_function(done, infer)
    return done


def names(function: Function) -> list[str]:
    return [op.name for op in function.body.ops]


def compare(function: Function, calls: Sequence[Sequence[Any]]) -> None:
    assert "reduced_contraction" in names(joined(function))
    apart = Evaluator(insert_copies(fused(function)))
    expected = [outcome(apart.run, given, NotingHost()) for given in calls]
    for threads in (1, 3):
        with asked_for(threads, grain=1):
            assert assert_same(joined(function), calls) == expected


@pytest.mark.parametrize(("name", "element"), [("forward", F32), ("attention", F32), ("extremes", F64)])
def test_the_bits_of_the_parts_at_run_time_sizes(name: str, element: Element) -> None:
    known = [of(fresh(axis)) for axis in "grcs"]
    compare(function_of(types(*known, element), FORMS[name]), [arguments(*shape, element) for shape in (*SHAPES, *SHORT)])


KNOWN = [("attention", 0), ("extremes", 1), ("forward", 2), ("attention", 4), ("forward", 5)]


@pytest.mark.parametrize(("name", "shape"), [(name, SHAPES[number]) for name, number in KNOWN], ids=str)
def test_the_bits_of_the_parts_at_known_sizes(name: str, shape: tuple[int, int, int, int]) -> None:
    given = arguments(*shape)
    compare(function_of([type_of(one) for one in given], FORMS[name]), [given])


def test_blocks_of_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(behind_rows, "NEAR", 1)
    given = arguments(2, 37, 67, 5)
    compare(function_of([type_of(one) for one in given], attention), [given])


def test_numbers_that_a_mask_takes_out_are_never_seen() -> None:
    """Infinities and NaN in what only masked scores read."""
    q, k, v, given = arguments(1, 64, 96, 4)
    k[:, 70:] = np.nan
    k[:, 64:70] = np.inf
    compare(function_of([type_of(one) for one in (q, k, v, given)], forward), [[q, k, v, given]])


def test_rows_are_made_again_where_they_are_long() -> None:
    long, short = arguments(2, 5, 520, 3), arguments(2, 5, 100, 3)
    again = joined(function_of([type_of(one) for one in long], attention))
    assert names(again).count("reduced_contraction") == 3
    compare(function_of([type_of(one) for one in long], attention), [long])
    kept = joined(function_of([type_of(one) for one in short], attention))
    assert names(kept).count("reduced_contraction") == 2


def test_what_would_have_to_be_kept_for_it_is_not_made_again() -> None:
    """The key is read by nothing behind the way forward."""

    def build(b: Builder, q: Value, k: Value, v: Value, given: Value) -> Sequence[Value]:
        moved = b.op("cumsum", k, position=1, reverse=False)
        shares = softmax(b, b.op("contraction", q, moved, **PRODUCT))
        between = b.op("contraction", shares, v, left=(0, 1, 3), right=(0, 3, 2), out=(0, 1, 2))
        for _ in range(SOON + 2):
            between = b.op("cumsum", between, position=1, reverse=False)
        given = b.op("mul", given, between)
        return [between, b.op("contraction", shares, given, left=(0, 1, 3), right=(0, 1, 2), out=(0, 3, 2))]

    given = arguments(2, 5, 520, 3)
    function = function_of([type_of(one) for one in given], build)
    assert names(joined(function)).count("reduced_contraction") == 1
    compare(function, [given])


def test_what_is_not_joined() -> None:
    def count(build: Callable[..., Sequence[Value]], *kinds: TensorType) -> int:
        return names(joined(function_of(list(kinds), build))).count("reduced_contraction")

    usual = [tensor(2, 3, 5), tensor(2, 70, 5)]
    assert count(lambda b, q, k: [softmax(b, b.op("contraction", q, k, **PRODUCT))], *usual) == 1
    narrow = [tensor(2, 3, 5), tensor(2, 9, 5)]
    assert count(lambda b, q, k: [softmax(b, b.op("contraction", q, k, **PRODUCT))], *narrow) == 0

    def is_read_twice(b: Builder, q: Value, k: Value) -> Sequence[Value]:
        scores = b.op("contraction", q, k, **PRODUCT)
        return [softmax(b, scores), scores]

    def columns_of_two_axes(b: Builder, q: Value, k: Value) -> Sequence[Value]:
        return [softmax(b, b.op("contraction", q, k, left=(0, 2), right=(3, 4, 2), out=(0, 3, 4)))]

    def is_read_when_a_result_is_written(b: Builder, q: Value, k: Value) -> Sequence[Value]:
        scores = b.op("contraction", q, k, **PRODUCT)
        axes = result_type(scores).axes
        gaps = b.op("sub", scores, b.broadcast(b.op("max", scores, positions=(2,)), axes, (0, 1)))
        return [gaps, b.op("mul", scores, b.broadcast(b.op("sum", gaps, positions=(2,)), axes, (0, 1)))]

    def becomes_another_type(b: Builder, q: Value, k: Value) -> Sequence[Value]:
        return [softmax(b, b.convert(b.op("contraction", q, k, **PRODUCT), F64))]

    assert count(columns_of_two_axes, tensor(2, 5), tensor(2, 70, 5)) == 0
    assert count(is_read_twice, *usual) == 0
    assert count(is_read_when_a_result_is_written, *usual) == 0
    assert count(becomes_another_type, *usual) == 0


@pytest.mark.parametrize(
    ("columns", "steps", "wanted"),
    [(64, 4096, 1), (65, 4096, 0), (1024, 256, 1), (1025, 257, 0), (50_000, 256, 1), (None, 256, 1), (None, 257, 0), (70, None, 1)],
)
def test_a_large_operand_of_many_steps_is_not_joined(columns: int | None, steps: int | None, wanted: int) -> None:
    """As the weight of a classifier of many classes; known or not."""
    n, k = (of(fresh(name)) if size is None else number(size) for name, size in (("columns", columns), ("steps", steps)))
    kinds = [TensorType(F32, (number(1), number(3), k)), TensorType(F32, (number(1), n, k))]
    function = function_of(kinds, lambda b, x, weight: [softmax(b, b.op("contraction", x, weight, **PRODUCT))])
    assert names(joined(function)).count("reduced_contraction") == wanted


# ---- where a mask leaves nothing of a product


def region(build: Callable[[Builder, Value, Value, Value], Value]) -> Block:
    b, element = Builder(), Value(TensorType(F32))
    column, row = (b.op("iota", axes=(), position=position) for position in (2, 1))
    found = build(b, element, column, row)
    return b.block([element], [found])


def chosen(name: str, negated: bool = False, swapped: bool = False) -> Block:
    def build(b: Builder, element: Value, column: Value, row: Value) -> Value:
        condition = b.op(name, column, row)
        branches = [b.op("neg", element), b.constant(0.0, F32)]
        return b.op("select", b.op("not", condition) if negated else condition, *(reversed(branches) if swapped else branches))

    return region(build)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (chosen("le"), Ascending(1, 2, True)),
        (chosen("lt"), Ascending(1, 2, False)),
        (chosen("ge"), Ascending(2, 1, True)),
        (chosen("gt"), Ascending(2, 1, False)),
        (chosen("le", negated=True), Ascending(2, 1, False)),
        (chosen("gt", swapped=True), Ascending(1, 2, True)),
        (chosen("ge", negated=True, swapped=True), Ascending(2, 1, True)),
        (chosen("eq"), None),
    ],
)
def test_where_nothing_of_the_product_is_read(found: Block, expected: Ascending | None) -> None:
    assert masked_where(found) == expected


def test_where_all_of_the_product_may_be_read() -> None:
    assert masked_where(region(lambda b, x, column, row: b.op("neg", x))) is None
    assert masked_where(region(lambda b, x, column, row: b.op("select", b.op("le", column, row), x, b.op("neg", x)))) is None
    far = region(lambda b, x, column, row: b.op("select", b.op("gt", x, b.constant(0.0, F32)), x, b.constant(1.0, F32)))
    assert masked_where(far) is None
    fixed = region(lambda b, x, column, row: b.op("select", b.op("le", column, b.constant(3, I64)), x, b.constant(1.0, F32)))
    assert masked_where(fixed) is None
