"""Logs read back: as what was written, with a torn end told, and anything that is no log refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shapescript
from shapescript.runtime.csv_sink import csv
from shapescript.runtime.errors import DataError, DataFileMissing
from shapescript.runtime.jsonl import jsonl
from shapescript.runtime.read_log import read_log
from shapescript.runtime.sinks import LogSink, MemorySink

ROWS: list[dict[str, Any]] = [
    {"step": 1, "loss": 0.1, "ok": True, "note": "a,b\n"},
    {"step": -(2**63), "loss": -0.0, "ok": False, "note": 'say "hi"'},
    {"step": 2, "loss": math.nan, "ok": True, "note": ""},
    {"step": 3, "loss": math.inf, "ok": True, "note": "true"},
    {"step": 4, "loss": -math.inf, "ok": True, "note": "NaN"},
    {"step": 5, "loss": 1e16, "ok": True, "note": "12"},
    {"step": 6, "loss": 5e-324, "ok": True, "note": "é漢🙂"},
]
makers = pytest.mark.parametrize("make", [jsonl, csv], ids=["jsonl", "csv"])


def write(sink: LogSink, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        sink.write("Row", row)
    sink.close()


@makers
def test_records_come_back_as_memory_keeps_them(make: Any, tmp_path: Path) -> None:
    memory = MemorySink()
    write(memory, ROWS)
    write(make(tmp_path / "log"), ROWS)
    found = shapescript.read_log(tmp_path / "log")
    assert list(found) == memory.records and found.torn == b"" and isinstance(found, shapescript.Log)
    for name in ROWS[0]:
        assert [type(record[name]) for record in found] == [type(row[name]) for row in ROWS]


@makers
def test_a_column_of_floats_that_are_all_not_finite_is_one_of_floats(make: Any, tmp_path: Path) -> None:
    write(make(tmp_path / "log"), [{"loss": math.nan}, {"loss": math.inf}, {"loss": -math.inf}])
    assert [repr(record.loss) for record in read_log(tmp_path / "log")] == ["nan", "inf", "-inf"]


def test_what_the_string_nan_gives(tmp_path: Path) -> None:
    """CSV tells it from the number; JSON lines by the other records."""
    write(csv(tmp_path / "log.csv"), [{"note": "NaN"}, {"note": "NaN"}])
    assert [record.note for record in read_log(tmp_path / "log.csv")] == ["NaN", "NaN"]
    write(jsonl(tmp_path / "a"), [{"note": "NaN"}, {"note": "fine"}])
    assert [record.note for record in read_log(tmp_path / "a")] == ["NaN", "fine"]
    write(jsonl(tmp_path / "b"), [{"note": "NaN"}])
    assert math.isnan(read_log(tmp_path / "b")[0].note)


@makers
def test_a_log_cut_at_any_byte_gives_its_whole_records_and_tells_the_rest(make: Any, tmp_path: Path) -> None:
    path = tmp_path / "log"
    write(make(path), ROWS)
    whole, all_records = path.read_bytes(), read_log(path)
    sizes = []
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        found = read_log(path)
        assert len(found) < len(ROWS) and whole[:length].endswith(found.torn)
        assert [record.step for record in found] == [record.step for record in all_records[: len(found)]]
        sizes.append(len(found))
    assert sizes == sorted(sizes) and set(sizes) == set(range(len(ROWS)))


def test_arrays_and_notes_of_json_lines(tmp_path: Path) -> None:
    sink = jsonl(tmp_path / "log")
    sink.write("Row", {"w": np.array([[1.5, math.nan], [-math.inf, 0.0]], np.float32), "n": np.array([1, 2]), "b": np.array([True])})
    sink.note("error", "R1104: the loss is NaN")
    sink.close()
    row, note = read_log(tmp_path / "log")
    np.testing.assert_array_equal(row.w, [[1.5, math.nan], [-math.inf, 0.0]])
    assert (row.n.dtype, row.b.dtype) == (np.int64, np.bool_)
    assert (note.note, note.text) == ("error", "R1104: the loss is NaN")


@pytest.mark.parametrize("content", [b"", b"step,loss\n"])
def test_a_log_without_records(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(content)
    assert read_log(tmp_path / "log") == []


def test_csv_that_another_program_wrote(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b'"step","loss",name\r\n1,.5,abc\r\n+2,1e3,"x"\r\n3,NaN,\r\n')
    found = read_log(tmp_path / "log")
    assert [record.step for record in found] == [1, 2, 3] and [record.name for record in found] == ["abc", "x", ""]
    assert [found[0].loss, found[1].loss] == [0.5, 1000.0] and math.isnan(found[2].loss)


@makers
def test_a_byte_order_mark_that_an_editor_has_put_in_front_is_left_out(make: Any, tmp_path: Path) -> None:
    write(make(tmp_path / "log"), ROWS[:3])
    (tmp_path / "marked").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "log").read_bytes() + b"torn")
    assert list(read_log(tmp_path / "marked")) == list(read_log(tmp_path / "log"))
    assert read_log(tmp_path / "marked").torn == b"torn"


WRONG = {
    b'{"step": 1}\n[1]\n': 2,
    b'{"step": 1}\n\n{"step": 2}\n': 2,
    b'{"step": null}\n': 1,
    b'{"step": {"a": 1}}\n': 1,
    b'{"step": [[1], [1, 2]]}\n': 1,
    b'{"step": [null]}\n': 1,
    b'{"step"\n': 1,
    b'{"step": "\xff"}\n': 1,
    b'{"step": 1}\n{"step": ' + b"[" * 100_000 + b"\n": 2,
    b'{"step": ' + b"9" * 5000 + b"}\n": 1,
    b"step,loss\n1\n": 2,
    b"step,loss\n1,2,3\n": 2,
    b'step,note\n1,"a\nb"\n2,"x"y\n': 4,
    b"step\n\xff\n": 2,
    b"step,loss,step\n1,2,3\n": 1,
    b"\xff\n1\n": 1,
}


@pytest.mark.parametrize("content", WRONG, ids=lambda content: repr(content[:24]))
def test_what_is_no_log_is_refused_with_the_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(content)
    with pytest.raises(DataError, match=rf"R1202: .*log: line {WRONG[content]} is no record of a log"):
        read_log(tmp_path / "log")


def test_a_file_that_is_not_there_or_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataFileMissing, match="R1201"):
        read_log(tmp_path / "log")
    for path in (tmp_path, "a\0b"):
        with pytest.raises(DataError, match="R1202"):
            read_log(path)
