"""Sources that the tests of datasets and feeds share: rows that are computed, counted, held back or broken."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

import numpy as np
from runtime_samples import DIGIT

from shapescript.runtime.arrays import Array, Words
from shapescript.runtime.dataset import Dataset
from shapescript.runtime.errors import DataError
from shapescript.runtime.record import Batch, RecordType
from shapescript.runtime.sources import Source, empty_rows


class Computed(Source):
    """Rows that stand nowhere: pixels (4,) are row + 0.25 i, the label is the row. It counts what it is asked for.

    `broken` rows raise R1204. A read that needs a row of `held` waits until `release` is set.
    """

    in_memory = False

    def __init__(self, size: int, broken: Iterable[int] = (), held: Iterable[int] = (), record: RecordType = DIGIT) -> None:
        super().__init__(record)
        self._size, self._broken, self._held = size, set(broken), set(held)
        self.reads: list[list[int]] = []
        self.threads: set[str] = set()
        self.waiting, self.release = threading.Event(), threading.Event()

    def __len__(self) -> int:
        return self._size

    def read(self, rows: Words, names: Sequence[str] | None = None) -> dict[str, Array]:
        assert rows.dtype == np.int64 and ((rows >= 0) & (rows < self._size)).all()
        self.reads.append(rows.tolist())
        self.threads.add(threading.current_thread().name)
        for row in rows.tolist():
            if row in self._broken:
                raise DataError("R1204", f"made.up: row {row} is broken")
            if row in self._held:
                self.waiting.set()
                self.release.wait()
        taken = empty_rows(self.fields(names), len(rows))
        for name, array in taken.items():
            array[...] = rows if name == "label" else rows[:, None] + np.arange(4) / 4
        return taken

    @property
    def touched(self) -> set[int]:
        return {row for rows in self.reads for row in rows}


def computed(size: int, broken: Iterable[int] = (), held: Iterable[int] = ()) -> tuple[Dataset, Computed]:
    source = Computed(size, broken, held)
    return Dataset.of_source(source), source


def same_rows_in_memory(size: int) -> Dataset:
    """What `Computed` gives, as arrays."""
    rows = np.arange(size)
    return Dataset(DIGIT, {"pixels": (rows[:, None] + np.arange(4) / 4).astype(np.float32), "label": rows})


def labels(batches: Iterable[Batch]) -> list[list[int]]:
    return [batch.label.tolist() for batch in batches]


def flat(batches: Iterable[Batch]) -> list[int]:
    """The labels of all batches, one behind the other."""
    return [label for batch in batches for label in batch.label.tolist()]


def contents(batches: Iterable[Batch]) -> list[tuple[bytes, bytes]]:
    return [(batch.pixels.tobytes(), batch.label.tobytes()) for batch in batches]


def readers() -> list[threading.Thread]:
    """The threads that read ahead now."""
    return [thread for thread in threading.enumerate() if thread.name == "shapescript-feed"]
