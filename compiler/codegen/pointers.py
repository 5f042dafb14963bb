"""Addresses of NumPy arrays, and arrays over memory that native code knows."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from shapescript.compiler.ir.types import Element

Array = npt.NDArray[Any]

DTYPES: dict[Element, np.dtype[Any]] = {
    Element.F32: np.dtype(np.float32),
    Element.F64: np.dtype(np.float64),
    Element.BF16: np.dtype(np.uint16),  # its bits
    Element.I64: np.dtype(np.int64),
    Element.BOOL: np.dtype(np.bool_),
}

# NumPy's C interface fixes that an array object begins, behind Python's own header, with the pointer to its elements. Reading it there
# takes 0.1 µs, by `c_void_p.from_address` 0.3; every public way takes 1 µs, and a call of a compiled function needs several.
_DATA = object.__basicsize__
_WORDS = (ctypes.c_int64 * (1 << 59)).from_address(0)


def _read_pointer(array: Array) -> int:
    address: int = _WORDS[(id(array) + _DATA) >> 3]
    return address


def _ask_pointer(array: Array) -> int:
    return int(array.ctypes.data)


def _is_where_numpy_says() -> bool:
    probes: list[Array] = [np.zeros(3), np.zeros((2, 2), np.float32)[1:], np.zeros(0)]
    return all(_read_pointer(probe) == _ask_pointer(probe) for probe in probes)


address_of = _read_pointer if _is_where_numpy_says() else _ask_pointer


def bytes_at(address: int, count: int) -> npt.NDArray[np.uint8]:
    """A view of memory; it must not be used when that is gone."""
    if count == 0:
        return np.zeros(0, np.uint8)
    memory: Any = (ctypes.c_char * count).from_address(address)
    view: npt.NDArray[np.uint8] = np.frombuffer(memory, np.uint8)
    return view


def tensor_at(address: int, element: Element, shape: tuple[int, ...]) -> Array:
    """A view of a dense tensor."""
    count = int(np.prod(shape, dtype=np.int64))
    return bytes_at(address, count * element.bytes).view(DTYPES[element]).reshape(shape)
