"""minimum, maximum and relu with NaN and ±0 pinned; absolute values; integer division as Python's; float to integer for every float."""

from shapescript.compiler.numerics.scalar import Apply, Constant, Expr, Kind, is_nan, select, to_int_in_range


def maximum(a: Expr, b: Expr) -> Expr:
    """The greater; NaN if either is NaN; of zeros +0 if either is +0. Integers too."""
    if not a.kind.is_float:
        return select(a > b, a, b)
    # of equal operands the sum: +0 unless both are -0; for others it isn't used
    zeros = select(a.eq(b) & a.eq(0.0), a + b, b)
    return select((a > b) | is_nan(a), a, zeros)


def minimum(a: Expr, b: Expr) -> Expr:
    """The smaller; NaN if either is NaN; of zeros -0 if either is -0. Integers too."""
    if not a.kind.is_float:
        return select(a < b, a, b)
    return -maximum(-a, -b)


def relu(x: Expr) -> Expr:
    """x where x > 0, else +0 (also for -0); NaN stays NaN."""
    return select(x <= 0, Constant(0, x.kind), x)


def absolute(x: Expr) -> Expr:
    """The size: a float without its sign bit; of an integer -x below 0, which for the least one wraps around to itself."""
    return abs(x) if x.kind.is_float else select(x < 0, 0 - x, x)


def division_fails(a: Expr, b: Expr) -> Expr:
    """Whether a // b and a % b have no result: b is 0, or a signed quotient overflows. A coded error at run time, checked first."""
    if not a.kind.is_signed:
        return b.eq(0)
    return b.eq(0) | (b.eq(-1) & a.eq(-(1 << (a.kind.bits - 1))))


def _safe_divisor(a: Expr, b: Expr) -> Expr:
    return select(division_fails(a, b), 1, b)


def floor_divide(a: Expr, b: Expr) -> Expr:
    """a // b of integers, rounded down as Python's. Where `division_fails`, some number."""
    divisor = _safe_divisor(a, b)
    quotient = Apply("quotient", (a, divisor), a.kind)
    if not a.kind.is_signed:
        return quotient
    remainder = a - quotient * divisor
    return select(remainder.ne(0) & ((remainder < 0) ^ (divisor < 0)), quotient - 1, quotient)


def modulo(a: Expr, b: Expr) -> Expr:
    """a % b of integers, with the divisor's sign as Python's. Where `division_fails`, some number."""
    divisor = _safe_divisor(a, b)
    remainder = Apply("remainder", (a, divisor), a.kind)
    if not a.kind.is_signed:
        return remainder
    return select(remainder.ne(0) & ((remainder < 0) ^ (divisor < 0)), remainder + divisor, remainder)


def to_integer(x: Expr, kind: Kind) -> Expr:
    """A float toward zero as I32 or I64; what is too large gives the nearest integer of the kind, NaN gives 0."""
    bound = 2.0 ** (kind.bits - 1)
    inside = (x >= -bound) & (x < bound)
    value = to_int_in_range(select(inside, x, 0.0), kind)
    value = select(x >= bound, (1 << (kind.bits - 1)) - 1, value)
    return select(x < -bound, -(1 << (kind.bits - 1)), value)
