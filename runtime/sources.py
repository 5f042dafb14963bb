"""Where a dataset's examples come from: arrays, several sources behind each other, some rows of one; files are sources too."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from shapescript.runtime.arrays import NUMPY_DTYPES, Array, Words, aligned
from shapescript.runtime.record import Field, RecordType

RowsAt = Callable[[Words], Words]  # places, in any order, to the rows that stand there


class Source(ABC):
    """Examples of a record, by number. Several threads may read one at once.

    `in_memory` says whether all rows lie in arrays, so that reading them waits for nothing.
    """

    in_memory: bool

    def __init__(self, record: RecordType) -> None:
        self.record = record

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def read(self, rows: Words, names: Sequence[str] | None = None) -> dict[str, Array]:
        """The fields of these names, by default all in the order of their declaration, of the rows with these numbers: new aligned arrays,
        in the order given; a row may come several times. Each number is in 0..len-1.

        Raises DataError R1204, with file and row, for a row that can't be used.
        """

    def column(self, name: str, start: int, stop: int) -> Array:
        """One field of rows start to stop - 1, which are there: C-contiguous, perhaps a view. Raises as `read`."""
        return self.read(np.arange(start, stop), (name,))[name]

    def fields(self, names: Sequence[str] | None = None) -> list[Field]:
        """The fields of these names, by default all, in the order of their declaration."""
        return [field for field in self.record.fields if names is None or field.name in names]


class Arrays(Source):
    """Rows that lie in arrays, each field's with a leading axis of rows; rows of one may overlap, as the windows of a text do.

    The arrays are known to fit the record, are in the order of its fields, and nobody writes them.
    """

    in_memory = True

    def __init__(self, record: RecordType, arrays: Mapping[str, Array]) -> None:
        super().__init__(record)
        self.arrays = dict(arrays)
        self._size = len(next(iter(self.arrays.values()), ()))

    def __len__(self) -> int:
        return self._size

    def read(self, rows: Words, names: Sequence[str] | None = None) -> dict[str, Array]:
        taken = empty_rows(self.fields(names), len(rows))
        for name, array in taken.items():
            array[...] = self.arrays[name][rows]  # np.take would first make an array of all windows
        return taken

    def column(self, name: str, start: int, stop: int) -> Array:
        return np.ascontiguousarray(self.arrays[name][start:stop])

    def part(self, start: int, stop: int) -> Arrays:
        """Rows start to stop - 1; nothing is copied."""
        return Arrays(self.record, {name: array[start:stop] for name, array in self.arrays.items()})


class Joined(Source):
    """The rows of several sources of one record, behind each other."""

    def __init__(self, parts: Sequence[Source]) -> None:
        super().__init__(parts[0].record)
        self._parts: list[Source] = []
        for part in parts:
            self._parts += part._parts if isinstance(part, Joined) else [part]
        self._ends: Words = np.cumsum([len(part) for part in self._parts])
        self.in_memory = all(part.in_memory for part in self._parts)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def read(self, rows: Words, names: Sequence[str] | None = None) -> dict[str, Array]:
        homes = np.searchsorted(self._ends, rows, side="right")
        kinds = np.unique(homes).tolist()
        if len(kinds) == 1:
            return self._read_part(kinds[0], rows, names)
        taken = empty_rows(self.fields(names), len(rows))
        for home in kinds:
            (places,) = np.nonzero(homes == home)
            for name, array in self._read_part(home, rows[places], names).items():
                taken[name][places] = array
        return taken

    def _read_part(self, number: int, rows: Words, names: Sequence[str] | None) -> dict[str, Array]:
        part = self._parts[number]
        return part.read(rows - (int(self._ends[number]) - len(part)), names)

    def column(self, name: str, start: int, stop: int) -> Array:
        pieces = []
        for part, end in zip(self._parts, self._ends.tolist(), strict=True):
            begin = end - len(part)
            first, last = max(start, begin), min(stop, end)
            if first < last:
                pieces.append(part.column(name, first - begin, last - begin))
        if len(pieces) == 1:
            return pieces[0]
        return np.concatenate(pieces) if pieces else self.read(np.arange(0), (name,))[name]


class Chosen(Source):
    """Rows of another source: at place i the row that a function of places says."""

    def __init__(self, source: Source, rows_at: RowsAt, size: int) -> None:
        super().__init__(source.record)
        self._source, self._rows_at, self._size = source, rows_at, size
        self.in_memory = source.in_memory

    def __len__(self) -> int:
        return self._size

    def read(self, rows: Words, names: Sequence[str] | None = None) -> dict[str, Array]:
        return self._source.read(self._rows_at(rows), names)


class Part(Chosen):
    """Rows of another source that follow each other."""

    def __init__(self, source: Source, start: int, stop: int) -> None:
        super().__init__(source, lambda places: places + start, stop - start)
        self._start = start

    def column(self, name: str, start: int, stop: int) -> Array:
        return self._source.column(name, self._start + start, self._start + stop)


def empty_rows(fields: Sequence[Field], count: int) -> dict[str, Array]:
    """An aligned array for so many rows of each field; all zeros."""
    arrays = {}
    for field in fields:
        shape, dtype = (count, *field.shape), NUMPY_DTYPES[field.dtype]
        arrays[field.name] = aligned(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize).view(dtype).reshape(shape)
    return arrays
