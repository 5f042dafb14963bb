"""Host numbers from Python: what is taken as an int, as a seed, as a float."""

from __future__ import annotations

import operator
from typing import Any

from shapescript.compiler.numerics.ranges import Range
from shapescript.runtime.errors import ArgumentError, ArgumentValueError

SMALLEST_INT, LARGEST_INT = -(2**63), 2**63 - 1


def checked_int(what: str, value: Any, low: int = SMALLEST_INT, high: int = LARGEST_INT) -> int:
    """`value` as an int in low..high. Raises ArgumentError R1004 for another type (a bool is one) or out of range."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise ArgumentError("R1004", f"{what}: expected an int, got {type(value).__name__}") from None
    if not low <= number <= high:
        raise ArgumentValueError("R1004", f"{what}: expected an int {_range_text(low, high)}, got {number}")
    return number


def checked_seed(what: str, value: Any) -> int:
    """A seed: an int from 0 to 2**63-1."""
    return checked_int(what, value, 0)


def checked_number(what: str, value: Any, range_: Range) -> float:
    """`value` as a float in the range. Raises ArgumentError R1004."""
    try:
        if isinstance(value, bool | str | bytes):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError("R1004", f"{what}: expected a float, got {type(value).__name__}") from None
    if not range_.holds(number):
        raise ArgumentValueError("R1004", f"{what}: expected a float that is {range_.text}, got {number!r}")
    return number


def _range_text(low: int, high: int) -> str:
    if high == LARGEST_INT:
        return "that fits in 64 bits" if low < -1 else f"from {low} to 2**63-1"
    return f"from {low} to {high}"
