"""Datasets: examples of a record, held as arrays or read from a source."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NoReturn

import numpy as np
from numpy.lib.stride_tricks import as_strided

from shapescript.compiler.numerics.permutation import split_keys
from shapescript.compiler.numerics.ranges import RANGES
from shapescript.runtime.arrays import Array, Words, address_of, aligned_copy, of_element_type, usable_array
from shapescript.runtime.errors import ArgumentError
from shapescript.runtime.examples import Examples, checked_part
from shapescript.runtime.fingerprints import fingerprint
from shapescript.runtime.host_numbers import checked_number, checked_seed
from shapescript.runtime.orders import Ordered, Shuffled, sampled, shuffled
from shapescript.runtime.record import Batch, RecordType, checked_columns
from shapescript.runtime.sources import Arrays, Chosen, Joined, Part, Source


class Dataset(Examples):
    """Examples of one record. Arrays are checked and copied: what a caller does to its own afterwards changes nothing here.

    A dataset is *direct*, its rows lie in arrays where native code finds them, or *fed*, and the host reads them. `block` is what native
    code reads: the number of examples, 1 if it is fed, and for each field, in the order of their declaration, where it begins (0 if fed)
    and how many bytes apart its rows are.
    """

    def __init__(self, record: RecordType, arrays: Mapping[str, object]) -> None:
        """Raises ArgumentError R1001 to R1006, naming the field, what was expected and what was found."""
        columns = checked_columns(record, arrays)
        self._fill(Arrays(record, {name: aligned_copy(array) for name, array in columns.items()}))

    @classmethod
    def of_windows(cls, record: RecordType, values: object) -> Dataset:
        """A dataset of a record with one field of one axis: example i is as many of the values as the field has, from number i on.

        Raises ArgumentError: R1002 for a record with other fields, for values along more axes or fewer values than one window, R1001 and
        R1006 as for any array.
        """
        if len(record.fields) != 1 or len(record.fields[0].shape) != 1:
            raise ArgumentError("R1002", f"{record.name}: windows are of a record with one field of one axis")
        (field,) = record.fields
        (span,) = field.shape
        array = usable_array(f"{record.name}.{field.name}", values)
        array = of_element_type(f"{record.name}.{field.name}", array, field.dtype)
        if array.ndim != 1 or len(array) < span:
            raise ArgumentError("R1002", f"{record.name}.{field.name}: expected at least {span} values along one axis, got {array.shape}")
        step = array.itemsize
        windows = as_strided(aligned_copy(array), (len(array) - span + 1, span), (step, step), writeable=False)
        return cls.of_source(Arrays(record, {field.name: windows}))

    @classmethod
    def of_source(cls, source: Source) -> Dataset:
        """The examples that a source gives."""
        made = cls.__new__(cls)
        made._fill(source)
        return made

    def _fill(self, source: Source) -> None:
        self._source, self._size = source, len(source)
        places = [(address_of(array), row_bytes(array)) for array in self.arrays] or [(0, field.nbytes) for field in source.record.fields]
        self._block: Words = np.array([self._size, self.fed, *(word for pair in places for word in pair)], np.int64)
        self._block.flags.writeable = False
        self._fingerprint = ""

    @property
    def record(self) -> RecordType:
        return self._source.record

    @property
    def source(self) -> Source:
        return self._source

    @property
    def dataset(self) -> Dataset:
        return self

    @property
    def fed(self) -> bool:
        return not isinstance(self._source, Arrays)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The fields of a direct dataset, in the order of their declaration; a fed one has none."""
        return tuple(self._source.arrays.values()) if isinstance(self._source, Arrays) else ()

    @property
    def block(self) -> Words:
        return self._block

    @property
    def all(self) -> Batch:
        """All examples as one batch, in the order in which they are stored; of a direct dataset only windows, which overlap, are copied.

        Raises DataError R1204 for a row of a file that can't be used.
        """
        if not isinstance(self._source, Arrays):
            return self.gather(np.arange(len(self)))
        whole = {name: array if array.flags.c_contiguous else aligned_copy(array) for name, array in self._source.arrays.items()}
        return Batch.of_checked(self.record, whole)

    def __len__(self) -> int:
        return self._size

    def rows(self, start: int, count: int) -> Words:
        return np.arange(start, start + count)

    def gather(self, rows: Words) -> Batch:
        """The examples with these numbers, each in 0..len-1, as a batch. Raises DataError R1204 for a row of a file that can't be used."""
        return Batch.of_checked(self.record, self._source.read(rows))

    def part(self, start: int, stop: int) -> Dataset:
        first, end = checked_part(start, stop, len(self))
        source = self._source
        return Dataset.of_source(source.part(first, end) if isinstance(source, Arrays) else Part(source, first, end))

    def concat(self, *others: Dataset) -> Dataset:
        """These examples, behind them those of the other datasets; nothing is copied. Raises ArgumentError R1004 for what is no dataset,
        or more examples than 64 bits count, R1002 for one of another record."""
        for other in others:
            if not isinstance(other, Dataset):
                raise ArgumentError("R1004", f"concat: expected a dataset, got {type(other).__name__}")
            if other.record != self.record:
                raise ArgumentError("R1002", f"concat: expected a dataset of {self.record}, got one of {other.record}")
        if (examples := sum(map(len, (self, *others)))) >= 2**63:  # examples may have no bytes
            raise ArgumentError("R1004", f"concat: {examples} examples are more than 64 bits count")
        return Dataset.of_source(Joined([self._source, *(other._source for other in others)])) if others else self

    def random_split(self, fraction: float, seed: int = 0) -> tuple[Dataset, Dataset]:
        """A part of the examples, drawn without replacement, and the others: floor(fraction · n + 0.5) of them are in the first.

        Which ones depends on the seed and the number of examples alone. Nothing is copied. Raises ArgumentError R1004.
        """
        share, key = checked_number("random_split: fraction", fraction, RANGES["fraction"]), checked_seed("random_split: seed", seed)
        size = len(self)
        first, shuffled_rows = split_size(size, share), Shuffled(size, lambda: split_keys(key))

        def part(start: int, stop: int) -> Dataset:
            return Dataset.of_source(Chosen(self._source, lambda at: shuffled_rows.at(start + at), stop - start))

        return part(0, first), part(first, size)

    def filter(self, keep: object) -> Dataset:
        """The examples for which `keep`, an array of one bool for each, is true; no example is copied.

        Raises ArgumentError R1001, R1002, R1004, R1006 for what is no such array.
        """
        array = of_element_type("filter: keep", usable_array("filter: keep", keep), "bool")
        if array.shape != (len(self),):
            message = f"filter: keep: expected one for each of {len(self)} examples, that is shape ({len(self)},), got {array.shape}"
            raise ArgumentError("R1002", message)
        (kept,) = np.nonzero(array)
        return Dataset.of_source(Chosen(self._source, lambda at: kept[at], len(kept)))

    def shuffle(self, k: int, seed: int = 0) -> Ordered:
        """The k-th order of the examples: a permutation that depends on k, the seed and the number of examples alone."""
        return shuffled(self, k, seed)

    def sample(self, count: int, k: int, seed: int = 0, weights: object = None) -> Ordered:
        """As many examples, each drawn from all of them, so that one may come several times; which ones depends on k, the seed, the number
        of examples and the weights alone. `weights` has one for each example, f32 or f64: how likely it is, next to the others.

        Raises DataError R1102 where there is none to draw, R1113 for weights that nothing can be drawn by; ArgumentError R1001 to R1006.
        """
        return sampled(self, count, k, seed, weights)

    def fingerprint(self) -> str:
        """A hash, as hexadecimal digits, of the fields' names, dtypes and sizes, of the number of examples and of their values; of windows,
        of the values that they are taken from. Others that hold the same rows have the same, wherever these lie.

        It doesn't depend on the names of the record and its axes, nor on the order in which the fields are declared.
        """
        if not self._fingerprint:
            self._fingerprint = fingerprint(self._source)
        return self._fingerprint

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Dataset can't be pickled; pickle the arrays that it is made of")

    def __copy__(self) -> Dataset:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Dataset:
        return self

    @property
    def described(self) -> str:
        return f"{self.record.name} dataset"

    def __repr__(self) -> str:
        fields = ", ".join(str(field) for field in self.record.fields)
        return f"<Dataset[{self.record.name}] of {len(self)} examples; {fields}>"


def split_size(count: int, fraction: float) -> int:
    """How many of so many examples are in the first part of a split: floor(fraction · count + 0.5), in f64."""
    return min(count, math.floor(fraction * float(count) + 0.5))


def row_bytes(array: Array) -> int:
    """How many bytes one row begins behind the one before; NumPy leaves that open where there are no two rows."""
    if array.flags.c_contiguous:
        return int(np.prod(array.shape[1:], dtype=np.int64)) * array.itemsize
    return array.strides[0]
