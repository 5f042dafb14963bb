"""log and log1p: x = m 2^e with m near 1, and a polynomial for log(1 + f) with f = m - 1."""

from shapescript.compiler.numerics.formats import FORMATS, INFINITY, NAN, polynomial, power_of_two, scaled
from shapescript.compiler.numerics.scalar import F32, Constant, Expr, fma, select

# f32: log(1+f) = f - f^2/2 + f^3 L(f); Cephes' logf (S. Moshier), highest power first.
LOG_F32 = (
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
)
# f64: log(1+f) = 2s + s z L(z) with s = f/(2+f), z = s^2; minimax, error 2^-59 relative to s (bench/fit_polynomials.py).
LOG_F64 = (
    0.1479611033064517,
    0.15314035382028562,
    0.18183564882242206,
    0.2222219856325419,
    0.2857142874247595,
    0.39999999999414326,
    0.6666666666666734,
)


def log_of_parts(f: Expr, exponent: Expr) -> Expr:
    """log((1 + f) 2^exponent) for 1 + f in [1/sqrt(2), sqrt(2)) and an integral float."""
    form = FORMATS[f.kind]
    square = f * f
    if f.kind is F32:
        y = (f * square) * polynomial(f, LOG_F32)
        y = fma(exponent, form.ln2_low, y)
        y = fma(square, -0.5, y)
        return fma(exponent, form.ln2_high, f + y)
    s = f / (f + 2.0)
    z = s * s
    half_square = square * 0.5
    inner = fma(exponent, form.ln2_low, s * fma(z, polynomial(z, LOG_F64), half_square))
    return fma(exponent, form.ln2_high, f - (half_square - inner))


def _with_limits(x: Expr, value: Expr, pole: float) -> Expr:
    """The value for x above the pole; -inf at it, NaN below, and NaN and infinity themselves."""
    value = select(x < INFINITY, value, x)
    return select(x <= pole, select(x < pole, Constant(NAN, x.kind), -INFINITY), value)


def log(x: Expr) -> Expr:
    """The natural logarithm, subnormal operands too: log(0) = -inf, NaN below 0."""
    parts = scaled(x)
    return _with_limits(x, log_of_parts(parts.mantissa - 1.0, parts.exponent), 0.0)


def log1p(x: Expr) -> Expr:
    """log(1 + x), accurate near 0: log1p(-0) = -0, log1p(-1) = -inf, NaN below.

    What 1 + x loses by rounding is recovered exactly and put back into f; where 1 + x isn't rescaled, f is x itself.
    """
    one = Constant(1.0, x.kind)
    total = one + x
    part = total - one
    lost = (one - (total - part)) + (x - part)
    parts = scaled(total, subnormals=False)
    exponent = select(parts.exponent > 100.0, 100.0, parts.exponent)  # beyond it, what was lost doesn't count
    f = (parts.mantissa - 1.0) + lost * power_of_two(-exponent)
    value = log_of_parts(f, parts.exponent)
    return _with_limits(x, select(x.eq(0.0), x, value), -1.0)
