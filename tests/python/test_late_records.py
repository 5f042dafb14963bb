"""Records that wait in native code: they reach their sinks in order, before anything else shows, and nothing is lost or written twice."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from waiting_records import FOREVER, NEVER, let_wait

import shapescript
from shapescript.compiler.codegen import callbacks
from shapescript.compiler.codegen.late_records import ROOM_WORDS
from shapescript.compiler.codegen.lowering import GROW, POLL, START_WORKERS
from shapescript.runtime.sinks import MemorySink

PROGRAM = """
data Row:
    step: int
    loss: float
    half: bf16[]
    wide: f64[]
    ok: bool
    note: str

data Count:
    x: int

fn rows(sink: LogSink, steps: int):
    for step in 0..steps:
        x = float(step) * 0.1
        write(sink, Row(step=step, loss=x, half=bf16(x), wide=f64(step) / 3.0, ok=step % 3 == 0, note="a step"))

fn counts(sink: LogSink, steps: int):
    for step in 0..steps:
        write(sink, Count(x=step))

fn two(a: LogSink, b: LogSink, steps: int):
    for step in 0..steps:
        write(a, Count(x=step))
        if step % 2 == 0:
            write(b, Count(x=step))
        write(a, Row(step=step, loss=0.5, half=bf16(1.0), wide=f64(2.0), ok=true, note="again"))

fn flushes(sink: LogSink, steps: int):
    for step in 0..steps:
        write(sink, Count(x=step))
        if step % 10 == 9:
            flush(sink)

fn prints(sink: LogSink, steps: int):
    for step in 0..steps:
        write(sink, Count(x=step))
        if step % 10 == 9:
            print(step)

fn fails(sink: LogSink, x: [n]):
    for step in 0..100:
        write(sink, Count(x=step))
        if step == 70:
            write(sink, Count(x=int(max(x, over=n))))

fn own_sinks(turns: int) -> LogSink:
    last = memory()
    for turn in 0..turns:
        for step in 0..5:
            write(last, Count(x=10 * turn + step))
        kept = memory()
        for step in 0..5:
            write(kept, Count(x=step))
    return last
"""


class Script(shapescript.LogSink):
    """Says what is done to it to a list that several may share; may raise at one of its records."""

    kind = "script"

    def __init__(self, told: list[Any], name: str = "", raises: Mapping[int, BaseException] | None = None) -> None:
        self.told, self.name, self.raises, self.records = told, name, raises or {}, 0

    def write(self, record_name: str, fields: Mapping[str, Any]) -> None:
        self.records += 1
        if self.records in self.raises:
            raise self.raises[self.records]
        self.told.append((self.name, record_name, dict(fields)))

    def flush(self) -> None:
        self.told.append((self.name, "flush"))

    def note(self, kind: str, text: str) -> None:
        self.told.append((self.name, "note", text.partition(":")[0]))

    def position(self) -> dict[str, Any]:
        return {}

    def check_restore(self, position: Mapping[str, Any]) -> None: ...
    def restore(self, position: Mapping[str, Any]) -> None: ...


@pytest.fixture
def program(tmp_path: Path) -> Any:
    (tmp_path / "records.ss").write_text(PROGRAM)
    return shapescript.load(tmp_path / "records.ss")


@pytest.fixture
def reference(tmp_path: Path) -> Any:
    (tmp_path / "records.ss").write_text(PROGRAM)
    return shapescript.load(tmp_path / "records.ss", engine="numpy")


@pytest.fixture(params=[FOREVER, NEVER], ids=["waiting", "at once"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    let_wait(monkeypatch, request.param)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> None:
    let_wait(monkeypatch, FOREVER)


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What native code has asked Python for."""
    asked: list[int] = []
    answer = callbacks.Frame._answer

    def noted(frame: callbacks.Frame, request: int) -> None:
        if request not in (GROW, POLL, START_WORKERS):
            asked.append(request)
        answer(frame, request)

    monkeypatch.setattr(callbacks.Frame, "_answer", noted)
    return asked


@pytest.mark.usefixtures("either")
def test_records_of_every_kind_of_field_are_those_of_the_reference(program: Any, reference: Any) -> None:
    sinks = MemorySink(), MemorySink()
    program.rows(sinks[0], 50)
    reference.rows(sinks[1], 50)
    assert sinks[0].records == sinks[1].records and len(sinks[0].records) == 50
    assert [type(value) for value in sinks[0].records[7]] == [int, float, float, float, bool, str]


@pytest.mark.usefixtures("either")
def test_records_of_several_places_and_sinks_keep_their_order(program: Any, reference: Any) -> None:
    told: tuple[list[Any], list[Any]] = ([], [])
    for run, seen in zip((program, reference), told, strict=True):
        run.two(Script(seen, "a"), Script(seen, "b"), 30)
    assert told[0] == told[1] and len(told[0]) == 75


@pytest.mark.usefixtures("waits")
def test_waiting_records_leave_native_code_together(program: Any, requests: list[int]) -> None:
    sink, words = MemorySink(), 3  # of a record: the place, the sink, the count
    steps = 10 * (ROOM_WORDS // words)
    program.counts(sink, steps)
    assert [record.x for record in sink.records] == list(range(steps))
    assert len(requests) == 10  # the first record, and each that finds no room


def test_without_time_between_polls_every_record_is_written_at_once(
    program: Any, requests: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    let_wait(monkeypatch, NEVER)
    program.counts(MemorySink(), 100)
    assert len(requests) == 100


@pytest.mark.usefixtures("waits")
def test_each_place_writes_its_first_record_to_a_sink_at_once(program: Any, requests: list[int]) -> None:
    told: list[Any] = []
    program.two(Script(told, "a"), Script(told, "b"), 30)
    assert len(requests) == 3
    requests.clear()
    kept = program.own_sinks(20).records
    assert [record.x for record in kept] == [10 * turn + step for turn in range(20) for step in range(5)]
    made, first_of_kept = 1 + 20, 20
    first_of_last = 1 + 18  # asked again where a new sink has got the number of one that has gone: from the third turn on
    assert len(requests) == made + first_of_kept + first_of_last


@pytest.mark.usefixtures("either")
def test_what_waits_is_written_before_anything_else_shows(program: Any, capsys: pytest.CaptureFixture[str]) -> None:
    told: list[Any] = []
    program.flushes(Script(told), 40)
    assert [place for place, entry in enumerate(told) if entry[1] == "flush"] == [10, 21, 32, 43]

    class Printing(Script):
        def write(self, record_name: str, fields: Mapping[str, Any]) -> None:
            print("record", fields["x"])

    program.prints(Printing([]), 20)
    expected = [line for step in range(20) for line in ([f"record {step}"] + ([str(step)] if step % 10 == 9 else []))]
    assert capsys.readouterr().out.splitlines() == expected


@pytest.mark.usefixtures("either")
def test_a_record_that_cant_be_written_is_the_last(program: Any) -> None:
    told: list[Any] = []
    error = shapescript.LogError("R1401", "the disk is full")
    with pytest.raises(shapescript.LogError) as caught:
        program.counts(Script(told, raises={8: error}), 100)
    assert caught.value is error and error.span is not None
    assert PROGRAM.splitlines()[error.span.line - 1].strip() == "write(sink, Count(x=step))"
    assert [entry[2]["x"] for entry in told if entry[1] == "Count"] == list(range(7))


@pytest.mark.usefixtures("either")
def test_an_interrupt_leaves_no_gap(program: Any) -> None:
    told: list[Any] = []
    sink = Script(told, raises={8: KeyboardInterrupt()})
    with pytest.raises(KeyboardInterrupt):
        program.counts(sink, 100)
    assert [entry[2]["x"] for entry in told] == list(range(7))
    program.counts(sink, 3)  # the frame that the call used is whole
    assert [entry[2]["x"] for entry in told[7:]] == [0, 1, 2]


@pytest.mark.usefixtures("waits")
def test_an_interrupt_in_native_code_loses_nothing_that_waits(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, sink = callbacks.Frame._answer, MemorySink()

    def interrupted(frame: callbacks.Frame, request: int) -> None:
        if sink.records:  # the first record that finds no room: the others wait
            raise KeyboardInterrupt
        answer(frame, request)

    monkeypatch.setattr(callbacks.Frame, "_answer", interrupted)
    with pytest.raises(KeyboardInterrupt):
        program.counts(sink, ROOM_WORDS)
    assert [record.x for record in sink.records] == list(range(1 + ROOM_WORDS // 3))


@pytest.mark.usefixtures("either")
def test_what_a_failing_call_has_written_is_written(program: Any) -> None:
    told: list[Any] = []
    with pytest.raises(shapescript.ShapeScriptError, match="R1103"):
        program.fails(Script(told), np.zeros(0, np.float32))
    assert [entry[2]["x"] for entry in told if entry[1] == "Count"] == list(range(71))
    assert told[71:] == [("", "note", "R1103"), ("", "flush")]
