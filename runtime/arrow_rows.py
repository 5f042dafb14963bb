"""Parquet and Arrow files: the rows of a record, read by the groups that the file keeps them in."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from shapescript.runtime.arrays import Array, Words
from shapescript.runtime.arrow_columns import check_column, fault_of, usable_rows
from shapescript.runtime.errors import cause_of
from shapescript.runtime.extras import optional_module
from shapescript.runtime.file_rows import LONGEST_FAULT, missing_field, refusals, row_error
from shapescript.runtime.files import regular_file
from shapescript.runtime.record import Field, RecordType
from shapescript.runtime.sources import Source, empty_rows

KEPT_BYTES = 1 << 28  # of groups that were read; the last one is kept whatever its size


class _GroupedFile(Source):
    """A file of groups of rows. A group is read whole, and the last ones are kept, by field, up to 256 MB."""

    in_memory = False
    kind = ""

    def __init__(self, record: RecordType, path: str | Path) -> None:
        """Raises PackageMissing R1502; DataFileMissing R1201; DataError R1202 for a file that is damaged or doesn't fit the record."""
        super().__init__(record)
        self._path = Path(path)
        self._kept: OrderedDict[tuple[int, str], tuple[Array, Array]] = OrderedDict()
        self._reading = threading.Lock()
        optional_module("pyarrow", f"reading {self.kind} files")
        with refusals(path, self.kind):
            counts = self._open(regular_file(path))
            if min(counts, default=0) < 0:
                raise ValueError("a group of fewer than no rows")
        self._ends: Words = np.cumsum(np.array(counts, np.int64))

    @abstractmethod
    def _open(self, path: Path) -> list[int]:
        """Open the file and check its columns against the record: the number of rows in each group."""

    @abstractmethod
    def _read_group(self, group: int, name: str) -> Any:
        """One column of a group, as an array of pyarrow."""

    def _check(self, schema: Any) -> None:
        for field in self.record.fields:
            count = schema.names.count(field.name)
            if not count:
                raise missing_field(self.record, field.name, schema.names, self._path, "column")
            if count > 1:
                raise ValueError(f"{count} columns are called {field.name!r}")
            check_column(self.record, field, schema.field(field.name).type)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def read(self, rows: Words, names: Sequence[str] | None = None) -> dict[str, Array]:
        """Raises DataRowError R1204."""
        taken = empty_rows(self.fields(names), len(rows))
        groups = np.searchsorted(self._ends, rows, side="right")
        for group in dict.fromkeys(groups.tolist()):
            (places,) = np.nonzero(groups == group)
            within = rows[places] - self._start(group)
            for field in self.fields(names):
                values, usable = self._group(group, field)
                if not usable[within].all():
                    self._refuse(group, field, int(within[np.argmin(usable[within])]))
                taken[field.name][places] = values[within]
        return taken

    def _start(self, group: int) -> int:
        return int(self._ends[group - 1]) if group else 0

    def _group(self, group: int, field: Field) -> tuple[Array, Array]:
        """A group's values of a field, and which of its rows can be used."""
        with self._reading:
            found = self._kept.get((group, field.name))
            if found is None:
                start = self._start(group)
                try:
                    found = self._kept[group, field.name] = usable_rows(field, self._column(group, field))
                except Exception as error:  # pyarrow raises many types for damage; each means that these rows can't be read
                    raise row_error(
                        self._path, start, f"can't be read: column {field.name!r}: {cause_of(error)[:LONGEST_FAULT]}"
                    ) from error
                while len(self._kept) > 1 and sum(values.nbytes for values, _ in self._kept.values()) > KEPT_BYTES:
                    self._kept.popitem(last=False)
            self._kept.move_to_end((group, field.name))
            return found

    def _column(self, group: int, field: Field) -> Any:
        column = self._read_group(group, field.name)
        column.validate(full=True)  # of a damaged file, places within the column may point anywhere
        expected = int(self._ends[group]) - self._start(group)
        if len(column) != expected:
            raise ValueError(f"{len(column)} rows where {expected} are expected")
        return column

    def _refuse(self, group: int, field: Field, place: int) -> NoReturn:
        with self._reading:
            fault = fault_of(field, self._column(group, field), place)
        raise row_error(self._path, self._start(group) + place, f"can't be used: column {field.name!r}: found {fault}")


class ParquetFile(_GroupedFile):
    """The rows of a Parquet file, by its row groups."""

    kind = "Parquet"

    def _open(self, path: Path) -> list[int]:
        parquet = optional_module("pyarrow.parquet", "reading Parquet files")
        source = optional_module("pyarrow", "reading Parquet files").OSFile(str(path))
        self._file = parquet.ParquetFile(source, page_checksum_verification=True)
        self._check(self._file.schema_arrow)
        metadata = self._file.metadata
        return [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]

    def _read_group(self, group: int, name: str) -> Any:
        table = self._file.read_row_group(group, columns=[name], use_threads=False)
        return table.column(name).combine_chunks()


class ArrowFile(_GroupedFile):
    """The rows of an Arrow IPC file, which Feather files are too, by its record batches."""

    kind = "Arrow"

    def _open(self, path: Path) -> list[int]:
        ipc = optional_module("pyarrow.ipc", "reading Arrow files")
        source = optional_module("pyarrow", "reading Arrow files").OSFile(str(path))
        schema = ipc.open_file(source).schema
        self._check(schema)
        self._files = {
            name: ipc.open_file(source, options=ipc.IpcReadOptions(included_fields=[schema.names.index(name)], use_threads=False))
            for name in self.record.field_names
        }
        smallest = min(self.record.fields, key=lambda field: np.prod(field.shape)).name  # a batch's size is known once a column is read
        file = self._files[smallest]
        return [file.get_batch(group).num_rows for group in range(file.num_record_batches)]

    def _read_group(self, group: int, name: str) -> Any:
        return self._files[name].get_batch(group).column(0)
