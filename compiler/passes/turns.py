"""How often a loop over a range goes round, as the size of an axis along which the gradient keeps what it needs of each turn.

That is stop - start where that is a size whatever the run is. Else it is a size of its own, bound to max(0, stop - start) as far outside
as that is known: by `bind_size`, in front of the operation of that block in which the loop stands. Axes whose sizes a run decides inside of
a loop or branch, be it the same size each time, are bound there too: then what has such an axis can be kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import field

from shapescript.compiler.diagnostics.model import CompileError, Diagnostic, Span
from shapescript.compiler.ir.nodes import Op, Value, walk_ops
from shapescript.compiler.ir.sizes import Size, Symbol, fresh, number, of
from shapescript.compiler.ops.build import Builder
from shapescript.compiler.ops.storage import LOOPS
from shapescript.compiler.passes.numbers import Numbers
from shapescript.compiler.passes.safe_sizes import bound_inside
from shapescript.compiler.passes.symbols import is_doubtful, rows_bound
from shapescript.compiler.records.dataclass import dataclass

UNCOUNTED = {"while": "a `while`", "for_batches": "a `for` over batches"}
USE_A_RANGE = "go over an axis, a dim or a number with `for`, or take its result as a constant with stop_gradient(...)"
KNOWN_BEFORE = "let it go over an axis, a dim, or numbers computed before, or take its result as a constant with stop_gradient(...)"


@dataclass
class Level:
    """A block in the making: its operations so far, what it defines, and the sizes that it binds; `counts` are those bound for loops."""

    ops: list[Op] = field(default_factory=list)
    defined: set[Value] = field(default_factory=set)
    symbols: set[Symbol] = field(default_factory=set)
    counts: dict[Size, Size] = field(default_factory=dict)

    def append(self, op: Op) -> None:
        self.ops.append(op)
        self.defined.update(op.results)
        self.symbols.update(rows_bound(op))


@dataclass(frozen=True)
class Counted:
    """The turns of loops, and the sizes that are known outside of all loops and branches though they are bound in some."""

    turns: dict[Op, Size] = field(default_factory=dict)
    outside: set[Symbol] = field(default_factory=set)


class Turns:
    """Knows the blocks around the place that is reached in the program."""

    def __init__(self) -> None:
        self.levels: list[Level] = []
        self.numbers = Numbers()

    @contextmanager
    def level(self, parameters: Iterable[Value] = (), symbols: Iterable[Symbol] = ()) -> Iterator[Level]:
        self.levels.append(Level(defined=set(parameters), symbols=set(symbols)))
        yield self.levels[-1]
        self.levels.pop()

    def append(self, op: Op) -> None:
        """The next operation of the innermost block."""
        self.numbers.learn(op)
        self.levels[-1].append(op)

    def count(self, ops: Sequence[Op], wanted: Set[Op]) -> Counted:
        """The wanted operations among these are made ready to be gone back through; all are put into the innermost block.

        Raises CompileError E0804 for a loop that can't be counted before it begins.
        """
        found = Counted()
        for op in ops:
            inside = list(walk_ops((op,)))
            for inner in inside:
                self.numbers.learn(inner)
            if not wanted.isdisjoint(inside):
                self._make_ready(op, inside, wanted, found)
            self.append(op)
        return found

    def _make_ready(self, op: Op, inside: Sequence[Op], wanted: Set[Op], found: Counted) -> None:
        bound = bound_inside(op.regions)
        for inner in inside:
            if inner.name == "bind_size" and inner is not op:
                length = self.numbers.size(inner.operands[0])
                level = self._outermost(length, bound)
                if level is not None:
                    self._bind(inner.attributes["size"], length, level, inner.span)
                    found.outside.update(rows_bound(inner))
        bound -= found.outside
        found.turns.update((inner, self._count(inner, bound)) for inner in inside if inner.name in LOOPS and inner in wanted)

    def _count(self, loop: Op, bound: Set[Symbol]) -> Size:
        if loop.name in UNCOUNTED:
            message = f"a gradient flows through {UNCOUNTED[loop.name]}, whose turns are counted only as it goes"
            raise CompileError(Diagnostic("E0804", f"{message}; what it needs of each turn can't be kept", loop.span, help=USE_A_RANGE))
        start, stop = map(self.numbers.size, loop.operands[:2])
        turns = stop - start
        constant = turns.constant()
        if constant is not None:
            return number(max(0, constant))
        if not self.numbers.are_in(turns) and not is_doubtful(turns):
            return turns
        for around in self.levels:
            if turns in around.counts:
                return around.counts[turns]
        level = self._outermost(turns, bound)
        if level is None:
            message = "a gradient flows through this loop, whose number of turns isn't known before the loops and conditions around it"
            raise CompileError(Diagnostic("E0804", f"{message}; what it needs of each turn can't be kept", loop.span, help=KNOWN_BEFORE))
        found = self.levels[level].counts[turns] = of(fresh("turns"))
        self._bind(found, turns, level, loop.span)
        return found

    def _bind(self, size: Size, count: Size, level: int, span: Span | None) -> None:
        """Give the size this value, or 0 where that is below 0, in the block of a level."""
        builder = Builder(span)
        builder.emit("bind_size", self.numbers.not_below_zero(count, builder), size=size)
        for op in builder.ops:
            self.numbers.learn(op)
            self.levels[level].append(op)

    def _outermost(self, size: Size, bound: Set[Symbol]) -> int | None:
        """The number of the outermost block in which the size is known; None where that is none of those here."""
        places = [self._level_of(symbol, bound) for symbol in size.symbols() if symbol.value is None]
        return None if None in places else max((place for place in places if place is not None), default=0)

    def _level_of(self, symbol: Symbol, bound: Set[Symbol]) -> int | None:
        value = self.numbers.value(symbol)
        if value is not None:
            return next((place for place, level in enumerate(self.levels) if value in level.defined), None)
        if symbol in bound:
            return None
        return next((place for place, level in enumerate(self.levels) if symbol in level.symbols), 0)
