"""Arithmetic of sizes: Python ints where both are, else emitted; then the builder must be given."""

from __future__ import annotations

from shapescript.compiler.codegen.emit import I64, Builder, Size, size


def plus(b: Builder | None, x: Size, y: Size) -> Size:
    if isinstance(x, int) and isinstance(y, int):
        return x + y
    if isinstance(y, int) and y == 0:
        return x
    if isinstance(x, int) and x == 0:
        return y
    return _emit(b).add(size(x), size(y), flags=["nsw"])


def minus(b: Builder | None, x: Size, y: Size) -> Size:
    if isinstance(x, int) and isinstance(y, int):
        return x - y
    return x if isinstance(y, int) and y == 0 else _emit(b).sub(size(x), size(y), flags=["nsw"])


def times(b: Builder | None, x: Size, y: Size) -> Size:
    if isinstance(x, int) and isinstance(y, int):
        return x * y
    if 1 in (x, y):
        return y if isinstance(x, int) else x
    return _emit(b).mul(size(x), size(y), flags=["nsw"])


def quotient(b: Builder | None, x: Size, y: int) -> Size:
    """x // y for x >= 0 and y > 0."""
    if isinstance(x, int):
        return x // y
    return _emit(b).lshr(x, I64(y.bit_length() - 1)) if y & (y - 1) == 0 else _emit(b).udiv(x, I64(y))


def ceil_quotient(b: Builder | None, x: Size, y: int) -> Size:
    return quotient(b, plus(b, x, y - 1), y)


def round_up(b: Builder | None, x: Size, to: int) -> Size:
    return times(b, ceil_quotient(b, x, to), to)


def least(b: Builder | None, x: Size, y: Size) -> Size:
    if isinstance(x, int) and isinstance(y, int):
        return min(x, y)
    return _emit(b).select(_emit(b).icmp_signed("<", size(x), size(y)), size(x), size(y))


def most(b: Builder | None, x: Size, y: Size) -> Size:
    if isinstance(x, int) and isinstance(y, int):
        return max(x, y)
    return _emit(b).select(_emit(b).icmp_signed(">", size(x), size(y)), size(x), size(y))


def where_greater(b: Builder | None, x: Size, y: Size, then: Size, otherwise: Size) -> Size:
    """`then` where x > y, else `otherwise`."""
    if isinstance(x, int) and isinstance(y, int):
        return then if x > y else otherwise
    return _emit(b).select(_emit(b).icmp_signed(">", size(x), size(y)), size(then), size(otherwise))


def bit_length(b: Builder | None, x: Size) -> Size:
    """The number of bits that 0 <= x < 2^32 needs: 0 for 0."""
    if isinstance(x, int):
        return x.bit_length()
    emit, found = _emit(b), I64(0)
    for bits in (16, 8, 4, 2, 1):
        large = emit.icmp_unsigned(">=", x, I64(1 << bits))
        found = emit.add(found, emit.select(large, I64(bits), I64(0)))
        x = emit.select(large, emit.lshr(x, I64(bits)), x)
    return emit.add(found, x)


def _emit(b: Builder | None) -> Builder:
    assert b is not None, "a size known only at run time needs a builder"
    return b
