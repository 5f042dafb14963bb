"""Sizes of axes: polynomials over symbols, kept in one normal form so that equal sizes are equal values.

A symbol is a declared dim (its value is known, and it is the same wherever name and value are), a dim parameter or axis variable of a
function (no value, unique), or a quotient: one that has to be exact, or one rounded down.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping

from shapescript.compiler.records.dataclass import dataclass

LARGEST = 2**48  # of a size, and of a tensor's number of elements

_numbers = itertools.count(1)


class InexactDivision(ValueError):
    """A quotient of known sizes that is none: it leaves a remainder, or the divisor is 0 (of one rounded down: not above 0)."""

    def __init__(self, numerator: int, denominator: int) -> None:
        is_remainder = denominator > 0 and numerator % denominator
        super().__init__(f"{numerator} is {'not a multiple of' if is_remainder else 'divided by'} {denominator}")
        self.numerator, self.denominator = numerator, denominator


@dataclass(frozen=True, slots=True)
class Symbol:
    """A named size. `number` is 0 for a declared dim, which always has a value, and unique for an axis variable or dim parameter.

    `quotient` holds the parts of a quotient, exact or `rounded` down.
    """

    name: str
    number: int = 0
    value: int | None = None
    quotient: tuple[Size, Size] | None = None
    rounded: bool = False

    def __hash__(self) -> int:
        return hash((self.name, self.number))  # a quotient's name says what is in it, and sizes are hashed all the time

    def __str__(self) -> str:
        return self.name


def dim(name: str, value: int) -> Symbol:
    return Symbol(name, 0, value)


def fresh(name: str) -> Symbol:
    """A symbol equal to no other: an axis variable or a dim parameter."""
    return Symbol(name, next(_numbers))


Monomial = tuple[Symbol, ...]


def _order(symbol: Symbol) -> tuple[str, int, int]:
    return symbol.name, symbol.number, symbol.value or 0


@dataclass(frozen=True, slots=True)
class Size:
    """A polynomial with integer coefficients: monomials in order, none with coefficient 0."""

    terms: tuple[tuple[Monomial, int], ...] = ()

    def __str__(self) -> str:
        return render(self)

    def __add__(self, other: Size) -> Size:
        if not self.terms or not other.terms:
            return self if self.terms else other
        return _collect(itertools.chain(self.terms, other.terms))

    def __neg__(self) -> Size:
        return Size(tuple((monomial, -count) for monomial, count in self.terms))

    def __sub__(self, other: Size) -> Size:
        return self + -other

    def __mul__(self, other: Size) -> Size:
        pairs = itertools.product(self.terms, other.terms)
        return _collect(term for (left, count), (right, factor) in pairs for term in _product(left + right, count * factor))

    def __truediv__(self, other: Size) -> Size:
        return divide(self, other)

    def __floordiv__(self, other: Size) -> Size:
        return floor_divide(self, other)

    def symbols(self) -> Iterable[Symbol]:
        """Every symbol, those inside quotients too."""
        for monomial, _ in self.terms:
            for symbol in monomial:
                yield symbol
                for part in symbol.quotient or ():
                    yield from part.symbols()

    def constant(self) -> int | None:
        """The size as a number where every symbol has a value."""
        return evaluate(self, lambda symbol: symbol.value)

    def known(self) -> Size:
        """The same size with numbers in the place of symbols that have a value: equal for sizes that are equal whatever the rest is."""
        return self.substitute({symbol: number(symbol.value) for symbol in self.symbols() if symbol.value is not None})

    def substitute(self, values: Mapping[Symbol, Size]) -> Size:
        """Raises InexactDivision where a quotient becomes one of known numbers that doesn't divide."""
        if not any(symbol in values for symbol in self.symbols()):
            return self
        if len(self.terms) == 1 and self.terms[0][1] == 1 and len(self.terms[0][0]) == 1:  # most axes are a symbol
            return _substituted(self.terms[0][0][0], values)
        total = ZERO
        for monomial, count in self.terms:
            product = number(count)
            for symbol in monomial:
                product = product * _substituted(symbol, values)
            total = total + product
        return total


def _substituted(symbol: Symbol, values: Mapping[Symbol, Size]) -> Size:
    if symbol in values:
        return values[symbol]
    if symbol.quotient:
        numerator, denominator = (part.substitute(values) for part in symbol.quotient)
        return (floor_divide if symbol.rounded else divide)(numerator, denominator)
    return of(symbol)


def _product(symbols: Monomial, count: int) -> tuple[tuple[Monomial, int], ...]:
    """The terms of a product of symbols: an exact quotient times its denominator is its numerator."""
    if not symbols or (len(symbols) == 1 and symbols[0].quotient is None):
        return ((symbols, count),)
    for place, symbol in enumerate(symbols):
        if symbol.quotient is None or symbol.rounded or len(symbol.quotient[1].terms) != 1:
            continue
        above, ((divisor, factor),) = symbol.quotient[0], symbol.quotient[1].terms
        rest = _without((*symbols[:place], *symbols[place + 1 :]), divisor)
        if rest is not None and count % factor == 0:
            return (Size(((tuple(sorted(rest, key=_order)), count // factor),)) * above).terms
    return ((tuple(sorted(symbols, key=_order)), count),)


def _without(symbols: Monomial, removed: Monomial) -> Monomial | None:
    """The symbols that are left; None where not all of `removed` are among them."""
    rest = list(symbols)
    for symbol in removed:
        if symbol not in rest:
            return None
        rest.remove(symbol)
    return tuple(rest)


def _collect(terms: Iterable[tuple[Monomial, int]]) -> Size:
    counts: dict[Monomial, int] = {}
    for monomial, count in terms:
        counts[monomial] = counts.get(monomial, 0) + count
    kept = [(monomial, count) for monomial, count in counts.items() if count]
    if len(kept) < 2:
        return Size(tuple(kept))
    return Size(tuple(sorted(kept, key=lambda term: ([_order(symbol) for symbol in term[0]], term[1]))))


def in_order(terms: Iterable[tuple[Monomial, int]]) -> Size:
    """The size of these terms, whose symbols may have been numbered anew since they were put in order."""
    return _collect((tuple(sorted(monomial, key=_order)), count) for monomial, count in terms)


def number(value: int) -> Size:
    return Size((((), value),)) if value else ZERO


def of(symbol: Symbol) -> Size:
    return Size((((symbol,), 1),))


def divide(numerator: Size, denominator: Size) -> Size:
    """The exact quotient: simplified where the denominator cancels, a quotient symbol elsewhere.

    Raises InexactDivision where both are known and don't divide, ZeroDivisionError for a known zero.
    """
    above, below = numerator.constant(), denominator.constant()
    if below == 0:
        raise ZeroDivisionError
    if above is not None and below is not None and above % below:
        raise InexactDivision(above, below)
    cancelled = _cancelled(numerator, denominator)
    return _quotient(numerator, denominator, above, below) if cancelled is None else cancelled


MOST_DIVISION_STEPS = 256


def _cancelled(numerator: Size, denominator: Size) -> Size | None:
    """What times the denominator is the numerator, found term by term, of a sum the highest first; None where that is no size."""
    divisor, factor = _highest(denominator)
    if len(denominator.terms) == 1:
        parts = [(_without(monomial, divisor), count) for monomial, count in numerator.terms]
        exact = [(rest, count // factor) for rest, count in parts if rest is not None and count % factor == 0]
        return _collect(exact) if len(exact) == len(parts) else None
    found, rest = ZERO, numerator
    for _ in range(MOST_DIVISION_STEPS):
        if not rest.terms:
            return found
        monomial, count = _highest(rest)
        left = _without(monomial, divisor)
        if left is None or count % factor:
            return None
        term = Size(((left, count // factor),))
        found, rest = found + term, rest - term * denominator
    return None


def _highest(size: Size) -> tuple[Monomial, int]:
    """The term of the most symbols, and of several the first in their order: an order that products keep."""
    return min(size.terms, key=lambda term: (-len(term[0]), [_order(symbol) for symbol in term[0]]))


def _quotient(numerator: Size, denominator: Size, above: int | None, below: int | None) -> Size:
    name = f"{_bracketed(numerator)}/{_bracketed(denominator)}"
    value = above // below if above is not None and below is not None else None
    if not any(True for part in (numerator, denominator) for _ in part.symbols()) and value is not None:
        return number(value)
    return of(Symbol(name, 0, value, (numerator, denominator)))


def floor_divide(numerator: Size, denominator: Size) -> Size:
    """The quotient rounded down, in one form: `(2*n+3)//2` is `n+1`, `(4*n+3)//6` is `(2*n+1)//3`, and `n//2//3` is `n//6`.

    All this holds for divisors above 0, and others are errors where they are found: ZeroDivisionError for a known 0, InexactDivision
    where both are known and the denominator is below 0.
    """
    above, below = numerator.constant(), denominator.constant()
    if below == 0:
        raise ZeroDivisionError
    if below is not None and below < 0:
        if above is not None:
            raise InexactDivision(above, below)
        return _rounded_quotient(numerator, denominator)
    inner = [symbol for monomial, _ in numerator.terms for symbol in monomial if symbol.rounded]
    if len(inner) == 1 and inner[0].quotient is not None and ((inner[0],), 1) in numerator.terms:
        dividend, divisor = inner[0].quotient
        if len(divisor.terms) == len(denominator.terms) == 1:  # others would multiply out to ever more terms
            return floor_divide(dividend + (numerator - of(inner[0])) * divisor, divisor * denominator)
    whole, rest = _taken_out(numerator, denominator)
    return whole + _rounded_quotient(*_without_common_factor(rest, denominator)) if rest.terms else whole


def _taken_out(numerator: Size, denominator: Size) -> tuple[Size, Size]:
    """How often a denominator of one term goes into each term, and what is left of them: coefficients from 0 to its own less 1."""
    if len(denominator.terms) != 1 or denominator.terms[0][1] < 0:
        return ZERO, numerator
    divisor, factor = denominator.terms[0]
    whole: list[tuple[Monomial, int]] = []
    for monomial, count in numerator.terms:
        rest = _without(monomial, divisor)
        if rest is not None:
            whole.append((rest, count // factor))
    found = _collect(whole)
    return found, numerator - found * denominator


def _without_common_factor(numerator: Size, denominator: Size) -> tuple[Size, Size]:
    """Both divided by their coefficients' common factor, to which the numerator's plain number matters only as far as it divides."""
    factors = [count for monomial, count in numerator.terms if monomial] + [count for _, count in denominator.terms]
    common = math.gcd(*factors)
    return tuple(_collect((monomial, count // common) for monomial, count in size.terms) for size in (numerator, denominator))  # type: ignore[return-value]


def _rounded_quotient(numerator: Size, denominator: Size) -> Size:
    above, below = numerator.constant(), denominator.constant()
    if denominator == ONE or not numerator.terms:
        return numerator
    value = above // below if above is not None and below is not None else None
    if value is not None and not any(True for part in (numerator, denominator) for _ in part.symbols()):
        return number(value)
    return of(_named_quotient(numerator, denominator, value))


def _named_quotient(numerator: Size, denominator: Size, value: int | None) -> Symbol:
    return Symbol(f"{_bracketed(numerator)}//{_bracketed(denominator)}", 0, value, (numerator, denominator), True)


def evaluate(size: Size, value_of: Callable[[Symbol], int | None]) -> int | None:
    """The number that the size is, None where a symbol has no value. Raises InexactDivision for a quotient of numbers that is none."""
    total = 0
    for monomial, count in size.terms:
        product = count
        for symbol in monomial:
            value = value_of(symbol)
            if value is None and symbol.quotient:
                above, below = (evaluate(part, value_of) for part in symbol.quotient)
                if above is not None and below is not None:
                    if below <= 0 if symbol.rounded else below == 0 or above % below:
                        raise InexactDivision(above, below)
                    value = above // below
            if value is None:
                return None
            product *= value
        total += product
    return total


def render(size: Size) -> str:
    """As a program writes it: `3*D`, `n+1`, `H*Dh-2`, `(n-1)//2`."""
    size = _taken_in(size)
    if not size.terms:
        return "0"
    text = ""
    ordered = sorted(size.terms, key=_reading_order)
    if ordered[0][1] < 0:  # an axis has no minus before it
        ordered.sort(key=lambda term: term[1] < 0)
    for monomial, count in ordered:
        amount = abs(count)
        is_product = amount > 1 or len(monomial) > 1
        names = "*".join(f"({symbol})" if symbol.rounded and is_product else symbol.name for symbol in monomial)
        part = names if names and amount == 1 else f"{amount}*{names}" if names else str(amount)
        text += ("-" if count < 0 else "+" if text else "") + part
    return text


def _taken_in(size: Size) -> Size:
    """For reading, what is taken away behind a quotient rounded down stands in it, where it has such a term: (n+1)//2-1 as (n-1)//2."""
    for monomial, count in size.terms:
        quotient = monomial[0].quotient if len(monomial) == count == 1 and monomial[0].rounded else None
        if quotient is None or len(quotient[1].terms) != 1:
            continue
        (numerator, denominator), symbol = quotient, monomial[0]
        inside = {inner for inner, _ in numerator.terms}
        less = [Size((term,)) for term in size.terms if term[1] < 0]
        moved = [part for part in less if {inner for inner, _ in (part * denominator).terms} <= inside]
        if moved:
            whole = sum_of(moved)
            above = numerator + whole * denominator
            return size - whole - of(symbol) + of(_named_quotient(above, denominator, symbol.value))
    return size


def _reading_order(term: tuple[Monomial, int]) -> tuple[bool, bool, int, bool]:
    """What is added before what is taken away, products first, axis variables before dims, and the plain number last."""
    monomial, count = term
    return not monomial, count < 0, -len(monomial), bool(monomial) and monomial[0].name[:1].isupper()


def _bracketed(size: Size) -> str:
    text = render(size)
    return f"({text})" if len(size.terms) > 1 or "*" in text or "/" in text else text


def sum_of(sizes: Iterable[Size]) -> Size:
    total = ZERO
    for size in sizes:
        total = total + size
    return total


def product(sizes: Iterable[Size]) -> Size:
    total = ONE
    for size in sizes:
        total = total * size
    return total


ZERO = Size()
ONE = Size((((), 1),))
