"""CSV files: the rows of a record, each parsed when it is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np

from shapescript.runtime.arrays import Array, Words
from shapescript.runtime.csv_cells import BLANKS, CellError, values_of
from shapescript.runtime.csv_scan import cells_of, line_at, row_starts
from shapescript.runtime.errors import DataError, DataRowError, cause_of
from shapescript.runtime.file_rows import cut_short, missing_field, refusals, row_error, runs_of
from shapescript.runtime.opened_file import OpenedFile
from shapescript.runtime.record import Field, RecordType
from shapescript.runtime.sources import Source, empty_rows

AT_ONCE = 1 << 20  # bytes of rows that are parsed together
SHOWN = 40  # characters of a cell that a message shows


class CsvFile(Source):
    """The rows of a CSV file whose header has a column for each scalar field, called as it is, and one for each number of a field with
    axes: `x.0`, `x.1`, with two axes `x.0.0`. Columns are in any order, and there may be more.

    Where rows begin is found once; the file stays open, and is read by position.
    """

    in_memory = False

    def __init__(self, record: RecordType, path: str | Path) -> None:
        """Looks through the whole file for the beginnings of rows, and parses the header and the first row.

        Raises DataFileMissing R1201; DataError R1202 for a header that doesn't fit the record; DataRowError R1204 for the first row.
        """
        super().__init__(record)
        with refusals(path, "CSV"):
            self._file = OpenedFile(path)
            starts = row_starts(self._file)
            if not len(starts):
                raise DataError("R1202", f"{path}: the file is empty: a CSV file begins with a header that names its columns")
            self._ends: Words = np.append(starts[1:], self._file.size)  # the header's, then those of rows
            self._header = _header_of(path, self._file.read(int(starts[0]), int(self._ends[0] - starts[0])))
            held = Counter(self._header)
            places = {name: place for place, name in enumerate(self._header)}
            for field in record.fields:
                for name in column_names(field):
                    if held[name] > 1:
                        raise DataError("R1202", f"{path}: the header has {held[name]} columns {name!r}: which one is meant is open")
                    if not held[name]:
                        raise missing_field(record, name, self._header, path, "column", field.name)
            self._columns = {field.name: [places[name] for name in column_names(field)] for field in record.fields}
        if len(self):
            self.read(np.arange(1))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def read(self, rows: Words, names: Sequence[str] | None = None) -> dict[str, Array]:
        """Raises DataRowError R1204, with `.line` and `.column`."""
        taken = empty_rows(self.fields(names), len(rows))
        for at, first, count in runs_of(rows):
            row, end = first, first + count
            while row < end:
                stop = min(end, max(row + 1, int(np.searchsorted(self._ends, self._ends[row] + AT_ONCE, side="right")) - 1))
                self._parse(row, stop, {name: array[at + row - first : at + stop - first] for name, array in taken.items()})
                row = stop
        return taken

    def _parse(self, start: int, stop: int, room: dict[str, Array]) -> None:
        """Fill the arrays with the values of rows start to stop - 1."""
        table = [self._cells(row, text) for row, text in enumerate(self._texts(start, stop), start)]
        try:
            self._convert(table, room)
        except CellError:
            for place, cells in enumerate(table):  # again, row by row: the first that is wrong is named
                self._check(start + place, cells, list(room))
            raise

    def _convert(self, table: list[list[str]], room: dict[str, Array]) -> None:
        for field in self.fields(list(room)):
            places = self._columns[field.name]
            values = values_of([cells[place] for cells in table for place in places], field.dtype)
            room[field.name][...] = values.reshape(room[field.name].shape)

    def _check(self, row: int, cells: list[str], names: list[str]) -> None:
        for field in self.fields(names):
            places = self._columns[field.name]
            try:
                values_of([cells[place] for place in places], field.dtype)
            except CellError as error:
                place = places[error.place]
                cell = cells[place]
                found = f"{cell[:SHOWN]!r}{'…' if len(cell) > SHOWN else ''}" if cell.strip(BLANKS) else "an empty cell"
                raise self._failure(row, f"found {found}, expected {error}", self._header[place]) from None

    def _texts(self, start: int, stop: int) -> list[bytes]:
        begin = int(self._ends[start])
        try:
            data = self._file.read(begin, int(self._ends[stop]) - begin)
        except OSError as error:
            raise row_error(self._file.path, start, f"can't be read: {cause_of(error)}") from error
        ends = (self._ends[start + 1 : stop + 1] - begin).tolist()
        if len(data) < ends[-1]:
            row = start + next(place for place, end in enumerate(ends) if len(data) < end)
            raise cut_short(self._file, row, begin + len(data))
        return [data[first:last] for first, last in zip([0, *ends], ends, strict=False)]

    def _cells(self, row: int, text: bytes) -> list[str]:
        try:
            cells = cells_of(text)
        except ValueError as error:
            raise self._failure(row, f"the row is malformed: {error}") from None
        if len(cells) != len(self._header):
            count = f"{len(cells)} {'cell' if len(cells) == 1 else 'cells'}"
            raise self._failure(row, f"found {count}, expected {len(self._header)}, one for each column of the header")
        return cells

    def _failure(self, row: int, fault: str, column: str | None = None) -> DataRowError:
        path, line = self._file.path, line_at(self._file, int(self._ends[row]))
        place = f"line {line}" if column is None else f"line {line}, column {column!r}"
        return DataRowError("R1204", f"{path}: row {row} ({place}): {fault}", filename=str(path), row=row, line=line, column=column)


def column_names(field: Field) -> list[str]:
    """The columns of a field, in the order of its numbers."""
    places = product(*(range(size) for size in field.shape))
    return [".".join((field.name, *map(str, place))) for place in places]


def _header_of(path: str | Path, row: bytes) -> list[str]:
    try:
        row.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = f"byte {error.start} is 0x{row[error.start]:02X}"
        raise DataError("R1202", f"{path}: the header isn't UTF-8 ({byte}); save the file as UTF-8") from None
    try:
        return [name.strip(BLANKS) for name in cells_of(row)]
    except ValueError as error:
        raise DataError("R1202", f"{path}: the header is malformed: {error}") from None
