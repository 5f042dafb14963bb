"""Fused multiply-add in NumPy: a * b + c rounded once, by IEEE operations that no library may reorder.

float32: the product is exact in float64; the sum's error is recovered (Knuth's two-sum) and the sum rounded to odd, so that narrowing
rounds once. float64: Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd" (2008),
where no intermediate can under- or overflow; exact rational numbers elsewhere.
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

SPLITTER = 134217729.0  # 2^27 + 1: cuts 53 bits into 26 and 27
FACTOR_RANGE = (2.0**-400, 2.0**400)  # factors in it, and a summand in the next, leave every intermediate of the float64 algorithm normal
SUMMAND_RANGE = (2.0**-850, 2.0**900)
NORMAL_F32 = 2.0**-126
BELOW_F32 = np.int64(0x1FFFFFFF)  # the 29 bits of a float64 that a float32 doesn't have
TIE_F32 = np.int64(0x10000000)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and its error, exactly (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded float64 product and its error, exactly where nothing under- or overflows (Dekker)."""

    def halves(x: Array) -> tuple[Array, Array]:
        scaled = SPLITTER * x
        high = scaled - (scaled - x)
        return high, x - high

    product = a * b
    (a_high, a_low), (b_high, b_low) = halves(a), halves(b)
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def rounded_to_odd(total: Array, error: Array) -> Array:
    """The exact float64 sum total + error, cut to 53 bits with the last one set if anything was cut."""
    bits = total.view(np.int64)
    inexact = (error != 0) & np.isfinite(total) & ((bits & 1) == 0)
    away_from_zero = (error > 0) == (total > 0)
    return np.where(inexact, np.where(away_from_zero, bits + 1, bits - 1), bits).view(np.float64)


def fma(a: Any, b: Any, c: Any) -> Array:
    """a * b + c of float32 or of float64 arrays or NumPy scalars (broadcast), rounded once."""
    with np.errstate(all="ignore"):
        if a.dtype == np.float32:
            return fma_of_widened(a.astype(np.float64), b.astype(np.float64), c.astype(np.float64))
        return _fma_f64(a, b, c)


def fma_of_widened(a: Array, b: Array, c: Array) -> Array:
    """a * b + c as a float32 array, for float64 arrays whose numbers are float32 numbers.

    Rounding first to float64 and then to float32 differs from rounding once only where the float64 lies half-way between two float32
    numbers, or where the result is subnormal: those few are done again. Call it with NumPy's floating-point warnings off.
    """
    total = np.asarray(a * b + c)
    result = total.astype(np.float32)
    suspect = ((total.view(np.int64) & BELOW_F32) == TIE_F32) | ((np.abs(total) < NORMAL_F32) & (total != 0))
    if suspect.any():
        a, b, c = (np.broadcast_to(x, total.shape)[suspect] for x in (a, b, c))
        result[suspect] = rounded_to_odd(*two_sum(a * b, c)).astype(np.float32)
    return result


def _fma_f64(a: Array, b: Array, c: Array) -> Array:
    high, low = two_product(a, b)
    tail_high, tail_low = two_sum(c, low)
    sum_high, sum_low = two_sum(high, tail_high)
    result = np.asarray(sum_high + rounded_to_odd(*two_sum(tail_low, sum_low)))
    unsafe = np.asarray(~(_within(a, FACTOR_RANGE) & _within(b, FACTOR_RANGE) & (_within(c, SUMMAND_RANGE) | (c == 0))) | (result == 0))
    if unsafe.any():
        result[unsafe] = _fma_exactly(*(np.broadcast_to(x, result.shape)[unsafe] for x in (a, b, c)))
    return result


def _within(x: Array, bounds: tuple[float, float]) -> Array:
    size = np.abs(x)
    inside: Array = (size > bounds[0]) & (size < bounds[1])
    return inside


def _fma_exactly(a: Array, b: Array, c: Array) -> Array:
    """For one-dimensional arrays: by rational numbers, where the plain product and sum aren't right already.

    They are right where a factor is 0, where a factor isn't finite, and where the exact result is 0, for its sign.
    """
    finite = np.isfinite(a) & np.isfinite(b)
    result: Array = np.where(finite & np.isinf(c), c, a * b + c)  # a finite product that overflows must not meet an infinity
    ordinary = finite & np.isfinite(c) & (a != 0) & (b != 0)
    for i in np.flatnonzero(ordinary):
        exact = Fraction(float(a[i])) * Fraction(float(b[i])) + Fraction(float(c[i]))
        if exact:
            result[i] = _nearest(exact)
    return result


def _nearest(exact: Fraction) -> float:
    try:
        return exact.numerator / exact.denominator  # Python's division of integers rounds once
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
