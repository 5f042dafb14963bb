"""Datasets made of datasets: the rows that they hold, what native code is told of them, fingerprints, and what they refuse."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from runtime_samples import DIGIT, digit_arrays, digits
from source_samples import computed, flat, same_rows_in_memory

from shapescript.runtime import fingerprints
from shapescript.runtime.dataset import Dataset
from shapescript.runtime.errors import ArgumentError, DataError
from shapescript.runtime.record import Field, RecordType

EVEN = np.arange(30) % 2 == 0


def order_of(data: Dataset) -> list[int]:
    """The rows of a dataset of 30 as a split gives them."""
    first, second = data.random_split(0.4, seed=8)
    return [*first.all.label.tolist(), *second.all.label.tolist()]


SPLIT = order_of(same_rows_in_memory(30))
MADE: dict[str, tuple[Callable[[Dataset], Dataset], list[int]]] = {
    "itself": (lambda data: data, list(range(30))),
    "part": (lambda data: data.part(4, 21), list(range(4, 21))),
    "part of a part": (lambda data: data.skip(4).take(20).part(3, 9), list(range(7, 13))),
    "nothing": (lambda data: data.take(0), []),
    "joined": (lambda data: data.concat(data.take(3), data.skip(28)), [*range(30), 0, 1, 2, 28, 29]),
    "joined with nothing": (lambda data: data.take(0).concat(data.take(5), data.take(0)), list(range(5))),
    "across a joint": (lambda data: data.concat(data).part(25, 35), [*range(25, 30), *range(5)]),
    "first of a split": (lambda data: data.random_split(0.4, seed=8)[0], SPLIT[:12]),
    "second of a split": (lambda data: data.random_split(0.4, seed=8)[1], SPLIT[12:]),
    "filtered": (lambda data: data.filter(EVEN), list(range(0, 30, 2))),
    "filtered to nothing": (lambda data: data.filter(EVEN & ~EVEN), []),
    "filtered twice": (lambda data: data.filter(EVEN).filter(np.arange(15) > 10), [22, 24, 26, 28]),
    "all of it": (lambda data: data.concat(data).filter(np.arange(60) >= 45).random_split(0.0)[1].skip(2), []),
}
MADE["all of it"] = (MADE["all of it"][0], MADE["all of it"][0](same_rows_in_memory(30)).all.label.tolist())


@pytest.mark.parametrize("name", MADE)
def test_a_composed_dataset_holds_its_rows_wherever_they_lie(name: str) -> None:
    make, expected = MADE[name]
    for data in (make(same_rows_in_memory(30)), make(computed(30)[0])):
        assert len(data) == len(expected) and data.record is DIGIT
        whole = data.all
        assert whole.label.tolist() == expected and (whole.pixels[:, 0] == expected).all() and whole.pixels.shape == (len(expected), 4)
        for start, stop in ((0, len(expected)), (len(expected) // 3, len(expected) // 2)):
            assert data.part(start, stop).all.label.tolist() == expected[start:stop]
        rows = np.arange(len(expected))[::-3]
        assert data.gather(rows).label.tolist() == np.array(expected, np.int64)[rows].tolist()
        if expected:
            assert flat(data.batches(4)) == expected
            assert flat(data.shuffle(1).batches(4)) == [expected[row] for row in data.shuffle(1).rows(0, len(expected))]


@pytest.mark.parametrize("name", MADE)
def test_a_composed_dataset_has_the_fingerprint_of_the_same_rows_in_arrays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, expected = MADE[name]
    rows = np.array(expected, np.int64)
    held = Dataset(DIGIT, {"pixels": (rows[:, None] + np.arange(4) / 4).astype(np.float32), "label": rows})
    for size in (1, 40, 1 << 22):
        monkeypatch.setattr(fingerprints, "CHUNK_BYTES", size)
        assert make(same_rows_in_memory(30)).fingerprint() == make(computed(30)[0]).fingerprint() == held.fingerprint()


def test_a_fingerprint_is_read_once() -> None:
    data, source = computed(30)
    first = data.fingerprint()
    reads = len(source.reads)
    assert data.fingerprint() == first and len(source.reads) == reads


def test_a_fingerprint_changes_with_each_value_row_and_type_and_with_nothing_else() -> None:
    arrays = digit_arrays(20)

    def changed(name: str, change: Callable[[Any], Any]) -> Dataset:
        return Dataset(DIGIT, {**arrays, name: change(arrays[name].copy())})

    def at(place: Any, value: float) -> Callable[[Any], Any]:
        def change(array: Any) -> Any:
            array[place] = value
            return array

        return change

    double = RecordType("Digit", (Field("pixels", "f64", ("In",), (4,)), Field("label", "i64")))
    renamed = RecordType("Digit", (Field("pixel", "f32", ("In",), (4,)), Field("label", "i64")))
    square = RecordType("Digit", (Field("pixels", "f32", ("A", "B"), (2, 2)), Field("label", "i64")))
    others = [
        changed("pixels", at((19, 3), 9.0)),
        changed("label", at(0, -1)),
        changed("label", lambda array: array[[1, 0, *range(2, 20)]]),
        Dataset(DIGIT, {name: array[[1, 0, *range(2, 20)]] for name, array in arrays.items()}),
        digits(21),
        digits(20).concat(digits(20).take(1)),
        digits(20).take(19),
        Dataset(double, {**arrays, "pixels": arrays["pixels"].astype(np.float64)}),
        Dataset(renamed, {"pixel": arrays["pixels"], "label": arrays["label"]}),
        Dataset(square, {**arrays, "pixels": arrays["pixels"].reshape(20, 2, 2)}),
    ]
    own = digits(20).fingerprint()
    assert len({own, *(other.fingerprint() for other in others)}) == len(others) + 1
    swapped = RecordType("Other", (Field("label", "i64"), Field("pixels", "f32", ("Width",), (4,))))
    whole = Dataset(swapped, arrays)
    assert whole.fingerprint() == own == whole.take(7).concat(whole.skip(7)).fingerprint()
    for _ in whole.batches(3, prefetch=8):
        pass
    assert whole.fingerprint() == own


def test_native_code_is_told_whether_it_finds_the_rows() -> None:
    data = same_rows_in_memory(9)
    for direct in (data, data.part(2, 7), data.skip(9), data.concat()):
        assert direct.block[:2].tolist() == [len(direct), 0] and not direct.fed and len(direct.arrays) == 2
    assert data.part(2, 7).block[2::2].tolist() == [data.block[2] + 2 * 16, data.block[4] + 2 * 8]
    for fed in (data.concat(data), data.filter(np.ones(9, bool)), *data.random_split(0.5), data.concat(data).take(3), computed(5)[0]):
        assert fed.block.tolist() == [len(fed), 1, 0, 16, 0, 8] and fed.fed and fed.arrays == () and not fed.block.flags.writeable
    assert copy.copy(computed(5)[0]).fed


def test_no_row_is_read_before_it_is_needed() -> None:
    data, source = computed(1000)
    made = data.concat(data.skip(10)).filter(np.arange(1990) % 2 == 0).random_split(0.3)[0].part(10, 200)
    ordered = made.shuffle(0).sample(10**6, 1).skip(100)
    assert (len(made), len(ordered)) == (190, 999_900) and source.reads == []
    assert made.gather(np.array([5])).label.tolist() == [source.reads[0][0]] and len(source.touched) == 1


def test_a_row_that_cannot_be_used_is_reported_where_it_is_needed() -> None:
    data, _ = computed(20, broken=[13])
    for needs in (lambda: data.all, data.fingerprint, lambda: data.gather(np.array([13])), lambda: data.batches(5).batch(2)):
        with pytest.raises(DataError, match=r"^R1204: made\.up: row 13"):
            needs()
    assert data.take(13).all.label.tolist() == list(range(13)) and len(data.filter(np.arange(20) != 13).all) == 19


@pytest.mark.parametrize(
    ("call", "code", "words"),
    [
        (lambda data: data.concat(data.all), "R1004", ["concat", "expected a dataset", "Batch"]),
        (lambda data: data.concat(data, data.shuffle(0)), "R1004", ["concat", "Ordered"]),
        (lambda data: data.filter([True] * 6), "R1004", ["filter: keep", "list"]),
        (lambda data: data.filter(np.ones(6)), "R1001", ["filter: keep", "bool", "float64"]),
        (lambda data: data.filter(np.arange(6)), "R1001", ["filter: keep", "bool", "int64"]),
        (lambda data: data.filter(np.ones(5, bool)), "R1002", ["filter: keep", "(6,)", "(5,)"]),
        (lambda data: data.filter(np.ones((6, 1), bool)), "R1002", ["filter: keep", "(6, 1)"]),
        (lambda data: data.filter(np.bool_(True)), "R1002", ["filter: keep", "()"]),
        (lambda data: data.part(0, 2.5), "R1004", ["part: stop"]),
    ],
)
def test_what_composing_refuses(call: Callable[[Dataset], Any], code: str, words: list[str]) -> None:
    for data in (same_rows_in_memory(6), computed(6)[0]):
        with pytest.raises(ArgumentError) as raised:
            call(data)
        assert raised.value.code == code and all(word in raised.value.message for word in words)


def test_datasets_of_other_records_are_not_joined() -> None:
    wide = RecordType("Digit", (Field("pixels", "f32", ("In",), (5,)), Field("label", "i64")))
    other = Dataset(wide, {"pixels": np.zeros((2, 5), np.float32), "label": np.arange(2)})
    with pytest.raises(ArgumentError, match=r"R1002: concat: expected a dataset of Digit\(pixels: \[In\] \(4,\).*\(5,\)"):
        digits().concat(digits(), other)


@pytest.mark.parametrize("fed", [False, True])
@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (4, 3), (0, 7), (7, 7)])
def test_places_outside_are_refused(fed: bool, start: int, stop: int) -> None:
    data = computed(6)[0] if fed else same_rows_in_memory(6)
    for examples in (data, data.shuffle(0), data.shuffle(0).shuffle(1)):
        with pytest.raises(DataError, match="R1107"):
            examples.part(start, stop)


def test_a_fed_dataset_says_what_it_is() -> None:
    data = same_rows_in_memory(3)
    assert repr(data.concat(data)) == "<Dataset[Digit] of 6 examples; pixels: [In] (4,), label: i64[] ()>"
    with pytest.raises(TypeError, match="pickled"):
        copy.copy(data.concat(data)).__reduce__()
