"""What goes wrong with data elsewhere, as what must hold here: one test or more for each report (44 to 51)."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

import numpy as np
import pytest
from runtime_samples import DIGIT, digit_arrays, digits
from source_samples import Computed, computed, contents, flat, labels, readers, same_rows_in_memory

from shapescript.runtime.arrays import Array
from shapescript.runtime.dataset import Dataset
from shapescript.runtime.errors import DataError
from shapescript.runtime.feed import Feed
from shapescript.runtime.orders import Ordered
from shapescript.runtime.record import Field, RecordType

DEPTHS = [0, 1, 4, 8]
WINDOW = RecordType("Window", (Field("ids", "i64", ("Span",), (5,)),))


def stored(count: int, kind: str) -> Dataset:
    """Rows that are their own numbers, where they may lie."""
    memory = same_rows_in_memory(count)
    if kind == "composed":
        return memory.take(count // 2).concat(memory.skip(count // 2))
    return memory if kind == "memory" else computed(count)[0]


def kinds(count: int) -> dict[str, Ordered]:
    """The same in an order of their own."""
    return {kind: stored(count, kind).shuffle(1) for kind in ("memory", "file", "composed")}


# ---- 44: workers share one random state


def test_rows_and_orders_are_the_same_whatever_is_read_ahead_and_differ_between_epochs() -> None:
    epochs = []
    for epoch in range(3):
        runs = {tuple(map(tuple, labels(computed(64)[0].shuffle(epoch).batches(4, prefetch=depth)))) for depth in DEPTHS}
        (run,) = runs
        assert sorted(itertools.chain.from_iterable(run)) == list(range(64))
        epochs.append(run)
    assert len(set(epochs)) == 3


# ---- 45: every epoch has the same order


def test_an_epoch_is_a_pure_function_of_its_number() -> None:
    def epoch(k: int) -> list[list[int]]:
        return labels(same_rows_in_memory(40).shuffle(k, seed=5).batches(8))

    alone = epoch(3)
    full = [epoch(k) for k in range(5)]
    assert full[3] == alone and all(one != other for one, other in itertools.combinations(full, 2))
    assert all(sorted(itertools.chain.from_iterable(each)) == list(range(40)) for each in full)


# ---- 46: running or inspecting validation data changes training


@pytest.mark.parametrize("kind", ["memory", "file", "composed"])
def test_looking_at_other_data_in_between_changes_no_batch(kind: str) -> None:
    expected = contents(kinds(30)[kind].batches(4))
    found = []
    train, other = kinds(30)[kind], kinds(22)[kind]
    next(iter(train.batches(4)))
    for batch in train.batches(4):
        found.append((batch.pixels.tobytes(), batch.label.tobytes()))
        assert len(list(other.batches(5))) == 5
        assert len(train.batches(4).batch(2)) == 4 and len(train.shuffle(9).sample(3, 0).batches(2)) == 2
        other.dataset.random_split(0.5)
        other.dataset.fingerprint()
    assert found == expected


# ---- 47: fewer rows than one batch with drop_last; length off by one


@pytest.mark.parametrize("kind", ["memory", "file", "composed"])
@pytest.mark.parametrize("drop_last", [False, True])
def test_a_length_is_what_is_iterated_and_no_loop_is_silently_empty(kind: str, drop_last: bool) -> None:
    places = list(range(10))
    for count, size in itertools.product(range(10), range(1, 5)):
        examples = stored(count, kind)
        for start in range(count + 1):
            batches = examples.batches(size, drop_last=drop_last, start=start)
            end = start + (count - start) // size * size if drop_last else count
            expected = [places[at : min(at + size, end)] for at in range(start, end, size)]
            assert len(batches) == len(expected)
            if count == 0 or (start == 0 and not expected):
                with pytest.raises(DataError) as raised:
                    iter(batches)
                assert raised.value.code == "R1102" and ("empty" if count == 0 else "0 batches per epoch") in raised.value.message
                continue
            assert labels(batches) == expected
            assert [batches.batch(index).label.tolist() for index in range(len(batches))] == expected
            for index in (-1, len(batches)):
                with pytest.raises(DataError, match="R1107: batch: index"):
                    batches.batch(index)


@pytest.mark.parametrize("kind", ["memory", "file", "composed"])
def test_a_start_outside_of_the_examples_is_refused(kind: str) -> None:
    for start in (-1, 11, 2**62):
        with pytest.raises(DataError, match=f"R1107: batches: start: place {start} of a dataset that has 10 examples"):
            kinds(10)[kind].batches(3, start=start)
    assert labels(kinds(10)[kind].batches(3, start=10)) == [] == labels(kinds(10)[kind].batches(3, drop_last=True, start=8))


def test_three_rows_are_no_batch_of_four() -> None:
    with pytest.raises(DataError, match="3 examples, fewer than one batch of 4, and drop_last is true: 0 batches per epoch"):
        iter(digits(3).batches(4, drop_last=True))


# ---- 48: an exception in the prefetch thread


@pytest.mark.parametrize("depth", DEPTHS)
def test_batches_before_a_malformed_row_are_used_and_then_it_is_named(depth: int) -> None:
    given: list[int] = []
    with pytest.raises(DataError, match=r"R1204: made\.up: row 37"):
        for batch in computed(64, broken=[37])[0].batches(4, prefetch=depth):
            given += batch.label.tolist()
    assert given == list(range(36)) and not readers()


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_loop_over_broken_data_can_be_begun_again_behind_it(depth: int) -> None:
    data, _ = computed(64, broken=[37])
    assert flat(data.batches(4, start=40, prefetch=depth)) == list(range(40, 64))
    assert flat(data.take(36).batches(4, prefetch=depth)) == list(range(36))


# ---- 49: a checkpoint stores the producer's position


class Gated(Computed):
    """Reads only as often as it is let."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.gate = threading.Semaphore(0)

    def read(self, rows: Array, names: Any = None) -> dict[str, Array]:
        self.gate.acquire()
        return super().read(rows, names)


@pytest.mark.parametrize("depth", [1, 2, 8])
def test_slow_producers_and_slow_consumers_change_no_batch(depth: int) -> None:
    expected = labels(same_rows_in_memory(50).shuffle(2).batches(4))
    slow = Gated(50)
    found = []
    iterator = iter(Dataset.of_source(slow).shuffle(2).batches(4, prefetch=depth))
    for _ in expected:
        slow.gate.release()  # the consumer waits for each read
        found.append(next(iterator).label.tolist())
    assert found == expected and next(iterator, None) is None
    data, source = computed(50)
    feed, start, slowly = Feed(data.shuffle(2), 4, 0, 50, depth), 0, []
    while start < 50:
        count, arrays = feed.take(start)
        ahead = min(50, start + count + 4 * depth)
        while sum(map(len, source.reads)) < ahead and readers():  # until the producer is as far ahead as it may be
            time.sleep(0)
        slowly += arrays[1].tolist()
        start += count
    feed.close()
    assert slowly == list(itertools.chain.from_iterable(expected))


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("kind", ["file", "composed"])
def test_a_place_counts_what_was_used_so_a_stopped_loop_goes_on_exactly(kind: str, depth: int) -> None:
    whole = flat(kinds(50)[kind].batches(4))
    for stops in ((1,), (2, 3, 3), (5, 12)):
        seen: list[int] = []
        for stop in (*stops, 13):
            examples = kinds(50)[kind]
            for batch in examples.batches(4, start=len(seen), prefetch=depth):
                seen += batch.label.tolist()
                if len(seen) >= 4 * stop:
                    break
        assert seen == whole and not readers()


# ---- 50: fast-forward takes hours


def test_resuming_at_99_percent_of_ten_million_rows_reads_the_batch_alone() -> None:
    data, source = computed(10_000_000)
    ordered, at = data.shuffle(7, seed=3), 9_900_000
    first = next(iter(ordered.batches(50, start=at, prefetch=0))).label.tolist()
    assert source.reads == [ordered.rows(at, 50).tolist()] == [first]


def test_composed_data_in_memory_reads_a_chunk_and_not_all() -> None:
    data = same_rows_in_memory(100_000)
    count, (_, label) = Feed(data.concat(data).shuffle(0), 64, 150_016, 200_000).take(150_016)
    assert count == 1024 == len(label)


# ---- 51: a host array that is shared, then changed by the caller


@pytest.mark.parametrize("count", [10, 300_000])
def test_what_callers_do_to_their_arrays_afterwards_changes_nothing(count: int) -> None:
    arrays = digit_arrays(count)
    kept = {name: array.copy() for name, array in arrays.items()}
    keep, weights = np.arange(count) % 3 == 0, np.arange(count, dtype=np.float64)
    data = Dataset(DIGIT, arrays)
    windows = Dataset.of_windows(WINDOW, values := np.arange(count + 4))
    composed = data.concat(data)
    filtered, drawn = data.filter(keep), data.sample(20, 0, weights=weights)
    rows = drawn.rows(0, 20).tolist()
    loop = iter(composed.batches(4, prefetch=3))
    first = next(loop)
    for array in (*arrays.values(), keep, weights, values):
        array[...] = 0
    assert drawn.rows(0, 20).tolist() == rows and filtered.all.label.tolist() == kept["label"][::3].tolist()
    assert windows.all.ids[-1].tolist() == list(range(count - 1, count + 4))
    whole = np.concatenate([first.pixels, *(batch.pixels for batch in itertools.islice(loop, 40))])
    assert whole.tobytes() == np.concatenate([kept["pixels"]] * 2)[: len(whole)].tobytes()


def test_a_batch_that_was_given_cannot_be_written_and_stays_what_it_was() -> None:
    for examples in kinds(40).values():
        batches = list(examples.batches(4))
        before = contents(batches)
        with pytest.raises(ValueError, match="read-only"):
            batches[0].pixels[...] = 0
        assert contents(examples.batches(4)) == before == contents(batches)
