"""Random numbers: what a parameter starts with, which elements a dropout keeps, and in which order examples come.

Every number is a function of its seed and its place alone (philox.py, permutation.py); from words to numbers is defined here, once, as
scalar expressions.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shapescript.compiler.numerics.evaluation import DTYPES, evaluate
from shapescript.compiler.numerics.logarithms import log
from shapescript.compiler.numerics.operations import round_to_f32
from shapescript.compiler.numerics.permutation import feistel, half_bits, order, places, round_keys
from shapescript.compiler.numerics.philox import STREAM_MASK, Domain, key_of, philox, philox_words, stream_of, stream_words
from shapescript.compiler.numerics.scalar import (
    F32,
    F64,
    U32,
    U64,
    Argument,
    Constant,
    Expr,
    Kind,
    bitcast,
    int_to_float,
    narrow,
    select,
    sqrt,
)

__all__ = [
    "Domain",
    "dropout_scale",
    "dropout_threshold",
    "feistel",
    "half_bits",
    "key_of",
    "normal",
    "order",
    "parameter_stream",
    "philox",
    "philox_words",
    "places",
    "round_keys",
    "standard_normal",
    "start_normal",
    "start_uniform",
    "stream_of",
    "stream_words",
    "uniform",
    "unit_uniform",
]

Array = NDArray[Any]

FNV_OFFSET, FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3
UNIFORM_BITS = 24
CHUNK = 1 << 13  # elements evaluated at a time, so that a long parameter's intermediates stay in cache

# M. Wichura, "Algorithm AS 241: the percentage points of the normal distribution" (1988), PPND16: numerators and denominators, highest
# power first. Its third region, for probabilities below e^-25, can't be reached from 32 random bits.
CENTRE = 0.425
CENTRE_SQUARED = 0.180625
TAIL_SHIFT = 1.6
CENTRE_RATIO = (
    (
        2.5090809287301226727e3,
        3.3430575583588128105e4,
        6.7265770927008700853e4,
        4.5921953931549871457e4,
        1.3731693765509461125e4,
        1.9715909503065514427e3,
        1.3314166789178437745e2,
        3.3871328727963666080e0,
    ),
    (
        5.2264952788528545610e3,
        2.8729085735721942674e4,
        3.9307895800092710610e4,
        2.1213794301586595867e4,
        5.3941960214247511077e3,
        6.8718700749205790830e2,
        4.2313330701600911252e1,
        1.0,
    ),
)
TAIL_RATIO = (
    (
        7.74545014278341407640e-4,
        2.27238449892691845833e-2,
        2.41780725177450611770e-1,
        1.27045825245236838258e0,
        3.64784832476320460504e0,
        5.76949722146069140550e0,
        4.63033784615654529590e0,
        1.42343711074968357734e0,
    ),
    (
        1.05075007164441684324e-9,
        5.47593808499534494600e-4,
        1.51986665636164571966e-2,
        1.48103976427480074590e-1,
        6.89767334985100004550e-1,
        1.67638483018380384940e0,
        2.05319162663775882187e0,
        1.0,
    ),
)


def parameter_stream(name: str) -> int:
    """The stream number of a parameter: the 64-bit FNV-1a hash of its dotted name in UTF-8, its lowest 62 bits."""
    value = FNV_OFFSET
    for byte in name.encode():
        value = ((value ^ byte) * FNV_PRIME) % 2**64
    return value & STREAM_MASK


def unit_uniform(word: Expr) -> Expr:
    """A random U32 to an f64 in [0, 1): its highest 24 bits times 2^-24, exact in f32 too."""
    return int_to_float(word >> (32 - UNIFORM_BITS), F64) * 2.0**-UNIFORM_BITS


def _ratio(x: Expr, coefficients: tuple[Sequence[float], Sequence[float]]) -> Expr:
    """A quotient of polynomials by Horner's rule with separate products and sums: NumPy has those, and no fused ones."""
    values = []
    for first, *others in coefficients:
        value: Expr = Constant(first, x.kind)
        for coefficient in others:
            value = value * x + coefficient
        values.append(value)
    return values[0] / values[1]


def _quantile(word: Expr) -> tuple[Expr, Expr]:
    """u = (word + 0.5) / 2^32, exactly, and its distance from a half."""
    u = (int_to_float(word, F64) + 0.5) * 2.0**-32
    return u, u - 0.5


def _is_central(word: Expr) -> Expr:
    return abs(_quantile(word)[1]) <= CENTRE


def _central_normal(word: Expr) -> Expr:
    q = _quantile(word)[1]
    return q * _ratio(CENTRE_SQUARED - q * q, CENTRE_RATIO)


def standard_normal(word: Expr) -> Expr:
    """A random U32 to a standard normal f64: the inverse of the distribution at (word + 0.5) / 2^32; symmetric, within ±6.34."""
    u, q = _quantile(word)
    least = select(q < 0.0, u, 1.0 - u)
    tail = _ratio(sqrt(-log(least)) - TAIL_SHIFT, TAIL_RATIO)
    return select(_is_central(word), _central_normal(word), select(q < 0.0, -tail, tail))


def uniform(word: Expr, low: Expr, high: Expr, kind: Kind) -> Expr:
    """A random U32 to a number of the kind in [low, high); low <= high are F64 that are numbers of the kind, and low if they are equal.

    low + (high - low) u in f64, rounded to the kind; where that reaches high, the number of the kind just below high.
    """
    value, top = low + (high - low) * unit_uniform(word), high
    if kind is F32:
        value, top = narrow(value), narrow(high)
    return select(value < top, value, select(low < high, _just_below(top), top))


def _just_below(x: Expr) -> Expr:
    """The greatest number of the kind below a finite x."""
    word, tiny = (U32, 2.0**-149) if x.kind is F32 else (U64, 2.0**-1074)
    bits = bitcast(x, word)
    return select(x.eq(0.0), -tiny, bitcast(select(x > 0.0, bits - 1, bits + 1), x.kind))


def normal(word: Expr, mean: Expr, deviation: Expr, kind: Kind) -> Expr:
    """A random U32 to mean + deviation z in f64 (mean and deviation F64), rounded to the kind."""
    return _spread(standard_normal(word), mean, deviation, kind)


def _spread(z: Expr, mean: Expr, deviation: Expr, kind: Kind) -> Expr:
    value = mean + deviation * z
    return narrow(value) if kind is F32 else value


_WORD, _FIRST, _SECOND = Argument(0, U32), Argument(1, F64), Argument(2, F64)


@cache
def _uniform_of(kind: Kind) -> Expr:
    """This, and those below, of a word and two numbers: made at the first start that wants it, which takes longer than to load all else."""
    return uniform(_WORD, _FIRST, _SECOND, kind)


@cache
def _normal_of(kind: Kind) -> Expr:
    return normal(_WORD, _FIRST, _SECOND, kind)


@cache
def _central_normal_of(kind: Kind) -> Expr:
    return _spread(_central_normal(_WORD), _FIRST, _SECOND, kind)


@cache
def _central_of_word() -> Expr:
    return _is_central(_WORD)


def start_uniform(seed: int, name: str, count: int, low: float, high: float, *, kind: Kind = F32) -> Array:
    """A parameter's start, [count] in row-major order: uniform in [low, high), the bounds rounded to the kind first.

    Raises `ValueError` unless low <= high are finite.
    """
    low, high = (float(Constant(bound, kind).value) for bound in (low, high))
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise ValueError(f"uniform from {low} to {high}")
    bounds = np.float64(low), np.float64(high)
    return _start(seed, name, np.empty(count, DTYPES[kind]), lambda words: evaluate(_uniform_of(kind), [words, *bounds]))


def start_normal(seed: int, name: str, count: int, mean: float, deviation: float, *, kind: Kind = F32) -> Array:
    """A parameter's start, [count] in row-major order: normal. Raises `ValueError` unless both are finite and deviation >= 0."""
    if not (math.isfinite(mean) and math.isfinite(deviation) and deviation >= 0):
        raise ValueError(f"normal with mean {mean} and standard deviation {deviation}")
    moments = np.float64(mean), np.float64(deviation)

    def numbers(words: Array) -> Array:
        values = evaluate(_central_normal_of(kind), [words, *moments])
        outer = ~evaluate(_central_of_word(), [words])  # 15 of 100 words need the logarithm, which is most of the work
        values[outer] = evaluate(_normal_of(kind), [words[outer], *moments])
        return values

    return _start(seed, name, np.empty(count, DTYPES[kind]), numbers)


def _start(seed: int, name: str, values: Array, numbers: Callable[[Array], Array]) -> Array:
    stream = parameter_stream(name)
    for begin in range(0, len(values), CHUNK):
        part = values[begin : begin + CHUNK]
        part[:] = numbers(stream_words(seed, Domain.PARAMETER, stream, begin, len(part)))
    return values


def dropout_threshold(p: float) -> int:
    """What a random U32 must reach for its element to be kept, in 0..2^32: p 2^32, half to even, p clamped to 0..1 (NaN to 0)."""
    return round(min(p, 1.0) * 2.0**32) if p > 0.0 else 0


def dropout_scale(p: float) -> float:
    """What kept elements are multiplied by: 1 / (1 - p) in f64, rounded to f32; 0 where p is 1 and nothing is kept."""
    return round_to_f32(1.0 / (1.0 - p)) if p < 1.0 else 0.0
