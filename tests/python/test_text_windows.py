"""Windows of texts, parts and samples in native code, beside the reference evaluator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from evaluating import dataset_at, function_of, tensor
from native_harness import assert_same, finished
from native_samples import block

from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.sizes import fresh, of, product
from shapescript.compiler.ir.types import BOOL, INT, DatasetType, Element, OrderedType, RecordType, TensorType
from shapescript.compiler.ops.build import Builder

WINDOWS = DatasetType(RecordType("Window", (("ids", tensor(5, element=Element.I64)),)), of(fresh("rows")))
ROWS = DatasetType(RecordType("Pair", (("x", tensor(3)), ("y", TensorType(Element.I64)))), of(fresh("rows")))


def windows(count: int, span: int = 5) -> Any:
    values = np.arange(100, 100 + count + span - 1)
    array = np.lib.stride_tricks.as_strided(values, (count, span), (8, 8))
    return dataset_at([count, 0, values.ctypes.data, 8], array, kept=values)


def apart(count: int) -> Any:
    """Rows with gaps between them, as in a part of a wider array."""
    x, y = np.arange(7 * count, dtype=np.float32).reshape(count, 7)[:, 2:5], np.arange(2 * count).reshape(count, 2)[:, 1]
    return dataset_at([count, 0, x.ctypes.data, 28, y.ctypes.data, 16], x, y)


def coded(data: DatasetType, how: str) -> Any:
    """A function of a dataset that gives a number in which every id of every batch counts, at its place."""
    rows = fresh("b")
    fields = [TensorType(kind.element, (of(rows), *kind.axes)) for _, kind in data.record.fields]

    def add(i: Builder, code: Value, field: Value) -> Value:
        count = product(field.type.axes)  # type: ignore[union-attr]
        flat = i.op("reshape", i.op("to_i64", field), axes=(count,))
        places = i.op("iota", axes=(count,), position=0)
        thousand = i.op("broadcast", i.constant(1000, Element.I64), axes=(count,), positions=())
        weighted = i.op("mul", flat, i.op("add", places, thousand))
        return i.op("add", i.op("mul", code, i.constant(1_000_003, Element.I64)), i.op("sum", weighted, positions=(0,)))

    def turn(i: Builder, *values: Value) -> Sequence[Value]:
        *found, code = values
        for field in found:
            code = add(i, code, field)
        return [code]

    def build(b: Builder, given: Value, size: Value, drop_last: Value, start: Value, stop: Value, k: Value) -> Sequence[Value]:
        seen = given
        if how == "shuffled":
            seen = b.op("order", given, k, b.constant(7, Element.I64))
        elif how == "sampled":
            seen = b.op("sample_order", given, b.constant(40, Element.I64), k, b.constant(7, Element.I64))
        if how != "plain":
            seen = b.op("order_part", b.op("order_part", seen, start, stop), b.constant(0, Element.I64), b.op("sub", stop, start))
        from_first, code = b.constant(0, Element.I64), b.constant(0, Element.I64)
        ahead = b.constant(-1, Element.I64)
        made = b.emit("for_batches", seen, size, drop_last, from_first, ahead, code, regions=[block([*fields, INT], turn, [rows])])
        count = [] if how == "plain" else [b.op("order_size", seen)]
        return [*made, *count, *b.emit("dataset_all", given)]

    return finished(function_of([data, INT, BOOL, INT, INT, INT], build))


@pytest.mark.parametrize("how", ["plain", "shuffled", "sampled"])
@pytest.mark.parametrize(("kind", "make"), [(WINDOWS, windows), (ROWS, apart)])
def test_overlapping_and_distant_rows_in_native_code(kind: DatasetType, make: Any, how: str) -> None:
    sizes = [(1, 1), (5, 2), (30, 7), (100, 64), (2100, 3), (2100, 1500), (3, 2**62)]
    calls = [
        [make(count), size, drop, 0, 40 if how == "sampled" else count, k]
        for count, size in sizes
        for drop in (False, True)
        for k in (0, 3)
    ]
    calls += [
        [make(50), 4, False, start, stop, 1] for start, stop in [(0, 40), (7, 31), (39, 40), (3, 3), (5, 4), (-1, 4), (0, 51), (41, 60)]
    ]
    assert_same(coded(kind, how), [*calls, [make(0), 4, False, 0, 0, 0]])


def test_a_sample_of_a_count_below_nothing() -> None:
    def build(b: Builder, data: Value, count: Value) -> Sequence[Value]:
        return [b.op("order_size", b.op("sample_order", data, count, b.constant(0, Element.I64), b.constant(0, Element.I64)))]

    outcomes = assert_same(finished(function_of([WINDOWS, INT], build)), [[windows(4), -1], [windows(0), 3], [windows(4), 0]])
    assert ["R1102" in str(outcome) for outcome in outcomes] == [True, True, False]


def test_orders_have_their_own_type() -> None:
    assert str(OrderedType(WINDOWS)) == str(OrderedType(WINDOWS, repeats=True)) and OrderedType(WINDOWS) != OrderedType(WINDOWS, True)
