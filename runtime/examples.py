"""What a dataset and an order of one have in common: examples at places 0 to len-1."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeVar

from shapescript.runtime.arrays import Words
from shapescript.runtime.batches import Batches
from shapescript.runtime.errors import DataError
from shapescript.runtime.host_numbers import checked_int

if TYPE_CHECKING:
    from shapescript.runtime.dataset import Dataset

Some = TypeVar("Some", bound="Examples")


class Examples(ABC):
    """Examples at places 0 to len-1. `described` is how what is made of them begins to say what it is."""

    @property
    @abstractmethod
    def dataset(self) -> Dataset:
        """Where the rows are; of a dataset itself."""

    @property
    @abstractmethod
    def fed(self) -> bool:
        """Whether only the host knows what stands at which place, so that native code asks for batches."""

    @property
    @abstractmethod
    def block(self) -> Words:
        """What native code reads, as the classes say."""

    @property
    @abstractmethod
    def described(self) -> str: ...

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def rows(self, start: int, count: int) -> Words:
        """The numbers of the dataset's examples at places start to start + count - 1, all of which are there."""

    @abstractmethod
    def part(self: Some, start: int, stop: int) -> Some:
        """The examples at places start to stop - 1; nothing is copied. Raises ArgumentError R1004, DataError R1107 for places outside."""

    def take(self: Some, count: int) -> Some:
        """The first examples. Raises as `part`."""
        return self.part(0, checked_int("take: count", count))

    def skip(self: Some, count: int) -> Some:
        """All but the first examples. Raises as `part`."""
        return self.part(checked_int("skip: count", count), len(self))

    def batches(self, size: int, drop_last: bool = False, start: int = 0, prefetch: int | None = None) -> Batches:
        """Batches of the examples in this order, from place `start` on.

        `prefetch` is how many batches are read ahead where rows don't lie in memory, by default 2; it changes no batch.

        Raises ArgumentError R1004, DataError R1107 for a start outside of 0..len.
        """
        return Batches(self, size, drop_last, start, prefetch)


def checked_part(start: int, stop: int, examples: int) -> tuple[int, int]:
    """Raises DataError R1107 unless 0 <= start <= stop <= examples."""
    first, end = checked_int("part: start", start), checked_int("part: stop", stop)
    if not 0 <= first <= end <= examples:
        raise DataError("R1107", f"the examples {first}..{end} of a dataset that has {examples}")
    return first, end
