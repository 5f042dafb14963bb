"""Data files: `.npz` archives of NumPy arrays, read without running or allocating what a damaged file asks for."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from shapescript.compiler.numerics.texts import places_of
from shapescript.runtime.arrays import Array
from shapescript.runtime.dataset import Dataset
from shapescript.runtime.errors import ArgumentError, DataError, DataFileMissing, cause_of, did_you_mean
from shapescript.runtime.files import regular_file
from shapescript.runtime.record import RecordType

MOST_DEFLATED = 1032  # bytes that one byte of a deflated stream can stand for at most (zlib's technical details)


def find_data_file(path: str | Path, folders: Sequence[str | Path]) -> Path:
    """The first file of this name in the folders, in their order, or the one in Python's library that `python:` names.

    Raises DataFileMissing R1201 naming all places.
    """
    places = places_of(path, folders)
    for place in places:
        if os.path.exists(place):
            return place
    raise DataFileMissing("R1201", f"{path}: no such data file; looked for {' and '.join(map(str, places))}", filename=str(path))


def load_npz(record: RecordType, path: str | Path) -> Dataset:
    """The dataset in an `.npz` file that holds an array for each of the record's fields; more arrays are no error.

    Raises DataFileMissing R1201; DataError R1202 for a file that is damaged, is no `.npz`, lacks a field's array, or whose
    arrays don't fit the record.
    """
    try:
        return Dataset(record, _read_fields(record, path))
    except FileNotFoundError:
        raise DataFileMissing("R1201", f"{path}: no such data file", filename=str(path)) from None
    except ArgumentError as error:
        raise DataError("R1202", f"{path}: {error.message}") from error
    except DataError:
        raise
    except OSError as error:
        raise DataError("R1202", f"{path}: can't be read: {cause_of(error)}") from error
    except Exception as error:  # zipfile, zlib and NumPy raise many types for damage; each means that the file can't be used
        raise DataError("R1202", f"{path}: damaged, or no .npz file: {cause_of(error)}") from error


def _read_fields(record: RecordType, path: str | Path) -> dict[str, Array]:
    with zipfile.ZipFile(regular_file(path)) as archive:
        held = [name.removesuffix(".npy") for name in archive.namelist()]
        for field in record.fields:
            if field.name not in held:
                hint = did_you_mean(field.name, held)
                message = f"{path}: no array {field.name!r} for the field of {record.name}; it holds {', '.join(held) or 'none'}{hint}"
                raise DataError("R1202", message)
        return {field.name: _read_array(archive, archive.getinfo(f"{field.name}.npy")) for field in record.fields}


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.file_size > MOST_DEFLATED * info.compress_size:
        raise ValueError(f"{info.filename} can't hold {info.file_size} bytes in {info.compress_size}")
    with archive.open(info) as stream:
        shape, fortran_order, dtype = _read_header(stream)
        if dtype.hasobject:
            raise ValueError(f"{info.filename} holds Python objects")
        if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != info.file_size - stream.tell():
            raise ValueError(f"{info.filename} says that it holds {dtype} of shape {shape}, which isn't the size of its data")
        data = stream.read()  # to the end, where the checksum is compared
    return np.ndarray(shape, dtype, data, order="F" if fortran_order else "C")


def _read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(stream)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(stream)
    raise ValueError(f"version {version} of the .npy format")
