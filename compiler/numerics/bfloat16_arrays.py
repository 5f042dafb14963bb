"""Arrays of bf16: their bits, and the f32 that they are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shapescript.compiler.numerics.bfloat16 import from_bfloat16, to_bfloat16
from shapescript.compiler.numerics.evaluation import evaluate
from shapescript.compiler.numerics.scalar import F32, F64, U16, Argument

_ROUND = {np.dtype(np.float32): to_bfloat16(Argument(0, F32)), np.dtype(np.float64): to_bfloat16(Argument(0, F64))}
_WIDEN = from_bfloat16(Argument(0, U16))


def bits_of(numbers: NDArray[Any]) -> NDArray[np.uint16]:
    """Floats (f32 or f64) rounded once, as the bits of bf16."""
    return evaluate(_ROUND[numbers.dtype], [numbers])


def numbers_of(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """What bits of bf16 are, as f32."""
    return evaluate(_WIDEN, [bits])
