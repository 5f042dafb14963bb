"""Orders of a dataset's examples, and the batches in which programs see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from shapescript.runtime.arrays import Words
from shapescript.runtime.errors import DataError
from shapescript.runtime.host_numbers import checked_int
from shapescript.runtime.record import Batch

if TYPE_CHECKING:
    from shapescript.runtime.dataset import Dataset

ROWS_AHEAD = 1 << 16  # computing a part of an order has a cost of its own, so batches share one

Rows = Callable[[int, int], Words]  # (start, count) to the numbers of the examples at those places of an order


class Ordered:
    """A dataset's examples in another order, or some of them; nothing is copied and no list of all places is made."""

    def __init__(self, dataset: Dataset, rows: Rows, size: int, words: str) -> None:
        self._dataset, self._rows, self._size, self._words = dataset, rows, size, words

    @property
    def dataset(self) -> Dataset:
        return self._dataset

    def rows(self, start: int, count: int) -> Words:
        """The numbers of the examples at places start..start+count of this order."""
        return self._rows(start, count)

    def part(self, start: int, stop: int) -> Ordered:
        """What stands at the places start to stop - 1 of this order. Raises DataError R1107 for places outside."""
        first, end = checked_part(start, stop, len(self))
        rows = self._rows
        return Ordered(self._dataset, lambda start, count: rows(first + start, count), end - first, f"{self._words}.part({first}, {end})")

    def take(self, count: int) -> Ordered:
        return self.part(0, count)

    def skip(self, count: int) -> Ordered:
        return self.part(count, len(self))

    def batches(self, size: int, drop_last: bool = False) -> Batches:
        return Batches(self._dataset, self._rows, len(self), (size, drop_last), self._words)

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"<{self._dataset.record.name} dataset{self._words}, {len(self)} examples>"


class Batches:
    """Batches of `size` examples; the last is smaller where the size doesn't divide, or left out with `drop_last`.

    It can be iterated any number of times, and gives the same batches each time.
    """

    def __init__(self, dataset: Dataset, rows: Rows, examples: int, batch: tuple[int, bool], words: str) -> None:
        self._dataset, self._rows, self._examples, self._words = dataset, rows, examples, words
        self._size, self._drop_last = checked_int("batches: size", batch[0], 1), bool(batch[1])

    def __len__(self) -> int:
        return self._examples // self._size if self._drop_last else -(-self._examples // self._size)

    def __iter__(self) -> Iterator[Batch]:
        """Raises DataError R1102, before the first batch, where there would be none."""
        if not len(self):
            raise DataError("R1102", no_batches(self._dataset.record.name, self._examples, self._size))
        return self._generate()

    def _generate(self) -> Iterator[Batch]:
        end = min(len(self) * self._size, self._examples)
        step = max(1, ROWS_AHEAD // self._size) * self._size
        for start in range(0, end, step):
            rows = self._rows(start, min(step, end - start))
            for at in range(0, len(rows), self._size):
                yield self._dataset.gather(rows[at : at + self._size])

    def batch(self, index: int) -> Batch:
        """The batch with this number, in 0..len-1, made without the ones before it."""
        start = range(len(self))[index] * self._size
        count = min(self._size, self._examples - start)
        return self._dataset.gather(self._rows(start, count))

    def __repr__(self) -> str:
        dropped = ", drop_last=True" if self._drop_last else ""
        return f"<{self._dataset.record.name} dataset{self._words}.batches({self._size}{dropped}), {len(self)} batches>"


def no_batches(record: str, examples: int, size: int) -> str:
    """Why a loop over batches would do nothing."""
    if not examples:
        return f"the dataset of {record} is empty: there are no batches to go through"
    return f"the dataset of {record} has {examples} examples, fewer than one batch of {size}, and drop_last is true: 0 batches per epoch"


def checked_part(start: int, stop: int, examples: int) -> tuple[int, int]:
    """Raises DataError R1107 unless 0 <= start <= stop <= examples."""
    first, end = checked_int("part: start", start), checked_int("part: stop", stop)
    if not 0 <= first <= end <= examples:
        raise DataError("R1107", f"the examples {first}..{end} of a dataset that has {examples}")
    return first, end
