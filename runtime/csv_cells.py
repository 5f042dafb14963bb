"""What a cell of a CSV file is, as a number of its field's type: exactly, or not at all."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from shapescript.runtime.arrays import NUMPY_DTYPES, Array, ElementType, dtype_name, rounded, widened

BLANKS = " \t"  # around a value they don't count
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SPECIAL = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_WHOLE = re.compile(r"([+-]?)0*([0-9]+)")
_BOOLS = {"true": True, "1": True, "false": False, "0": False}
_MOST_DIGITS = 19  # of a whole number of 64 bits
_TIE_BITS = np.uint64((1 << 28) - 1)  # a number halfway between two of f32, or of bf16, has none of these bits


class CellError(ValueError):
    """A cell that is no value of its field's type: `place` is its number among those that were given; the message is what was expected."""

    def __init__(self, place: int, expected: str) -> None:
        super().__init__(expected)
        self.place = place


def values_of(cells: Sequence[str], dtype: ElementType) -> Array:
    """The cells as an array of a field's element type. Raises CellError for the first that is no such value."""
    texts = [cell.strip(BLANKS) for cell in cells]
    match dtype:
        case "i64":
            return np.array([_whole(place, text) for place, text in enumerate(texts)], np.int64)
        case "bool":
            return np.array([_bool(place, text) for place, text in enumerate(texts)], np.bool_)
    return _floats(texts, dtype)


def _whole(place: int, text: str) -> int:
    found = _WHOLE.fullmatch(text)
    if found is None:
        raise CellError(place, "a whole number")
    sign, digits = found.groups()
    value = int(sign + digits[: _MOST_DIGITS + 1])
    if len(digits) > _MOST_DIGITS or not -(2**63) <= value < 2**63:
        raise CellError(place, "a whole number of 64 bits, from -2**63 to 2**63-1")
    return value


def _bool(place: int, text: str) -> bool:
    found = _BOOLS.get(text.lower())
    if found is None:
        raise CellError(place, "true, false, 1 or 0")
    return found


def _floats(texts: Sequence[str], dtype: ElementType) -> Array:
    """Each rounded once to the type, to the nearest and half to even; NaNs are the positive quiet one."""
    special = np.zeros(len(texts), np.bool_)
    for place, text in enumerate(texts):
        if not _NUMBER.fullmatch(text):
            if not _SPECIAL.fullmatch(text):
                raise CellError(place, "a number")
            special[place] = True
    wide = np.array([float(text) for text in texts], np.float64)
    wide[np.isnan(wide)] = np.nan
    values = wide if dtype == "f64" else _narrowed(texts, wide, dtype)
    beyond = np.isinf(widened(values)) & ~special
    if beyond.any():
        raise CellError(int(np.argmax(beyond)), f"a number within the range of {dtype_name(NUMPY_DTYPES[dtype])}")
    return values


def _narrowed(texts: Sequence[str], wide: Array, dtype: ElementType) -> Array:
    """The texts' numbers, rounded to f64 in `wide`, as f32 or bf16.

    Rounding twice is right but where the first rounding falls on a number halfway between two of the narrower type: there the text says on
    which side of it the number lies, and the next number of f64 on that side is taken in its place.
    """
    values = _as_type(wide, dtype)
    inexact = (widened(values).astype(np.float64) != wide) & ~np.isnan(wide)
    halfway = inexact & ((wide.view(np.uint64) & _TIE_BITS) == 0)
    if not halfway.any():
        return values
    beside = wide.copy()
    for place in np.flatnonzero(halfway).tolist():
        exact, nearest = Decimal(texts[place]), Decimal(float(wide[place]))
        if exact != nearest:
            beside[place] = math.nextafter(wide[place], math.inf if exact > nearest else -math.inf)
    return _as_type(beside, dtype)


def _as_type(numbers: Array, dtype: ElementType) -> Array:
    if dtype == "bf16":
        return rounded(numbers)
    with np.errstate(over="ignore", under="ignore"):
        return numbers.astype(np.float32)
