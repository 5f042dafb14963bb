"""Logs that are rolled back: whatever a crash leaves behind the checkpoint's place, a resumed log has each record once."""

from __future__ import annotations

import csv as reader
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.compat.proto.event_pb2 import Event

from shapescript.runtime.csv_sink import csv
from shapescript.runtime.errors import CheckpointError, LogError
from shapescript.runtime.event_frames import whole_frames
from shapescript.runtime.jsonl import jsonl
from shapescript.runtime.line_sink import LineSink
from shapescript.runtime.tensorboard_sink import FILE_NAME, tensorboard


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of files are made here; none has to be there after a loss of power."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)


NOTES = ["é", "two\nlines", 'say "hi", you', "漢🙂"]


def fields_of(step: int) -> dict[str, Any]:
    return {"step": step, "loss": 1.0 / (step + 1), "note": NOTES[step % len(NOTES)]}


def log(sink: LineSink, steps: range) -> None:
    for step in steps:
        sink.write("Row", fields_of(step))


def json_rows(path: Path) -> list[Any]:
    content = path.read_text("ascii")
    assert not content or content.endswith("\n")
    return [json.loads(line) for line in content.splitlines()]


def csv_rows(path: Path) -> list[Any]:
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(reader.reader(file, strict=True))
    assert not rows or (rows.count(["step", "loss", "note"]) == 1 and rows[0] == ["step", "loss", "note"])
    return [{"step": int(step), "loss": float(loss), "note": note} for step, loss, note in rows[1:]]


def event_rows(path: Path) -> list[Any]:
    """By the frames, each of which has a right checksum; test_sink_tensorboard.py has TensorBoard's own readers."""
    with path.open("rb") as file:
        frames = list(whole_frames(file))
    assert sum(map(len, frames)) == path.stat().st_size
    events = [Event.FromString(frame[12:-4]) for frame in frames]
    assert [event.file_version for event in events] == ["brain.Event:2", *[""] * (len(events) - 1)]
    found = []
    for event in events[1:]:
        values = {value.tag: value for value in event.summary.value}
        assert values["loss"].simple_value == np.float32(1.0 / (event.step + 1))
        found.append({"step": event.step, "loss": 1.0 / (event.step + 1), "note": values["note"].tensor.string_val[0].decode()})
    return found


@dataclass(frozen=True)
class Format:
    name: str
    make: Callable[[Path], LineSink]
    file: str
    tail: str
    rows: Callable[[Path], list[Any]]


FORMATS = [
    Format("jsonl", jsonl, "log", "log.tail.1", json_rows),
    Format("csv", csv, "log", "log.tail.1", csv_rows),
    Format("tensorboard", tensorboard, f"log/{FILE_NAME}", "log/events.tail.1", event_rows),
]
formats = pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)


@formats
@pytest.mark.parametrize("saved_after", [0, 2])
def test_a_log_cut_at_any_byte_behind_the_place_has_each_record_once(format: Format, saved_after: int, tmp_path: Path) -> None:
    sink = format.make(tmp_path / "log")
    log(sink, range(saved_after))
    saved = sink.position()
    log(sink, range(saved_after, saved_after + 2))
    sink.close()
    path = tmp_path / format.file
    whole = path.read_bytes()
    for length in range(saved["bytes"], len(whole) + 1):
        path.write_bytes(whole[:length])
        (tmp_path / format.tail).unlink(missing_ok=True)
        resumed = format.make(tmp_path / "log")
        resumed.restore(saved)
        tail = tmp_path / format.tail
        assert (tail.read_bytes() if tail.exists() else b"") == whole[saved["bytes"] : length]
        log(resumed, range(saved_after, saved_after + 3))
        resumed.close()
        assert format.rows(path) == [fields_of(step) for step in range(saved_after + 3)], length
    assert resumed.position()["records"] == saved_after + 3


@formats
def test_a_resumed_log_is_the_one_of_a_run_that_was_not_stopped(format: Format, tmp_path: Path) -> None:
    whole = format.make(tmp_path / "whole")
    log(whole, range(20))
    whole.close()
    stopped = format.make(tmp_path / "log")
    log(stopped, range(10))
    saved = stopped.position()
    log(stopped, range(10, 15))
    stopped.close()
    for stop in (12, 20):
        resumed = format.make(tmp_path / "log")
        resumed.restore(saved)
        assert resumed.position() == saved
        log(resumed, range(10 if stop == 12 else 12, stop))
        saved = resumed.position()
        resumed.close()
    wanted = tmp_path / format.file.replace("log", "whole", 1)
    assert (tmp_path / format.file).read_bytes() == wanted.read_bytes() and saved == whole.position()


@formats
def test_a_log_whose_file_is_gone_goes_on_in_a_new_one(format: Format, tmp_path: Path) -> None:
    stopped = format.make(tmp_path / "first")
    log(stopped, range(4))
    saved = stopped.position()
    resumed = format.make(tmp_path / "log")
    resumed.restore(saved)
    log(resumed, range(4, 6))
    later = resumed.position()
    log(resumed, range(6, 8))
    resumed.close()
    again = format.make(tmp_path / "log")
    again.restore(later)
    log(again, range(6, 7))
    again.close()
    assert format.rows(tmp_path / format.file) == [fields_of(step) for step in range(4, 7)] and again.position()["records"] == 7


@formats
def test_another_content_is_refused_and_nothing_changes(format: Format, tmp_path: Path) -> None:
    sink = format.make(tmp_path / "log")
    log(sink, range(3))
    saved = sink.position()
    sink.close()
    path = tmp_path / format.file
    whole = path.read_bytes()
    for length in range(1, len(whole)):
        path.write_bytes(whole[:length])
        for attempt in (format.make(tmp_path / "log").check_restore, format.make(tmp_path / "log").restore):
            with pytest.raises(CheckpointError, match="R1303"):
                attempt(saved)
        assert path.read_bytes() == whole[:length]
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(CheckpointError, match="R1303"):
            format.make(tmp_path / "log").restore(saved)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@formats
def test_other_kinds_of_positions_are_refused(format: Format, tmp_path: Path) -> None:
    for other in FORMATS:
        if other.name != format.name:
            with pytest.raises(CheckpointError, match="R1303"):
                format.make(tmp_path / "log").restore(other.make(tmp_path / "other").position())
    with pytest.raises(CheckpointError, match="R1302"):
        format.make(tmp_path / "log").restore({"kind": format.name, "bytes": -1})
    assert list(tmp_path.iterdir()) == []


@formats
def test_a_disk_that_is_full_leaves_whole_records_and_a_sink_that_goes_on(format: Format, tmp_path: Path) -> None:
    """The limit is that of each size in turn, so that it falls on every byte of the second record."""
    whole = format.make(tmp_path / "whole")
    log(whole, range(1))
    first = whole.position()["bytes"]
    log(whole, range(1, 2))
    second = whole.position()["bytes"]
    whole.close()
    module = "jsonl" if format.name == "jsonl" else f"{format.name}_sink"
    code = f"""
import resource
from shapescript.runtime.{module} import {format.name} as make
from shapescript.runtime.errors import LogError
for limit in range({first}, {second}):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    sink = make(f"at{{limit}}")
    sink.write("Row", {fields_of(0)!r})
    try:
        sink.write("Row", {fields_of(1)!r})
    except LogError as error:
        assert error.code == "R1401" and sink.position()["records"] == 1, error
    else:
        raise AssertionError(limit)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    sink.write("Row", {fields_of(2)!r})
    sink.close()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    for limit in range(first, second):
        assert format.rows(tmp_path / format.file.replace("log", f"at{limit}", 1)) == [fields_of(0), fields_of(2)], limit


@formats
def test_a_sink_that_was_closed_goes_on_and_sees_what_others_did(format: Format, tmp_path: Path) -> None:
    sink = format.make(tmp_path / "log")
    path = tmp_path / format.file
    log(sink, range(2))
    sink.close()
    log(sink, range(2, 3))
    sink.close()
    content = path.read_bytes()
    path.write_bytes(content)  # touched, and the same
    log(sink, range(3, 4))
    sink.close()
    assert format.rows(path) == [fields_of(step) for step in range(4)]
    content = path.read_bytes()
    changed = content[:30] + bytes([content[30] ^ 1]) + content[31:]
    for other in (content + b"more", content[:-1], changed, b""):
        path.write_bytes(other)
        with pytest.raises(LogError, match="R1402"):
            log(sink, range(4, 5))
        assert path.read_bytes() == other
    path.unlink()
    with pytest.raises(LogError, match="R1402"):
        log(sink, range(4, 5))
    path.write_bytes(content)
    log(sink, range(4, 5))
    assert format.rows(path) == [fields_of(step) for step in range(5)]


@pytest.mark.parametrize("make", [jsonl, csv], ids=["jsonl", "csv"])
def test_a_log_that_was_appended_to_is_restored_with_what_was_there(make: Any, tmp_path: Path) -> None:
    path = tmp_path / "log"
    old = make(path)
    log(old, range(2))
    old.close()
    sink = make(path, append=True)
    before = sink.position()
    log(sink, range(2, 4))
    saved = sink.position()
    log(sink, range(4, 6))
    sink.close()
    assert before == old.position() and saved["records"] == 4
    for position, records in ((saved, 4), (before, 2)):
        resumed = make(path, append=True)
        resumed.restore(position)
        resumed.close()
        rows = json_rows(path) if make is jsonl else csv_rows(path)
        assert rows == [fields_of(step) for step in range(records)]


@pytest.mark.parametrize("torn", [b'{"step": 3', "é".encode()[:1], b"{", b'{"step": 3}'])
def test_appending_to_json_lines_cuts_a_torn_line_off(torn: bytes, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"step": 1}\n' + torn)
    jsonl(path, append=True).write("Row", {"step": 2})
    assert path.read_bytes() == b'{"step": 1}\n{"step": 2}\n' and (tmp_path / "log.jsonl.tail.1").read_bytes() == torn
