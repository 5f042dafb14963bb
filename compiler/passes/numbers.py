"""What is known of ints while compiling: each is a polynomial over sizes, and over the ints that nothing is known of."""

from __future__ import annotations

from shapescript.compiler.ir.nodes import Op, Value
from shapescript.compiler.ir.sizes import Monomial, Size, Symbol, fresh, number, of
from shapescript.compiler.ir.types import INT, Element
from shapescript.compiler.ops.build import Builder

MOST_TERMS, MOST_FACTORS = 16, 8


class Numbers:
    def __init__(self) -> None:
        self._sizes: dict[Value, Size] = {}
        self._values: dict[Symbol, Value] = {}

    def size(self, value: Value) -> Size:
        """The polynomial that an int is. Whole numbers wrap, in it and in the program alike."""
        if value not in self._sizes:
            symbol = fresh(value.hint or "number")
            self._values[symbol] = value
            self._sizes[value] = of(symbol)
        return self._sizes[value]

    def value(self, symbol: Symbol) -> Value | None:
        """The int that nothing is known of but this symbol; None for the symbol of a size."""
        return self._values.get(symbol)

    def are_in(self, size: Size) -> bool:
        """Whether the polynomial is more than a size."""
        return any(symbol in self._values for symbol in size.symbols())

    def learn(self, op: Op) -> None:
        """An operation that makes an int; what uses it comes later."""
        if len(op.results) != 1 or op.result.type != INT or op.result in self._sizes:
            return
        match op.name:
            case "size":
                self._sizes[op.result] = op.attributes["size"]
            case "constant":
                self._sizes[op.result] = number(op.attributes["value"])
            case "neg":
                self._sizes[op.result] = -self.size(op.operands[0])
            case "add":
                self._keep(op.result, self.size(op.operands[0]) + self.size(op.operands[1]))
            case "sub":
                self._keep(op.result, self.size(op.operands[0]) - self.size(op.operands[1]))
            case "mul":
                left, right = map(self.size, op.operands)
                if len(left.terms) * len(right.terms) <= MOST_TERMS:
                    self._keep(op.result, left * right)

    def _keep(self, value: Value, size: Size) -> None:
        if len(size.terms) <= MOST_TERMS and all(len(monomial) <= MOST_FACTORS for monomial, _ in size.terms):
            self._sizes[value] = size

    def not_below_zero(self, size: Size, builder: Builder) -> Value:
        """The int max(0, size) where all ints that are in it are known."""
        more, less = (self._sum(size, sign, builder) for sign in (1, -1))
        difference = builder.op("sub", more, less)
        return builder.op("select", builder.op("lt", less, more), difference, builder.constant(0, Element.I64))

    def _sum(self, size: Size, sign: int, builder: Builder) -> Value:
        """Of the terms with one sign: a size alone is never a difference, which might be below 0."""
        total = builder.constant(0, Element.I64)
        for monomial, count in size.terms:
            if count * sign > 0:
                total = builder.op("add", total, self._product(monomial, count * sign, builder))
        return total

    def _product(self, monomial: Monomial, count: int, builder: Builder) -> Value:
        found = builder.constant(count, Element.I64)
        for symbol in monomial:
            found = builder.op("mul", found, self._values.get(symbol) or self._size(symbol, builder))
        return found

    def _size(self, symbol: Symbol, builder: Builder) -> Value:
        """A quotient is rounded down here, so that one which isn't whole fails where the program has it."""
        if symbol.quotient is None or symbol.value is not None:
            return builder.size(of(symbol))
        above, below = (builder.op("sub", self._sum(part, 1, builder), self._sum(part, -1, builder)) for part in symbol.quotient)
        nothing = builder.op("eq", below, builder.constant(0, Element.I64))
        return builder.op("floordiv", above, builder.op("select", nothing, builder.constant(1, Element.I64), below))
