"""pow, repeated products, and powers of a number whose exponent is a step count.

pow computes e ** (y log |x|). For f32 in f64. For f64 the logarithm has about 12 bits more than f64, held in two numbers, since y
multiplies its error by up to 745.
"""

from shapescript.compiler.numerics.exponentials import EXP_RANGE, EXPONENTIAL, exp_in_range, reduced, scaled_twice
from shapescript.compiler.numerics.formats import FORMATS, INFINITY, NAN, polynomial, scaled
from shapescript.compiler.numerics.logarithms import log_of_parts
from shapescript.compiler.numerics.scalar import F32, F64, I64, Apply, Constant, Expr, bitcast, fma, narrow, select, widen
from shapescript.compiler.records.dataclass import dataclass

# log m = 2s + s z (2/3 + z Q(z)) with s = (m-1)/(m+1), z = s^2; minimax, error 2^-66 relative to s (bench/fit_polynomials.py).
LOG_TAIL = (
    0.1319636719315447,
    0.1325681351144009,
    0.15386757518010077,
    0.1818178436292884,
    0.22222222519972948,
    0.2857142857009928,
    0.40000000000002256,
)
TWO_THIRDS, TWO_THIRDS_LOW = 0.6666666666666666, 3.700743415417188e-17


@dataclass(frozen=True)
class Pair:
    """A number as the unevaluated sum of two f64, the second at most half a unit in the last place of the first."""

    high: Expr
    low: Expr


def _joined(high: Expr, low: Expr) -> Pair:
    """high + low as a pair, for |high| >= |low| or high = 0 (Dekker)."""
    total = high + low
    return Pair(total, low - (total - high))


def _product(a: Expr, b: Expr) -> Pair:
    product = a * b
    return Pair(product, fma(a, b, -product))


def _log_pair(x: Expr) -> Pair:
    """log of a positive finite f64, relative error about 2^-64."""
    parts, form = scaled(x), FORMATS[F64]
    m, exponent = parts.mantissa, parts.exponent
    f = m - 1.0
    divisor = m + 1.0
    divisor_low = m - (divisor - 1.0)
    s = f / divisor
    s_low = fma(-s, divisor_low, fma(-s, divisor, f)) / divisor
    square = _product(s, s)
    z = square.high
    z_low = fma(s * 2.0, s_low, square.low)
    factor = _joined(Constant(TWO_THIRDS, F64), z * polynomial(z, LOG_TAIL))
    factor_low = factor.low + TWO_THIRDS_LOW
    cube = _product(s, z)
    cube_low = cube.low + fma(s, z_low, s_low * z)
    tail = _product(cube.high, factor.high)
    tail_low = tail.low + fma(cube.high, factor_low, cube_low * factor.high)
    of_mantissa = _joined(s * 2.0, tail.high)
    low = of_mantissa.low + fma(s_low, 2.0, tail_low)
    whole = _joined(exponent * form.ln2_high, of_mantissa.high)
    return _joined(whole.high, whole.low + fma(exponent, form.ln2_low, low))


def _power_f64(size: Expr, y: Expr) -> Expr:
    """size ** y for a positive finite size."""
    log_size = _log_pair(size)
    product = _product(y, log_size.high)
    high, low = product.high, fma(y, log_size.low, product.low)
    lowest, highest = EXP_RANGE[F64]
    inside = (high > lowest) & (high < highest)
    bounded = select(high >= highest, highest, select(high <= lowest, lowest, high))
    parts = reduced(bounded)
    r, rest = parts.r, parts.low + select(inside, low, 0.0)
    tail = r * r * polynomial(r, EXPONENTIAL[F64])
    tail = tail + fma(r + tail, rest, rest)  # e^(r + rest) = e^r + e^r rest
    return scaled_twice((tail + r) + 1.0, parts.n)


def _power_f32(size: Expr, y: Expr) -> Expr:
    parts = scaled(widen(size), subnormals=False)
    exponent = widen(y) * log_of_parts(parts.mantissa - 1.0, parts.exponent)
    lowest, highest = EXP_RANGE[F32]
    bounded = select(exponent > 2 * highest, 2 * highest, exponent)
    return narrow(exp_in_range(select(bounded < 2 * lowest, 2 * lowest, bounded)))


def pow(x: Expr, y: Expr) -> Expr:
    """x ** y with IEEE 754's special cases: x ** 0 = 1 ** y = 1 even for NaN, a negative x needs an integral y."""
    size = abs(x)
    half = y * 0.5
    integral = Apply("trunc", (y,), y.kind).eq(y)
    odd = integral & Apply("trunc", (half,), y.kind).ne(half)
    value = _power_f32(size, y) if x.kind is F32 else _power_f64(size, y)
    endless = Constant(INFINITY, x.kind)
    grows = (size > 1.0) ^ (y < 0.0)
    limit = select(size.eq(1.0), 1.0, select(grows, endless, 0.0))
    value = select(size.eq(0.0) | size.eq(INFINITY) | abs(y).eq(INFINITY), limit, value)
    form = FORMATS[x.kind]
    sign = select(odd, bitcast(x, form.word) & (1 << (x.kind.bits - 1)), 0)
    value = bitcast(bitcast(value, form.word) ^ sign, x.kind)
    value = select((x < 0.0) & ~(integral | size.eq(INFINITY)), NAN, value)
    value = select(x.ne(x) | y.ne(y), x + y, value)
    return select(y.eq(0.0) | x.eq(1.0), 1.0, value)


def integer_power(x: Expr, exponent: int) -> Expr:
    """x ** exponent for a literal exponent, as repeated products.

    From the exponent's second highest binary digit down: square, and where the digit is 1, multiply by x. So x ** 3 = (x * x) * x.
    x ** 0 = 1; a negative exponent gives 1 / (x ** -exponent) for floats and a `ValueError` for integers.
    """
    if exponent < 0 and not x.kind.is_float:
        raise ValueError("a negative power of an integer is not an integer")
    if exponent == 0:
        return Constant(1, x.kind)
    value = x
    for digit in bin(abs(exponent))[3:]:
        value = value * value
        if digit == "1":
            value = value * x
    return 1.0 / value if exponent < 0 else value


@dataclass(frozen=True)
class PowerLoop:
    """One turn of the loop for base ** t: `result` begins at 1.0 and `remaining` at t; it ends when `remaining` is 0."""

    result: Expr
    base: Expr
    remaining: Expr


def power_loop_turn(result: Expr, base: Expr, remaining: Expr) -> PowerLoop:
    """The values after one turn: the lowest binary digit of `remaining` (I64) is used up."""
    odd = (remaining & 1).ne(0)
    return PowerLoop(select(odd, result * base, result), base * base, Apply("lshr", (remaining, Constant(1, I64)), I64))


def power_of_step(base: float, t: int) -> float:
    """base ** t in f64 for t >= 0 by binary powers, the lowest digit first: what `power_loop_turn` says, on the host."""
    if t < 0:
        raise ValueError("a step count is not negative")
    result = 1.0
    while t:
        if t & 1:
            result *= base
        base *= base
        t >>= 1
    return result
