"""Columns of Arrow and Parquet files as arrays: types that fit exactly, and no nulls."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shapescript.runtime.arrays import NUMPY_DTYPES, Array, rounded, sizes, widened
from shapescript.runtime.errors import ArgumentError
from shapescript.runtime.extras import optional_module
from shapescript.runtime.record import Field, RecordType

ARROW_NAMES = {"f32": "float32", "f64": "float64", "bf16": "float32", "i64": "int64", "bool": "bool_"}


def check_column(record: RecordType, field: Field, kind: Any) -> None:
    """Raises ArgumentError, naming both types and the conversion, unless a column of this Arrow type can hold the field.

    A field with axes is a list for each axis: of a fixed size, or of one that each row is checked for; or a tensor of a fixed shape.
    """
    arrow = optional_module("pyarrow", "reading Arrow files")
    what, wanted = f"{record.name}.{field.name}", ARROW_NAMES[field.dtype]
    element, axes = kind, []
    if is_tensor(kind):
        element, axes = kind.value_type, list(kind.shape)
        if kind.permutation is not None and list(kind.permutation) != sorted(kind.permutation):
            raise ArgumentError("R1006", f"{what}: its tensors are permuted ({kind}); store them in C order")
    while is_list(element):
        axes.append(element.list_size if arrow.types.is_fixed_size_list(element) else None)
        element = element.value_type
    if element != getattr(arrow, wanted)():
        fix = f"nothing is converted silently: convert it when the file is written, .cast(pyarrow.{wanted}())"
        raise ArgumentError("R1001", f"{what}: expected {wanted.strip('_')}, got {element}; {fix}")
    if len(axes) != len(field.shape) or any(found not in (None, size) for found, size in zip(axes, field.shape, strict=True)):
        found = sizes(["any" if size is None else size for size in axes])
        raise ArgumentError("R1002", f"{what}: expected values of shape {sizes(field.shape)}, got {kind}, that is {found}")


def is_list(kind: Any) -> bool:
    types = optional_module("pyarrow", "reading Arrow files").types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def is_tensor(kind: Any) -> bool:
    """Whether it is Arrow's type of tensors of a fixed shape."""
    return getattr(kind, "extension_name", "") == "arrow.fixed_shape_tensor"


def usable_rows(field: Field, column: Any) -> tuple[Array, Array]:
    """A chunk of a column, which `check_column` has passed, as an array of the field's type, and for each row whether it
    can be used.

    What can't is a null anywhere in the row, a list of another length, or a number that bf16 doesn't represent; such a row's values are
    zeros.
    """
    arrow = optional_module("pyarrow", "reading Arrow files")
    usable, owners, values = np.ones(len(column), np.bool_), np.arange(len(column)), _stored(column)
    for size in (*_spans(field, column), None):
        bad = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else np.zeros(len(values), np.bool_)
        if size is not None and not arrow.types.is_fixed_size_list(values.type):
            bad = bad | (np.diff(values.offsets.to_numpy()) != size)
        if bad.any():
            usable[owners[bad]] = False
            kept = usable[owners]
            values, owners = values.filter(arrow.array(kept)), owners[kept]
        if size is not None:
            values, owners = values.flatten(), np.repeat(owners, size)
    found = values.to_numpy(zero_copy_only=False).reshape(-1, *field.shape) if len(values) else _none(field, int(usable.sum()))
    if field.dtype == "bf16":
        bits = rounded(found)
        differ = ((widened(bits) != found) & ~np.isnan(found)).reshape(len(found), -1).any(axis=1)
        usable[np.flatnonzero(usable)[differ]] = False
        found = bits[~differ]
    if usable.all():
        return found, usable
    array = np.zeros((len(column), *field.shape), NUMPY_DTYPES[field.dtype])
    array[usable] = found
    return array, usable


def _none(field: Field, rows: int) -> Array:
    """No values at all: of no rows, or of rows that have none."""
    return np.zeros((rows, *field.shape), np.float32 if field.dtype == "bf16" else NUMPY_DTYPES[field.dtype])


def _stored(column: Any) -> Any:
    return column.storage if is_tensor(column.type) else column


def _spans(field: Field, column: Any) -> tuple[int, ...]:
    """How long the lists are, from the outermost in; tensors are stored as one list."""
    return (math.prod(field.shape),) if is_tensor(column.type) else field.shape


def fault_of(field: Field, column: Any, row: int) -> str:
    """What is wrong with a row that can't be used, to follow "found"."""
    return (
        _fault(_stored(column)[row].as_py(), _spans(field, column))
        or "a number that bfloat16 doesn't represent; nothing is rounded silently"
    )


def _fault(value: Any, spans: tuple[int, ...]) -> str:
    if value is None:
        return "a null, which no number stands for"
    if not spans:
        return ""
    if len(value) != spans[0]:
        return f"a list of {len(value)} values, expected {spans[0]}"
    return next(filter(None, (_fault(item, spans[1:]) for item in value)), "")
