"""The sink that writes CSV: a header with the first record's fields, then one row a record."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from shapescript.runtime.errors import ArgumentError, LogError
from shapescript.runtime.line_sink import LineSink
from shapescript.runtime.log_rows import encode_row, header_cells, names_in, record_cells, whole_rows


class CsvSink(LineSink):
    """Appends records to a file as rows; their fields are its columns, in order, and all records have the same."""

    kind = "csv"
    has_head = True

    def _encode(self, record_name: str, fields: Mapping[str, Any]) -> bytes:
        if not fields:
            raise ArgumentError("R1004", f"{record_name}: a row of a CSV log needs at least one field")
        return encode_row(record_cells(record_name, fields))

    def _pieces(self, content: BinaryIO) -> Iterator[bytes]:
        return whole_rows(content)

    def _new_head(self, fields: Mapping[str, Any]) -> bytes:
        return encode_row(header_cells(fields))

    def _check_head(self, record_name: str, fields: Mapping[str, Any], head: bytes) -> None:
        if head == self._new_head(fields):
            return
        try:
            columns = names_in(head)
        except ValueError:
            columns = [head[:80].decode(errors="replace")]
        if columns == list(fields):
            return
        message = (
            f"{self.path}: the log's columns are {', '.join(columns)}; "
            f"a record {record_name} with {', '.join(fields)} doesn't fit them: write it to a log of its own"
        )
        raise LogError("R1403", message, number=errno.EINVAL, filename=str(self.path))


def csv(path: str | os.PathLike[str], append: bool = False) -> CsvSink:
    """A sink that writes CSV to `path`; nothing is opened before the first write.

    append: go on in a file that is there, if its columns are the records' fields, instead of moving it aside.
    """
    return CsvSink(path, append)
