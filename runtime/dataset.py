"""Datasets: examples of a record, held as arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import NoReturn

import numpy as np
from numpy.lib.stride_tricks import as_strided

from shapescript.compiler.numerics.random import order
from shapescript.compiler.numerics.sampling import sampled_rows
from shapescript.runtime.arrays import NUMPY_DTYPES, Array, Words, address_of, aligned, aligned_copy, of_element_type, usable_array
from shapescript.runtime.errors import ArgumentError, DataError
from shapescript.runtime.host_numbers import checked_int, checked_seed
from shapescript.runtime.orders import Batches, Ordered, checked_part
from shapescript.runtime.record import Batch, RecordType, checked_columns


class Dataset:
    """Examples of one record. The arrays are checked and copied: what a caller does to its own afterwards changes nothing here.

    `arrays` has the fields in the order of their declaration; rows of one may overlap, as the windows of a text do. `block` is what
    native code reads: the number of examples, and for each field where it begins and how many bytes apart its rows are.
    """

    def __init__(self, record: RecordType, arrays: Mapping[str, object]) -> None:
        """Raises ArgumentError R1001 to R1006, naming the field, what was expected and what was found."""
        self._fill(record, {name: aligned_copy(array) for name, array in checked_columns(record, arrays).items()})

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
        return cls._of_checked(record, {field.name: windows})

    @classmethod
    def _of_checked(cls, record: RecordType, arrays: dict[str, Array]) -> Dataset:
        """A dataset of arrays that are known to fit and that nobody else writes."""
        made = cls.__new__(cls)
        made._fill(record, arrays)
        return made

    def _fill(self, record: RecordType, arrays: dict[str, Array]) -> None:
        self._record, self._arrays = record, arrays
        fields = list(arrays.values())
        self._size = len(fields[0]) if fields else 0
        self._block: Words = np.array([self._size, *(word for field in fields for word in (address_of(field), row_bytes(field)))], np.int64)
        self._block.flags.writeable = False
        self._fingerprint = ""

    @property
    def record(self) -> RecordType:
        return self._record

    @property
    def arrays(self) -> tuple[Array, ...]:
        return tuple(self._arrays.values())

    @property
    def block(self) -> Words:
        return self._block

    @property
    def all(self) -> Batch:
        """All examples as one batch, in the order in which they are stored; only windows, which overlap here, are copied."""
        whole = {name: array if array.flags.c_contiguous else aligned_copy(array) for name, array in self._arrays.items()}
        return Batch.of_checked(self._record, whole)

    def __len__(self) -> int:
        return self._size

    def part(self, start: int, stop: int) -> Dataset:
        """The examples start to stop - 1 as a dataset; nothing is copied. Raises DataError R1107 for places outside."""
        first, end = checked_part(start, stop, len(self))
        return Dataset._of_checked(self._record, {name: array[first:end] for name, array in self._arrays.items()})

    def take(self, count: int) -> Dataset:
        """The first examples. Raises DataError R1107."""
        return self.part(0, count)

    def skip(self, count: int) -> Dataset:
        """All but the first examples. Raises DataError R1107."""
        return self.part(count, len(self))

    def shuffle(self, k: int, seed: int = 0) -> Ordered:
        """The k-th order of the examples: a permutation that depends on k, the seed and the number of examples alone."""
        number, key, size = checked_int("shuffle: k", k), checked_seed("shuffle: seed", seed), len(self)
        return Ordered(self, lambda start, count: order(size, key, number, start, count), size, f".shuffle({number}, seed={key})")

    def sample(self, count: int, k: int, seed: int = 0) -> Ordered:
        """As many examples, each drawn from all of them, so that one may come several times; which ones depends on k, the seed and the
        number of examples alone. Raises DataError R1102 where there is none to draw."""
        number, key, size = checked_int("sample: k", k), checked_seed("sample: seed", seed), len(self)
        wanted = checked_int("sample: count", count, 0)
        if not size:
            raise DataError("R1102", f"the dataset of {self._record.name} is empty: there is no example to draw")
        words = f".sample({wanted}, {number}, seed={key})"
        return Ordered(self, lambda start, count: sampled_rows(size, key, number, start, count), wanted, words)

    def batches(self, size: int, drop_last: bool = False) -> Batches:
        """Batches in the order in which the examples are stored."""
        return Batches(self, lambda start, count: np.arange(start, start + count), len(self), (size, drop_last), "")

    def fingerprint(self) -> str:
        """A hash, as hexadecimal digits, of the fields' names, dtypes and sizes, of the number of examples and of their values; of windows,
        of the values that they are taken from.

        It doesn't depend on the names of the record and its axes, nor on the order in which the fields are declared.
        """
        if not self._fingerprint:
            digest = hashlib.blake2b(digest_size=16)
            for field in sorted(self._record.fields, key=lambda field: field.name.encode()):
                array = self._arrays[field.name]
                kind = "" if array.flags.c_contiguous else " windows"
                digest.update(f"{field.name} {field.dtype} {len(self)} {field.shape}{kind}\n".encode())
                digest.update(_values_of(array).reshape(-1).view(np.uint8).data)
            self._fingerprint = digest.hexdigest()
        return self._fingerprint

    def gather(self, rows: Words) -> Batch:
        """The examples with these numbers, each in 0..len-1, as a batch."""
        arrays: dict[str, Array] = {}
        for field in self._record.fields:
            shape = (len(rows), *field.shape)
            dtype = NUMPY_DTYPES[field.dtype]
            taken = aligned(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize).view(dtype).reshape(shape)
            taken[...] = self._arrays[field.name][rows]  # np.take would first make an array of all windows
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


def row_bytes(array: Array) -> int:
    """How many bytes one row begins behind the one before; NumPy leaves that open where there are no two rows."""
    if array.flags.c_contiguous:
        return int(np.prod(array.shape[1:], dtype=np.int64)) * array.itemsize
    return array.strides[0]


def _values_of(array: Array) -> Array:
    """The array, of windows the values that they are taken from."""
    if array.flags.c_contiguous:
        return array
    count, span = array.shape
    return as_strided(array, (count + span - 1,), (array.itemsize,), writeable=False)
