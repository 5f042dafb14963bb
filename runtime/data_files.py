"""Which reader serves which data file, by the end of its name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from shapescript.runtime.dataset import Dataset
from shapescript.runtime.errors import ArgumentError, DataError, did_you_mean
from shapescript.runtime.npy import NpyFiles
from shapescript.runtime.npz import load_npz
from shapescript.runtime.record import RecordType

KNOWN = (".npz", ".npy", ".csv", ".parquet", ".arrow", ".feather")


def load_file(record: RecordType, path: str | Path) -> Dataset:
    """The dataset in one file: `.npz`, which is loaded; `.csv`, `.parquet`, `.arrow` and `.feather`, and for a record of one field `.npy`,
    whose rows are read when they are needed.

    Raises DataFileMissing R1201; DataError R1202 for a file that is damaged, of another kind, or doesn't fit the record; DataRowError R1204
    for the first row of a CSV file; PackageMissing R1502.
    """
    match _suffix(path):
        case ".npz":
            return load_npz(record, path)
        case ".npy":
            if len(record.fields) != 1:
                names = ", ".join(f'{name}="{name}.npy"' for name in record.field_names)
                raise DataError(
                    "R1202", f"{path}: a .npy file holds one field, {record.name} has {len(record.fields)}; give a file for each: {names}"
                )
            return load_files(record, {record.fields[0].name: path})
        case ".csv":
            from shapescript.runtime.csv_rows import CsvFile

            return Dataset.of_source(CsvFile(record, path))
        case ".parquet":
            from shapescript.runtime.arrow_rows import ParquetFile

            return Dataset.of_source(ParquetFile(record, path))
        case ".arrow" | ".feather":
            from shapescript.runtime.arrow_rows import ArrowFile

            return Dataset.of_source(ArrowFile(record, path))
    raise DataError("R1202", f"{path}: what kind of file it is isn't known by its name; known are {', '.join(KNOWN)}")


def load_files(record: RecordType, paths: Mapping[str, str | Path]) -> Dataset:
    """The dataset whose fields lie in a `.npy` file each.

    Raises ArgumentError R1005 for fields that are missing or that the record hasn't; DataFileMissing R1201; DataError R1202 for files that
    are damaged, no `.npy`, or don't fit the record or each other.
    """
    names = record.field_names
    missing = [name for name in names if name not in paths]
    for name in paths:
        if name not in names:
            raise ArgumentError("R1005", f"{record.name} has no field {name!r}{did_you_mean(name, missing or names)}")
    if missing:
        raise ArgumentError("R1005", f"{record.name}: no file for its field {', '.join(missing)}")
    for name, path in paths.items():
        if _suffix(path) != ".npy":
            raise DataError("R1202", f"{path}: the file of one field, {record.name}.{name}, is a .npy file")
    return Dataset.of_source(NpyFiles(record, paths))


def _suffix(path: str | Path) -> str:
    return Path(path).suffix.lower()
