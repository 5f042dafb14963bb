"""How often a loop over a range goes round, as the size of an axis along which the gradient keeps what it needs of each turn.

That is stop - start where both are sizes and the difference can't be below 0. Else it is a size of its own, bound to max(0, stop - start)
as far outside as the two are known: by `bind_size`, in front of the operation of that block in which the loop stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field

from shapescript.compiler.diagnostics.model import CompileError, Diagnostic
from shapescript.compiler.ir.nodes import Op, Value, walk_ops
from shapescript.compiler.ir.sizes import Size, Symbol, fresh, number, of
from shapescript.compiler.ir.types import INT, Element
from shapescript.compiler.ops.build import Builder
from shapescript.compiler.ops.storage import LOOPS
from shapescript.compiler.passes.recall import bound_inside
from shapescript.compiler.passes.symbols import rows_bound

ARITHMETIC = ("add", "sub", "mul")
MOST_TERMS = 16
MOST_STEPS = 16  # of arithmetic done again further outside

UNCOUNTED = {"while": "a `while`", "for_batches": "a `for` over batches"}
USE_A_RANGE = "go over an axis, a dim or a number with `for`, or take its result as a constant with stop_gradient(...)"
KNOWN_BEFORE = "let it go over an axis, a dim, or numbers computed before, or take its result as a constant with stop_gradient(...)"


@dataclass
class Level:
    """A block in the making: its operations so far, what it defines, and the sizes that it binds."""

    ops: list[Op] = field(default_factory=list)
    defined: set[Value] = field(default_factory=set)
    symbols: set[Symbol] = field(default_factory=set)
    bound: dict[tuple[object, object], Size] = field(default_factory=dict)

    def append(self, op: Op) -> None:
        self.ops.append(op)
        self.defined.update(op.results)
        self.symbols.update(rows_bound(op))


class Turns:
    """Knows the blocks around the place that is reached in the program, and which ints are sizes."""

    def __init__(self) -> None:
        self.levels: list[Level] = []
        self._sizes: dict[Value, Size] = {}
        self._definitions: dict[Value, Op] = {}

    @contextmanager
    def level(self, parameters: Iterable[Value] = (), symbols: Iterable[Symbol] = ()) -> Iterator[Level]:
        self.levels.append(Level(defined=set(parameters), symbols=set(symbols)))
        yield self.levels[-1]
        self.levels.pop()

    def append(self, op: Op) -> None:
        """The next operation of the innermost block."""
        self._learn(op)
        self.levels[-1].append(op)

    def _learn(self, op: Op) -> None:
        if len(op.results) != 1 or op.result.type != INT:
            return
        self._definitions[op.result] = op
        sizes = [self._sizes.get(operand) for operand in op.operands]
        if op.name == "size":
            self._sizes[op.result] = op.attributes["size"]
        elif op.name == "constant":
            self._sizes[op.result] = number(op.attributes["value"])
        elif op.name in ARITHMETIC and sizes[0] is not None and sizes[1] is not None:
            self._combine(op, sizes[0], sizes[1])

    def _combine(self, op: Op, left: Size, right: Size) -> None:
        if len(left.terms) * len(right.terms) <= MOST_TERMS:
            self._sizes[op.result] = left + right if op.name == "add" else left - right if op.name == "sub" else left * right

    # ---- counting

    def count(self, ops: Sequence[Op], wanted: Set[Op]) -> dict[Op, Size]:
        """The turns of each wanted loop in the operations, which are put into the innermost block.

        Raises CompileError E0804 for a loop that can't be counted before it begins.
        """
        found: dict[Op, Size] = {}
        for op in ops:
            for inner in walk_ops((op,)):
                self._learn(inner)
            bound = bound_inside(op.regions)
            for inner in walk_ops((op,)):
                if inner.name in LOOPS and inner in wanted:
                    found[inner] = self._count(inner, bound)
            self.append(op)
        return found

    def _count(self, loop: Op, bound: Set[Symbol]) -> Size:
        if loop.name in UNCOUNTED:
            message = f"a gradient flows through {UNCOUNTED[loop.name]}, whose turns are counted only as it goes"
            raise CompileError(Diagnostic("E0804", f"{message}; what it needs of each turn can't be kept", loop.span, help=USE_A_RANGE))
        start, stop = loop.operands[:2]
        one, other = self._sizes.get(start), self._sizes.get(stop)
        if one is not None and other is not None:
            turns = other - one
            constant = turns.constant()
            if constant is not None or all(count > 0 for _, count in turns.terms):
                return turns if constant is None else number(max(0, constant))
            less, more = _halves(turns)
            return self._bound(loop, (one, other), self._outermost_of(turns, bound), less, more)
        places = [self._outermost(value, bound) for value in (start, stop)]
        level = None if None in places else max(place for place in places if place is not None)
        return self._bound(loop, (one or start, other or stop), level, start, stop)

    def _bound(self, loop: Op, key: tuple[object, object], level: int | None, less: Size | Value, more: Size | Value) -> Size:
        if level is None:
            message = "a gradient flows through this loop, whose number of turns isn't known before the loops and conditions around it"
            raise CompileError(Diagnostic("E0804", f"{message}; what it needs of each turn can't be kept", loop.span, help=KNOWN_BEFORE))
        for around in self.levels:
            if key in around.bound:
                return around.bound[key]
        builder = Builder(loop.span)
        first, last = self._had(less, level, builder), self._had(more, level, builder)
        goes_round = builder.op("lt", first, last)
        turns = builder.op("select", goes_round, builder.op("sub", last, first), builder.constant(0, Element.I64))
        size = self.levels[level].bound[key] = of(fresh("turns"))
        builder.emit("bind_size", turns, size=size)
        for op in builder.ops:
            self._learn(op)
            self.levels[level].append(op)
        return size

    # ---- where an int is known

    def _outermost_of(self, size: Size, bound: Set[Symbol]) -> int | None:
        """The number of the outermost block in which all symbols of a size have values; None where that is none of those here."""
        symbols = set(size.symbols())
        if not symbols.isdisjoint(bound):
            return None
        return max((number_ for number_, level in enumerate(self.levels) if not symbols.isdisjoint(level.symbols)), default=0)

    def _outermost(self, value: Value, bound: Set[Symbol], steps: int = 0) -> int | None:
        if value in self._sizes:
            return self._outermost_of(self._sizes[value], bound)
        for place, level in enumerate(self.levels):
            if value in level.defined:
                return place
        op = self._definitions.get(value)
        if op is None or op.name not in ARITHMETIC or steps == MOST_STEPS:
            return None
        places = [self._outermost(operand, bound, steps + 1) for operand in op.operands]
        return None if None in places else max(place for place in places if place is not None)

    def _had(self, value: Size | Value, level: int, builder: Builder) -> Value:
        """The int in a block in which it is known."""
        if isinstance(value, Size):
            return builder.size(value)
        if value in self._sizes:
            less, more = _halves(self._sizes[value])
            return builder.op("sub", builder.size(more), builder.size(less))
        if any(value in around.defined for around in self.levels[: level + 1]):
            return value
        op = self._definitions[value]
        return builder.op(op.name, *(self._had(operand, level, builder) for operand in op.operands))


def _halves(size: Size) -> tuple[Size, Size]:
    """Two sizes that aren't below 0; the second less the first is the size."""
    return (
        Size(tuple((monomial, -count) for monomial, count in size.terms if count < 0)),
        Size(tuple((monomial, count) for monomial, count in size.terms if count > 0)),
    )
