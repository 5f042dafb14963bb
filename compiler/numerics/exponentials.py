"""exp, expm1, sigmoid and tanh.

exp: x = n ln 2 + r with |r| <= ln(2)/2, e^r = 1 + r + r^2 P(r), and two scalings by powers of two of which only the second rounds.
"""

from shapescript.compiler.numerics.formats import FORMATS, INFINITY, LOG2_E, polynomial, power_of_two, with_sign_of
from shapescript.compiler.numerics.scalar import F32, F64, Expr, Kind, floor, fma, roundeven, select
from shapescript.compiler.records.dataclass import dataclass

# P, highest power first. f32: Cephes' expf (S. Moshier). f64: minimax, error 2^-60 relative to r (bench/fit_polynomials.py).
EXPONENTIAL: dict[Kind, tuple[float, ...]] = {
    F32: (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1),
    F64: (
        2.0924426312253235e-09,
        2.510902356680914e-08,
        2.7557242831794286e-07,
        2.7557244247697257e-06,
        2.4801587360445548e-05,
        0.00019841269886087281,
        0.0013888888888866913,
        0.008333333333321646,
        0.0416666666666667,
        0.16666666666666677,
        0.5,
    ),
}
# tanh(x) = x + x z T(z) with z = x^2 for |x| < 0.625. Minimax, errors 2^-28 and 2^-58.
TANH: dict[Kind, tuple[float, ...]] = {
    F32: (-0.00571657158434391, 0.020650183781981468, -0.053743381053209305, 0.13331489264965057, -0.3333328366279602),
    F64: (
        6.054554118312115e-06,
        -3.0215555378054612e-05,
        9.158745261124056e-05,
        -0.00023702881084170836,
        0.0005894581607854094,
        -0.001455727509984133,
        0.003592114254925113,
        -0.008863234339866645,
        0.0218694884705516,
        -0.05396825396613071,
        0.13333333333329883,
        -0.33333333333333315,
    ),
}
TANH_SMALL = 0.625
# Where exp is +inf above, and +0 below, long before: there both scaling factors are +0, and nothing underflows, which takes many CPUs a
# hundred times as long (what a mask takes out of softmax lies there). And where expm1 is -1 below.
EXP_RANGE: dict[Kind, tuple[float, float]] = {F32: (-2 * FORMATS[F32].bias / LOG2_E, 89.0), F64: (-2 * FORMATS[F64].bias / LOG2_E, 710.0)}
EXPM1_LOWEST: dict[Kind, float] = {F32: -20.0, F64: -40.0}


@dataclass(frozen=True)
class Reduced:
    """x = n ln 2 + r + low: n integral, |r| about ln(2)/2 at most, low the rounding error of r."""

    n: Expr
    r: Expr
    low: Expr


def reduced(x: Expr) -> Reduced:
    """Takes multiples of ln 2 off a number in exp's range."""
    form = FORMATS[x.kind]
    n = roundeven(x * LOG2_E)
    high = fma(n, -form.ln2_high, x)
    r = fma(n, -form.ln2_low, high)
    return Reduced(n, r, fma(n, -form.ln2_low, high - r))


def scaled_twice(value: Expr, n: Expr) -> Expr:
    """value * 2 ** n for a value near 1: n may lie beyond the normal exponents, and only the second product can round."""
    half = floor(n * 0.5)
    return value * power_of_two(half) * power_of_two(n - half)


def exp_in_range(x: Expr) -> Expr:
    """e ** x for x in `EXP_RANGE`; NaN for NaN, whose bits in the scaling factors are then irrelevant."""
    parts = reduced(x)
    r = parts.r
    value = fma(r * r, polynomial(r, EXPONENTIAL[x.kind]), r) + 1.0
    return scaled_twice(value, parts.n)


def _exp_in_range_closer(x: Expr) -> Expr:
    """e ** x as `exp_in_range`, but 1 + r is held in two numbers: 0.7 ulp for four additions more."""
    parts = reduced(x)
    r = parts.r
    head = r + 1.0
    tail = fma(r * r, polynomial(r, EXPONENTIAL[x.kind]), r - (head - 1.0))
    return scaled_twice(head + tail, parts.n)


def _not_below_range(x: Expr) -> Expr:
    lowest = EXP_RANGE[x.kind][0]
    return select(x < lowest, lowest, x)


def exp(x: Expr) -> Expr:
    """e ** x: 1.0 ulp; exp(-inf) = +0, exp(inf) = inf, subnormal results rounded once."""
    high = EXP_RANGE[x.kind][1]
    bounded = select(x > high, high, x)
    return exp_in_range(_not_below_range(bounded))


def expm1(x: Expr) -> Expr:
    """e ** x - 1: accurate near 0; expm1(-0) = -0, expm1(-inf) = -1.

    With e^r - 1 = r + q held in two numbers, 2^n (r + q) + (2^n - 1) adds its large parts exactly. All is halved so that n = the
    largest exponent + 1 doesn't overflow.
    """
    low, high = EXPM1_LOWEST[x.kind], EXP_RANGE[x.kind][1]
    bounded = select(x > high, high, x)
    bounded = select(bounded < low, low, bounded)
    parts = reduced(bounded)
    r = parts.r
    q = fma(r * r, polynomial(r, EXPONENTIAL[x.kind]), parts.low)
    scale = power_of_two(parts.n - 1.0)
    base = scale - 0.5
    top = scale * r
    total = base + top
    part = total - base
    error = (base - (total - part)) + (top - part)
    value = (total + fma(scale, q, error)) * 2.0
    tiny = 2.0 ** -(FORMATS[x.kind].fraction_bits + 2)  # below it, x itself is nearest, and halving could lose a subnormal's last bit
    value = select(abs(x) < tiny, x, value)
    return select(x < INFINITY, value, x)


def sigmoid(x: Expr) -> Expr:
    """1 / (1 + e ** -x), through e ** -|x| so that nothing overflows: sigmoid(-inf) = +0, sigmoid(inf) = 1.

    One step of division's remainder takes out the rounding errors of the sum and of the quotient, which alone would exceed 2 ulp.
    """
    small = _exp_in_range_closer(_not_below_range(-abs(x)))
    total = small + 1.0
    lost = small - (total - 1.0)
    inverse = 1.0 / total
    top = select(x < 0.0, small, 1.0)
    value = top * inverse
    return fma(fma(-value, lost, fma(-value, total, top)), inverse, value)


def tanh(x: Expr) -> Expr:
    """A polynomial below 0.625, above it 1 - 2 / (e ** 2|x| + 1); the sign is the operand's."""
    size = abs(x)
    square = x * x
    near = fma(size * square, polynomial(square, TANH[x.kind]), size)
    small = exp_in_range(_not_below_range(size * -2.0))
    far = 1.0 - (small * 2.0) / (small + 1.0)
    return with_sign_of(select(size < TANH_SMALL, near, far), x)
