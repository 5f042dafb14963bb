"""Where the rows of a CSV file begin, and the cells of one: as Python's `csv` reads them, strictly, whatever a quoted cell contains."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

import numpy as np

from shapescript.runtime.arrays import Words
from shapescript.runtime.opened_file import OpenedFile

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
AT_ONCE = 1 << 22
LONGEST_LINE = 1 << 26
LINE_END, RETURN, QUOTE = 10, 13, b'"'


def row_starts(file: OpenedFile) -> Words:
    """The places at which rows begin, the header's first; blank lines are no rows. Each place takes 8 bytes; the rows aren't kept.

    Raises ValueError for a line that is longer than 64 MB, OSError.
    """
    place = len(BYTE_ORDER_MARK) if file.read(0, len(BYTE_ORDER_MARK)) == BYTE_ORDER_MARK else 0
    found: list[Words] = []
    while lines := _whole_lines(file, place):
        if QUOTE in lines:  # from here on a line's end may stand within a cell
            found.append(np.fromiter(_quoted_starts(file, place), np.int64))
            break
        found.append(_line_starts(lines) + place)
        place += len(lines)
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _whole_lines(file: OpenedFile, place: int) -> bytes:
    """Some lines from one's beginning on; the file's last one may lack its end."""
    size = AT_ONCE
    while True:
        data = file.read(place, size)
        end = data.rfind(b"\n") + 1
        if len(data) < size:
            return data
        if end:
            return data[:end]
        if size >= LONGEST_LINE:
            raise ValueError(f"a line of more than {LONGEST_LINE} bytes")
        size *= 2


def _line_starts(lines: bytes) -> Words:
    data = np.frombuffer(lines, np.uint8)
    ends = np.flatnonzero(data == LINE_END)
    if data[-1] != LINE_END:
        ends = np.append(ends, len(data))
    starts: Words = np.concatenate(([0], ends[:-1] + 1))
    lengths = ends - starts
    blank = (lengths == 0) | ((lengths == 1) & (data[starts] == RETURN))
    whole: Words = starts[~blank]
    return whole


def _quoted_starts(file: OpenedFile, place: int) -> Iterator[int]:
    lines = _Lines(file, place)
    reader = _reader(lines)
    while True:
        start = lines.place
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error:  # a malformed row is a row: the batch that needs it fails
            cells = [""]
        if cells:
            yield start


def _reader(lines: Iterable[str]) -> Iterator[list[str]]:
    """Python's, which by itself ends a cell at 131072 characters and takes the lines behind for rows: its limit is one of the process."""
    if csv.field_size_limit() < LONGEST_LINE:
        csv.field_size_limit(LONGEST_LINE)
    return csv.reader(lines, strict=True)


class _Lines:
    """The lines from a place on; `place` is where the next begins. Each byte is a character: none of UTF-8 contains a quote or a comma."""

    def __init__(self, file: OpenedFile, place: int) -> None:
        self.place = place
        self._lines = self._read(file, place)

    @staticmethod
    def _read(file: OpenedFile, place: int) -> Iterator[bytes]:
        while lines := _whole_lines(file, place):
            yield from io.BytesIO(lines)
            place += len(lines)

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.place += len(line)
        return line.decode("latin-1")


def cells_of(row: bytes) -> list[str]:
    """The cells of one row, which blank lines may follow. What isn't UTF-8 stands as lone surrogates.

    Raises ValueError that says in what way the row is malformed.
    """
    text = row.decode("utf-8", "surrogateescape")
    if '"' not in text:
        line = text.partition("\n")[0].removesuffix("\r")
        if "\r" in line:
            raise ValueError("a carriage return within a line; lines end with LF, or CR LF")
        return line.split(",")
    try:
        return next(_reader(io.StringIO(text, newline="\n")))
    except csv.Error as error:
        raise ValueError("a quote that isn't closed" if "unexpected end" in str(error) else f"{error}") from None


def line_at(file: OpenedFile, place: int) -> int:
    """The number of the line that begins at a place, the first being 1."""
    ends = sum(file.read(start, min(AT_ONCE, place - start)).count(b"\n") for start in range(0, place, AT_ONCE))
    return ends + 1
