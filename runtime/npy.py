"""`.npy` files: headers, read without running or allocating what they ask for, and rows, read when they are needed."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from shapescript.compiler.records.dataclass import dataclass
from shapescript.runtime.arrays import Array, Words, of_element_type, shape_mismatch, sizes
from shapescript.runtime.errors import ArgumentError, cause_of
from shapescript.runtime.file_rows import agreed_count, cut_short, refusals, row_error, runs_of
from shapescript.runtime.opened_file import OpenedFile
from shapescript.runtime.record import BATCH_AXIS, Field, RecordType
from shapescript.runtime.sources import Source, empty_rows

MAGIC = b"\x93NUMPY"
WIDTHS = {b"\x01\x00": 2, b"\x02\x00": 4, b"\x03\x00": 4}  # how many bytes hold the header's length, by the version of the format
LONGEST_HEADER = 10_000  # NumPy's own limit for a header that isn't trusted; one of numbers has about 100 bytes
LARGEST_COUNT = 2**63 - 1


@dataclass(frozen=True)
class Header:
    """What a `.npy` file says of itself, and at which byte its values begin."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]
    begin: int

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(stream: IO[bytes]) -> Header:
    """The header at the stream's place. Raises ValueError for what is no header of an array of numbers."""
    start = stream.read(len(MAGIC) + 2)
    version = start[len(MAGIC) :]
    if not start.startswith(MAGIC) or len(version) < 2:
        raise ValueError("it doesn't begin as a .npy file does")
    if version not in WIDTHS:
        raise ValueError(f"version {version[0]}.{version[1]} of the .npy format")
    width = WIDTHS[version]
    prefix = stream.read(width)
    length = int.from_bytes(prefix, "little")
    if len(prefix) == width and length > LONGEST_HEADER:
        raise ValueError(f"a header of {length} bytes")
    text = stream.read(length)
    if len(prefix) < width or len(text) < length:
        raise ValueError("it ends within its header")
    shape, fortran_order, dtype = _parsed(text, version)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which could run code when they are read")
    if min(shape, default=0) < 0 or max(shape, default=0) > LARGEST_COUNT:
        raise ValueError(f"it says that its shape is {shape}")
    return Header(shape, fortran_order, dtype, len(start) + width + length)


def _parsed(text: bytes, version: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """By NumPy's own reader, which knows a literal and no expressions; versions differ in the length before the text and its encoding."""
    if version == b"\x03\x00":
        text = text.decode("utf-8").encode("latin-1")
    stream = io.BytesIO(len(text).to_bytes(2, "little") + text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a damaged text may be one that Python would warn of
            shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(stream)
    except Exception as error:  # Python's parser and NumPy raise many types; each means that this is no header
        raise ValueError(f"its header can't be read: {cause_of(error)[:200]}") from error
    return tuple(map(int, shape)), fortran_order, dtype


class NpyFiles(Source):
    """The rows of a record whose fields lie in a `.npy` file each. The files stay open, and rows are read by their place.

    They aren't mapped into memory: of a mapped file that is cut short, the operating system kills whoever reads it.
    """

    in_memory = False

    def __init__(self, record: RecordType, paths: Mapping[str, str | Path]) -> None:
        """`paths` has a file for each field.

        Raises DataFileMissing R1201; DataError R1202 for a file that is damaged, no `.npy`, or doesn't fit the record.
        """
        super().__init__(record)
        self._columns = {field.name: _Column(record, field, paths[field.name]) for field in record.fields}
        self._count = agreed_count(record, {str(column.file.path): column.count for column in self._columns.values()})

    def __len__(self) -> int:
        return self._count

    def read(self, rows: Words, names: Sequence[str] | None = None) -> dict[str, Array]:
        """Raises DataRowError R1204."""
        taken = empty_rows(self.fields(names), len(rows))
        for name, values in taken.items():
            self._columns[name].read(rows, values)
        return taken


class _Column:
    """One file, and the field whose values are in it."""

    def __init__(self, record: RecordType, field: Field, path: str | Path) -> None:
        what = f"{record.name}.{field.name}"
        with refusals(path, ".npy"):
            self.file = OpenedFile(path)
            header = read_header(io.BytesIO(self.file.read(0, LONGEST_HEADER + 12)))
            _check(what, field, header, self.file.size)
        self.count = header.shape[0]
        self._field, self._what, self._dtype = field, what, header.dtype
        self._begin, self._row_bytes = header.begin, math.prod(field.shape) * header.dtype.itemsize

    def read(self, rows: Words, values: Array) -> None:
        """Fill `values`, an array of the field's type, with these rows."""
        fits = self._dtype == values.dtype
        found = values if fits else np.empty(values.shape, self._dtype)
        data = found.reshape(-1).view(np.uint8)
        for at, first, count in runs_of(rows):
            self._fill(data[at * self._row_bytes : (at + count) * self._row_bytes], first)
        if self._dtype == np.bool_ and (data > 1).any():
            place = int(np.argmax(data > 1))
            raise row_error(self.file.path, int(rows[place // self._row_bytes]), f"can't be used: the byte {data[place]} is no bool")
        if not fits:
            values[...] = self._narrowed(found, rows)

    def _fill(self, room: Array, first: int) -> None:
        place = self._begin + first * self._row_bytes
        try:
            data = self.file.read(place, len(room))
        except OSError as error:
            raise row_error(self.file.path, first, f"can't be read: {cause_of(error)}") from error
        if len(data) < len(room):
            raise cut_short(self.file, first + len(data) // self._row_bytes, place + len(data))
        room[:] = np.frombuffer(data, np.uint8)

    def _narrowed(self, found: Array, rows: Words) -> Array:
        """float32 numbers as bf16, which must represent each."""
        try:
            return of_element_type(self._what, found, self._field.dtype)
        except ArgumentError:
            return np.stack([self._narrowed_row(int(row), values) for row, values in zip(rows, found, strict=True)])

    def _narrowed_row(self, row: int, values: Array) -> Array:
        try:
            return of_element_type(self._what, np.asarray(values), self._field.dtype)
        except ArgumentError as error:
            raise row_error(self.file.path, row, f"can't be used: {error.message}") from error


def _check(what: str, field: Field, header: Header, size: int) -> None:
    """Raises ArgumentError for a header that doesn't fit the field, ValueError for one that doesn't fit the file."""
    dtype = header.dtype
    if not dtype.isnative:
        mend = "array.astype(array.dtype.newbyteorder('='))"
        raise ArgumentError("R1006", f"{what}: the values' bytes are in the other order ({dtype.str}); convert: {mend}")
    of_element_type(what, np.empty((0, *field.shape), dtype), field.dtype)
    if len(header.shape) != len(field.shape) + 1 or header.shape[1:] != field.shape:
        found = shape_mismatch(header.shape, (BATCH_AXIS, *field.axes), ("any", *field.shape))
        raise ArgumentError("R1002", f"{what}: {found}")
    if header.fortran_order and len(header.shape) > 1:
        raise ArgumentError(
            "R1006", f"{what}: the values lie in Fortran order, so no row is in one piece; save numpy.ascontiguousarray(array)"
        )
    if header.begin + header.nbytes != size:
        fault = f"a header of {header.begin} bytes and {header.nbytes} bytes of values are expected, the file has {size}"
        raise ValueError(f"it says that it holds {dtype} of shape {sizes(header.shape)}: {fault}")
