"""Texts as datasets: the windows of a text, and its lines."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from shapescript.compiler.numerics.texts import LINE_END, decoded, lines_of
from shapescript.runtime.arrays import Words
from shapescript.runtime.dataset import Dataset
from shapescript.runtime.errors import DataError, DataFileMissing, cause_of
from shapescript.runtime.files import regular_file
from shapescript.runtime.record import Field, RecordType
from shapescript.runtime.vocabulary import Vocabulary


def read_bytes(path: str | Path) -> bytes:
    """Raises DataFileMissing R1201, DataError R1202."""
    try:
        return regular_file(path).read_bytes()
    except FileNotFoundError:
        raise DataFileMissing("R1201", f"{path}: no such data file", filename=str(path)) from None
    except OSError as error:
        raise DataError("R1202", f"{path}: can't be read: {cause_of(error)}") from error


def read_text(path: str | Path) -> str:
    """Raises DataFileMissing R1201; DataError R1202, where the file isn't UTF-8 too."""
    try:
        return decoded(read_bytes(path))
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        raise DataError("R1202", f"{path}: {error}") from None


def load_text(record: RecordType, path: str | Path, vocabulary: Vocabulary | None = None) -> Dataset:
    """All windows of a text; the ids are those of the vocabulary, by default of the text's own characters.

    Raises as `read_text`; DataError R1202 for a text shorter than a window, R1203 for a character that the vocabulary lacks.
    """
    text = read_text(path)
    return _windows(record, path, (vocabulary or Vocabulary.of_text(text)).encode(text, str(path)))


def load_bytes(record: RecordType, path: str | Path) -> Dataset:
    """All windows of a file's bytes. Raises DataFileMissing R1201, DataError R1202."""
    return _windows(record, path, np.frombuffer(read_bytes(path), np.uint8).astype(np.int64))


def _windows(record: RecordType, path: str | Path, ids: Words) -> Dataset:
    (field,) = record.fields
    (span,) = field.shape
    if len(ids) < span:
        raise DataError("R1202", f"{path}: the text has {len(ids)} ids, fewer than one window, whose {record.name}.{field.name} has {span}")
    return Dataset.of_windows(record, ids)


def load_lines(record: RecordType, path: str | Path, vocabulary: Vocabulary | None = None) -> Dataset:
    """An example for each line: its ids, those of line ends behind them, and where the record has a number, the line's length.

    Raises as `read_text`; DataError R1202 for a line that is longer than the field or lacks an end to fill it with, R1203 for a
    character that the vocabulary lacks.
    """
    text = read_text(path)
    known = vocabulary or Vocabulary.of_text(text)
    lines = [known.encode(line, f"{path}: line {number}") for number, line in enumerate(lines_of(text), 1)]
    field, length_field = _line_fields(record)
    (room,) = field.shape
    for number, line in enumerate(lines, 1):
        if len(line) > room:
            where = f"{path}: line {number} has {len(line)} ids, and {record.name}.{field.name} has room for {room}"
            raise DataError("R1202", f"{where}: {known.decode(line)!r}")
    lengths = np.array([len(line) for line in lines], np.int64)
    ids = np.full((len(lines), room), _line_end(known, path) if (lengths < room).any() else 0, np.int64)
    for place, line in enumerate(lines):
        ids[place, : len(line)] = line
    return Dataset(record, {field.name: ids, **({length_field.name: lengths} if length_field else {})})


def _line_fields(record: RecordType) -> tuple[Field, Field | None]:
    """The field of ids, and that of the length where there is one."""
    ids = next(field for field in record.fields if field.axes)
    return ids, next((field for field in record.fields if not field.axes), None)


def _line_end(vocabulary: Vocabulary, path: str | Path) -> int:
    try:
        return int(vocabulary.encode(LINE_END)[0])
    except DataError:
        message = f"{path}: no line of the vocabulary's text has an end, so there is nothing to fill up shorter lines with"
        raise DataError("R1202", message) from None
