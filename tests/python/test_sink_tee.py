"""A tee writes to several sinks, and to none of them what one refuses."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from shapescript.runtime.checkpoint import save_checkpoint
from shapescript.runtime.csv_sink import csv
from shapescript.runtime.errors import ArgumentError, CheckpointError, LogError
from shapescript.runtime.jsonl import jsonl
from shapescript.runtime.restore import restore
from shapescript.runtime.sinks import LogSink, MemorySink
from shapescript.runtime.tee_sink import TeeSink, tee


def log(sink: LogSink, first: int, last: int) -> None:
    for step in range(first, last + 1):
        sink.write("Row", {"step": step})


def test_every_sink_gets_every_record_note_and_flush(tmp_path: Path) -> None:
    memory, lines, rows = MemorySink(), jsonl(tmp_path / "a.jsonl"), csv(tmp_path / "b.csv")
    sink = tee(memory, tee(lines, rows))
    log(sink, 1, 2)
    sink.note("forced", "epochs is 3")
    sink.flush()
    assert [record["step"] for record in memory.records[:2]] == [1, 2]
    assert [memory.records[2].note, memory.records[2].text] == ["forced", "epochs is 3"]
    assert lines.path.read_text() == '{"step": 1}\n{"step": 2}\n{"note": "forced", "text": "epochs is 3"}\n'
    assert rows.path.read_text() == "step\n1\n2\n"
    sink.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.jsonl", "b.csv"]


def test_a_record_that_one_refuses_is_in_none(tmp_path: Path) -> None:
    memory, lines, rows = MemorySink(), jsonl(tmp_path / "a.jsonl"), csv(tmp_path / "b.csv")
    sink = tee(memory, lines, rows)
    log(sink, 1, 1)
    with pytest.raises(LogError, match="R1403"):
        sink.write("Other", {"x": 1})
    with pytest.raises(ArgumentError, match="R1004"):
        sink.write("Row", {"step": "\ud800"})  # JSON lines could write it
    holder = csv(tmp_path / "c.csv")
    holder.write("Row", {"step": 0})
    other = tee(memory, jsonl(tmp_path / "fresh.jsonl"), csv(tmp_path / "c.csv"))
    with pytest.raises(LogError, match="R1402"):
        log(other, 9, 9)
    assert [record.step for record in memory.records] == [1] and not (tmp_path / "fresh.jsonl").exists()
    assert (lines.path.read_text(), rows.path.read_text()) == ('{"step": 1}\n', "step\n1\n")


def test_all_go_back_together(tmp_path: Path) -> None:
    memory, lines, rows = MemorySink(), jsonl(tmp_path / "a.jsonl"), csv(tmp_path / "b.csv")
    sink = tee(memory, tee(lines, rows))
    log(sink, 1, 3)
    save_checkpoint(tmp_path / "run.pt", sink=sink)
    saved = sink.position()
    log(sink, 4, 6)
    sink.close()
    resumed = tee(MemorySink(), tee(jsonl(lines.path), csv(rows.path)))
    restore(tmp_path / "run.pt", {"sink": resumed})
    assert resumed.position() == saved
    log(resumed, 4, 4)
    assert lines.path.read_text().count("\n") == 4 and rows.path.read_text() == "step\n1\n2\n3\n4\n"
    sink_again = tee(memory, MemorySink())
    with pytest.raises(CheckpointError, match="R1303"):
        sink_again.restore(saved)


def test_a_restore_that_one_refuses_changes_none(tmp_path: Path) -> None:
    memory, rows = MemorySink(), csv(tmp_path / "b.csv")
    sink = tee(memory, rows)
    log(sink, 1, 3)
    saved = sink.position()
    log(sink, 4, 5)
    sink.close()
    rows.path.write_text("step\n1\n2\n4\n5\n")
    for attempt in (sink.check_restore, sink.restore):
        with pytest.raises(CheckpointError, match="R1303"):
            attempt(saved)
    assert len(memory.records) == 5 and memory.tail == [] and rows.path.read_text() == "step\n1\n2\n4\n5\n"


def test_what_a_tee_cannot_be_made_of(tmp_path: Path) -> None:
    sink = MemorySink()
    with pytest.raises(ArgumentError, match="at least one"):
        tee()
    with pytest.raises(ArgumentError, match="log sinks, got str"):
        tee("run.jsonl")  # type: ignore[arg-type]
    for parts in ((sink, sink), (sink, tee(sink)), (jsonl(tmp_path / "a"), csv(tmp_path / "a"))):
        with pytest.raises(ArgumentError, match="given twice"):
            tee(*parts)
    with pytest.raises(TypeError, match="can't be pickled or copied"):
        copy.deepcopy(tee(sink))


@pytest.mark.parametrize("sinks", [None, "x", [1], [{"kind": "memory"}, {"kind": "csv"}], [], [{"kind": ["memory"]}]])
def test_positions_of_other_sinks_and_what_are_none_are_refused(sinks: Any) -> None:
    with pytest.raises(CheckpointError) as raised:
        tee(MemorySink()).restore({"kind": "tee", "sinks": sinks})
    assert raised.value.code in ("R1302", "R1303")


def test_a_sink_of_ones_own_needs_no_more_than_before() -> None:
    class Plain(LogSink):
        kind = "plain"

        def __init__(self) -> None:
            self.seen: list[Any] = []

        def write(self, record_name: str, fields: Mapping[str, Any]) -> None:
            self.seen.append(dict(fields))

        def flush(self) -> None:
            self.seen.append("flush")

        def position(self) -> dict[str, Any]:
            return {"kind": self.kind}

        def check_restore(self, position: Mapping[str, Any]) -> None:
            self.check_kind(position)

        def restore(self, position: Mapping[str, Any]) -> None:
            self.seen.clear()

    plain = Plain()
    sink = TeeSink(plain, MemorySink())
    log(sink, 1, 1)
    sink.note("error", "R1104")
    sink.close()
    assert plain.seen == [{"step": 1}, "flush"]
    sink.restore(TeeSink(Plain(), MemorySink()).position())
    assert plain.seen == []
