"""Activation functions and their slopes: gelu in both forms, silu, softplus, log_sigmoid, elu; and rsqrt and sign.

gelu, its tanh form and silu are x S(x) with S rising from 0 to 1 and S(-x) = 1 - S(x). Each is computed through its left side, with
a = |x|, where S is a power of e times a smooth function: x S(x) is -a S(-a) for a negative x, and x - a S(-a) for another. The power is
kept as a number near 1 and an exponent until the end, so that results below the smallest normal number round once.
"""

from shapescript.compiler.numerics.exponentials import EXPONENTIAL, expm1, reduced, scaled_twice
from shapescript.compiler.numerics.formats import polynomial
from shapescript.compiler.numerics.logarithms import log1p
from shapescript.compiler.numerics.scalar import F32, F64, Constant, Expr, Kind, fma, select, sqrt
from shapescript.compiler.numerics.selections import relu
from shapescript.compiler.records.dataclass import dataclass

# P(0 < X < a) of the normal distribution is a N(a^2) for a below 0.75, and P(X < -a) is e^(-a^2/2) T(t) / (a + middle) above it, with
# t = (a - middle) / (a + middle). Minimax, highest power first (bench/fit_polynomials.py); errors 2^-25 and 2^-53, 2^-26 and 2^-54.
NEAR_END = 0.75
NEAR: dict[Kind, tuple[float, ...]] = {
    F32: (
        0.0001014067092910409,
        -0.001179321319796145,
        0.009971506893634796,
        -0.06649015843868256,
        0.3989422619342804,
    ),
    F64: (
        -9.870787912793083e-11,
        2.255527403015158e-09,
        -4.12138089685624e-08,
        6.659636701852666e-07,
        -9.444654665291006e-06,
        0.00011543468733399069,
        -0.001187328215450209,
        0.009973557010034018,
        -0.0664903800669054,
        0.3989422804014327,
    ),
}
MIDDLE: dict[Kind, float] = {F32: 2.75, F64: 4.0}
TAIL: dict[Kind, tuple[float, ...]] = {
    F32: (
        -0.0004093119641765952,
        -0.00032692341483198106,
        0.002485548844560981,
        0.003218230791389942,
        -0.016442153602838516,
        -0.016566844657063484,
        0.18233416974544525,
        -0.474354088306427,
        0.7189860343933105,
    ),
    F64: (
        -4.6251998573294556e-09,
        1.4462537077535138e-08,
        2.745368117244086e-08,
        -8.153949600041317e-08,
        -1.696963236022366e-07,
        2.7082876500456875e-07,
        1.0304116530668264e-06,
        -6.300148611366326e-07,
        -5.923485596259762e-06,
        7.169601844711229e-07,
        3.514547376993832e-05,
        -1.908347590773708e-06,
        -0.0002310950529743952,
        0.00013334432640443235,
        0.0016308184681818826,
        -0.003479692368565851,
        -0.0075401889672487964,
        0.060396574890984246,
        -0.18652185795964554,
        0.3871374007422138,
        -0.6078966419718922,
        0.7552851304157515,
    ),
}
NORMAL_PEAK = 0.3989422804014327  # 1 / sqrt(2 pi)
# gelu's tanh form is x sigmoid(x (A + B x^2)), A = 2 sqrt(2 / pi), B = 0.044715 A: each in two parts.
INNER: dict[Kind, tuple[tuple[float, float], tuple[float, float]]] = {
    F32: ((1.5957691669464111, -4.534068054340423e-08), (0.07135481387376785, 2.3988324659995897e-09)),
    F64: ((1.5957691216057308, -9.96930880911092e-17), (0.07135481627260025, -6.175149918155315e-19)),
}
# From here on the left sides are 0: where a power of e times a few hundred is less than half the smallest number.
GELU_END: dict[Kind, float] = {F32: 14.6, F64: 39.0}
TANH_END: dict[Kind, float] = {F32: 11.2, F64: 22.0}
SILU_END: dict[Kind, float] = {F32: 112.0, F64: 756.0}


@dataclass(frozen=True)
class Power:
    """e ** x as near * 2 ** n, near in about 0.7 to 1.5; n an integral float."""

    near: Expr
    n: Expr

    @property
    def value(self) -> Expr:
        return scaled_twice(self.near, self.n)

    def times(self, factor: Expr) -> Expr:
        """e ** x times a number that is neither large nor small."""
        return scaled_twice(self.near * factor, self.n)


def _power(x: Expr, low: Expr | None = None) -> Power:
    """e ** (x + low), a little beyond exp's range too; 1 + r is held in two numbers."""
    parts = reduced(x)
    r = parts.r
    head = r + 1.0
    tail = fma(r * r, polynomial(r, EXPONENTIAL[x.kind]), r - (head - 1.0))
    if low is not None:
        tail = fma(low, head + tail, tail)
    return Power(head + tail, parts.n)


def _least(x: Expr, bound: float) -> Expr:
    return select(x > bound, bound, x)


def _quotient(top: Expr, total: Expr, lost: Expr) -> Expr:
    """top / (total + lost): one step of division's remainder takes out the rounding errors of the sum and of the quotient."""
    inverse = 1.0 / total
    value = top * inverse
    return fma(fma(-value, lost, fma(-value, total, top)), inverse, value)


def _from_left(x: Expr, left: Expr) -> Expr:
    """x S(x), of a S(-a)."""
    return select(x < 0.0, -left, x - left)


def _slope_from_left(x: Expr, left: Expr) -> Expr:
    """The slope at x, of that at -a."""
    return select(x < 0.0, left, 1.0 - left)


# ---- gelu


@dataclass(frozen=True)
class _NormalTail:
    """P(X < -a) of the normal distribution as power * top / (total + lost)."""

    power: Power
    top: Expr
    total: Expr
    lost: Expr


def _normal_tail(a: Expr) -> _NormalTail:
    middle = MIDDLE[a.kind]
    square = a * a
    power = _power(square * -0.5, fma(a, a, -square) * -0.5)
    total = a + middle
    lost = select(a < middle, a - (total - middle), middle - (total - a))
    return _NormalTail(power, polynomial((a - middle) / total, TAIL[a.kind]), total, lost)


def _near_normal(x: Expr) -> Expr:
    """P(X < x) for a small x."""
    return fma(x, polynomial(x * x, NEAR[x.kind]), 0.5)


def gelu(x: Expr) -> Expr:
    """x times the normal distribution's P(X < x), which is (1 + erf(x / sqrt(2))) / 2; gelu(-inf) = -0."""
    a = _least(abs(x), GELU_END[x.kind])
    tail = _normal_tail(a)
    far = _from_left(x, tail.power.times(_quotient(tail.top * a, tail.total, tail.lost)))
    return select(a < NEAR_END, x * _near_normal(x), far)


def gelu_slope(x: Expr) -> Expr:
    """P(X < x) + x p(x), p the normal distribution's density."""
    a = _least(abs(x), GELU_END[x.kind])
    tail = _normal_tail(a)
    far = _slope_from_left(x, tail.power.times(_quotient(tail.top, tail.total, tail.lost) - a * NORMAL_PEAK))
    return select(a < NEAR_END, fma(x, tail.power.times(Constant(NORMAL_PEAK, x.kind)), _near_normal(x)), far)


# ---- x sigmoid(w)


def _left_of_sigmoid(a: Expr, power: Power) -> Expr:
    """a sigmoid(-w), with power = e ** -w."""
    small = power.value
    total = small + 1.0
    return power.times(_quotient(a, total, small - (total - 1.0)))


def _slope_left_of_sigmoid(a: Expr, power: Power, growth: Expr | None = None) -> Expr:
    """sigmoid(-w) - a w' sigmoid(-w) sigmoid(w), with growth = w'; without it w is a."""
    small = power.value
    total = small + 1.0
    inverse = 1.0 / total
    return power.times((total - (a if growth is None else a * growth)) * inverse * inverse)


def silu(x: Expr) -> Expr:
    """x sigmoid(x); silu(-inf) = -0."""
    a = _least(abs(x), SILU_END[x.kind])
    return _from_left(x, _left_of_sigmoid(a, _power(-a)))


def silu_slope(x: Expr) -> Expr:
    """sigmoid(x) (1 + x sigmoid(-x))."""
    a = _least(abs(x), SILU_END[x.kind])
    return _slope_from_left(x, _slope_left_of_sigmoid(a, _power(-a)))


def _gelu_tanh_power(a: Expr) -> tuple[Power, Expr]:
    """e ** -w with w = a (A + B a^2), and w's slope A + 3 B a^2. w is held in two numbers: e ** -w multiplies its error by w."""
    (linear, linear_low), (cubic, cubic_low) = INNER[a.kind]
    square = a * a
    square_low = fma(a, a, -square)
    product = square * cubic
    product_low = fma(square, cubic, -product) + fma(square_low, cubic, square * cubic_low)
    total = product + linear
    part = total - product
    total_low = (product - (total - part)) + (linear - part) + product_low + linear_low
    w = a * total
    return _power(-w, -fma(a, total_low, fma(a, total, -w))), fma(product, 3.0, Constant(linear, a.kind))


def gelu_tanh(x: Expr) -> Expr:
    """x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)); gelu_tanh(-inf) = -0."""
    a = _least(abs(x), TANH_END[x.kind])
    return _from_left(x, _left_of_sigmoid(a, _gelu_tanh_power(a)[0]))


def gelu_tanh_slope(x: Expr) -> Expr:
    a = _least(abs(x), TANH_END[x.kind])
    power, growth = _gelu_tanh_power(a)
    return _slope_from_left(x, _slope_left_of_sigmoid(a, power, growth))


# ---- others


def softplus(x: Expr) -> Expr:
    """log(1 + e ** x) as max(x, 0) + log1p(e ** -|x|)."""
    return relu(x) + log1p(_power(-_least(abs(x), SILU_END[x.kind])).value)


def log_sigmoid(x: Expr) -> Expr:
    """-log(1 + e ** -x)."""
    return -softplus(-x)


def elu(x: Expr, alpha: Expr) -> Expr:
    """x above 0, alpha (e ** x - 1) elsewhere."""
    return select(x > 0.0, x, alpha * expm1(x))


def rsqrt(x: Expr) -> Expr:
    """1 / sqrt(x), two roundings."""
    return 1.0 / sqrt(x)


def sign(x: Expr) -> Expr:
    """1 above 0, -1 below, else x: a zero keeps its sign, NaN stays NaN."""
    one = Constant(1, x.kind)
    return select(x > 0, one, select(x < 0, Constant(-1, x.kind), x))
