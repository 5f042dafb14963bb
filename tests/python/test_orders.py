"""Orders of what is stored and of what is ordered, and splits: functions of place, number, seed and count."""

from __future__ import annotations

import itertools
import math
import time
from typing import Any

import numpy as np
import pytest
from runtime_samples import digits
from source_samples import computed, labels, same_rows_in_memory

from shapescript.compiler.numerics.permutation import order, round_keys, split_keys
from shapescript.compiler.numerics.philox import Domain, stream_words, words_at
from shapescript.compiler.numerics.sampling import sampled_rows, sampled_rows_at
from shapescript.runtime.dataset import split_size
from shapescript.runtime.errors import ArgumentError, DataError
from shapescript.runtime.orders import DRAWS, ON_HOST, PERMUTATION, Ordered

# ---- places alone and together


def orders(count: int = 50) -> dict[str, Ordered]:
    data = digits(count)
    weights = np.arange(count, dtype=np.float32) ** 2
    return {
        "shuffled": data.shuffle(3, seed=1),
        "part": data.shuffle(3, seed=1).part(7, 41),
        "sampled": data.sample(75, 2),
        "weighted": data.sample(60, 1, weights=weights),
        "shuffled twice": data.shuffle(0).shuffle(1),
        "sample of a part of a shuffle": data.shuffle(0).take(20).sample(70, 4),
        "shuffle of a sample": data.sample(33, 0, seed=9).skip(3).shuffle(5),
        "weighted sample of a part": data.shuffle(2).skip(30).sample(40, 0, weights=weights),
        "shuffle of a fed dataset": computed(40)[0].shuffle(1),
    }


@pytest.mark.parametrize("name", list(orders()))
def test_any_places_of_an_order_can_be_had_alone_and_in_any_order(name: str) -> None:
    ordered = orders()[name]
    whole = ordered.rows(0, len(ordered))
    assert whole.dtype == np.int64 and len(whole) == len(ordered)
    for start, count in ((0, 0), (0, 1), (5, 9), (len(ordered) - 1, 1), (len(ordered), 0)):
        assert ordered.rows(start, count).tolist() == whole[start : start + count].tolist()
    some = np.random.default_rng(0).integers(0, len(ordered), 200)
    assert ordered.rows_at(some).tolist() == whole[some].tolist() and ordered.rows_at(some[:0]).tolist() == []
    part = ordered.part(4, 13)
    assert part.rows(0, 9).tolist() == whole[4:13].tolist() and part.rows_at(np.array([8, 0])).tolist() == whole[[12, 4]].tolist()
    assert ordered.take(4).rows(0, 4).tolist() == whole[:4].tolist()
    assert ordered.skip(30).rows(0, len(ordered) - 30).tolist() == whole[30:].tolist()


def test_an_order_of_an_order_is_that_order_of_its_places() -> None:
    data = digits(30)
    inner = data.shuffle(0).take(20)
    rows, outer = inner.rows(0, 20), order(20, 5, 3)
    assert inner.shuffle(3, seed=5).rows(0, 20).tolist() == rows[outer].tolist()
    assert inner.sample(9, 2, seed=1).rows(0, 9).tolist() == rows[sampled_rows(20, 1, 2, 0, 9)].tolist()
    twice = inner.sample(9, 2, seed=1).shuffle(0)
    assert twice.rows(0, 9).tolist() == rows[sampled_rows(20, 1, 2, 0, 9)][order(9, 0, 0)].tolist()
    assert sorted(inner.shuffle(1).shuffle(2).shuffle(3).rows(0, 20).tolist()) == sorted(rows.tolist())


def test_elements_of_a_stream_and_of_a_sample_can_be_had_in_any_order() -> None:
    elements = np.random.default_rng(3).integers(0, 2000, 500)
    whole = stream_words(7, Domain.SAMPLE, 5, 0, 2000)
    assert words_at(7, Domain.SAMPLE, 5, elements.astype(np.uint64)).tolist() == whole[elements].tolist()
    far = np.array([2**40 + 3, 2**40, 2**40 + 99], np.uint64)
    assert words_at(7, Domain.ORDER, 5, far).tolist() == stream_words(7, Domain.ORDER, 5, 2**40, 100)[[3, 0, 99]].tolist()
    places = elements // 2
    assert sampled_rows_at(1437, 7, 5, places).tolist() == sampled_rows(1437, 7, 5, 0, 1000)[places].tolist()


# ---- what native code reads


def test_native_code_computes_the_orders_of_direct_datasets_by_itself() -> None:
    data = digits(20)
    assert data.shuffle(3, seed=4).block.tolist() == [20, PERMUTATION, 3, 4, 0]
    assert data.shuffle(3, seed=4).part(5, 12).skip(1).block.tolist() == [6, PERMUTATION, 3, 4, 6]
    assert data.sample(50, -1).skip(10).block.tolist() == [40, DRAWS, -1, 0, 10]
    assert data.part(2, 9).shuffle(0).block.tolist() == [7, PERMUTATION, 0, 0, 0]
    assert not data.shuffle(0).fed and not data.shuffle(0).block.flags.writeable


def test_only_the_host_knows_composed_weighted_and_fed_orders() -> None:
    data, weights = digits(20), np.ones(20)
    composed = [data.shuffle(0).shuffle(1), data.shuffle(0).sample(3, 0), data.sample(3, 0).shuffle(0), data.sample(3, 0, weights=weights)]
    fed = [source.shuffle(0) for source in (computed(20)[0], data.concat(data), data.filter(weights > 0), data.random_split(0.5)[0])]
    fed += [computed(20)[0].sample(4, 1), computed(20)[0].shuffle(0).take(5)]
    for ordered in (*composed, *fed, *(each.take(2) for each in composed)):
        assert ordered.block[:2].tolist() == [len(ordered), ON_HOST] and ordered.fed


# ---- the numbers that orders are made by


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda data: data.shuffle(1.0), "shuffle: k"),
        (lambda data: data.shuffle(2**63), "shuffle: k"),
        (lambda data: data.shuffle(0, seed=-1), "shuffle: seed"),
        (lambda data: data.shuffle(0).shuffle("0"), "shuffle: k"),
        (lambda data: data.sample(-1, 0), "sample: count"),
        (lambda data: data.sample(1, None), "sample: k"),
        (lambda data: data.shuffle(0).sample(1, 0, seed=True), "sample: seed"),
        (lambda data: data.shuffle(0).take("1"), "take: count"),
        (lambda data: data.skip(0.5), "skip: count"),
        (lambda data: data.random_split(1.5), "random_split: fraction"),
        (lambda data: data.random_split(math.nan), "random_split: fraction"),
        (lambda data: data.random_split("0.5"), "random_split: fraction"),
        (lambda data: data.random_split(0.5, seed=-1), "random_split: seed"),
        (lambda data: data.batches(4, start=1.0), "batches: start"),
        (lambda data: data.batches(4, prefetch=-1), "batches: prefetch"),
        (lambda data: data.batches(4, prefetch=True), "batches: prefetch"),
        (lambda data: data.batches(4, drop_last=1), "batches: drop_last"),
        (lambda data: data.shuffle(0).batches(0), "batches: size"),
        (lambda data: data.batches(4).batch("0"), "batch: index"),
    ],
)
def test_a_number_that_is_none_is_named(call: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=f"R1004: {words}: expected"):
        call(digits(10))


def test_an_empty_dataset_can_be_ordered_but_not_sampled() -> None:
    empty = digits(0)
    for ordered in (empty.shuffle(0), empty.shuffle(0).shuffle(1), empty.shuffle(0).take(0)):
        assert len(ordered) == 0 and ordered.rows(0, 0).tolist() == []
    for examples in (empty, digits(4).shuffle(0).take(0)):
        for weights in (None, np.ones(len(examples.dataset))):
            with pytest.raises(DataError, match=r"^R1102: .*no example to draw"):
                examples.sample(1, 0, weights=weights)
    assert len(digits(4).sample(0, 0)) == 0 == len(digits(4).sample(0, 0).shuffle(0))


def test_what_an_order_is_can_be_read() -> None:
    data = digits(9)
    composed = data.shuffle(3).take(5).sample(7, 0, seed=2, weights=np.ones(9)).batches(2, start=4, prefetch=0)
    words = ".shuffle(3, seed=0).part(0, 5).sample(7, 0, seed=2, weights=…).batches(2, start=4, prefetch=0)"
    assert repr(composed) == f"<Digit dataset{words}, 2 batches>"
    assert repr(data.concat(data).shuffle(0)) == "<Digit dataset.shuffle(0, seed=0), 18 examples>"
    assert repr(data.batches(2, drop_last=True)) == "<Digit dataset.batches(2, drop_last=True), 4 batches>"


# ---- splits


@pytest.mark.parametrize("count", [0, 1, 2, 3, 10, 101])
@pytest.mark.parametrize("fraction", [0, 0.0, 0.05, 0.25, 0.5, 0.95, 1, 1.0])
def test_a_split_is_two_disjoint_parts_of_the_declared_size(count: int, fraction: float) -> None:
    first, second = same_rows_in_memory(count).random_split(fraction, seed=3)
    assert len(first) == split_size(count, fraction) == math.floor(fraction * count + 0.5)
    assert sorted([*first.all.label.tolist(), *second.all.label.tolist()]) == list(range(count))


def test_a_split_depends_on_seed_and_count_alone_and_not_on_orders() -> None:
    def first(count: int = 40, seed: int = 0) -> list[int]:
        made: list[int] = same_rows_in_memory(count).random_split(0.5, seed=seed)[0].all.label.tolist()
        return made

    assert first() == first() == computed(40)[0].random_split(0.5)[0].all.label.tolist()
    assert first(seed=1) != first() and first(41) != first()
    for k, seed in itertools.product(range(20), range(3)):
        assert split_keys(seed).tolist() != round_keys(seed, k).tolist()
    words = {*split_keys(0).tolist()}
    assert not words & {word for k in range(50) for word in round_keys(0, k).tolist()}
    smaller, larger = (set(same_rows_in_memory(40).random_split(f)[0].all.label.tolist()) for f in (0.25, 0.5))
    assert smaller < larger


# ---- ten million rows


def test_ten_million_rows_begin_at_once_and_read_no_more_than_they_need() -> None:
    count, at = 10_000_000, 9_900_032
    data, source = computed(count)
    begun = time.perf_counter()
    for examples in (data, data.shuffle(3), data.shuffle(1).shuffle(2), data.sample(count, 0), data.random_split(0.999)[0].shuffle(0)):
        source.reads.clear()
        iterator = iter(examples.batches(64, start=at, prefetch=2))
        first = next(iterator).label.tolist()
        iterator.close()  # type: ignore[attr-defined]  # a generator
        assert first == examples.batches(64).batch(at // 64).label.tolist()
        assert 64 <= sum(map(len, source.reads)) <= 64 * (1 + 2 + 1) + 64
    assert time.perf_counter() - begun < 30  # some 0.2 s; a list of all places would take longer than this


def test_the_first_batch_at_a_place_is_that_of_the_whole_loop() -> None:
    for name, examples in orders().items():
        every = labels(examples.batches(4))
        for start in range(0, len(examples), 4):
            assert labels(examples.batches(4, start=start)) == every[start // 4 :], name
