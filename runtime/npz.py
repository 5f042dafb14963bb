"""Data files: `.npz` archives of NumPy arrays, read without running or allocating what a damaged file asks for."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from shapescript.compiler.numerics.texts import places_of
from shapescript.runtime.arrays import Array
from shapescript.runtime.dataset import Dataset
from shapescript.runtime.errors import DataFileMissing
from shapescript.runtime.file_rows import missing_field, refusals
from shapescript.runtime.files import regular_file
from shapescript.runtime.npy import read_header
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
    """The dataset in an `.npz` file that holds an array for each of the record's fields; more arrays are no error. They are all loaded.

    Raises DataFileMissing R1201; DataError R1202 for a file that is damaged, is no `.npz`, lacks a field's array, or whose
    arrays don't fit the record.
    """
    with refusals(path, ".npz"):
        return Dataset(record, _read_fields(record, path))


def _read_fields(record: RecordType, path: str | Path) -> dict[str, Array]:
    with zipfile.ZipFile(regular_file(path)) as archive:
        held = [name.removesuffix(".npy") for name in archive.namelist()]
        for field in record.fields:
            if field.name not in held:
                raise missing_field(record, field.name, held, path, "array")
        return {field.name: _read_array(archive, archive.getinfo(f"{field.name}.npy")) for field in record.fields}


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.file_size > MOST_DEFLATED * info.compress_size:
        raise ValueError(f"{info.filename} can't hold {info.file_size} bytes in {info.compress_size}")
    with archive.open(info) as stream:
        header = read_header(stream)
        if header.begin + header.nbytes != info.file_size:
            raise ValueError(f"{info.filename} says that it holds {header.dtype} of shape {header.shape}, which isn't the size of its data")
        data = stream.read()  # to the end, where the checksum is compared
    return np.ndarray(header.shape, header.dtype, data, order="F" if header.fortran_order else "C")
