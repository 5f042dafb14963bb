"""CSV logs: one header, rows that read back as what was written, and records that must fit the columns."""

from __future__ import annotations

import csv as reader
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shapescript.runtime.csv_sink import CsvSink, csv
from shapescript.runtime.errors import ArgumentError, LogError
from shapescript.runtime.read_log import read_log

NASTY = [
    "",
    "a",
    "a,b",
    'say "hi"',
    "two\nlines",
    "cr\rlf\r\n",
    " spaced ",
    "é漢🙂",
    "NaN",
    "-Infinity",
    "true",
    "1",
    "-1.5e3",
    "\0",
    '"',
    '""',
    "a'b",
    "=1+1",
]


def rows_of(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(reader.reader(file, strict=True))


def test_the_columns_are_the_fields_in_order_and_the_header_comes_with_the_first_record(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    sink = csv(path)
    assert not path.exists() and sink.position()["bytes"] == 0
    sink.write("Row", {"step": 1, "loss": 2.5, "ok": True})
    assert path.read_bytes() == b"step,loss,ok\n1,2.5,true\n"
    sink.write("Row", {"step": 2, "loss": 2.0, "ok": False})
    assert path.read_bytes() == b"step,loss,ok\n1,2.5,true\n2,2.0,false\n"
    position = sink.position()
    assert (position["kind"], position["bytes"], position["records"]) == ("csv", path.stat().st_size, 2)


def test_an_empty_file_gets_the_header_once(tmp_path: Path) -> None:
    for append in (False, True):
        path = tmp_path / f"{append}.csv"
        path.write_bytes(b"")
        sink = csv(path, append)
        for step in (1, 2):
            sink.write("Row", {"step": step})
        assert path.read_bytes() == b"step\n1\n2\n"
        sink.close()
    assert len(list(tmp_path.iterdir())) == 2


def test_an_old_file_is_moved_aside(tmp_path: Path) -> None:
    for step in (1, 2):
        csv(tmp_path / "log.csv").write("Row", {"step": step})
    assert (tmp_path / "log.csv").read_bytes() == b"step\n2\n" and (tmp_path / "log.csv.1").read_bytes() == b"step\n1\n"


@pytest.mark.parametrize("fields", [{"loss": 1.0, "step": 1}, {"step": 1}, {"step": 1, "loss": 1.0, "lr": 0.5}, {"step": 1, "Loss": 1.0}])
@pytest.mark.parametrize("append", [False, True])
def test_a_record_with_other_fields_is_refused_with_both_lists(fields: dict[str, Any], append: bool, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    sink = csv(path)
    sink.write("Row", {"step": 0, "loss": 0.5})
    before = path.read_bytes()
    if append:
        sink.close()
        sink = csv(path, append=True)
    with pytest.raises(LogError, match="R1403") as raised:
        sink.write("Other", fields)
    assert "step, loss" in raised.value.message and f"Other with {', '.join(fields)}" in raised.value.message
    assert isinstance(raised.value, OSError) and path.read_bytes() == before
    sink.write("Row", {"step": 1, "loss": 0.25})
    assert path.read_bytes() == before + b"1,0.25\n"
    sink.close()
    assert list(tmp_path.iterdir()) == [path]


def test_floats_round_trip_and_what_is_not_finite_is_told_apart(tmp_path: Path) -> None:
    single = [np.float32(value) for value in (0.1, 1e-45, 3.4028235e38, 16777217.0, 1 / 3)]
    double = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0, 1e22, 1e16, 123456789012345680.0]
    values = [*single, *double, math.nan, math.inf, -math.inf, np.float32(np.nan)]
    sink = csv(tmp_path / "log.csv")
    for value in values:
        sink.write("Row", {"value": value})
    texts = [row[0] for row in rows_of(tmp_path / "log.csv")[1:]]
    assert texts[-4:] == ["NaN", "Infinity", "-Infinity", "NaN"]
    found = [float(text) for text in texts]
    assert [repr(number) for number in found] == [repr(float(value)) for value in values]
    assert all(np.float32(number).tobytes() == value.tobytes() for number, value in zip(found, single, strict=False))


def test_strings_are_quoted_by_the_rules_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    sink = csv(path)
    for place, text in enumerate(NASTY):
        sink.write("Row", {"text": text, "n": place})
        assert sink.position()["bytes"] == path.stat().st_size and sink.position()["records"] == place + 1
    assert rows_of(path) == [["text", "n"], *([text, str(place)] for place, text in enumerate(NASTY))]
    assert [(record.text, record.n) for record in read_log(path)] == [(text, place) for place, text in enumerate(NASTY)]


def test_a_row_of_one_empty_string_is_a_row(tmp_path: Path) -> None:
    sink = csv(tmp_path / "log.csv")
    for text in ("", "x", ""):
        sink.write("Row", {"text": text})
    assert rows_of(tmp_path / "log.csv") == [["text"], [""], ["x"], [""]]


def test_names_of_columns_are_quoted_where_they_must_be(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    sink = csv(path)
    fields = {"a,b": 1, 'c"d': 2, "e\nf": 3, "": 4}
    for _ in range(2):
        sink.write("Row", fields)
    sink.close()
    csv(path, append=True).write("Row", fields)
    assert rows_of(path) == [list(fields), *[["1", "2", "3", "4"]] * 3]


@pytest.mark.parametrize("value", [None, [1], np.zeros(2), "\ud800", 1j])
def test_what_no_cell_can_hold_is_refused_and_opens_nothing(value: object, tmp_path: Path) -> None:
    sink = csv(tmp_path / "log.csv")
    with pytest.raises(ArgumentError, match=r"R1004: Row\.x"):
        sink.write("Row", {"x": value})
    with pytest.raises(ArgumentError, match="R1004"):
        sink.write("Row", {})
    assert list(tmp_path.iterdir()) == []


APPENDED = b'step,note\n1,"a\nb"\n2,plain\n'
TORN = [b"3,", b"3", b'3,"half', b'3,"half\n', b'3,"half\nof\n', "3,é".encode()[:-1], b'3,"x"', b'3,"a""', b"3,x\r", b'"']


@pytest.mark.parametrize("torn", [b"", *TORN])
def test_appending_goes_on_behind_the_last_whole_row_and_keeps_the_rest_beside(torn: bytes, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(APPENDED + torn)
    sink = csv(path, append=True)
    assert path.read_bytes() == APPENDED + torn  # opening touches nothing
    assert sink.position()["bytes"] == len(APPENDED) and sink.position()["records"] == 2
    sink.write("Row", {"step": 3, "note": "new"})
    assert path.read_bytes() == APPENDED + b"3,new\n" and sink.position()["records"] == 3
    tails = [file.read_bytes() for file in tmp_path.glob("log.csv.tail.*")]
    assert tails == ([torn] if torn else [])


def test_appending_behind_a_torn_header_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b"step,no")
    csv(path, append=True).write("Row", {"step": 3, "note": "new"})
    assert path.read_bytes() == b"step,note\n3,new\n" and (tmp_path / "log.csv.tail.1").read_bytes() == b"step,no"


def test_a_header_that_another_program_wrote_is_known(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b'"step","note"\r\n1,a\r\n')
    csv(path, append=True).write("Row", {"step": 2, "note": "b"})
    assert rows_of(path) == [["step", "note"], ["1", "a"], ["2", "b"]]


def test_what_is_no_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b"\xff\xfe\x00junk\n")
    with pytest.raises(LogError, match="R1403"):
        CsvSink(path, append=True).write("Row", {"step": 2})
    assert path.read_bytes() == b"\xff\xfe\x00junk\n"
