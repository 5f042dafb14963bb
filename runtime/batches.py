"""Batches of examples, as Python goes through them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from shapescript.runtime.arrays import aligned_copy
from shapescript.runtime.errors import ArgumentError, DataError
from shapescript.runtime.feed import Feed
from shapescript.runtime.host_numbers import checked_int
from shapescript.runtime.record import Batch
from shapescript.runtime.rows_ahead import RowsAhead

if TYPE_CHECKING:
    from shapescript.runtime.examples import Examples


class Batches:
    """Batches of `size` examples from place `start` on; the last is smaller where the size doesn't divide, or left out with `drop_last`.

    It can be iterated any number of times, and gives the same batches each time, whatever is read ahead.
    """

    def __init__(self, examples: Examples, size: int, drop_last: bool = False, start: int = 0, prefetch: int | None = None) -> None:
        """Raises ArgumentError R1004, DataError R1107 for a start outside of the examples."""
        self._examples, self._dataset = examples, examples.dataset
        self._size, self._drop_last = checked_int("batches: size", size, 1), _checked_flag("batches: drop_last", drop_last)
        self._start = checked_int("batches: start", start)
        self._prefetch = None if prefetch is None else checked_int("batches: prefetch", prefetch, 0)
        if len(examples) and not 0 <= self._start <= len(examples):
            raise DataError("R1107", f"batches: start: place {self._start} of a dataset that has {len(examples)} examples")

    @property
    def _end(self) -> int:
        """The place behind the last batch."""
        left = max(len(self._examples) - self._start, 0)
        return self._start + (left // self._size * self._size if self._drop_last else left)

    def __len__(self) -> int:
        return (self._end - self._start + self._size - 1) // self._size

    def __iter__(self) -> Iterator[Batch]:
        """Raises DataError R1102, before the first batch, where the dataset gives none; where `start` leaves none, nothing comes.

        A row that can't be used is a DataError R1204 at the batch that needs it.
        """
        if not len(self._examples) or not (len(self) or self._start):
            raise DataError("R1102", no_batches(self._dataset.record.name, len(self._examples), self._size))
        return self._fed() if self._examples.fed else self._direct()

    def _direct(self) -> Iterator[Batch]:
        rows = RowsAhead(self._examples, self._end)
        for start in range(self._start, self._end, self._size):
            yield self._dataset.gather(rows.between(start, min(start + self._size, self._end)))

    def _fed(self) -> Iterator[Batch]:
        names = self._dataset.record.field_names
        feed = Feed(self._examples, self._size, self._start, self._end, self._prefetch)
        try:
            start = self._start
            while start < self._end:
                count, arrays = feed.take(start)
                for at in range(0, count, self._size):
                    pieces = [array if count <= self._size else aligned_copy(array[at : at + self._size]) for array in arrays]
                    yield Batch.of_checked(self._dataset.record, dict(zip(names, pieces, strict=True)))
                start += count
        finally:
            feed.close()

    def batch(self, index: int) -> Batch:
        """The batch with this number, in 0..len-1, made without the ones before it. Raises ArgumentError R1004, DataError R1107."""
        number = checked_int("batch: index", index)
        if not 0 <= number < len(self):
            raise DataError("R1107", f"batch: index: number {number} of {len(self)} batches")
        start = self._start + number * self._size
        return self._dataset.gather(self._examples.rows(start, min(self._size, self._end - start)))

    def __repr__(self) -> str:
        shown = [str(self._size)]
        shown += ["drop_last=True"] * self._drop_last + [f"start={self._start}"] * bool(self._start)
        shown += [f"prefetch={self._prefetch}"] * (self._prefetch is not None)
        return f"<{self._examples.described}.batches({', '.join(shown)}), {len(self)} batches>"


def no_batches(record: str, examples: int, size: int) -> str:
    """Why a loop over batches would do nothing."""
    if not examples:
        return f"the dataset of {record} is empty: there are no batches to go through"
    return f"the dataset of {record} has {examples} examples, fewer than one batch of {size}, and drop_last is true: 0 batches per epoch"


def _checked_flag(what: str, value: object) -> bool:
    """A bool of Python's or NumPy's. Raises ArgumentError R1004."""
    if not isinstance(value, bool | np.bool_):
        raise ArgumentError("R1004", f"{what}: expected a bool, got {type(value).__name__}")
    return bool(value)
