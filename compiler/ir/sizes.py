"""Sizes of axes: polynomials over symbols, kept in one normal form so that equal sizes are equal values.

A symbol is a declared dim (its value is known, and it is the same wherever name and value are), a dim parameter or axis variable of a
function (no value, unique), or a quotient that has to be exact.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

LARGEST = 2**48  # of a size, and of a tensor's number of elements

_numbers = itertools.count(1)


class InexactDivision(ValueError):
    """A quotient of known sizes that leaves a remainder."""

    def __init__(self, numerator: int, denominator: int) -> None:
        super().__init__(f"{numerator} is not a multiple of {denominator}")
        self.numerator, self.denominator = numerator, denominator


@dataclass(frozen=True, slots=True)
class Symbol:
    """A named size. `number` is 0 for a declared dim, which always has a value, and unique for every other symbol."""

    name: str
    number: int = 0
    value: int | None = None
    quotient: tuple[Size, Size] | None = None

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
        return divide(numerator, denominator)
    return of(symbol)


def _product(symbols: Monomial, count: int) -> tuple[tuple[Monomial, int], ...]:
    """The terms of a product of symbols: an exact quotient times its denominator is its numerator."""
    for place, symbol in enumerate(symbols):
        if symbol.quotient is None or len(symbol.quotient[1].terms) != 1:
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
    return Size(tuple(sorted(kept, key=lambda term: ([_order(symbol) for symbol in term[0]], term[1]))))


def number(value: int) -> Size:
    return Size((((), value),)) if value else ZERO


def of(symbol: Symbol) -> Size:
    return Size((((symbol,), 1),))


def divide(numerator: Size, denominator: Size) -> Size:
    """The exact quotient: simplified where the denominator is one monomial that cancels, a quotient symbol elsewhere.

    Raises InexactDivision where both are known and don't divide, ZeroDivisionError for a known zero.
    """
    above, below = numerator.constant(), denominator.constant()
    if below == 0:
        raise ZeroDivisionError
    if above is not None and below is not None and above % below:
        raise InexactDivision(above, below)
    if not numerator.terms or len(denominator.terms) != 1:
        return numerator if not numerator.terms else _quotient(numerator, denominator, above, below)
    divisor, factor = denominator.terms[0]
    parts: list[tuple[Monomial, int]] = []
    for monomial, count in numerator.terms:
        rest = _without(monomial, divisor)
        if rest is None or count % factor:
            return _quotient(numerator, denominator, above, below)
        parts.append((rest, count // factor))
    return _collect(parts)


def _quotient(numerator: Size, denominator: Size, above: int | None, below: int | None) -> Size:
    name = f"{_bracketed(numerator)}/{_bracketed(denominator)}"
    value = above // below if above is not None and below is not None else None
    if not any(True for part in (numerator, denominator) for _ in part.symbols()) and value is not None:
        return number(value)
    return of(Symbol(name, 0, value, (numerator, denominator)))


def evaluate(size: Size, value_of: Callable[[Symbol], int | None]) -> int | None:
    """The number that the size is, None where a symbol has no value; quotients of numbers must be exact (InexactDivision)."""
    total = 0
    for monomial, count in size.terms:
        product = count
        for symbol in monomial:
            value = value_of(symbol)
            if value is None and symbol.quotient:
                above, below = (evaluate(part, value_of) for part in symbol.quotient)
                if above is not None and below is not None:
                    if below == 0 or above % below:
                        raise InexactDivision(above, below)
                    value = above // below
            if value is None:
                return None
            product *= value
        total += product
    return total


def render(size: Size) -> str:
    """As a program writes it: `3*D`, `n+1`, `H*Dh-2`."""
    if not size.terms:
        return "0"
    text = ""
    for monomial, count in sorted(size.terms, key=lambda term: -len(term[0])):
        names = "*".join(symbol.name for symbol in monomial)
        amount = abs(count)
        part = names if names and amount == 1 else f"{amount}*{names}" if names else str(amount)
        text += ("-" if count < 0 else "+" if text else "") + part
    return text


def _bracketed(size: Size) -> str:
    text = render(size)
    return f"({text})" if len(size.terms) > 1 or "*" in text or "/" in text else text


def product(sizes: Iterable[Size]) -> Size:
    total = ONE
    for size in sizes:
        total = total * size
    return total


ZERO = Size()
ONE = Size((((), 1),))
