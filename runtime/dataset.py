"""Datasets: examples of a record, held as arrays, and the orders and batches in which programs see them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import NoReturn

import numpy as np

from shapescript.compiler.numerics.random import order
from shapescript.runtime.arrays import NUMPY_DTYPES, Array, Words, address_of, aligned, aligned_copy
from shapescript.runtime.errors import DataError
from shapescript.runtime.host_numbers import checked_int, checked_seed
from shapescript.runtime.record import Batch, RecordType, checked_columns

ROWS_AHEAD = 1 << 16  # computing a part of an order has a cost of its own, so batches share one

Rows = Callable[[int, int], Words]  # (start, count) to the numbers of the examples at those places of an order


class Dataset:
    """Examples of one record. The arrays are checked and copied: what a caller does to its own afterwards changes nothing here.

    `block` is what native code reads: the number of examples, then the address of each field's array in the order of the
    record's fields.
    """

    def __init__(self, record: RecordType, arrays: Mapping[str, object]) -> None:
        """Raises ArgumentError R1001 to R1006, naming the field, what was expected and what was found."""
        checked = checked_columns(record, arrays)
        self._record = record
        self._all = Batch.of_checked(record, {name: aligned_copy(array) for name, array in checked.items()})
        self._block: Words = np.array([len(self._all), *(address_of(self._all[name]) for name in record.field_names)], np.int64)
        self._block.flags.writeable = False
        self._fingerprint = ""

    @property
    def record(self) -> RecordType:
        return self._record

    @property
    def block(self) -> Words:
        return self._block

    @property
    def all(self) -> Batch:
        """All examples as one batch, in the order in which they are stored; nothing is copied."""
        return self._all

    def __len__(self) -> int:
        return len(self._all)

    def shuffle(self, k: int, seed: int = 0) -> Ordered:
        """The k-th order of the examples: a permutation that depends on k, the seed and the number of examples alone."""
        number, key, size = checked_int("shuffle: k", k), checked_seed("shuffle: seed", seed), len(self)
        return Ordered(self, lambda start, count: order(size, key, number, start, count), f".shuffle({number}, seed={key})")

    def batches(self, size: int, drop_last: bool = False) -> Batches:
        """Batches in the order in which the examples are stored."""
        return Batches(self, lambda start, count: np.arange(start, start + count), size, drop_last, "")

    def fingerprint(self) -> str:
        """A hash, as hexadecimal digits, of the fields' names, dtypes and sizes, of the number of examples and of their values.

        It doesn't depend on the names of the record and its axes, nor on the order in which the fields are declared.
        """
        if not self._fingerprint:
            digest = hashlib.blake2b(digest_size=16)
            for field in sorted(self._record.fields, key=lambda field: field.name.encode()):
                digest.update(f"{field.name} {field.dtype} {len(self)} {field.shape}\n".encode())
                digest.update(np.ascontiguousarray(self._all[field.name]).reshape(-1).view(np.uint8).data)
            self._fingerprint = digest.hexdigest()
        return self._fingerprint

    def gather(self, rows: Words) -> Batch:
        """The examples with these numbers, each in 0..len-1, as a batch."""
        arrays: dict[str, Array] = {}
        for field in self._record.fields:
            shape = (len(rows), *field.shape)
            dtype = NUMPY_DTYPES[field.dtype]
            taken = aligned(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize).view(dtype).reshape(shape)
            np.take(self._all[field.name], rows, axis=0, out=taken)
            arrays[field.name] = taken
        return Batch.of_checked(self._record, arrays)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Dataset can't be pickled; pickle the arrays that it is made of")

    def __copy__(self) -> Dataset:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Dataset:
        return self

    def __repr__(self) -> str:
        fields = ", ".join(str(field) for field in self._record.fields)
        return f"<Dataset[{self._record.name}] of {len(self)} examples; {fields}>"


class Ordered:
    """A dataset's examples in another order; nothing is copied and no list of all places is made."""

    def __init__(self, dataset: Dataset, rows: Rows, words: str) -> None:
        self._dataset, self._rows, self._words = dataset, rows, words

    @property
    def dataset(self) -> Dataset:
        return self._dataset

    def rows(self, start: int, count: int) -> Words:
        """The numbers of the examples at places start..start+count of this order."""
        return self._rows(start, count)

    def batches(self, size: int, drop_last: bool = False) -> Batches:
        return Batches(self._dataset, self._rows, size, drop_last, self._words)

    def __len__(self) -> int:
        return len(self._dataset)

    def __repr__(self) -> str:
        return f"<{self._dataset.record.name} dataset{self._words}, {len(self)} examples>"


class Batches:
    """Batches of `size` examples; the last is smaller where the size doesn't divide, or left out with `drop_last`.

    It can be iterated any number of times, and gives the same batches each time.
    """

    def __init__(self, dataset: Dataset, rows: Rows, size: int, drop_last: bool, words: str) -> None:
        self._dataset, self._rows, self._words = dataset, rows, words
        self._size, self._drop_last = checked_int("batches: size", size, 1), bool(drop_last)

    def __len__(self) -> int:
        examples = len(self._dataset)
        return examples // self._size if self._drop_last else -(-examples // self._size)

    def __iter__(self) -> Iterator[Batch]:
        """Raises DataError R1102, before the first batch, where there would be none."""
        if not len(self):
            raise DataError("R1102", no_batches(self._dataset.record.name, len(self._dataset), self._size))
        return self._generate()

    def _generate(self) -> Iterator[Batch]:
        end = min(len(self) * self._size, len(self._dataset))
        step = max(1, ROWS_AHEAD // self._size) * self._size
        for start in range(0, end, step):
            rows = self._rows(start, min(step, end - start))
            for at in range(0, len(rows), self._size):
                yield self._dataset.gather(rows[at : at + self._size])

    def batch(self, index: int) -> Batch:
        """The batch with this number, in 0..len-1, made without the ones before it."""
        start = range(len(self))[index] * self._size
        count = min(self._size, len(self._dataset) - start)
        return self._dataset.gather(self._rows(start, count))

    def __repr__(self) -> str:
        dropped = ", drop_last=True" if self._drop_last else ""
        return f"<{self._dataset.record.name} dataset{self._words}.batches({self._size}{dropped}), {len(self)} batches>"


def no_batches(record: str, examples: int, size: int) -> str:
    """Why a loop over batches would do nothing."""
    if not examples:
        return f"the dataset of {record} is empty: there are no batches to go through"
    return f"the dataset of {record} has {examples} examples, fewer than one batch of {size}, and drop_last is true: 0 batches per epoch"
