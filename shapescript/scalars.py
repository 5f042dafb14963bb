"""Host numbers and strings at the border: what Python value is taken for `int`, `float`, `bool`, `str` and `[]`, and as what."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from shapescript.compiler.ir.types import Element
from shapescript.compiler.numerics import bfloat16
from shapescript.runtime.arrays import NUMPY_DTYPES, Array, check_dtype, of_element_type, widened
from shapescript.runtime.errors import ArgumentError
from shapescript.runtime.host_numbers import checked_int

Take = Callable[[str, Any], Any]  # (name of the parameter, value) to the engine's value; raises ArgumentError R1001, R1004, R1006

LARGEST_F32 = float(np.finfo(np.float32).max)


def take_int(name: str, value: Any) -> int:
    if type(value) is int and -(2**63) <= value < 2**63:
        return value
    if isinstance(value, float | np.floating):
        raise ArgumentError("R1004", f"{name}: expected an int, got the float {value!r}; nothing is converted silently: int({name})")
    return checked_int(name, _item(value, "i"))


def take_float(name: str, value: Any) -> float:
    if type(value) is float:
        return value
    value = _item(value, "f")
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise _wrong_type(name, "a float", value)
    try:
        return float(value)
    except OverflowError:
        raise ArgumentError("R1006", f"{name}: {value} is too large for a float") from None


def take_bool(name: str, value: Any) -> bool:
    value = _item(value, "b")
    if not isinstance(value, bool | np.bool_):
        raise _wrong_type(name, "a bool", value)
    return bool(value)


def take_str(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong_type(name, "a str", value)
    return str(value)


def take_f32(name: str, value: Any) -> float:
    """A `[]`: a Python number is rounded to f32, an array's element has to be f32 already."""
    if isinstance(value, np.generic | np.ndarray):
        value = _element(name, value, Element.F32)
    number = take_float(name, value)
    if math.isfinite(number) and abs(number) > LARGEST_F32:
        try:
            struct.pack("<f", number)  # rounds to the nearest, and refuses what would become infinite
        except OverflowError:
            raise ArgumentError("R1006", f"{name}: {number!r} is too large for f32") from None
    return float(np.float32(number))


def take_bf16(name: str, value: Any) -> float:
    """A `bf16[]`: a Python number is rounded to bf16, an array's element has to be bf16 already."""
    if isinstance(value, np.generic | np.ndarray):
        value = float(widened(of_element_type(name, _scalar_array(name, value), "bf16")))
    number = take_float(name, value)
    found = bfloat16.number_of_bits(bfloat16.bits_of_number(number))
    if math.isfinite(number) and not math.isfinite(found):
        raise ArgumentError("R1006", f"{name}: {number!r} is too large for bf16")
    return found


def take_f64(name: str, value: Any) -> float:
    return take_float(name, _element(name, value, Element.F64) if isinstance(value, np.generic | np.ndarray) else value)


def take_i64(name: str, value: Any) -> int:
    return take_int(name, _element(name, value, Element.I64) if isinstance(value, np.generic | np.ndarray) else value)


HOST: dict[str, Take] = {"int": take_int, "float": take_float, "bool": take_bool, "str": take_str}
ELEMENTS: dict[Element, Take] = {
    Element.F32: take_f32,
    Element.F64: take_f64,
    Element.BF16: take_bf16,
    Element.I64: take_i64,
    Element.BOOL: take_bool,
}


def _scalar_array(name: str, value: Any) -> Array:
    array = np.asarray(value)
    if array.ndim:
        raise ArgumentError("R1002", f"{name}: expected no axes [], got shape {array.shape}")
    return array


def _element(name: str, value: Any, element: Element) -> Any:
    array = _scalar_array(name, value)
    check_dtype(name, array, element.value)
    return array.astype(NUMPY_DTYPES[element.value]).item()


def _item(value: Any, kinds: str) -> Any:
    """What an array without axes holds, where it is of the kind that is wanted; anything else as it is."""
    if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in kinds:
        return value.item()
    return value


def _wrong_type(name: str, wanted: str, value: Any) -> ArgumentError:
    return ArgumentError("R1004", f"{name}: expected {wanted}, got {type(value).__name__}")
