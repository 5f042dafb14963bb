"""bf16: the upper half of an f32, that is 8 bits of exponent and 7 of mantissa. It is stored, and taken apart and put together by integer
operations, since some hardware that converts it loses subnormal numbers; what is computed is computed in f32.

Of a NaN the canonical one is left, `0x7FC0`.
"""

from __future__ import annotations

import math
import struct

from shapescript.compiler.numerics.operations import round_to_f32
from shapescript.compiler.numerics.scalar import F32, F64, I64, U32, Constant, Expr, bitcast, int_to_float, is_nan, narrow, select, widen

NAN = 0x7FC0
_LOW_BITS = (1 << 20) - 1  # of an integer that large, far below the half of a bf16's last place


def from_bfloat16(x: Expr) -> Expr:
    """The f32 that a bf16 (U16) is."""
    return bitcast(widen(x) << 16, F32)


def to_bfloat16(x: Expr) -> Expr:
    """An f32, f64 or I64 rounded once, to nearest even, as U16."""
    if x.kind is I64:
        x = int_to_float(_without_low_bits(x), F64)
    if x.kind is F64:
        x = _to_odd(x)
    bits = bitcast(x, U32)
    rounded = (bits + ((bits >> 16) & 1) + 0x7FFF) >> 16
    return narrow(select(is_nan(x), NAN, rounded))


def _to_odd(x: Expr) -> Expr:
    """An f64 as an f32, cut toward zero, and its last bit 1 where anything was cut off: rounded again, it is as if rounded once."""
    near = narrow(x)
    back, bits = widen(near), bitcast(near, U32)
    one, zero = Constant(1, U32), Constant(0, U32)
    cut = bits - select(abs(back) > abs(x), one, zero)
    return bitcast(select(is_nan(x), NAN << 16, cut | select(back.ne(x), one, zero)), F32)


def _without_low_bits(x: Expr) -> Expr:
    """An I64 that f64 holds exactly, and that rounds to the same bf16."""
    cut = (x & ~_LOW_BITS) | select((x & _LOW_BITS).ne(0), Constant((_LOW_BITS + 1) >> 1, I64), 0)
    is_large = (x >= 1 << 40) | (x <= -(1 << 40))
    return select(is_large, cut, x)


# ---- single numbers, of Python's own


def bits_of_number(number: float) -> int:
    """A number rounded once, as the bits of a bf16."""
    if math.isnan(number):
        return NAN
    size = abs(float(number))
    near = round_to_f32(size)
    bits = int.from_bytes(struct.pack("<f", near), "little")
    bits = bits - (near > size) | (near != size)
    return (bits + (bits >> 16 & 1) + 0x7FFF >> 16) | (0x8000 if math.copysign(1.0, number) < 0 else 0)


def number_of_bits(bits: int) -> float:
    """The number that a bf16 is."""
    return float(struct.unpack("<f", struct.pack("<I", bits << 16))[0])
