"""Feeds: the same batches whatever is read ahead, faults where they belong, and no thread that outlives its loop."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from source_samples import Computed, computed, contents, readers, same_rows_in_memory

from shapescript.runtime import feed as feeds
from shapescript.runtime.arrays import Array
from shapescript.runtime.dataset import Dataset
from shapescript.runtime.errors import DataError
from shapescript.runtime.examples import Examples
from shapescript.runtime.feed import Feed

DEPTHS = [0, 1, 2, 3, 8, 1000]


def taken(feed: Feed, start: int, end: int) -> list[tuple[int, list[int]]]:
    """What a loop takes: the places and the labels of each piece."""
    pieces = []
    while start < end:
        count, arrays = feed.take(start)
        assert all(len(array) == count for array in arrays)
        pieces.append((start, arrays[1].tolist()))
        start += count
    return pieces


MADE: dict[str, Callable[[Dataset], Examples]] = {
    "stored": lambda data: data,
    "shuffled": lambda data: data.shuffle(2, seed=3),
    "part of a sample": lambda data: data.sample(90, 1).skip(11),
    "shuffled twice": lambda data: data.shuffle(1).take(70).shuffle(2),
    "concatenated": lambda data: data.take(20).concat(data.skip(40), data),
    "split": lambda data: data.random_split(0.7)[0],
    "filtered": lambda data: data.filter(np.arange(len(data)) % 3 != 1).shuffle(0),
}


@pytest.mark.parametrize("made", MADE)
def test_batches_do_not_depend_on_where_rows_lie_nor_on_what_is_read_ahead(made: str) -> None:
    expected = contents(MADE[made](same_rows_in_memory(100)).batches(7))
    for depth in (None, *DEPTHS):
        assert contents(MADE[made](computed(100)[0]).batches(7, prefetch=depth)) == expected
    assert not readers()


@pytest.mark.parametrize("chunk", [1, 3, 8, 10_000])
def test_batches_do_not_depend_on_the_size_of_chunks(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = same_rows_in_memory(50)
    composed = data.concat(data).shuffle(1)
    expected = contents(composed.batches(4))
    monkeypatch.setattr(feeds, "CHUNK_ROWS", chunk)
    monkeypatch.setattr("shapescript.runtime.rows_ahead.ROWS_AHEAD", chunk)
    assert contents(composed.batches(4)) == expected
    assert contents(computed(50)[0].concat(computed(50)[0]).shuffle(1).batches(4, prefetch=9)) == expected


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(("size", "start", "end"), [(1, 0, 20), (3, 0, 20), (3, 5, 17), (20, 0, 20), (50, 0, 20), (7, 19, 20)])
def test_pieces_are_whole_batches_or_reach_the_end(depth: int, size: int, start: int, end: int) -> None:
    data, source = computed(20)
    feed = Feed(data, size, start, end, depth)
    pieces = taken(feed, start, end)
    feed.close()
    assert [label for _, piece in pieces for label in piece] == list(range(start, end))
    assert all((place - start) % size == 0 for place, _ in pieces)
    assert all(len(piece) <= max(1, depth // 2) * size for _, piece in pieces)
    assert source.threads <= ({"shapescript-feed"} if depth else {"MainThread"})
    assert sum(map(len, source.reads)) == end - start


def test_arrays_are_aligned_and_in_the_order_of_the_fields() -> None:
    for data in (computed(10)[0], same_rows_in_memory(5).concat(same_rows_in_memory(5))):
        count, (pixels, label) = Feed(data, 4, 0, 10, 0).take(0)
        assert pixels.shape == (count, 4) and pixels.dtype == np.float32 and label.dtype == np.int64
        assert pixels.ctypes.data % 64 == 0 == label.ctypes.data % 64 and pixels.flags.c_contiguous


def test_what_lies_in_memory_is_read_by_chunks_and_without_a_thread() -> None:
    data = same_rows_in_memory(3000)
    feed = Feed(data.concat(data).shuffle(0), 10, 0, 6000)
    assert [len(piece) for _, piece in taken(feed, 0, 6000)] == [1020] * 5 + [900] and not readers()
    wide = Feed(data.concat(data), 2000, 0, 6000, 4)
    assert [len(piece) for _, piece in taken(wide, 0, 6000)] == [2000] * 3 and not readers()


@pytest.mark.parametrize("depth", DEPTHS[1:])
def test_at_most_so_many_batches_are_read_ahead(depth: int) -> None:
    data, source = computed(10_000)
    feed = Feed(data, 2, 0, 10_000, depth)
    start = 0
    for _ in range(5):
        start += feed.take(start)[0]
        assert max(source.touched) < start + 2 * (depth + max(1, depth // 2))
    feed.close()
    assert max(source.touched) < start + 2 * (depth + max(1, depth // 2))


# ---- faults


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("broken", [0, 4, 37, 39])
@pytest.mark.parametrize("size", [1, 5, 40, 64])
def test_a_broken_row_is_reported_at_the_batch_that_needs_it(depth: int, broken: int, size: int) -> None:
    data, _ = computed(40, broken=[broken])
    given: list[list[int]] = []
    with pytest.raises(DataError, match=f"R1204: made.up: row {broken} is broken"):
        for batch in data.batches(size, prefetch=depth):
            given.append(batch.label.tolist())  # what came before the fault
    before = broken // size
    assert given == [list(range(at * size, at * size + size)) for at in range(before)]
    assert not readers()


def test_a_broken_row_is_reported_at_its_batch_among_chunks_in_memory_too() -> None:
    """A chunk of what lies in memory can't fail, but one that is joined from it and a file read at once can."""
    joined = same_rows_in_memory(30).concat(computed(30, broken=[7])[0])
    for depth in DEPTHS:
        given = []
        with pytest.raises(DataError, match="row 7 is broken"):
            for batch in joined.batches(4, prefetch=depth):
                given.append(batch.label.tolist())
        assert len(given) == 9 and given[-1] == [2, 3, 4, 5]


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_fault_comes_again_when_it_is_asked_for_again(depth: int) -> None:
    feed = Feed(computed(20, broken=[6])[0], 3, 0, 20, depth)
    start = 0
    with pytest.raises(DataError):
        while True:
            start += feed.take(start)[0]
    assert start == 6
    for _ in range(3):
        with pytest.raises(DataError, match="row 6 is broken"):
            feed.take(6)
    feed.close()


class Failing(Computed):
    """A source that fails in ways of its own."""

    def __init__(self, size: int, failure: Exception) -> None:
        super().__init__(size)
        self._failure = failure

    def read(self, rows: Array, names: object = None) -> dict[str, Array]:
        if (rows >= 6).any():
            raise self._failure
        return super().read(rows)


@pytest.mark.parametrize("depth", [0, 1, 8])
@pytest.mark.parametrize("failure", [OSError("gone"), MemoryError("much"), StopIteration("odd"), ValueError("bad")])
def test_whatever_a_source_raises_reaches_the_loop(depth: int, failure: Exception) -> None:
    feed = Feed(Dataset.of_source(Failing(20, failure)), 3, 0, 20, depth)
    start = 0
    with pytest.raises(RuntimeError if isinstance(failure, StopIteration) else type(failure)):
        while True:
            start += feed.take(start)[0]
    assert start == 6
    feed.close()


class Careless(Computed):
    def read(self, rows: Array, names: object = None) -> dict[str, Array]:
        return {**super().read(rows), "label": rows.astype(np.int32)}


@pytest.mark.parametrize("depth", [0, 2])
def test_arrays_that_do_not_fit_reach_no_loop(depth: int) -> None:
    with pytest.raises(TypeError, match="a source gave int32"):
        Feed(Dataset.of_source(Careless(9)), 2, 0, 9, depth).take(0)


def test_places_are_asked_for_in_their_order() -> None:
    for depth in (0, 2):
        feed = Feed(computed(9)[0], 4, 0, 9, depth)
        with pytest.raises(ValueError, match="place 4 is asked for, and 0"):
            feed.take(4)
        taken(feed, 0, 9)
        with pytest.raises(ValueError, match="place 9 is asked for"):
            feed.take(9)
        feed.close()
        with pytest.raises(ValueError, match="closed"):
            feed.take(9)
