"""Rounding to bf16, for users of Python: NumPy has no such type."""

from __future__ import annotations

import numpy as np

from shapescript.runtime.arrays import Array, rounded, usable_array, widened
from shapescript.runtime.errors import ArgumentError


def bfloat16(values: object) -> Array:
    """Numbers rounded to bf16 once, as float32: of an array of float32 or float64, or of bf16 (`torch.bfloat16` on the CPU, ml_dtypes).

    Raises ArgumentError R1001, R1004 or R1006 for what is none.
    """
    array = usable_array("bfloat16", values)
    if array.dtype in (np.float32, np.float64):
        array = rounded(array)
    found = widened(array)
    if found is array:
        raise ArgumentError("R1001", f"bfloat16: expected float32 or float64, got {array.dtype.name}")
    return found
