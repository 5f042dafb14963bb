"""Arrays at the border: aligned memory, element types, and the checks that every array from outside passes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from shapescript.compiler.numerics.bfloat16_arrays import bits_of, numbers_of
from shapescript.runtime.errors import ArgumentError, cause_of

Array = NDArray[Any]
Bytes = NDArray[np.uint8]
Words = NDArray[np.int64]
ElementType = Literal["f32", "f64", "bf16", "i64", "bool"]

ALIGNMENT = 64
# NumPy has no bf16: arrays of it hold its bits, under a dtype that nothing else has.
BF16: np.dtype[Any] = np.dtype([("bf16", np.uint16)])
ELEMENT_TYPES: tuple[ElementType, ...] = get_args(ElementType)
NUMPY_DTYPES: dict[str, np.dtype[Any]] = {
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "bf16": BF16,
    "i64": np.dtype(np.int64),
    "bool": np.dtype(np.bool_),
}


def aligned(nbytes: int) -> Bytes:
    """`nbytes` bytes of zeros, the first at an address that is a multiple of 64."""
    room = np.zeros(nbytes + ALIGNMENT, np.uint8)
    start = -address_of(room) % ALIGNMENT
    return room[start : start + nbytes]


def aligned_copy(array: Array) -> Array:
    """A C-contiguous, 64-byte-aligned, read-only copy."""
    copy = aligned(array.nbytes).view(array.dtype).reshape(array.shape)
    np.copyto(copy, array)
    copy.flags.writeable = False
    return copy


def address_of(array: Array) -> int:
    return int(array.ctypes.data)


def dtype_name(dtype: np.dtype[Any]) -> str:
    return "bfloat16" if dtype == BF16 else str(dtype.name)


def widened(array: Array) -> Array:
    """An array as Python's users see it: one of bf16 as the float32 numbers that it holds, any other as it is."""
    return numbers_of(array.view(np.uint16)) if array.dtype == BF16 else array


def rounded(array: Array) -> Array:
    """Floats rounded to bf16, once."""
    return bits_of(array).view(BF16)


def engine_array(array: Array) -> Array:
    """An array as engines take it: one of bf16 as its bits."""
    return array.view(np.uint16) if array.dtype == BF16 else array


def canonical_nan(array: Array) -> Array:
    """The array itself, or a copy in which every NaN is the positive quiet one: a NaN's sign and payload aren't exact."""
    if array.dtype == BF16:
        return rounded(widened(array))
    if array.dtype.kind != "f":
        return array
    nan = np.isnan(array)
    return np.where(nan, array.dtype.type(np.nan), array) if nan.any() else array


def sizes(shape: Sequence[int | str]) -> str:
    """A shape as Python writes it: "(64, 10)", "(64,)", "()"; "any" may stand for a size."""
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def axes_text(axes: Sequence[str]) -> str:
    """Axes as a program writes them: "[b In]"."""
    return f"[{' '.join(axes)}]"


def usable_array(what: str, value: object) -> Array:
    """`value` as a NumPy array, without a copy where it is one or offers one (`__array__`, as PyTorch's CPU tensors do).

    Raises ArgumentError: R1004 for what is no array; R1006 for masked arrays, arrays in the other byte order and tensors that
    can't be read from the CPU.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentError("R1006", f"{what}: a masked array can't be used, since its mask would be lost; fill it first: array.filled(…)")
    if (bits := _bits_of_tensor(value)) is not None:
        return bits
    if not isinstance(value, np.ndarray | np.generic) and not hasattr(type(value), "__array__"):
        raise ArgumentError("R1004", f"{what}: expected an array, got {type(value).__name__}")
    try:
        array = np.asarray(value)
    except Exception as error:  # whatever another library's __array__ raises: CUDA tensors, tensors that need a gradient
        raise ArgumentError("R1006", f"{what}: this {type(value).__name__} can't be read as an array: {cause_of(error)}") from error
    if array.dtype.name == "bfloat16":  # of the package ml_dtypes
        return array.view(np.uint16).view(BF16)
    if not array.dtype.isnative:
        mend = "array.astype(array.dtype.newbyteorder('='))"
        raise ArgumentError("R1006", f"{what}: the array's bytes are in the other order ({array.dtype.str}); convert: {mend}")
    return array


def _bits_of_tensor(value: object) -> Array | None:
    """What a PyTorch tensor of bf16 holds, which NumPy can't be told; None for anything else."""
    if isinstance(value, np.ndarray | np.generic) or str(getattr(value, "dtype", "")) != "torch.bfloat16":
        return None
    tensor: Any = value
    if tensor.device.type != "cpu" or tensor.requires_grad:
        return None
    return np.asarray(tensor.view(sys.modules["torch"].int16)).view(np.uint16).view(BF16)


def of_element_type(what: str, array: Array, dtype: ElementType) -> Array:
    """The array, which must have the element type. For bf16 float32 will do where bf16 represents each number.

    Raises ArgumentError R1001, naming both dtypes and the conversion.
    """
    if dtype == "bf16" and array.dtype == np.float32:
        bits = rounded(array)
        if not np.array_equal(widened(bits), array, equal_nan=True):
            raise ArgumentError("R1001", f"{what}: expected bfloat16, got float32 numbers that it doesn't represent; {_ROUNDING}")
        return bits
    check_dtype(what, array, dtype)
    return array


def check_dtype(what: str, array: Array, dtype: ElementType) -> None:
    """Raise ArgumentError R1001, naming both dtypes and the conversion, unless the array has the element type."""
    wanted = NUMPY_DTYPES[dtype]
    if array.dtype != wanted:
        raise ArgumentError("R1001", f"{what}: {dtype_mismatch(array, wanted)}")


_ROUNDING = "nothing is rounded silently: round them with shapescript.bfloat16(array)"


def dtype_mismatch(array: Array, wanted: np.dtype[Any]) -> str:
    text = f"expected {dtype_name(wanted)}, got {dtype_name(array.dtype)}"
    if wanted == BF16:
        return f"{text}; {_ROUNDING}"
    if array.dtype.kind in "fiub":
        text += f"; nothing is converted silently: convert it with .astype(numpy.{wanted.name})"
    return text


def check_shape(what: str, array: Array, axes: Sequence[str], shape: Sequence[int | str]) -> None:
    """Raise ArgumentError R1002, naming the axes, unless the array has exactly this shape."""
    if array.shape != tuple(shape):
        raise ArgumentError("R1002", f"{what}: {shape_mismatch(array.shape, axes, shape)}")


def shape_mismatch(found: Sequence[int], axes: Sequence[str], shape: Sequence[int | str]) -> str:
    if len(found) != len(shape):
        count = f"{len(shape)} {'axis' if len(shape) == 1 else 'axes'}"
        return f"expected {count} {axes_text(axes)}, that is shape {sizes(shape)}, got shape {sizes(found)}"
    return f"expected {axes_text(axes)}, that is shape {sizes(shape)}, got shape {sizes(found)}"
