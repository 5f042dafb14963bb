"""sin and cos over the whole range: Payne and Hanek's reduction by integers, then a polynomial within an eighth of a turn.

|x| = M 2^e with an integer M. Of 1 / (2 pi) only the bits behind the first e can matter to the fraction of a turn, since whole turns
don't: a window of them, times M, gives that fraction as a fixed-point number, exactly enough for the worst case of the format.
"""

from shapescript.compiler.numerics.formats import FORMATS, INFINITY, NAN, polynomial
from shapescript.compiler.numerics.scalar import (
    F32,
    F64,
    I32,
    U32,
    U64,
    Constant,
    Expr,
    Kind,
    bitcast,
    fma,
    int_to_float,
    narrow,
    select,
    umul_wide,
    widen,
)
from shapescript.compiler.records.dataclass import dataclass

# The first 1280 binary digits of 1 / (2 pi).
TURN_BITS = 1280
INVERSE_TURN = int(
    "28be60db9391054a7f09d5f47d4d377036d8a5664f10e4107f9458eaf7aef1586dc91b8e909374b801924bba82746487"
    "3f877ac72c4a69cfba208d7d4baed1213a671c09ad17df904e64758e60d4ce7d272117e2ef7e4a0ec7fe25fff7816603"
    "fbcbc462d6829b47db4d9fb3c9f2c26dd3d18fd9a797fa8b5d49eeb1faf97c5ecf41ce7de294a4ba9afed7ec47e35742"
    "1580cc11bf1edaeafc33ef0826bd0d87",
    16,
)
TURN_HIGH, TURN_LOW = 6.283185307179586, 2.4492935982947064e-16  # 2 pi in two parts
SMALL = 0.5  # below it nothing is reduced

# sin(r) = r + r z S(z), cos(r) = 1 - z/2 + z^2 C(z) for z = r^2, |r| <= pi/4; minimax, highest power first (bench/fit_polynomials.py).
# Both kinds are computed in f64; errors 2^-37 and 2^-33 for f32, 2^-57 and 2^-60 for f64.
SINE: dict[Kind, tuple[float, ...]] = {
    F32: (2.7183043416355346e-06, -0.00019839334096988364, 0.008333329383632694, -0.1666666664160748),
    F64: (
        1.5896795875393785e-10,
        -2.5050758119179914e-08,
        2.75573136919417e-06,
        -0.00019841269829807865,
        0.008333333333322413,
        -0.16666666666666632,
    ),
}
COSINE: dict[Kind, tuple[float, ...]] = {
    F32: (2.44383984883819e-05, -0.001388736709402711, 0.04166664685858697),
    F64: (
        -1.1359648089430354e-11,
        2.087572327910389e-09,
        -2.7557314352378076e-07,
        2.4801587289482347e-05,
        -0.0013888888888874125,
        0.0416666666666666,
    ),
}


@dataclass(frozen=True)
class Precision:
    """Sizes in 32-bit words: of M, of the turn's fraction that is kept, and of zeros before 1 / (2 pi) so that no index is negative."""

    mantissa_words: int
    turn_words: int
    zero_words: int


PRECISIONS = {F32: Precision(1, 2, 1), F64: Precision(2, 4, 2)}


@dataclass(frozen=True)
class Angle:
    """|x| as quadrant * pi/2 + r + low, |r| <= pi/4: the quadrant a U32 in 0..3, the others F64."""

    quadrant: Expr
    r: Expr
    low: Expr


def _window(index: Expr, words: list[Expr], count: int, greatest: int) -> list[Expr]:
    """`count` words from the run-time index on: one selection for each binary digit of the index, the highest first."""
    stage = 1 << (greatest.bit_length() - 1)
    while stage:
        taken = (index & stage).ne(0)
        wanted = min(count + stage - 1, len(words))
        words = [select(taken, words[i + stage], words[i]) if i + stage < len(words) else words[i] for i in range(wanted)]
        stage >>= 1
    return words[:count]


def _fraction_of_turn(size: Expr) -> list[Expr]:
    """The words of size / (2 pi) modulo 1, the most significant first, for SMALL <= size < inf."""
    form, precision = FORMATS[size.kind], PRECISIONS[size.kind]
    bits = bitcast(size, form.word)
    mantissa = (bits & ((1 << form.fraction_bits) - 1)) | (1 << form.fraction_bits)
    biased = bits >> form.fraction_bits
    skipped = (narrow(biased) if form.word is U64 else biased) + (32 * precision.zero_words - form.fraction_bits - form.bias) % 2**32
    needed = precision.mantissa_words + precision.turn_words
    greatest = (32 * precision.zero_words + form.bias - form.fraction_bits) >> 5
    table: list[Expr] = [Constant(0, U32)] * precision.zero_words
    table += [
        Constant((INVERSE_TURN >> (TURN_BITS - 32 * (i + 1))) & 0xFFFFFFFF, U32)
        for i in range(greatest + needed + 1 - precision.zero_words)
    ]
    window = _window(skipped >> 5, table, needed + 1, greatest)
    shift = skipped & 31
    digits = [(window[i] << shift) | ((window[i + 1] >> 1) >> (shift ^ 31)) for i in range(needed)]
    parts = [mantissa] if form.word is U32 else [narrow(mantissa), narrow(mantissa >> 32)]
    products = {(j, i): umul_wide(part, digits[i]) for j, part in enumerate(parts) for i in range(j, j + precision.turn_words + 1)}
    words: list[Expr] = []
    carry: Expr | None = None
    for k in reversed(range(precision.turn_words)):
        total = carry
        for j in range(len(parts)):
            for term in (products[j, k + j] & 0xFFFFFFFF, products[j, k + j + 1] >> 32):
                total = term if total is None else total + term
        assert total is not None
        words.insert(0, narrow(total))
        carry = total >> 32
    return words


def _angle(size: Expr) -> Angle:
    words = _fraction_of_turn(size)
    quadrant = (words[0] + (1 << 29)) >> 30
    signed = bitcast(words[0] - (quadrant << 30), I32)
    scaled = [int_to_float(word, F64) * 2.0 ** (-32 * (i + 1)) for i, word in enumerate([signed, *words[1:]])]
    high = scaled[0] + scaled[1]
    if size.kind is F32:
        r = high * TURN_HIGH
        low: Expr = Constant(0.0, F64)
        direct = widen(size)
    else:
        rest = (scaled[1] - (high - scaled[0])) + (scaled[2] + scaled[3])
        turn = high + rest
        turn_low = rest - (turn - high)
        r = turn * TURN_HIGH
        low = fma(turn, TURN_HIGH, -r) + (turn * TURN_LOW + turn_low * TURN_HIGH)
        direct = size
    small = size < SMALL
    return Angle(select(small, Constant(0, U32), quadrant), select(small, direct, r), select(small, 0.0, low))


def _sine(angle: Angle, kind: Kind) -> Expr:
    r, low = angle.r, angle.low
    z = r * r
    tail = polynomial(z, SINE[kind])
    return fma(r * z, tail, r) if kind is F32 else r + fma(r * z, tail, low * fma(z, -0.5, 1.0))


def _cosine(angle: Angle, kind: Kind) -> Expr:
    z = angle.r * angle.r
    half = z * 0.5
    head = 1.0 - half
    tail = z * z * polynomial(z, COSINE[kind])
    return head + (((1.0 - head) - half) + (tail - angle.r * angle.low))


def _of_quadrant(angle: Angle, quadrant: Expr, kind: Kind) -> Expr:
    value = select((quadrant & 1).ne(0), _cosine(angle, kind), _sine(angle, kind))
    value = select((quadrant & 2).ne(0), -value, value)
    return narrow(value) if kind is F32 else value


def sin(x: Expr) -> Expr:
    """The sine of x in radians, any finite x; sin(-0) = -0, NaN for infinities."""
    size = abs(x)
    angle = _angle(size)
    value = _of_quadrant(angle, angle.quadrant, x.kind)
    form = FORMATS[x.kind]
    sign = bitcast(x, form.word) & (1 << (form.kind.bits - 1))
    value = bitcast(bitcast(value, form.word) ^ sign, form.kind)
    return select(size < INFINITY, value, NAN)


def cos(x: Expr) -> Expr:
    """The cosine of x in radians, any finite x; NaN for infinities."""
    size = abs(x)
    angle = _angle(size)
    return select(size < INFINITY, _of_quadrant(angle, angle.quadrant + 1, x.kind), NAN)
