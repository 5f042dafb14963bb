"""Orders of a dataset's examples: shuffled, drawn, drawn by weight, and parts and orders of these.

Every order is a function from places to rows, computed where it is asked: no list of all places is made.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from shapescript.compiler.numerics.permutation import places, round_keys
from shapescript.compiler.numerics.sampling import (
    running_sums,
    sample_words,
    sample_words_at,
    sampled_rows,
    sampled_rows_at,
    weighted_rows,
)
from shapescript.runtime.arrays import Array, Words, of_element_type, usable_array
from shapescript.runtime.errors import ArgumentError, DataError
from shapescript.runtime.examples import Examples, checked_part
from shapescript.runtime.host_numbers import checked_int, checked_seed

if TYPE_CHECKING:
    from shapescript.runtime.dataset import Dataset

PERMUTATION, DRAWS, ON_HOST = range(3)  # kinds of orders: what native code computes by itself, and what only the host knows


class Order(Protocol):
    """Rows by place, in 0..; `at` takes places in any order."""

    def between(self, start: int, count: int) -> Words: ...

    def at(self, at_places: Words) -> Words: ...


class Shuffled:
    """The permutation of n rows that has these keys."""

    def __init__(self, n: int, keys_of: Callable[[], NDArray[np.uint32]]) -> None:
        self._n, self._keys_of = n, keys_of

    @cached_property
    def _keys(self) -> NDArray[np.uint32]:
        return self._keys_of()

    def between(self, start: int, count: int) -> Words:
        return self.at(np.arange(start, start + count))

    def at(self, at_places: Words) -> Words:
        return places(at_places.astype(np.uint64), self._n, self._keys)


class Drawn:
    """The k-th sample of n rows, each as likely as the others."""

    def __init__(self, n: int, k: int, seed: int) -> None:
        self._n, self._k, self._seed = n, k, seed

    def between(self, start: int, count: int) -> Words:
        return sampled_rows(self._n, self._seed, self._k, start, count)

    def at(self, at_places: Words) -> Words:
        return sampled_rows_at(self._n, self._seed, self._k, at_places)


class DrawnByWeight:
    """The k-th sample of rows with these weights."""

    def __init__(self, weights: Array, k: int, seed: int) -> None:
        self._sums, self._k, self._seed = running_sums(weights), k, seed
        if not (len(self._sums) and 0.0 < self._sums[-1] < np.inf):
            raise DataError("R1113", f"sample: weights: their sum is {self._sums[-1]}, so nothing can be drawn by them")

    def between(self, start: int, count: int) -> Words:
        return weighted_rows(self._sums, sample_words(self._seed, self._k, start, count))

    def at(self, at_places: Words) -> Words:
        return weighted_rows(self._sums, sample_words_at(self._seed, self._k, at_places))


class Behind:
    """An order of what is ordered already: places to places of `inner`, and these to rows."""

    def __init__(self, inner: Ordered, outer: Order) -> None:
        self._inner, self._outer = inner, outer

    def between(self, start: int, count: int) -> Words:
        return self._inner.rows_at(self._outer.between(start, count))

    def at(self, at_places: Words) -> Words:
        return self._inner.rows_at(self._outer.at(at_places))


class Ordered(Examples):
    """A dataset's examples in another order, or some of them; nothing is copied.

    `block` is what native code reads: how many places there are, the kind of the order, its number k, its seed, and the first place.
    Native code computes the rows of a direct dataset's permutations and draws by itself; k and seed mean nothing for the third kind.
    """

    def __init__(self, dataset: Dataset, kind: int, order: Order, numbers: tuple[int, int], size: int, words: str, first: int = 0) -> None:
        self._dataset, self._order, self._numbers, self._size, self._words, self._first = dataset, order, numbers, size, words, first
        self._kind = ON_HOST if dataset.fed else kind
        self._block: Words = np.array([size, self._kind, *numbers, first], np.int64)
        self._block.setflags(write=False)  # `flags.writeable` leaves a new string in the interpreter's cache each time

    @property
    def dataset(self) -> Dataset:
        return self._dataset

    @property
    def block(self) -> Words:
        return self._block

    @property
    def fed(self) -> bool:
        return self._kind == ON_HOST

    def rows(self, start: int, count: int) -> Words:
        return self._order.between(self._first + start, count)

    def rows_at(self, at_places: Words) -> Words:
        """The numbers of the examples at these places, each in 0..len-1, in any order."""
        return self._order.at(self._first + at_places)

    def part(self, start: int, stop: int) -> Ordered:
        first, end = checked_part(start, stop, len(self))
        words = f"{self._words}.part({first}, {end})"
        return Ordered(self._dataset, self._kind, self._order, self._numbers, end - first, words, self._first + first)

    def shuffle(self, k: int, seed: int = 0) -> Ordered:
        """The k-th order of these places, as of so many examples."""
        return shuffled(self, k, seed)

    def sample(self, count: int, k: int, seed: int = 0, weights: object = None) -> Ordered:
        """As many places of this order, each drawn from all of them; `weights` are those of the dataset's examples. Raises as
        `Dataset.sample`."""
        return sampled(self, count, k, seed, weights)

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"<{self.described}, {len(self)} examples>"

    @property
    def described(self) -> str:
        return f"{self._dataset.described}{self._words}"


def shuffled(examples: Examples, k: int, seed: int) -> Ordered:
    """Raises ArgumentError R1004 for numbers that are none."""
    number, key = checked_int("shuffle: k", k), checked_seed("shuffle: seed", seed)
    words = f".shuffle({number}, seed={key})"
    return _ordered(examples, PERMUTATION, Shuffled(len(examples), lambda: round_keys(key, number)), (number, key), len(examples), words)


def sampled(examples: Examples, count: int, k: int, seed: int, weights: object) -> Ordered:
    """Raises ArgumentError R1004 for numbers that are none, R1001, R1002, R1004 and R1006 for weights that don't fit; DataError R1102 where
    there is nothing to draw, R1113 for weights that nothing can be drawn by."""
    number, key = checked_int("sample: k", k), checked_seed("sample: seed", seed)
    wanted, size = checked_int("sample: count", count, 0), len(examples)
    if not size:
        raise DataError("R1102", f"the dataset of {examples.dataset.record.name} is empty: there is no example to draw")
    words = f".sample({wanted}, {number}, seed={key}{'' if weights is None else ', weights=…'})"
    if weights is None:
        return _ordered(examples, DRAWS, Drawn(size, number, key), (number, key), wanted, words)
    checked = _checked_weights(weights, examples.dataset)
    if isinstance(examples, Ordered):
        checked = checked[examples.rows(0, size)]
    return _ordered(examples, ON_HOST, DrawnByWeight(checked, number, key), (number, key), wanted, words)


def _ordered(examples: Examples, kind: int, order: Order, numbers: tuple[int, int], size: int, words: str) -> Ordered:
    if isinstance(examples, Ordered):
        return Ordered(examples.dataset, ON_HOST, Behind(examples, order), numbers, size, examples._words + words)
    return Ordered(examples.dataset, kind, order, numbers, size, words)


def _checked_weights(weights: object, dataset: Dataset) -> Array:
    """One f32 or f64 weight for each example. Raises ArgumentError R1001, R1002, R1004, R1006, DataError R1113."""
    array = usable_array("sample: weights", weights)
    if array.dtype != np.float32:
        array = of_element_type("sample: weights", array, "f64")
    if array.shape != (len(dataset),):
        message = f"sample: weights: expected one for each of {len(dataset)} examples, that is shape ({len(dataset)},), got {array.shape}"
        raise ArgumentError("R1002", message)
    (faults,) = np.nonzero(~((array >= 0) & (array < np.inf)))
    if len(faults):
        fault = int(faults[0])
        raise DataError("R1113", f"sample: weights: number {fault} is {array[fault]}; each is at least 0 and finite")
    return array
