"""What readers of data files share: refusals of a file, errors of a row, rows that follow each other."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from shapescript.runtime.arrays import Words
from shapescript.runtime.errors import ArgumentError, DataError, DataFileMissing, DataRowError, cause_of, did_you_mean
from shapescript.runtime.opened_file import OpenedFile
from shapescript.runtime.record import RecordType

LONGEST_NAME, MOST_NAMES, MOST_COMPARED = 60, 20, 2000  # of what a file holds, as a message lists it
LONGEST_FAULT = 300  # characters of another library's message that are shown


@contextlib.contextmanager
def refusals(path: str | Path, kind: str) -> Iterator[None]:
    """What goes wrong while a file is opened, as errors with a code that name the file; `kind` is what it should be, as ".npy".

    Raises DataFileMissing R1201; DataError R1202 for all else.
    """
    try:
        yield
    except DataError:
        raise
    except FileNotFoundError:
        raise DataFileMissing("R1201", f"{path}: no such data file", filename=str(path)) from None
    except ArgumentError as error:
        raise DataError("R1202", f"{path}: {error.message}") from error
    except OSError as error:
        raise DataError("R1202", f"{path}: can't be read: {cause_of(error)[:LONGEST_FAULT]}") from error
    except Exception as error:  # zipfile, zlib, NumPy and pyarrow raise many types for damage; each means that the file can't be used
        raise DataError("R1202", f"{path}: damaged, or no {kind} file: {cause_of(error)[:LONGEST_FAULT]}") from error


def row_error(path: str | Path, row: int, fault: str) -> DataRowError:
    """R1204 for a row that can't be used; `fault` goes on behind "row 37"."""
    return DataRowError("R1204", f"{path}: row {row} {fault}", filename=str(path), row=row)


def cut_short(file: OpenedFile, row: int, place: int) -> DataRowError:
    """R1204 for a row that a file no longer has; it ends at a place, or before."""
    return row_error(
        file.path, row, f"isn't there any more: the file had {file.size} bytes when it was opened, now it ends before byte {place + 1}"
    )


def missing_field(record: RecordType, name: str, held: Sequence[str], path: str | Path, what: str, field: str = "") -> DataError:
    """R1202 for a file that holds arrays or columns (`what`) of other names; `field` is the field's, where it has another name."""
    shown = [name[:LONGEST_NAME] if name.isprintable() else repr(name[:LONGEST_NAME]) for name in held[:MOST_NAMES]]
    listed = ", ".join(shown + ["…"] * (len(held) > MOST_NAMES)) or "none"
    owner = f"{record.name}.{field}" if field not in ("", name) else f"the field of {record.name}"
    hint = did_you_mean(name, [other[:LONGEST_NAME] for other in held[:MOST_COMPARED]])
    return DataError("R1202", f"{path}: no {what} {name!r} for {owner}; it holds {listed}{hint}")


def agreed_count(record: RecordType, counts: Mapping[str, int]) -> int:
    """The number of examples, which all fields have. Raises DataError R1202."""
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{count} in {name}" for name, count in counts.items())
        raise DataError("R1202", f"{record.name}: every field needs the same number of examples, got {listed}")
    return next(iter(counts.values()), 0)


def runs_of(rows: Words) -> Iterator[tuple[int, int, int]]:
    """Rows that follow each other, as one: at which place they begin, the first row, and how many there are."""
    breaks = (np.flatnonzero(np.diff(rows) != 1) + 1).tolist()
    for start, stop in zip([0, *breaks], [*breaks, len(rows)], strict=True):
        if start < stop:
            yield start, int(rows[start]), stop - start
