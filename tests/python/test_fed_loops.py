"""Loops over datasets of every kind, direct, composed and read by the host: both engines beside a loop over rows by hand."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from both_engines import Both
from fed_data import KINDS, Slow, open_threads, slow

import shapescript
from shapescript.compiler.codegen.memory import ARENAS
from shapescript.runtime.dataset import Dataset
from shapescript.runtime.feed import Feed

PROGRAM = """
data Row:
    x: [2]
    label: int
    weight: float
    kept: bool

data Seen:
    rows: int
    code: int
    first: float

data Counts:
    count: int
    total: int

fn see(ids: int[b], x: [b 2], sink: LogSink):
    write(sink, Seen(rows=b, code=int(sum(ids * (arange[b] + 1), over=b)), first=float(sum(x, over=(b, 2)))))

fn plain(data: Dataset[Row], size: int, drop: bool, start: int, sink: LogSink):
    for batch in data |> batches(size, drop_last=drop, start=start):
        see(batch.label, batch.x, sink)

fn shuffled(data: Dataset[Row], size: int, drop: bool, start: int, sink: LogSink):
    for batch in data |> shuffle(3, seed=1) |> batches(size, drop_last=drop, start=start):
        see(batch.label, batch.x, sink)

fn ahead(data: Dataset[Row], size: int, prefetch: int, sink: LogSink):
    for batch in data |> batches(size, prefetch=prefetch):
        see(batch.label, batch.x, sink)

fn total(data: Dataset[Row], size: int) -> float:
    mut found = 0.0
    for batch in data |> batches(size):
        found = found + float(sum(batch.weight, over=batch)) + float(int(any(batch.kept, over=batch)))
    return found

fn nested(data: Dataset[Row], other: Dataset[Row], go: bool, sink: LogSink):
    for epoch in 0..2:
        for batch in data |> shuffle(epoch) |> batches(5):
            for inner in data |> batches(4):
                see(inner.label, inner.x, sink)
            if go:
                for third in other |> shuffle(epoch + 1) |> batches(3, drop_last=true):
                    see(third.label, third.x, sink)
            see(batch.label, batch.x, sink)
    for batch in other |> batches(2):
        see(batch.label, batch.x, sink)

fn whole(data: Dataset[Row], sink: LogSink):
    write(sink, Counts(count=data.count, total=int(sum(data.all.label, over=rows))))
    part = data |> skip(1)
    write(sink, Counts(count=part.count, total=int(sum(part.all.label * part.all.label, over=rows))))

fn counted(data: Dataset[Row], turns: int) -> int:
    mut turn = 0
    while turn < turns and max(skip(data, turn % 2).all.label, over=rows) >= 0:
        turn = turn + 1
    return turn

fn fails_at(data: Dataset[Row], size: int, most: int, sink: LogSink):
    for batch in data |> batches(size):
        for inner in data |> batches(size):
            see(inner.label, inner.x, sink)
            k = 1 // (most - int(max(inner.label, over=inner)))
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    return Both(tmp_path_factory.mktemp("fed"), PROGRAM)


def columns(count: int) -> dict[str, Any]:
    rng = np.random.default_rng(count)
    weight = rng.standard_normal(count).astype(np.float32)
    return {
        "x": rng.standard_normal((count, 2)).astype(np.float32),
        "label": rng.integers(0, 1000, count),
        "weight": weight,
        "kept": weight > 0,
    }


def made(program: Any, kind: str, count: int) -> Any:
    return KINDS[kind][0](program.Row.dataset(**columns(count)))


def logged(both: Both, name: str, kind: str, count: int, *arguments: Any) -> list[Any]:
    """What both engines write, which is the same."""
    found = []
    for program in (both.native, both.reference):
        sink = shapescript.MemorySink()
        getattr(program, name)(made(program, kind, count), *arguments, sink)
        found.append(sink.records)
    assert found[0] == found[1]
    assert open_threads() == []
    return found[0]


def codes(records: list[Any]) -> list[tuple[int, int]]:
    return [(record["rows"], record["code"]) for record in records]


def by_hand(label: np.ndarray, size: int, drop: bool = False, start: int = 0) -> list[tuple[int, int]]:
    """A loop over rows, as one writes it in NumPy."""
    found = []
    for at in range(start, len(label), size):
        batch = label[at : at + size]
        if len(batch) == size or not drop:
            found.append((len(batch), int((batch * np.arange(1, len(batch) + 1)).sum())))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_batches_are_those_of_a_loop_over_rows(both: Both, kind: str) -> None:
    for count in (1, 2, 7, 40):
        label = KINDS[kind][1](columns(count)["label"])
        n = len(label)
        for size, drop in ((1, False), (4, True), (4, False), (64, False), (2**62, False)):
            for start in sorted({0, 1, n // 2, max(n - 1, 0), n}):
                wanted = by_hand(label, size, drop, start)
                if start == 0 and not wanted:
                    with pytest.raises(shapescript.DataError, match="R1102"):
                        logged(both, "plain", kind, count, size, drop, start)
                else:
                    assert codes(logged(both, "plain", kind, count, size, drop, start)) == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_shuffled_batches_begin_where_they_are_told(both: Both, kind: str) -> None:
    for count in (1, 13, 40):
        rows = np.arange(len(KINDS[kind][1](np.arange(count))))
        label = KINDS[kind][1](columns(count)["label"])[made(both.native, kind, count).shuffle(3, seed=1).rows(0, len(rows))]
        for size, drop, start in ((1, False, 0), (4, True, 1), (4, False, len(rows) // 2), (64, False, len(rows))):
            assert codes(logged(both, "shuffled", kind, count, size, drop, start)) == by_hand(label, size, drop, start)


@pytest.mark.parametrize("kind", KINDS)
def test_starts_and_sizes_outside_are_the_same_errors(both: Both, kind: str) -> None:
    n = len(KINDS[kind][1](np.arange(7)))
    for size, start, code in ((4, n + 1, "R1107"), (4, -1, "R1107"), (4, 2**62, "R1107"), (0, 0, "R1102"), (-2, 3, "R1102")):
        for name in ("plain", "shuffled"):
            for program in (both.native, both.reference):
                with pytest.raises(shapescript.DataError) as caught:
                    getattr(program, name)(made(program, kind, 7), size, False, start, shapescript.MemorySink())
                assert caught.value.code == code and caught.value.span is not None


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_dataset_has_no_batches(both: Both, kind: str) -> None:
    for program in (both.native, both.reference):
        for name in ("plain", "shuffled"):
            with pytest.raises(shapescript.DataError, match="R1102"):
                getattr(program, name)(made(program, kind, 0), 4, False, 0, shapescript.MemorySink())


@pytest.mark.parametrize("kind", KINDS)
def test_loops_in_loops_and_branches(both: Both, kind: str) -> None:
    for go in (True, False):
        found = []
        for program in (both.native, both.reference):
            sink = shapescript.MemorySink()
            program.nested(made(program, kind, 11), made(program, "composed", 9), go, sink)
            found.append(sink.records)
        assert found[0] == found[1] and len(found[0]) > 20
    assert open_threads() == []


@pytest.mark.parametrize("kind", KINDS)
def test_all_and_count_are_of_every_kind(both: Both, kind: str) -> None:
    label = KINDS[kind][1](columns(9)["label"])
    first, second = logged(both, "whole", kind, 9)
    assert (first["count"], first["total"]) == (len(label), label.sum())
    assert (second["count"], second["total"]) == (len(label) - 1, (label[1:] ** 2).sum())


class Watched(Slow):
    """Notes how many of the fields that it gave before are still there at each read."""

    def __init__(self, arrays: Any) -> None:
        super().__init__(arrays)
        self.given: list[weakref.ref[Any]] = []
        self.alive: list[int] = []

    def read(self, rows: Any, names: Any = None) -> dict[str, Any]:
        self.alive.append(sum(array() is not None for array in self.given))
        taken = super().read(rows, names)
        self.given += map(weakref.ref, taken.values())
        return taken


def test_what_a_condition_reads_is_let_go_of_in_each_turn(both: Both) -> None:
    for program in (both.native, both.reference):
        source = Watched(program.Row.dataset(**columns(9)).source)
        assert program.counted(Dataset.of_source(source), 12) == 12
        assert len(source.alive) == 12 and max(source.alive) <= 1


def test_only_fields_that_are_used_are_read_of_all(both: Both) -> None:
    for program in (both.native, both.reference):
        data = slow(program.Row.dataset(**columns(5)))
        program.whole(data, shapescript.MemorySink())
        assert isinstance(data.source, Slow) and data.source.fields_read == {"label"}


@pytest.mark.parametrize("prefetch", [0, 1, 7])
def test_reading_ahead_changes_nothing(both: Both, prefetch: int) -> None:
    label = columns(23)["label"]
    assert codes(logged(both, "ahead", "read", 23, 5, prefetch)) == by_hand(label, 5)
    assert codes(logged(both, "ahead", "direct", 23, 5, prefetch)) == by_hand(label, 5)


def test_reading_ahead_of_less_than_nothing_is_an_error(both: Both) -> None:
    for program in (both.native, both.reference):
        for kind in ("read", "direct"):
            with pytest.raises(shapescript.ArgumentError, match=r"R1004.*prefetch"):
                program.ahead(made(program, kind, 5), 2, -1, shapescript.MemorySink())


def test_many_chunks(both: Both) -> None:
    """More examples than are read at once, of composed data in memory and of files."""
    for kind in ("joined", "composed"):
        label = KINDS[kind][1](columns(3000)["label"])
        assert codes(logged(both, "plain", kind, 3000, 100, False, 50)) == by_hand(label, 100, False, 50)


def test_a_row_that_cannot_be_used_is_told_at_its_batch(both: Both) -> None:
    found = []
    for program in (both.native, both.reference):
        sink = shapescript.MemorySink()
        data = slow(program.Row.dataset(**columns(20)), unusable=[13])
        with pytest.raises(shapescript.DataError) as caught:
            program.plain(data, 4, False, 0, sink)
        assert caught.value.code == "R1204" and caught.value.span is not None and caught.value.span.line == 21
        found.append(sink.records)
    assert found[0] == found[1] and codes(found[0][:3]) == by_hand(columns(20)["label"][:12], 4)
    assert all("code" not in dir(record) for record in found[0][3:])  # the log may hold the error, but no batch
    assert open_threads() == []


def test_an_error_in_the_body_closes_all_feeds(both: Both) -> None:
    most = int(columns(20)["label"].max())
    for program in (both.native, both.reference):
        with pytest.raises(shapescript.ShapeScriptError, match="R1106"):
            program.fails_at(slow(program.Row.dataset(**columns(20))), 3, most, shapescript.MemorySink())
        assert open_threads() == []


def test_an_interrupt_closes_all_feeds(both: Both) -> None:
    class Interrupts(shapescript.MemorySink):
        def write(self, record_name: str, fields: Any) -> None:
            super().write(record_name, fields)
            if len(self.records) == 3:
                raise KeyboardInterrupt

    for program in (both.native, both.reference):
        with pytest.raises(KeyboardInterrupt):
            program.plain(slow(program.Row.dataset(**columns(40))), 4, False, 0, Interrupts())
        assert open_threads() == []
        sink = shapescript.MemorySink()
        program.plain(slow(program.Row.dataset(**columns(40))), 4, False, 0, sink)
        assert len(sink.records) == 10


def test_an_interrupt_while_a_feed_is_closed_leaves_none_open(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    """In native code: the reference evaluator asks for each batch, and opens no feed."""

    def interrupted(self: Feed, patience: float | None = 1.0) -> None:
        closed.append(self)
        close(self, patience)
        if len(closed) == 1:
            raise KeyboardInterrupt

    close, closed = Feed.close, list[Feed]()
    monkeypatch.setattr(Feed, "close", interrupted)
    with pytest.raises(KeyboardInterrupt):
        both.native.nested(made(both.native, "read", 9), made(both.native, "read", 9), True, shapescript.MemorySink())
    assert len(closed) == 2 and open_threads() == []


def test_one_compilation_serves_every_kind_and_a_steady_loop_asks_for_no_memory(tmp_path: Path) -> None:
    both = Both(tmp_path, PROGRAM)
    program = both.native
    for kind in KINDS:
        for count in (3, 50):
            both.native.total(made(program, kind, count), 8)
    assert len(vars(program)["_instances"]) == 1
    data = [made(program, kind, 50) for kind in KINDS]
    wanted = [program.total(one, 8) for one in data]
    grows, held = ARENAS.grows, ARENAS.bytes
    for _ in range(10):
        assert [program.total(one, 8) for one in data] == wanted
    assert (ARENAS.grows, ARENAS.bytes) == (grows, held)
    assert [both.reference.total(made(both.reference, kind, 50), 8) for kind in KINDS] == wanted
