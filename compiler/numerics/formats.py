"""The two float formats as data, and the bit tricks that every elementary function is built from."""

import math
from collections.abc import Sequence

from shapescript.compiler.numerics.scalar import F32, F64, U32, U64, Constant, Expr, Kind, bitcast, fma, select
from shapescript.compiler.records.dataclass import dataclass


@dataclass(frozen=True)
class Format:
    """An IEEE binary format: its unsigned integer kind, the bits of its fraction, and the bias of its exponent."""

    kind: Kind
    word: Kind
    fraction_bits: int
    bias: int
    min_normal: float
    # ln 2 in two parts: the first so short that its product with any exponent is exact.
    ln2_high: float
    ln2_low: float

    @property
    def magic(self) -> float:
        """1.5 * 2^fraction_bits: a number of at most a quarter of its size, added to it, stands in its low bits as an integer."""
        return 1.5 * 2.0**self.fraction_bits


FORMATS: dict[Kind, Format] = {
    F32: Format(F32, U32, 23, 127, 2.0**-126, 0.693359375, -2.12194440e-4),
    F64: Format(F64, U64, 52, 1023, 2.0**-1022, 6.93147180369123816490e-01, 1.90821492927058770002e-10),
}
LOG2_E = 1.4426950408889634
INFINITY = math.inf
NAN = math.nan


def polynomial(x: Expr, coefficients: Sequence[float]) -> Expr:
    """Horner's rule in fused multiply-adds; `coefficients` begin with that of the highest power."""
    value: Expr = Constant(coefficients[0], x.kind)
    for coefficient in coefficients[1:]:
        value = fma(value, x, coefficient)
    return value


def power_of_two(exponent: Expr) -> Expr:
    """2 ** exponent for an integral float in the range of normal numbers' exponents, exactly; +0 for the one below them."""
    form = FORMATS[exponent.kind]
    return bitcast(bitcast(exponent + (form.magic + form.bias), form.word) << form.fraction_bits, form.kind)


@dataclass(frozen=True)
class Scaled:
    """A positive number as mantissa * 2 ** exponent with 1/sqrt(2) <= mantissa < sqrt(2); the exponent is an integral float."""

    mantissa: Expr
    exponent: Expr


def scaled(x: Expr, subnormals: bool = True) -> Scaled:
    """Takes a positive finite number apart, exactly; anything else gives two meaningless finite numbers.

    Without `subnormals` the number must be normal.
    """
    form = FORMATS[x.kind]
    one, root_half = Constant(1.0, form.kind).pattern, Constant(math.sqrt(0.5), form.kind).pattern
    small = x < form.min_normal
    bits = bitcast(select(small, x * 2.0**form.fraction_bits, x) if subnormals else x, form.word) + (one - root_half)
    fraction = (1 << form.fraction_bits) - 1
    mantissa = bitcast((bits & fraction) + root_half, form.kind)
    whole = 2.0**form.fraction_bits
    biased = bitcast((bits >> form.fraction_bits) | Constant(whole, form.kind).pattern, form.kind)
    offset = whole + form.bias
    return Scaled(mantissa, biased - (select(small, Constant(offset + form.fraction_bits, form.kind), offset) if subnormals else offset))


def with_sign_of(size: Expr, sign: Expr) -> Expr:
    """The size, not negative, with the sign bit of the other number flipped in: NaN stays NaN."""
    form = FORMATS[size.kind]
    top = 1 << (form.kind.bits - 1)
    return bitcast(bitcast(size, form.word) | (bitcast(sign, form.word) & top), form.kind)
