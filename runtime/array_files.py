"""The arrays in `.npz` and `.npy` files, told one by one, without holding more of them than a piece."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from shapescript.runtime.errors import DataError
from shapescript.runtime.file_rows import refusals
from shapescript.runtime.files import regular_file
from shapescript.runtime.npy import Header, read_header
from shapescript.runtime.npz import MOST_DEFLATED

ARRAY_SUFFIXES = (".npz", ".npy")

_PIECE = 1 << 20  # bytes


@dataclass(frozen=True)
class ArrayFacts:
    """An array of a file; `not_finite` counts its NaNs and infinities."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    not_finite: int


def arrays_in(path: str | os.PathLike[str], suffix: str) -> Iterator[ArrayFacts]:
    """The arrays of a file in their order, each read to its end; those that are damaged are passed over.

    Raises DataFileMissing R1201, DataError R1202: for a damaged array when all others have been given.
    """
    damage: list[DataError] = []
    with ExitStack() as stack:
        with refusals(os.fspath(path), suffix):
            members = _members(path, suffix, stack)
        for name, size, opened in members:
            try:
                with refusals(os.fspath(path), suffix), opened() as stream:
                    found = _array(name, stream, size)
            except DataError as error:
                damage.append(error)
            else:
                yield found
    if damage:
        raise damage[0]


Member = tuple[str, int, Callable[[], IO[bytes]]]


def _members(path: str | os.PathLike[str], suffix: str, stack: ExitStack) -> list[Member]:
    """Each array's name, its size in bytes with its header, and what opens it."""
    if suffix == ".npy":
        file = stack.enter_context(regular_file(path).open("rb"))
        return [(Path(path).stem, os.fstat(file.fileno()).st_size, lambda: file)]
    archive = stack.enter_context(zipfile.ZipFile(regular_file(path)))
    return [(info.filename.removesuffix(".npy"), info.file_size, partial(_opened, archive, info)) for info in archive.infolist()]


def _opened(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> IO[bytes]:
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.file_size > MOST_DEFLATED * info.compress_size:
        raise ValueError(f"{info.filename} can't hold {info.file_size} bytes in {info.compress_size}")
    return archive.open(info)


def _array(name: str, stream: IO[bytes], size: int) -> ArrayFacts:
    header = read_header(stream)
    if header.begin + header.nbytes != size:
        raise ValueError(f"{name} says that it holds {header.dtype} of shape {header.shape}, which isn't the size of its data")
    return ArrayFacts(name, header.dtype, header.shape, _not_finite(stream, header))


def _not_finite(stream: IO[bytes], header: Header) -> int:
    """Read to the end, where an archive compares its checksum."""
    count, size = 0, header.dtype.itemsize
    while piece := stream.read(_PIECE // size * size if 0 < size <= _PIECE else max(size, 1)):
        if header.dtype.kind in "fc":
            values = np.frombuffer(piece, header.dtype)
            count += int(values.size - np.count_nonzero(np.isfinite(values)))
    return count
