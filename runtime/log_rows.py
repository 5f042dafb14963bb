"""Rows of CSV files as logs write and read them.

Cells stand between commas; one with a comma, a quote or a line break in it is quoted, its quotes doubled. A string that would read as
something else is quoted too: a number, `true`, `false`, `NaN`, or nothing. So every cell reads back as what it was.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np

from shapescript.runtime.errors import ArgumentError
from shapescript.runtime.log_lines import SPELLINGS, plain_value, spelled

TRUTH = {"true": True, "false": False}
_INT = re.compile(r"[+-]?\d+", re.ASCII)
_FLOAT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_MOST_DIGITS = 4000  # of an int; Python refuses to read more at once
_CELL = re.compile(rb'(?:"([^"]*(?:""[^"]*)*)"|((?:[^,"][^,]*)?))(,|\Z)', re.DOTALL)


def encode_row(cells: Iterable[str]) -> bytes:
    """A row with its newline, in UTF-8."""
    return (",".join(cells) + "\n").encode()


def header_cells(names: Iterable[str]) -> list[str]:
    return [_quoted(name) if _needs_quotes(name) or not name else name for name in names]


def record_cells(record_name: str, fields: Mapping[str, Any]) -> list[str]:
    """Raises ArgumentError R1004 for a field that is no number, bool or string."""
    return [_cell(f"{record_name}.{name}", value) for name, value in fields.items()]


def _cell(what: str, value: Any) -> str:
    plain = plain_value(what, value)
    if isinstance(plain, np.ndarray):
        raise ArgumentError("R1004", f"{what}: the cells of a CSV log are single values, got an array")
    if isinstance(plain, bool):
        return "true" if plain else "false"
    if isinstance(plain, int):
        return int.__repr__(plain)
    if isinstance(plain, float):
        return float.__repr__(plain) if math.isfinite(plain) else spelled(plain)
    try:
        plain.encode()
    except UnicodeEncodeError:
        raise ArgumentError("R1004", f"{what}: half of a surrogate pair can't be written into a CSV file") from None
    return _quoted(plain) if _needs_quotes(plain) or not isinstance(value_of(plain), str) or not plain else plain


def _needs_quotes(text: str) -> bool:
    return any(letter in text for letter in ',"\r\n')


def _quoted(text: str) -> str:
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def value_of(text: str) -> bool | int | float | str:
    """What a cell without quotes is."""
    if text in TRUTH:
        return TRUTH[text]
    if text in SPELLINGS:
        return SPELLINGS[text]
    if _INT.fullmatch(text) and len(text) <= _MOST_DIGITS:
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def whole_rows(content: BinaryIO) -> Iterator[bytes]:
    """The rows of a file with their line breaks, those inside of quotes too; a last one without its end is torn."""
    parts: list[bytes] = []
    is_open = False
    for line in content:
        parts.append(line)
        is_open ^= line.count(b'"') % 2 == 1
        if not is_open and line.endswith(b"\n"):
            yield b"".join(parts)
            parts.clear()


def cells_of(row: bytes) -> list[tuple[bytes, bool]]:
    """The cells of a whole row, and whether each was quoted. Raises ValueError for what no row can be."""
    text = row.removesuffix(b"\n").removesuffix(b"\r")
    found: list[tuple[bytes, bool]] = []
    place = 0
    while True:
        match = _CELL.match(text, place)
        if match is None:
            raise ValueError("text behind a closing quote")
        quoted, plain, end = match.groups()
        found.append((plain, False) if quoted is None else (quoted.replace(b'""', b'"'), True))
        if not end:
            return found
        place = match.end()


def names_in(header: bytes) -> list[str]:
    """The columns' names. Raises ValueError (UnicodeDecodeError too) for what is no header."""
    return [cell.decode() for cell, _ in cells_of(header)]
