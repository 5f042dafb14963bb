"""Datasets: checked and copied arrays, orders that are functions of seed and number, batches that cover every example once."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from runtime_samples import DIGIT, digit_arrays, digits

from shapescript.runtime.dataset import Dataset
from shapescript.runtime.errors import ArgumentError, DataError
from shapescript.runtime.record import Batch, Field, RecordType
from shapescript.runtime.rows_ahead import ROWS_AHEAD


@pytest.mark.parametrize("count", [10, 250_000])
def test_what_a_caller_does_to_its_arrays_afterwards_changes_no_dataset(count: int) -> None:
    arrays = digit_arrays(count)
    kept = {name: array.copy() for name, array in arrays.items()}
    data = Dataset(DIGIT, arrays)
    for array in arrays.values():
        array[...] = 0
    assert data.all.pixels.tobytes() == kept["pixels"].tobytes() and data.all.label.tobytes() == kept["label"].tobytes()
    for array in (data.all.pixels, next(iter(data.batches(4))).pixels):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_native_code_finds_the_fields_in_the_order_of_their_declaration() -> None:
    data = digits(7)
    assert data.block.tolist() == [7, 0, data.all.pixels.ctypes.data, 16, data.all.label.ctypes.data, 8]
    assert all(address % 64 == 0 for address in data.block[2::2].tolist()) and not data.block.flags.writeable


def test_arrays_that_are_not_contiguous_are_copied_into_order() -> None:
    arrays: dict[str, Any] = {"pixels": np.arange(40, dtype=np.float32).reshape(4, 10).T, "label": np.arange(20)[::-2]}
    data = Dataset(DIGIT, arrays)
    assert data.all.pixels.flags.c_contiguous and data.all.pixels.tolist() == arrays["pixels"].tolist()
    assert data.all.label.tolist() == list(range(19, 0, -2))


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"pixels": np.zeros((10, 4))}, "R1001", ["Digit.pixels", "float32", "float64", "astype(numpy.float32)"]),
        ({"label": np.zeros(10, np.int32)}, "R1001", ["Digit.label", "int64", "int32"]),
        ({"label": np.zeros(10)}, "R1001", ["Digit.label", "int64", "float64"]),
        ({"pixels": np.zeros((10, 4), bool)}, "R1001", ["float32", "bool"]),
        ({"label": np.zeros((10, 1), np.int64)}, "R1002", ["Digit.label: expected 1 axis [b]", "got shape (10, 1)"]),
        ({"pixels": np.zeros((10, 5), np.float32)}, "R1002", ["[b In]", "(10, 4)", "(10, 5)"]),
        ({"pixels": np.zeros((), np.float32)}, "R1002", ["2 axes", "()"]),
        ({"label": np.arange(9)}, "R1003", ["10 in pixels", "9 in label"]),
        ({"label": list(range(10))}, "R1004", ["Digit.label", "list"]),
        ({"lable": np.arange(10)}, "R1005", ["no field 'lable'"]),
        ({"label": np.ma.masked_array(np.arange(10), False)}, "R1006", ["masked"]),
    ],
)
def test_arrays_that_do_not_fit_the_record_are_refused(change: dict[str, Any], code: str, words: list[str]) -> None:
    with pytest.raises(ArgumentError) as raised:
        Dataset(DIGIT, {**digit_arrays(), **change})
    assert raised.value.code == code and all(word in raised.value.message for word in words)


def test_a_field_without_an_array_is_named() -> None:
    with pytest.raises(ArgumentError, match="R1005: Digit: no array for its field label"):
        Dataset(DIGIT, {"pixels": np.zeros((3, 4), np.float32)})
    with pytest.raises(ArgumentError, match="did you mean 'label'"):
        Dataset(DIGIT, {"pixels": np.zeros((3, 4), np.float32), "lable": np.arange(3)})


@pytest.mark.parametrize("drop_last", [False, True])
def test_a_length_is_the_number_of_batches_that_come(drop_last: bool) -> None:
    for count in range(10):
        for size in range(1, 5):
            batches = digits(count).shuffle(1).batches(size, drop_last=drop_last)
            if len(batches) == 0:
                with pytest.raises(DataError) as raised:
                    iter(batches)
                assert raised.value.code == "R1102" and ("empty" if count == 0 else "0 batches per epoch") in raised.value.message
                continue
            rows = [batch.label for batch in batches]
            assert len(rows) == len(batches)
            seen = np.concatenate(rows).tolist()
            assert len(set(seen)) == len(seen) == (count - count % size if drop_last else count)
            assert {len(row) for row in rows[:-1]} <= {size}


def test_an_order_is_a_permutation_that_depends_on_number_seed_and_count_alone() -> None:
    def order(count: int, k: int, seed: int = 0) -> list[int]:
        return [int(label) for batch in digits(count).shuffle(k, seed=seed).batches(7) for label in batch.label]

    orders = [order(50, k) for k in range(5)]
    assert all(sorted(each) == list(range(50)) for each in orders)
    assert len({tuple(each) for each in orders}) == 5
    assert order(50, 3) == orders[3] and order(50, 3, seed=1) != orders[3]
    other = Dataset(RecordType("Other", (Field("label", "i64"),)), {"label": np.arange(50)})
    assert [int(label) for batch in other.shuffle(3).batches(50) for label in batch.label] == orders[3]


GOLDEN_ORDER = [3, 1, 14, 9, 7, 15, 2, 4, 5, 0, 6, 13, 8, 12, 11, 10]


def test_golden_orders() -> None:
    """A change here is a breaking change: every seed would give another run."""
    ordered = digits(16).shuffle(3, seed=7)
    assert ordered.rows(0, 16).tolist() == GOLDEN_ORDER
    assert ordered.rows(5, 6).tolist() == GOLDEN_ORDER[5:11]


def test_rows_stay_together_and_a_batch_can_be_had_alone() -> None:
    data = digits(20)
    for batches in (data.batches(6), data.shuffle(2).batches(6)):
        for index, batch in enumerate(batches):
            alone = batches.batch(index)
            assert batch.label.tolist() == alone.label.tolist()
            assert batch.pixels.tobytes() == data.all.pixels[batch.label].tobytes()
            assert batch.pixels.ctypes.data % 64 == 0
    assert [batch.label.tolist() for batch in data.batches(15)] == [list(range(15)), list(range(15, 20))]


def test_batches_do_not_depend_on_how_many_rows_are_looked_up_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = digits(40).shuffle(1).batches(3)
    together = [batch.label.tolist() for batch in batches]
    monkeypatch.setattr("shapescript.runtime.rows_ahead.ROWS_AHEAD", 7)
    assert ROWS_AHEAD > 40 and [batch.label.tolist() for batch in batches] == together


def test_batches_can_be_gone_through_twice_and_left_early() -> None:
    batches = digits(9).shuffle(0).batches(2)
    first = next(iter(batches)).label.tolist()
    assert [batch.label.tolist() for batch in batches] == [batch.label.tolist() for batch in batches]
    assert next(iter(batches)).label.tolist() == first


@pytest.mark.parametrize("size", [0, -1, 2.0, True])
def test_a_batch_size_is_a_positive_int(size: object) -> None:
    with pytest.raises(ArgumentError, match="R1004: batches: size"):
        digits().batches(size)  # type: ignore[arg-type]


def test_a_fingerprint_follows_the_content_and_not_the_names_around_it() -> None:
    arrays = digit_arrays()
    reference = digits().fingerprint()
    renamed = RecordType("Number", (Field("label", "i64"), Field("pixels", "f32", ("Width",), (4,))))
    assert Dataset(renamed, arrays).fingerprint() == reference == digits().fingerprint()
    changed = {name: array.copy() for name, array in arrays.items()}
    changed["pixels"][3, 2] += 1
    reordered = {name: array[::-1] for name, array in arrays.items()}
    others = [Dataset(DIGIT, changed), Dataset(DIGIT, reordered), digits(9), digits(11)]
    assert len({reference, *(each.fingerprint() for each in others)}) == 5


def test_a_batch_can_be_made_by_hand_and_is_checked() -> None:
    arrays = digit_arrays(3)
    batch = Batch(DIGIT, arrays)
    arrays["label"][:] = 9
    assert len(batch) == 3 and batch.label.tolist() == [0, 1, 2] and batch["pixels"] is batch.pixels
    assert batch.record_type is DIGIT and list(batch.arrays) == ["pixels", "label"] and "Digit[3]" in repr(batch)
    with pytest.raises(AttributeError, match="did you mean 'label'"):
        _ = batch.lable
    with pytest.raises(ArgumentError, match="R1001"):
        Batch(DIGIT, {**digit_arrays(3), "pixels": np.zeros((3, 4))})


def test_a_dataset_says_what_it_holds_and_is_its_own_copy() -> None:
    data = digits(5)
    assert repr(data) == "<Dataset[Digit] of 5 examples; pixels: [In] (4,), label: i64[] ()>"
    assert "shuffle(3, seed=0)" in repr(data.shuffle(3).batches(2)) and len(data.shuffle(3)) == 5
    assert copy.deepcopy(data) is data
