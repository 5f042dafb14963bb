"""Reads logs back: JSON lines and CSV as records, with floats that aren't finite as floats."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

import numpy as np

from shapescript.runtime.csv_scan import BYTE_ORDER_MARK
from shapescript.runtime.errors import DataError, DataFileMissing, cause_of
from shapescript.runtime.files import regular_file
from shapescript.runtime.jsonl import whole_lines
from shapescript.runtime.log_lines import SPELLINGS
from shapescript.runtime.log_rows import cells_of, names_in, value_of, whole_rows
from shapescript.runtime.sinks import LogRecord

RECORD = "Record"  # what records are called that a file doesn't name

Fields = dict[str, Any]


class Log(list[LogRecord]):
    """The records of a log, oldest first. `torn` is what stood behind the last whole one, empty where nothing did."""

    def __init__(self, records: Iterable[LogRecord] = (), torn: bytes = b"") -> None:
        super().__init__(records)
        self.torn = torn


def read_log(path: str | os.PathLike[str]) -> Log:
    """The records of a log of JSON lines or CSV; a torn last one is left out, and is the result's `torn`.

    The strings "NaN", "Infinity" and "-Infinity" are floats in a field that is no text: where no record has another string in it. In a
    CSV file a cell in quotes is a string always, and one without is what it looks like. Raises DataFileMissing R1201; DataError R1202 for
    a file that can't be read or is no log, with the line's number.
    """
    shown = os.fspath(path)
    try:
        with regular_file(path).open("rb") as content:
            return _read(content, shown)
    except FileNotFoundError:
        raise DataFileMissing("R1201", f"{shown}: no such log", filename=str(shown)) from None
    except OSError as error:
        raise DataError("R1202", f"{shown}: the log can't be read: {cause_of(error)}") from error


def _read(content: BinaryIO, shown: str) -> Log:
    begin = len(BYTE_ORDER_MARK) if content.read(len(BYTE_ORDER_MARK)) == BYTE_ORDER_MARK else 0  # editors put one in front
    content.seek(begin)
    is_json = content.read(1) in (b"{", b"")
    content.seek(begin)
    pieces = list((whole_lines if is_json else whole_rows)(content))
    content.seek(begin + sum(map(len, pieces)))
    torn = content.read()
    place = 1

    def counted() -> Iterator[bytes]:
        nonlocal place
        for piece in pieces:
            yield piece
            place += piece.count(b"\n")

    try:
        found = list((_json_records if is_json else _csv_records)(counted()))
        _give_floats(found)
        return Log([LogRecord(RECORD, fields) for fields in found], torn)
    except (ValueError, TypeError, RecursionError) as error:
        raise DataError("R1202", f"{shown}: line {place} is no record of a log: {cause_of(error)}") from error


def _json_records(lines: Iterator[bytes]) -> Iterator[Fields]:
    for line in lines:
        fields = json.loads(line)
        if not isinstance(fields, dict):
            raise TypeError("it isn't an object")
        yield {name: _json_value(name, value) for name, value in fields.items()}


def _json_value(name: str, value: Any) -> Any:
    if isinstance(value, list):
        array = np.asarray(_with_floats(value))
        if array.dtype.kind not in "biufU":
            raise TypeError(f"`{name}` holds a list that is no array")
        return array
    if not isinstance(value, bool | int | float | str):
        raise TypeError(f"`{name}` holds no number, bool, string or array")
    return value


def _with_floats(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_floats(item) for item in value]
    return SPELLINGS.get(value, value) if isinstance(value, str) else value


class _Quoted(str):
    """A string that stood in quotes: it is one, whatever it looks like."""

    __slots__ = ()


def _csv_records(rows: Iterator[bytes]) -> Iterator[Fields]:
    names: list[str] = []
    for row in rows:
        if not names:
            names = names_in(row)
            if twice := [name for place, name in enumerate(names) if name in names[:place]]:
                raise ValueError(f"two columns are called {twice[0]!r}")
            continue
        cells = cells_of(row)
        if len(cells) != len(names):
            raise ValueError(f"it has {len(cells)} cells, the header has {len(names)}")
        yield {name: _csv_value(cell.decode(), quoted) for name, (cell, quoted) in zip(names, cells, strict=True)}


def _csv_value(text: str, quoted: bool) -> Any:
    return _Quoted(text) if quoted else value_of(text)


def _give_floats(records: list[Fields]) -> None:
    """Spellings become floats in the fields that hold no other string; strings become plain ones."""
    names: dict[str, None] = {name: None for fields in records for name in fields}
    for name in names:
        has_text = any(_is_text(fields.get(name)) for fields in records)
        change: Callable[[str], Any] = str if has_text else lambda text: SPELLINGS[text]
        for fields in records:
            if isinstance(fields.get(name), str):
                fields[name] = change(fields[name])


def _is_text(value: object) -> bool:
    return isinstance(value, _Quoted) or (isinstance(value, str) and value not in SPELLINGS)
