"""Datasets that the host feeds, for tests: a source that notes what it reads, and datasets of every kind with the rows they hold."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from shapescript.runtime.dataset import Dataset
from shapescript.runtime.errors import DataError
from shapescript.runtime.sources import Arrays, Source

Rows = np.ndarray  # numbers of examples of the whole dataset


class Slow(Source):
    """Rows as files give them: not in memory, and some may be unusable. Notes how many rows each read was of."""

    in_memory = False

    def __init__(self, arrays: Arrays, unusable: Sequence[int] = ()) -> None:
        super().__init__(arrays.record)
        self.inner, self.unusable = arrays, set(unusable)
        self.reads: list[int] = []
        self.fields_read: set[str] = set()

    def __len__(self) -> int:
        return len(self.inner)

    def read(self, rows: Any, names: Sequence[str] | None = None) -> dict[str, Any]:
        bad = [row for row in rows.tolist() if row in self.unusable]
        if bad:
            raise DataError("R1204", f"a row that can't be used: row {bad[0]}")
        self.reads.append(len(rows))
        self.fields_read.update(names if names is not None else [field.name for field in self.record.fields])
        return self.inner.read(rows, names)


def slow(data: Dataset, unusable: Sequence[int] = ()) -> Dataset:
    """The same examples, read row by row."""
    assert isinstance(data.source, Arrays)
    return Dataset.of_source(Slow(data.source, unusable))


def open_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "shapescript-feed"]


# ways to make a dataset from a direct one, each with the rows that it then has by hand
KINDS: dict[str, tuple[Callable[[Dataset], Dataset], Callable[[Rows], Rows]]] = {
    "direct": (lambda data: data, lambda rows: rows),
    "read": (slow, lambda rows: rows),
    "joined": (lambda data: data.concat(data.take(len(data) // 2)), lambda rows: np.concatenate([rows, rows[: len(rows) // 2]])),
    "filtered": (lambda data: data.filter(np.arange(len(data)) % 3 != 1), lambda rows: rows[np.arange(len(rows)) % 3 != 1]),
    "composed": (
        lambda data: slow(data).filter(np.arange(len(data)) % 2 == 0).concat(data, slow(data).part(0, len(data) // 2)),
        lambda rows: np.concatenate([rows[::2], rows, rows[: len(rows) // 2]]),
    ),
}


def own_threads() -> int:
    """How many threads of Python's there are beside the pool's workers, which stay."""
    return sum(not thread.name.startswith("shapescript worker") for thread in threading.enumerate())
