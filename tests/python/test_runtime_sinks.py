"""Sinks: each record reaches the operating system at once, files are strict JSON, and a restored log has each record once."""

from __future__ import annotations

import copy
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shapescript.runtime.errors import ArgumentError, CheckpointError, LogError
from shapescript.runtime.jsonl import JsonLinesSink, jsonl
from shapescript.runtime.sinks import LogSink, MemorySink


def log(sink: LogSink, first: int, last: int) -> None:
    for step in range(first, last + 1):
        sink.write("StepLogs", {"step": step, "loss": 1.0 / step})


def steps_in(path: Path) -> list[int]:
    return [json.loads(line)["step"] for line in path.read_text().splitlines()]


def refused(sink: LogSink, position: dict[str, Any], kind: str = "value") -> CheckpointError:
    with pytest.raises(CheckpointError) as raised:
        sink.check_restore(position)
    assert raised.value.kind == kind
    with pytest.raises(CheckpointError):
        sink.restore(position)
    return raised.value


def test_a_memory_sink_keeps_records_with_their_fields_as_attributes() -> None:
    sink = MemorySink()
    sink.write("StepLogs", {"step": 1, "loss": np.float32(0.1), "ok": np.bool_(True), "note": "é"})
    record = sink.records[0]
    assert (record.step, record.loss, record.ok, record["note"]) == (1, float(np.float32(0.1)), True, "é")
    assert type(record.loss) is float and type(record.ok) is bool
    assert repr(record) == "StepLogs(step=1, loss=0.10000000149011612, ok=True, note='é')" and next(iter(record)) == 1
    with pytest.raises(AttributeError, match="did you mean 'loss'"):
        _ = record.los
    with pytest.raises(AttributeError, match="can't be changed"):
        record.loss = 2.0
    assert copy.deepcopy(record) == record and record != copy.copy(sink)


def test_fields_named_like_python_words_can_be_read() -> None:
    sink = MemorySink()
    sink.write("Log", {"class": 3, "_fields_": 1})
    assert getattr(sink.records[0], "class") == 3


@pytest.mark.parametrize("value", [None, object(), {1: 2}, [1], 1j, np.array(1j)])
def test_a_value_that_a_log_cannot_hold_is_refused(value: object, tmp_path: Path) -> None:
    for sink in (MemorySink(), jsonl(tmp_path / "log.jsonl")):
        with pytest.raises(ArgumentError, match=r"R1004: StepLogs\.loss: a log holds"):
            sink.write("StepLogs", {"step": 1, "loss": value})
        assert sink.position()["records"] == 0
    assert not (tmp_path / "log.jsonl").exists()


def test_lines_are_strict_json_and_floats_round_trip(tmp_path: Path) -> None:
    sink = jsonl(tmp_path / "log.jsonl")
    finite = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0, float(np.float32(0.1)), 2**53 + 1]
    values = [*finite, math.nan, math.inf, -math.inf, "é\n\x00\ud800", True]
    for value in values:
        sink.write("Log", {"value": value})
    sink.write("Log", {"value": np.array([[1.5, math.nan], [-math.inf, 2.0]], np.float32)})

    def forbidden(name: str) -> float:
        raise AssertionError(name)

    lines = (tmp_path / "log.jsonl").read_bytes().decode("ascii").splitlines()
    found = [json.loads(line, parse_constant=forbidden)["value"] for line in lines]
    assert found[7:10] == ["NaN", "Infinity", "-Infinity"] and found[12] == [[1.5, "NaN"], ["-Infinity", 2.0]]
    assert [repr(value) for value in found[:7] + found[10:12]] == [repr(value) for value in values[:7] + values[10:]]


def test_opening_touches_no_file_and_each_record_is_written_at_once(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    sink = jsonl(path)
    sink.flush()
    assert not path.exists() and sink.position() == {"kind": "jsonl", "bytes": 0, "records": 0, "hash": "00" * 16}
    for step in (1, 2, 3):
        log(sink, step, step)
        assert steps_in(path) == list(range(1, step + 1)) and sink.position()["bytes"] == path.stat().st_size


def test_the_first_write_moves_an_old_file_aside_and_never_over_another(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for run in (1, 2, 3):
        log(jsonl(path), run, run)
    assert [steps_in(tmp_path / name) for name in ("log.jsonl.1", "log.jsonl.2", "log.jsonl")] == [[1], [2], [3]]
    path.write_bytes(b"")
    log(jsonl(path), 4, 4)
    assert steps_in(path) == [4] and len(list(tmp_path.iterdir())) == 3


def test_a_relative_path_means_the_folder_in_which_the_sink_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    sink = jsonl("log.jsonl")
    monkeypatch.chdir(tmp_path / "elsewhere")
    log(sink, 1, 1)
    assert steps_in(tmp_path / "log.jsonl") == [1]


def test_a_link_is_followed_and_stays(tmp_path: Path) -> None:
    (tmp_path / "real.jsonl").write_text("{}\n")
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "real.jsonl")
    log(jsonl(tmp_path / "link.jsonl"), 1, 1)
    assert (tmp_path / "link.jsonl").is_symlink() and steps_in(tmp_path / "real.jsonl") == [1]
    assert (tmp_path / "real.jsonl.1").read_text() == "{}\n"


@pytest.mark.parametrize("place", ["missing/log.jsonl", ".", "pipe"])
def test_a_place_that_cannot_be_written_is_named_with_the_cause(tmp_path: Path, place: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    sink = jsonl(tmp_path / place)
    with pytest.raises(LogError) as raised:
        log(sink, 1, 1)
    assert raised.value.code == "R1401" and isinstance(raised.value, OSError)
    assert str(sink.path) in raised.value.message and sorted(tmp_path.iterdir()) == [tmp_path / "pipe"]


def run_limited(code: str, limit: int, folder: Path) -> str:
    """What a process prints that can write no file of more than `limit` bytes."""
    start = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
    done = subprocess.run([sys.executable, "-c", start + code], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_full_disk_leaves_whole_lines_and_the_sink_usable(tmp_path: Path) -> None:
    code = """
from shapescript.runtime.jsonl import jsonl
from shapescript.runtime.errors import LogError
sink = jsonl("log.jsonl")
for step in range(1, 9):
    try:
        sink.write("Log", {"step": step, "text": "x" * 20})
    except LogError as error:
        print(error.code, step, sink.position()["records"])
sink.write("Log", {"step": 9})
"""
    printed = run_limited(code, 100, tmp_path)
    assert printed.splitlines() == [f"R1401 {step} 2" for step in range(3, 9)]
    assert steps_in(tmp_path / "log.jsonl") == [1, 2, 9]


def sinks(tmp_path: Path) -> list[tuple[LogSink, Callable[[LogSink], list[int]]]]:
    path = tmp_path / "log.jsonl"
    return [(MemorySink(), lambda sink: [record.step for record in sink.records]), (jsonl(path), lambda _: steps_in(path))]


def test_a_sink_that_holds_more_is_cut_back_and_its_tail_is_kept(tmp_path: Path) -> None:
    for sink, steps in sinks(tmp_path):
        log(sink, 1, 10)
        saved = sink.position()
        log(sink, 11, 15)
        longer = sink.position()
        sink.check_restore(saved)
        assert steps(sink) == list(range(1, 16)) and sink.position() == longer
        sink.restore(saved)
        assert steps(sink) == list(range(1, 11)) and sink.position() == saved
        log(sink, 11, 20)
        assert steps(sink) == list(range(1, 21))
        if isinstance(sink, MemorySink):
            assert [record.step for record in sink.tail] == [11, 12, 13, 14, 15]
        sink.close()
    assert steps_in(tmp_path / "log.jsonl.tail.1") == [11, 12, 13, 14, 15]


def test_a_fresh_process_goes_on_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    whole, stopped = jsonl(tmp_path / "whole.jsonl"), jsonl(path)
    log(whole, 1, 20)
    log(stopped, 1, 10)
    saved = stopped.position()
    log(stopped, 11, 15)
    stopped.close()
    resumed = jsonl(path)
    resumed.restore(saved)
    assert resumed.position() == saved
    log(resumed, 11, 20)
    assert path.read_bytes() == (tmp_path / "whole.jsonl").read_bytes() and resumed.position() == whole.position()


def test_an_empty_sink_begins_at_the_position_and_ends_where_the_whole_run_does(tmp_path: Path) -> None:
    whole = MemorySink()
    log(whole, 1, 20)
    stopped = MemorySink()
    log(stopped, 1, 10)
    resumed = MemorySink()
    resumed.restore(stopped.position())
    assert resumed.position() == stopped.position()
    log(resumed, 11, 20)
    assert resumed.position() == whole.position() and [record.step for record in resumed.records] == list(range(11, 21))
    resumed.restore(stopped.position())
    assert resumed.records == [] and len(resumed.tail) == 10


def test_a_file_that_begins_at_a_position_can_be_restored_again(tmp_path: Path) -> None:
    stopped = jsonl(tmp_path / "first.jsonl")
    log(stopped, 1, 10)
    path = tmp_path / "second.jsonl"
    for leftover in (None, b""):
        if leftover is not None:
            path.write_bytes(leftover)
        resumed = jsonl(path)
        resumed.restore(stopped.position())
        log(resumed, 11, 13)
        saved = resumed.position()
        log(resumed, 14, 15)
        resumed.close()
        again = jsonl(path)
        again.restore(saved)
        log(again, 14, 14)
        assert steps_in(path) == [11, 12, 13, 14] and again.position()["records"] == 14
        again.close()
        refused(jsonl(path), stopped.position() | {"hash": "11" * 16})
        path.unlink()


def test_a_position_before_the_first_record_cuts_everything_off(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    fresh = jsonl(path).position()
    log(jsonl(path), 1, 2)
    resumed = jsonl(path)
    resumed.restore(fresh)
    assert path.read_bytes() == b"" and steps_in(tmp_path / "log.jsonl.tail.1") == [1, 2]
    log(resumed, 7, 7)
    assert steps_in(path) == [7]


def test_a_line_torn_at_any_byte_costs_at_most_that_record(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    sink = jsonl(path)
    log(sink, 1, 3)
    saved = sink.position()
    log(sink, 4, 4)
    sink.close()
    whole = path.read_bytes()
    for length in range(saved["bytes"], len(whole)):
        path.write_bytes(whole[:length])
        resumed = jsonl(path)
        resumed.restore(saved)
        log(resumed, 4, 6)
        assert steps_in(path) == [1, 2, 3, 4, 5, 6]
        resumed.close()


def test_a_sink_that_holds_anything_else_is_refused_and_untouched(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    sink = jsonl(path)
    log(sink, 1, 5)
    saved = sink.position()
    sink.close()
    content = path.read_bytes()
    lines = content.splitlines(keepends=True)
    shorter = [content[:-1], b"".join(lines[:4]), b"".join(lines[1:]), b"hello"]
    changed = [content.replace(b"0.5", b"0.6"), b"".join([lines[1], lines[0], *lines[2:]])]
    for other in shorter + changed:
        path.write_bytes(other)
        error = refused(jsonl(path), saved)
        assert str(path) in error.message and error.expected and error.found
        assert path.read_bytes() == other and list(tmp_path.iterdir()) == [path]
    memory = MemorySink()
    log(memory, 1, 4)
    refused(memory, {**MemorySink().position(), "bytes": 1, "records": 1})
    assert len(memory.records) == 4


def test_another_kind_of_sink_and_what_is_no_position_are_refused() -> None:
    position = MemorySink().position()
    error = refused(MemorySink(), {**position, "kind": "jsonl"})
    assert (error.expected, error.found) == ("memory", "jsonl")
    for wrong in ({"bytes": -1}, {"records": True}, {"records": "1"}, {"hash": "xyz"}, {"hash": 3}):
        refused(MemorySink(), {**position, **wrong}, "corrupt")


def test_a_restored_sink_refuses_a_folder_in_the_files_place(tmp_path: Path) -> None:
    sink = jsonl(tmp_path / "log.jsonl")
    log(sink, 1, 1)
    sink.close()
    (tmp_path / "log.jsonl").unlink()
    (tmp_path / "log.jsonl").mkdir()
    with pytest.raises(LogError, match="R1401"):
        jsonl(tmp_path / "log.jsonl").check_restore(sink.position())


def test_records_written_before_a_kill_are_in_the_file(tmp_path: Path) -> None:
    code = """
import os, signal
from shapescript.runtime.jsonl import jsonl
sink = jsonl("log.jsonl")
for step in range(1, 6):
    sink.write("Log", {"step": step})
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, timeout=60, check=False)
    assert steps_in(tmp_path / "log.jsonl") == [1, 2, 3, 4, 5]


def test_flush_makes_what_is_new_durable_and_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr("os.fsync", calls.append)
    sink = jsonl(tmp_path / "log.jsonl")
    counts = []
    for writes in (1, 0, 2, 0):
        log(sink, 1, writes)
        sink.flush()
        counts.append(len(calls))
    assert counts == [2, 2, 3, 3]


def test_a_file_sink_is_not_copied() -> None:
    with pytest.raises(TypeError, match="one file"):
        copy.deepcopy(JsonLinesSink("log.jsonl"))
