"""Sources: arrays, joined ones, chosen rows and parts give the rows that they are asked for, in new aligned arrays, and only those."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from runtime_samples import DIGIT, digit_arrays, digits
from source_samples import Computed

from shapescript.runtime.arrays import BF16, Array, rounded
from shapescript.runtime.dataset import Dataset
from shapescript.runtime.record import Field, RecordType
from shapescript.runtime.sources import Arrays, Chosen, Joined, Part, Source

SIZE = 12


def in_arrays(size: int = SIZE) -> Source:
    return digits(size).source


SOURCES: dict[str, tuple[Callable[[], Source], list[int]]] = {
    "arrays": (in_arrays, list(range(12))),
    "part of arrays": (lambda: Arrays(DIGIT, digit_arrays(20)).part(3, 15), list(range(3, 15))),
    "joined": (lambda: Joined([in_arrays(5), in_arrays(0), in_arrays(7)]), [*range(5), *range(7)]),
    "joined twice": (lambda: Joined([Joined([in_arrays(2), in_arrays(3)]), Joined([in_arrays(7)])]), [*range(2), *range(3), *range(7)]),
    "chosen": (lambda: Chosen(in_arrays(30), lambda places: 29 - 2 * places, 12), list(range(29, 5, -2))),
    "part": (lambda: Part(Computed(40), 20, 32), list(range(20, 32))),
    "part of joined": (lambda: Part(Joined([in_arrays(6), Computed(9)]), 2, 14), [*range(2, 6), *range(8)]),
    "chosen of a part": (lambda: Chosen(Part(Computed(40), 10, 30), lambda places: places % 4, 12), [10, 11, 12, 13] * 3),
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_gives_the_rows_that_it_is_asked_for(name: str) -> None:
    source, expected = SOURCES[name][0](), np.array(SOURCES[name][1])
    assert len(source) == SIZE and source.record is DIGIT
    for rows in ([], [0], [11], [3, 3, 3], list(range(12)), list(range(11, -1, -1)), [7, 0, 11, 0, 5, 4, 6]):
        taken = source.read(np.array(rows, np.int64))
        assert list(taken) == ["pixels", "label"] and taken["label"].tolist() == expected[rows].tolist()
        assert taken["pixels"].shape == (len(rows), 4) and taken["pixels"].dtype == np.float32
        assert all(array.flags.c_contiguous and array.flags.aligned for array in taken.values())
        assert not rows or all(array.ctypes.data % 64 == 0 for array in taken.values())


@pytest.mark.parametrize("name", SOURCES)
def test_fields_stay_together_and_can_be_read_alone(name: str) -> None:
    source = SOURCES[name][0]()
    rows = np.array([5, 1, 1, 11, 0])
    together = source.read(rows)
    for field in ("pixels", "label"):
        alone = source.read(rows, (field,))
        assert list(alone) == [field] and alone[field].tobytes() == together[field].tobytes()
    assert list(source.read(rows, ("label", "pixels"))) == ["pixels", "label"]


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize(("start", "stop"), [(0, 12), (0, 0), (12, 12), (4, 9), (5, 6), (11, 12), (0, 5), (5, 12)])
def test_a_column_is_a_piece_of_a_field(name: str, start: int, stop: int) -> None:
    source = SOURCES[name][0]()
    whole = source.read(np.arange(12))
    for field, array in whole.items():
        piece = source.column(field, start, stop)
        assert piece.flags.c_contiguous and piece.dtype == array.dtype and piece.shape == array[start:stop].shape
        assert piece.tobytes() == array[start:stop].tobytes()


@pytest.mark.parametrize("name", SOURCES)
def test_what_is_read_is_new_each_time(name: str) -> None:
    source = SOURCES[name][0]()
    first = source.read(np.arange(12))
    kept = {field: array.copy() for field, array in first.items()}
    for array in first.values():
        array[...] = 0
    again = source.read(np.arange(12))
    assert all(again[field].tobytes() == kept[field].tobytes() for field in kept)


def test_rows_lie_in_memory_where_all_parts_do() -> None:
    assert in_arrays().in_memory and Joined([in_arrays(), in_arrays()]).in_memory and Part(in_arrays(), 1, 3).in_memory
    for source in (Computed(3), Joined([in_arrays(), Computed(3)]), Part(Computed(3), 0, 1), Chosen(Joined([Computed(3)]), abs, 3)):
        assert not source.in_memory


def test_a_joined_source_asks_each_part_once_and_for_its_own_rows() -> None:
    parts = [Computed(4), Computed(0), Computed(6), Computed(5)]
    joined = Joined(parts)
    assert joined.read(np.array([14, 4, 0, 5, 10]))["label"].tolist() == [4, 0, 0, 1, 0]
    assert [part.reads for part in parts] == [[[0]], [], [[0, 1]], [[4, 0]]]
    assert joined.read(np.array([9, 9, 4]))["label"].tolist() == [5, 5, 0] and parts[0].reads == [[0]]


def every_element_type() -> tuple[RecordType, dict[str, Array]]:
    fields = (
        Field("a", "f32"),
        Field("b", "f64", ("X",), (2,)),
        Field("c", "bf16", ("X",), (3,)),
        Field("d", "i64"),
        Field("e", "bool", ("Y", "X"), (2, 2)),
    )
    draw = np.random.default_rng(1)
    arrays: dict[str, Array] = {
        "a": draw.standard_normal(7).astype(np.float32),
        "b": draw.standard_normal((7, 2)),
        "c": rounded(draw.standard_normal((7, 3)).astype(np.float32)),
        "d": np.arange(7) - 3,
        "e": draw.random((7, 2, 2)) < 0.5,
    }
    return RecordType("Mixed", fields), arrays


def test_every_element_type_goes_through_all_of_them() -> None:
    record, arrays = every_element_type()
    data = Dataset(record, arrays)
    composed = data.concat(data).skip(3).filter(np.arange(11) % 2 == 0)
    rows = np.array([3, 5, 0, 2, 4, 6])
    found = composed.all.columns
    assert all(found[name].dtype == array.dtype and found[name].tobytes() == array[rows].tobytes() for name, array in arrays.items())
    assert found["c"].dtype == BF16 and composed.all.c.dtype == np.float32
    assert composed.fingerprint() == Dataset(record, {name: array[rows] for name, array in arrays.items()}).fingerprint()


def test_windows_are_a_source_like_others() -> None:
    record = RecordType("Window", (Field("ids", "i64", ("Span",), (5,)),))
    windows = Dataset.of_windows(record, np.arange(20))
    assert windows.source.column("ids", 2, 5).tolist() == [list(range(first, first + 5)) for first in range(2, 5)]
    both = windows.take(3).concat(windows.skip(14))
    assert both.all.ids[:, 0].tolist() == [0, 1, 2, 14, 15] and both.all.ids[3].tolist() == [14, 15, 16, 17, 18]
