"""Records: what a `data` declaration says of one example, and batches of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from shapescript.compiler.records.dataclass import dataclass
from shapescript.runtime.arrays import (
    NUMPY_DTYPES,
    Array,
    ElementType,
    aligned_copy,
    axes_text,
    check_shape,
    of_element_type,
    sizes,
    usable_array,
    widened,
)
from shapescript.runtime.errors import ArgumentError, did_you_mean

BATCH_AXIS = "b"


@dataclass(frozen=True)
class Field:
    """One field of a record: its name, and the element type, axis names and sizes of one example's value."""

    name: str
    dtype: ElementType
    axes: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()

    @property
    def nbytes(self) -> int:
        """Of one example's value."""
        return math.prod(self.shape) * NUMPY_DTYPES[self.dtype].itemsize

    def __str__(self) -> str:
        return f"{self.name}: {'' if self.dtype == 'f32' else self.dtype}{axes_text(self.axes)} {sizes(self.shape)}"


@dataclass(frozen=True)
class RecordType:
    """A record's name and its fields in the order of their declaration."""

    name: str
    fields: tuple[Field, ...]

    @property
    def field_names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    @property
    def row_bytes(self) -> int:
        """Of one example."""
        return sum(field.nbytes for field in self.fields)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.fields))})"


class Batch:
    """Examples side by side: each field is a read-only array with a leading axis of `len(batch)`.

    Fields are attributes, `batch.pixels`, and reached by name too, `batch["pixels"]`, whatever their names.
    """

    __slots__ = ("_arrays", "_record_type", "_size")

    def __init__(self, record_type: RecordType, arrays: Mapping[str, object]) -> None:
        """Checks and copies the arrays. Raises ArgumentError R1001 to R1006, naming the field."""
        checked = checked_columns(record_type, arrays)
        self._fill(record_type, {name: aligned_copy(array) for name, array in checked.items()})

    @classmethod
    def of_checked(cls, record_type: RecordType, arrays: dict[str, Array]) -> Batch:
        """A batch of arrays that are known to fit and that nobody else writes."""
        batch = cls.__new__(cls)
        batch._fill(record_type, arrays)
        return batch

    def _fill(self, record_type: RecordType, arrays: dict[str, Array]) -> None:
        for array in arrays.values():
            array.flags.writeable = False
        self._record_type, self._arrays = record_type, arrays
        self._size = len(next(iter(arrays.values()), ()))

    @property
    def record_type(self) -> RecordType:
        return self._record_type

    @property
    def arrays(self) -> Mapping[str, Array]:
        """The fields in the order of their declaration."""
        return {name: widened(array) for name, array in self._arrays.items()}

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, name: str) -> Array:
        return widened(self._arrays[name])

    @property
    def columns(self) -> Mapping[str, Array]:
        """The fields as engines take them: of bf16 its bits."""
        return self._arrays

    def __getattr__(self, name: str) -> Any:
        if name in Batch.__slots__ or name.startswith("__"):
            raise AttributeError(name)
        if name not in self._arrays:
            raise AttributeError(f"{self._record_type.name} has no field {name!r}{did_you_mean(name, self._arrays)}", name=name, obj=self)
        return widened(self._arrays[name])

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self._arrays]

    def __repr__(self) -> str:
        return f"<{self._record_type.name}[{len(self)}]: {', '.join(self._arrays)}>"


def checked_columns(record_type: RecordType, arrays: Mapping[str, object]) -> dict[str, Array]:
    """The arrays in the order of the fields, when each has its field's dtype and shape behind a leading axis of one length.

    Raises ArgumentError: R1005 for names, R1001 dtype, R1002 shape, R1003 lengths, R1004 and R1006 for what is no usable array.
    """
    names = record_type.field_names
    missing = [name for name in names if name not in arrays]
    unexpected = [name for name in arrays if name not in names]
    if unexpected:
        raise ArgumentError("R1005", f"{record_type.name} has no field {unexpected[0]!r}{did_you_mean(unexpected[0], missing or names)}")
    if missing:
        raise ArgumentError("R1005", f"{record_type.name}: no array for its field {', '.join(missing)}")
    checked = {field.name: _checked_column(record_type.name, field, arrays[field.name]) for field in record_type.fields}
    lengths = {name: len(array) for name, array in checked.items()}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{length} in {name}" for name, length in lengths.items())
        raise ArgumentError("R1003", f"{record_type.name}: every field needs the same number of examples, got {counts}")
    return checked


def _checked_column(record: str, field: Field, value: object) -> Array:
    what = f"{record}.{field.name}"
    array = usable_array(what, value)
    array = of_element_type(what, array, field.dtype)
    axes = (BATCH_AXIS, *field.axes)
    if array.ndim != len(axes):
        check_shape(what, array, axes, ("any", *field.shape))
    check_shape(what, array, axes, (len(array), *field.shape))
    return array
