"""Places along an axis as a program writes them: host ints, and as sizes what is known of them while checking.

A number that only a run decides stands in a size under a symbol of its own, the same wherever the number is, so that `i+K` less `i` is `K`.
Those symbols never leave this room: the IR has the numbers themselves.
"""

from __future__ import annotations

from dataclasses import field

from shapescript.compiler.check import types
from shapescript.compiler.check.axes import MOST_FACTORS, MOST_PRODUCTS
from shapescript.compiler.check.body import Body
from shapescript.compiler.check.changes import mut_names
from shapescript.compiler.check.scope import DimEntity
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.sizes import Size, Symbol, fresh, number, of
from shapescript.compiler.ir.types import Element
from shapescript.compiler.ops.table import entry
from shapescript.compiler.records.dataclass import dataclass
from shapescript.compiler.syntax import tree

OPERATIONS = {"+": "add", "-": "sub", "*": "mul", "//": "floordiv", "%": "mod"}
MOST_STEPS = 32  # of a proof: each puts the end of a range in the place of a loop's variable


@dataclass(frozen=True)
class Position:
    """A host int, and the size that it is."""

    size: Size
    value: Value


@dataclass
class PositionReader:
    """Reads the ends of one range, or one index. `/` is the exact quotient of sizes where `exact`, and else gives a float, as everywhere.

    What is written twice in it and reads the same is evaluated once.
    """

    body: Body
    what: str
    exact: bool = True
    _seen: dict[tree.Expression, Position] = field(default_factory=dict)

    def read(self, node: tree.Expression) -> Position:
        with self.body.builder.at(node.span):
            match node:
                case tree.Name() | tree.Attribute() if (size := self._declared(node)) is not None:
                    return Position(size, self.body.builder.size(size))
                case tree.Unary(_, "-", operand):
                    inner = self.read(operand)
                    return Position(-inner.size, self.body.builder.op("neg", inner.value))
                case tree.Binary(_, operator, left, right) if operator in OPERATIONS:
                    one, other = self.read(left), self.read(right)
                    value = self.body.builder.op(OPERATIONS[operator], one.value, other.value)
                    return Position(self._combined(operator, one.size, other.size), value)
                case tree.Binary(_, "/", left, right) if self.exact:
                    return self._quotient(node, self.read(left), self.read(right))
            return self._seen.get(node) or self._evaluated(node)

    def _declared(self, node: tree.Name | tree.Attribute) -> Size | None:
        """The size that a dim or an axis is."""
        if isinstance(node, tree.Name) and node.name in self.body.environment:
            return None
        entity = self.body.entity(node)
        if isinstance(entity, DimEntity):
            return of(entity.symbol)
        axis = self.body.context.known(node.name) if isinstance(node, tree.Name) and entity is None else None
        return None if axis is None else axis.size

    def _evaluated(self, node: tree.Expression) -> Position:
        before = len(self.body.builder.ops)
        typed = self.body.evaluate(node)
        if isinstance(typed.type, types.Tensor) and typed.type.axes and typed.type.element is Element.I64:
            help = "`gather(x, index, over=n)` takes several places, `pick` one of each row"
            self.body.report.fail("E0301", f"{self.what}: int is wanted, found {typed.type}", node.span, help=help)
        typed = self.body.convert(typed, types.INT, node.span, lambda: self.what)
        if isinstance(typed.constant, int):
            return Position(number(typed.constant), typed.value)
        found = Position(of(self._symbol(typed.value, node.span.text)), typed.value)
        changes = next(mut_names(node), None) is not None
        if not changes and not any(entry(op.name).ordered for op in self.body.builder.ops[before:]):
            self._seen[node] = found
        return found

    def _symbol(self, key: object, text: str) -> Symbol:
        """What stands for a number that a run decides."""
        if key not in self.body.numbers:
            self.body.numbers[key] = fresh(text)
            self.body.ranges.setdefault(self.body.numbers[key], None)
        return self.body.numbers[key]

    def _combined(self, operator: str, one: Size, other: Size) -> Size:
        left, right = one.constant(), other.constant()
        match operator:
            case "+":
                return one + other
            case "-":
                return one - other
            case "*" if _multiplies_out(one, other):
                return one * other
            case "//" | "%" if left is not None and right is not None and right > 0:
                return number(left // right if operator == "//" else left % right)
            case "//" if other.constant() != 0 and not any(is_decided_by_run(self.body, size) for size in (one, other)):
                return one // other
        return of(self._symbol((operator, one, other), operator))

    def _quotient(self, node: tree.Expression, one: Position, other: Position) -> Position:
        if any(is_decided_by_run(self.body, position.size) for position in (one, other)):
            text = "`/` of numbers that a run decides is a float, and a place is a whole number"
            self.body.report.fail("E0301", text, node.span, help="`//` rounds down")
        size = self.body.context.arithmetic("/", one.size, other.size, node.span)
        return Position(size, self.body.builder.size(size))


def _multiplies_out(one: Size, other: Size) -> bool:
    degree = max((len(monomial) for size in (one, other) for monomial, _ in size.terms), default=0)
    return len(one.terms) * len(other.terms) <= MOST_PRODUCTS and 2 * degree <= MOST_FACTORS


def is_decided_by_run(body: Body, size: Size) -> bool:
    return any(symbol in body.ranges for symbol in size.symbols())


def note_range(body: Body, variable: Value, start: Size, stop: Size) -> None:
    """A loop's variable goes from start to stop - 1."""
    symbol = body.numbers[variable] = fresh(variable.hint)
    body.ranges[symbol] = start, stop - number(1)


# ---- what is certain whatever a run decides ---------------------------------------------------------------------------------------------


def is_never_negative(body: Body, size: Size) -> bool:
    """Whether it is certain that the size, which may be a difference, is at least 0."""
    rest = size.known()
    for _ in range(MOST_STEPS):
        if all(count >= 0 and all(_is_size(body, symbol) for symbol in monomial) for monomial, count in rest.terms):
            return True
        smaller = _without_innermost(body, rest)
        if smaller is None:
            return False
        rest = smaller.known()
    return False


def _is_size(body: Body, symbol: Symbol) -> bool:
    """Whether the symbol is at least 0, as a size is."""
    if symbol in body.ranges:
        bounds = body.ranges[symbol]
        return bounds is not None and is_never_negative(body, bounds[0])
    if symbol.quotient is not None:
        return all(is_never_negative(body, part) for part in symbol.quotient)
    return True


def _without_innermost(body: Body, size: Size) -> Size | None:
    """A size that is at most as large, without the variable of the innermost loop: where it makes the size larger its least value stands
    for it, where smaller its greatest. None where the size has no such variable, or one of another kind."""
    variables = [symbol for symbol in size.symbols() if body.ranges.get(symbol) is not None]
    if not variables:
        return None
    innermost = max(variables, key=lambda symbol: symbol.number)
    bounds = body.ranges[innermost]
    assert bounds is not None
    total = Size()
    for monomial, count in size.terms:
        others = list(monomial)
        if innermost not in others:
            total = total + Size(((monomial, count),))
            continue
        others.remove(innermost)
        if not all(symbol != innermost and _is_size(body, symbol) for symbol in others):
            return None
        total = total + Size(((tuple(others), count),)) * bounds[0 if count > 0 else 1]
    return total
