"""Sizes found in the arguments of one call: constants are compared, symbols bound, and what follows from several is worked out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shapescript.compiler.check.types import Axis
from shapescript.compiler.ir.sizes import InexactDivision, Size, Symbol, dim, evaluate, of
from shapescript.runtime.arrays import sizes as shape_text
from shapescript.runtime.errors import ArgumentError

NO_DEFAULTS: Mapping[Symbol, Size] = {}


class DisagreementError(Exception):
    """Two arguments give one size two values. The message is made later, from all arguments."""


class Sizes:
    """What a call's arguments say of its sizes.

    `leading` holds the shape that each `..s` stands for; `open` are sizes to be worked out: the argument, its size as written, the
    size found.
    """

    __slots__ = ("leading", "open", "values")

    def __init__(self) -> None:
        self.values: dict[Symbol, int] = {}
        self.leading: dict[Symbol, tuple[int, ...]] = {}
        self.open: list[tuple[str, Size, int]] = []

    def bind(self, symbol: Symbol, size: int) -> None:
        if self.values.setdefault(symbol, size) != size:
            raise DisagreementError

    def bind_all(self, sizes: Mapping[Symbol, int]) -> None:
        for symbol, size in sizes.items():
            self.bind(symbol, size)

    def value_of(self, symbol: Symbol) -> int | None:
        return self.values.get(symbol, symbol.value)

    def evaluate(self, size: Size) -> int | None:
        return evaluate(size, self.value_of)

    def as_dims(self) -> dict[Symbol, Size]:
        """Each bound symbol as a dim of its name and value."""
        return {symbol: of(dim(symbol.name, value)) for symbol, value in self.values.items()}

    def close(self, defaults: Mapping[Symbol, Size] = NO_DEFAULTS) -> None:
        """Work out the sizes that follow from others: `n+1` from n, and n from `n+1` where nothing else gives it. Dims that no argument
        shows take their defaults.

        Raises ArgumentError R1003 for a size that disagrees, can't be worked out, or is no whole number.
        """
        waiting = self.open
        while waiting:
            left = [case for case in waiting if not self._settled(*case)]
            if len(left) == len(waiting) and not self._take_defaults(defaults):
                name, size, found = left[0]
                raise ArgumentError("R1003", f"{name}: the sizes in {size} = {found} can't be told from the arguments")
            waiting = left
        self._take_defaults(defaults)

    def _take_defaults(self, defaults: Mapping[Symbol, Size]) -> bool:
        """Whether there were any."""
        found = False
        for symbol, default in defaults.items():
            if symbol not in self.values:
                value = self._whole(symbol.name, default)
                if value is not None and value < 0:
                    raise ArgumentError("R1003", f"{symbol.name}: {default} would be {value} here")
                if value is not None:
                    self.values[symbol] = value
                    found = True
        return found

    def _whole(self, name: str, size: Size) -> int | None:
        try:
            return self.evaluate(size)
        except InexactDivision as error:
            raise ArgumentError("R1003", f"{name}: {size} is no whole number here: {error}") from None

    def _settled(self, name: str, size: Size, found: int) -> bool:
        value = self._whole(name, size)
        if value is None:
            return self._solved(name, size, found)
        if value != found:
            known = ", ".join(f"{symbol} = {self.value_of(symbol)}" for symbol in dict.fromkeys(size.symbols()) if not symbol.quotient)
            raise ArgumentError("R1003", f"{name}: expected {size} = {value}, since {known}, got {found}")
        return True

    def _solved(self, name: str, size: Size, found: int) -> bool:
        """Bind the one symbol that isn't known, where the size is linear in it."""
        unknown = {symbol for symbol in size.symbols() if self.value_of(symbol) is None}
        if len(unknown) != 1:
            return False
        (symbol,) = unknown
        if symbol.quotient or any(monomial.count(symbol) > 1 for monomial, _ in size.terms):
            return False
        at = [evaluate(size, lambda s, guess=guess: guess if s is symbol else self.value_of(s)) for guess in (0, 1)]  # type: ignore[misc]
        if at[0] is None or at[1] is None or at[0] == at[1]:
            return False
        value, rest = divmod(found - at[0], at[1] - at[0])
        if rest or value < 0:
            raise ArgumentError("R1003", f"{name}: {size} = {found} leaves no whole number for {symbol}")
        self.values[symbol] = value
        return True


class Shape:
    """The axes of a parameter, sorted into what is compared, what is bound, and what follows from other sizes."""

    def __init__(self, name: str, axes: Sequence[Axis]) -> None:
        self.name = name
        self.axes = tuple(axes)
        self.leading = next((axis for axis in axes if axis.leading), None)
        self.constants: list[tuple[int, int]] = []
        self.symbols: list[tuple[int, Symbol]] = []
        self.others: list[tuple[int, Size]] = []
        for place, axis in enumerate(axes):
            constant, symbol = axis.size.constant(), plain_symbol(axis.size)
            if constant is not None:
                self.constants.append((place, constant))
            elif symbol is not None:
                self.symbols.append((place, symbol))
            else:
                self.others.append((place, axis.size))

    def bind(self, shape: tuple[int, ...], sizes: Sizes) -> None:
        """Raises ArgumentError R1002 for a shape that doesn't fit, DisagreementError for a size that another argument gives otherwise.

        `shape` has one entry for each axis (see `collapsed`).
        """
        if len(shape) != len(self.axes):
            raise self.wrong_rank(shape)
        for place, constant in self.constants:
            if shape[place] != constant:
                raise self.wrong_size(shape)
        for place, symbol in self.symbols:
            if sizes.values.setdefault(symbol, shape[place]) != shape[place]:
                raise DisagreementError
        for place, size in self.others:
            sizes.open.append((self.name, size, shape[place]))

    def collapsed(self, shape: tuple[int, ...], sizes: Sizes) -> tuple[int, ...]:
        """The shape with all axes that `..s` stands for as one. Raises ArgumentError R1002 where there are too few axes."""
        if self.leading is None:
            return shape
        count = len(shape) - len(self.axes) + 1
        if count < 0:
            raise self.wrong_rank(shape)
        symbol = plain_symbol(self.leading.size)
        if symbol is not None and sizes.leading.setdefault(symbol, shape[:count]) != shape[:count]:
            raise DisagreementError
        total = 1
        for size in shape[:count]:
            total *= size
        return (total, *shape[count:])

    def wrong_rank(self, found: tuple[int, ...]) -> ArgumentError:
        least = "at least " if self.leading else ""
        count = len(self.axes) - (self.leading is not None)
        plural = "axis" if count == 1 else "axes"
        return ArgumentError("R1002", f"{self.name}: expected {least}{count} {plural} {self}, got shape {shape_text(found)}")

    def wrong_size(self, found: tuple[int, ...]) -> ArgumentError:
        known = dict.fromkeys(f"{self.axes[place].name} = {size}" for place, size in self.constants if str(size) != self.axes[place].name)
        where = f" with {', '.join(known)}" if known else ""
        return ArgumentError("R1002", f"{self.name}: expected {self}{where}, got shape {shape_text(found)}")

    def __str__(self) -> str:
        return f"[{' '.join(('..' if axis.leading and not axis.name.startswith('..') else '') + axis.name for axis in self.axes)}]"


def plain_symbol(size: Size) -> Symbol | None:
    """The symbol that the size is, where it is one whose value a call binds."""
    match size.terms:
        case (((symbol,), 1),) if symbol.value is None and not symbol.quotient:
            return symbol
    return None
