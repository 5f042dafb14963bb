"""Orders, samples, splits, filters and joined datasets in programs: both engines beside the rows by hand, and what a run refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from both_engines import Both
from fed_data import KINDS

import shapescript
from shapescript.compiler.numerics.random import order
from shapescript.compiler.numerics.sampling import sampled_rows

PROGRAM = """
data Row:
    label: int
    weight: float

data Seen:
    rows: int
    code: int

fn see(ids: int[b], sink: LogSink):
    write(sink, Seen(rows=b, code=int(sum(ids * (arange[b] + 1), over=b))))

fn twice(data: Dataset[Row], k: int, sink: LogSink):
    for batch in data |> shuffle(k) |> shuffle(k + 1, seed=2) |> batches(4):
        see(batch.label, sink)

fn sampled_order(data: Dataset[Row], k: int, sink: LogSink):
    for batch in data |> shuffle(k) |> take(6) |> sample(9, k) |> batches(4):
        see(batch.label, sink)

fn shuffled_sample(data: Dataset[Row], k: int, sink: LogSink):
    for batch in data |> sample(9, k) |> skip(2) |> shuffle(k) |> part(1, 6) |> batches(4):
        see(batch.label, sink)

fn weighted(data: Dataset[Row], k: int, sink: LogSink):
    for batch in data |> sample(11, k, seed=5, weights=data.all.weight) |> batches(4):
        see(batch.label, sink)
    for batch in data |> shuffle(k) |> sample(5, k, weights=f64(data.all.weight)) |> batches(4, start=1):
        see(batch.label, sink)

fn parts(data: Dataset[Row], fraction: float, seed: int, sink: LogSink):
    first, second = random_split(data, fraction, seed=seed)
    both = concat(second, first, first)
    write(sink, Seen(rows=first.count, code=second.count))
    see(both.all.label, sink)
    few = both |> filter(both.all.label < 12)
    for batch in few |> shuffle(1) |> batches(5, drop_last=true, start=few.count % 2):
        see(batch.label, sink)
    none = few |> filter(few.all.label < 0)
    write(sink, Seen(rows=none.count, code=few.count))

fn chosen(data: Dataset[Row], epochs: int, sink: LogSink):
    mut seen = data |> shuffle(0)
    mut before = data |> shuffle(100)
    for epoch in 0..epochs:
        before = seen
        if epoch % 2 == 0:
            seen = data |> shuffle(epoch) |> shuffle(1)
        else:
            seen = data |> shuffle(epoch)
        for batch in before |> batches(7):
            see(batch.label, sink)
    for batch in seen |> batches(7):
        see(batch.label, sink)

fn resumed(data: Dataset[Row], done: int, at: int, epochs: int, stop: int, sink: LogSink) -> (int, int):
    mut seen = at
    mut last = done
    mut left = stop
    for epoch in done..epochs:
        for batch in data |> shuffle(epoch) |> batches(4, start=seen):
            if left > 0:
                see(batch.label, sink)
                seen = seen + batch.count
                left = left - 1
        if left > 0:
            last = epoch + 1
            seen = 0
    return last, seen
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    return Both(tmp_path_factory.mktemp("orders"), PROGRAM)


def columns(count: int) -> dict[str, Any]:
    return {"label": np.arange(count) * 3 % 17, "weight": (np.arange(count) % 4).astype(np.float32)}


def logged(both: Both, name: str, kind: str, count: int, *arguments: Any) -> list[Any]:
    found = []
    for program in (both.native, both.reference):
        sink = shapescript.MemorySink()
        getattr(program, name)(KINDS[kind][0](program.Row.dataset(**columns(count))), *arguments, sink)
        found.append(sink.records)
    assert found[0] == found[1]
    return [tuple(record) for record in found[0]]


def by_hand(label: Any, size: int, drop: bool = False, start: int = 0) -> list[tuple[int, int]]:
    pieces = [label[at : at + size] for at in range(start, len(label), size)]
    return [(len(one), int((one * np.arange(1, len(one) + 1)).sum())) for one in pieces if len(one) == size or not drop]


def drawn(weights: Any, seed: int, k: int, count: int) -> Any:
    """The definition, row by row."""
    from shapescript.compiler.numerics.philox import Domain, stream_words

    words = stream_words(seed, Domain.SAMPLE, k, 0, 2 * count).astype(np.uint64).reshape(count, 2)
    sums = []
    total = 0.0
    for weight in weights.tolist():
        total += weight
        sums.append(total)
    units = [float(int(high << np.uint64(32) | low) >> 11) * 2.0**-53 for high, low in words]
    return np.array([next(row for row, reached in enumerate(sums) if reached > unit * total) for unit in units])


@pytest.mark.parametrize("kind", KINDS)
def test_orders_of_orders(both: Both, kind: str) -> None:
    label = KINDS[kind][1](columns(15)["label"])
    n = len(label)
    for k in (0, 3, 2**62, -1):
        found = label[order(n, 0, k)][order(n, 2, (k + 1))]
        assert logged(both, "twice", kind, 15, k) == by_hand(found, 4)
        found = label[order(n, 0, k)][:6][sampled_rows(6, 0, k, 0, 9)]
        assert logged(both, "sampled_order", kind, 15, k) == by_hand(found, 4)
        found = label[sampled_rows(n, 0, k, 0, 9)][2:][order(7, 0, k)][1:6]
        assert logged(both, "shuffled_sample", kind, 15, k) == by_hand(found, 4)


@pytest.mark.parametrize("kind", KINDS)
def test_weighted_samples(both: Both, kind: str) -> None:
    label, weight = (KINDS[kind][1](columns(15)[name]) for name in ("label", "weight"))
    for k in (0, 5):
        shuffled = order(len(label), 0, k)
        first = label[drawn(weight, 5, k, 11)]
        second = label[shuffled][drawn(weight[shuffled], 0, k, 5)]
        assert logged(both, "weighted", kind, 15, k) == by_hand(first, 4) + by_hand(second, 4, start=1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.5, 1.0])
def test_splits_put_together_and_filtered(both: Both, kind: str, fraction: float) -> None:
    label = KINDS[kind][1](columns(21)["label"])
    first, second = KINDS[kind][0](both.native.Row.dataset(**columns(21))).random_split(fraction, 4)
    (size, rest), whole, *batches, (none, few) = logged(both, "parts", kind, 21, fraction, 4)
    assert size == int(np.floor(fraction * len(label) + 0.5)) and size + rest == len(label)
    parts = [np.asarray(part.all.label) for part in (first, second)]
    assert sorted(np.concatenate(parts)) == sorted(label)
    joined = np.concatenate([parts[1], parts[0], parts[0]])
    assert [whole] == by_hand(joined, len(joined))
    kept = joined[joined < 12]
    assert (none, few) == (0, len(kept))
    assert batches == by_hand(kept[order(len(kept), 0, 1)], 5, True, len(kept) % 2)


@pytest.mark.parametrize("kind", KINDS)
def test_orders_as_variables_that_change(both: Both, kind: str) -> None:
    label = KINDS[kind][1](columns(15)["label"])
    n = len(label)
    turns = [order(n, 0, epoch)[order(n, 0, 1)] if epoch % 2 == 0 else order(n, 0, epoch) for epoch in range(5)]
    wanted = [record for rows in (order(n, 0, 0), *turns) for record in by_hand(label[rows], 7)]
    assert logged(both, "chosen", kind, 15, 5) == wanted


def test_stopped_and_resumed_inside_of_an_epoch(both: Both) -> None:
    for kind in KINDS:
        for program in (both.native, both.reference):
            data = KINDS[kind][0](program.Row.dataset(**columns(15)))
            whole, parts = shapescript.MemorySink(), shapescript.MemorySink()
            assert program.resumed(data, 0, 0, 3, 1000, whole) == (3, 0)
            done, seen = 0, 0
            for _ in range(len(whole.records)):
                done, seen = program.resumed(data, done, seen, 3, 3, parts)
            assert parts.records == whole.records


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("parts", (1.5, 0), "R1109"),
        ("parts", (float("nan"), 0), "R1109"),
        ("parts", (0.5, -1), "R1004"),
        ("weighted", (1,), "R1113"),
    ],
)
def test_what_a_run_refuses(both: Both, name: str, arguments: tuple[Any, ...], code: str) -> None:
    for weights in ([0.0, 0.0, 0.0], [1.0, -1.0, 2.0], [1.0, np.inf, 2.0], [1.0, np.nan, 1.0]):
        messages = set()
        for program in (both.native, both.reference):
            data = program.Row.dataset(label=np.arange(3), weight=np.float32(weights))
            with pytest.raises(shapescript.ShapeScriptError) as caught:
                getattr(program, name)(data, *arguments, shapescript.MemorySink())
            assert caught.value.code == code and caught.value.span is not None
            messages.add(str(caught.value).split(": ", 1)[1])
        assert len(messages) == 1


def test_one_compilation_for_all_sizes(tmp_path: Path) -> None:
    program = Both(tmp_path, PROGRAM).native
    for kind in KINDS:
        for count in (9, 30):
            program.twice(KINDS[kind][0](program.Row.dataset(**columns(count))), 1, shapescript.MemorySink())
    assert len(vars(program)["_instances"]) == 1
