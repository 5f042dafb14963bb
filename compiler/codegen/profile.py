"""What a function that is compiled to be measured has more than an ordinary one: it reads the clock where an operation begins and ends.

What it finds goes to a table in memory of Python's (measurement.py).

All time between two readings of the clock belongs to the row that stands between them, so rows hold an operation's own time, without that
of operations in its regions, and together they are the call's time to the tick, whatever ends the call. Row 0 is the function itself: what
no operation with a row does, such as arithmetic on numbers in registers, and moving results to the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.context import load_address, load_word, store_word
from shapescript.compiler.codegen.emit import I64, PTR, VOID, Builder, ElementType, Value
from shapescript.compiler.codegen.machine import clock
from shapescript.compiler.codegen.measurement import FIRST_ROW, Cell, Column, Event, Row
from shapescript.compiler.codegen.target import Target
from shapescript.compiler.codegen.work import flops, moved_bytes
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.sizes import ZERO, Size
from shapescript.compiler.ops.locations import Plan
from shapescript.compiler.ops.table import Control, entry

FUNCTION = 0  # the row of the function itself


class Probes:
    """Emits the readings of the clock. `word` of the context has the table's address, `size` gives a size where the builder stands.

    What an operation needs are two calls: in the place of them, their code would double the time that LLVM takes for the function.
    """

    def __init__(self, b: Builder, context: Value, word: int, target: Target, size: Callable[[Size], emit.Size]) -> None:
        self.b, self.target, self._size = b, target, size
        self.rows = [Row()]
        self.told: set[Op] = set()  # the operations whose regions rows tell of: kernels
        self._current = FUNCTION
        self._table = load_address(b, context, word)

    def begin(self) -> None:
        """The call begins."""
        now = clock(self.b, self.target)
        _set(self.b, self._table, Cell.BEGAN, now)
        _set(self.b, self._table, Cell.LAST, now)
        _add(self.b, self._table, FUNCTION, Column.CALLS, I64(1))

    def end(self) -> None:
        """The call ends, wherever that is: the builder stands in the block that all ways out lead to."""
        _lap(self.b, self.target, self._table, _get(self.b, self._table, Cell.CURRENT))

    @contextmanager
    def operation(self, op: Op, plan: Plan) -> Iterator[None]:
        if not isinstance(entry(op.name).lowering, Control):
            self.told.add(op)
        with self.row(Row(op), flops(op), moved_bytes(op, plan)):
            yield

    @contextmanager
    def row(self, row: Row, flops: Size = ZERO, bytes_: Size = ZERO) -> Iterator[None]:
        """What is emitted inside belongs to this row; sizes other than 0 are computed where it ends, for the block around."""
        outer, number = self._current, len(self.rows)
        self.rows.append(row)
        self._current = number
        event = self._call("profile.enter", [I64(outer), I64(number)], PTR, self._emit_enter)
        yield
        self._current = outer
        work = [emit.size(self._size(size)) if size != ZERO else I64(0) for size in (flops, bytes_)]
        self._call("profile.leave", [event, I64(outer), I64(number), *work], VOID, self._emit_leave)

    def shared(self, threads: Value) -> None:
        """What runs next for the row is shared out to so many threads."""
        cell = _cell(self.b, self._table, self._current, Column.THREADS)
        emit.store(self.b, emit.size(extents.most(self.b, emit.load(self.b, cell, I64), threads)), cell)

    def _call(self, name: str, arguments: Sequence[Value], result: ElementType, body: Callable[[Builder, Sequence[Value]], None]) -> Any:
        """Call a function of the table and these; `body` emits it, at its first use."""
        given = [self._table, *arguments]
        fn = self.b.module.globals.get(name)
        if fn is None:
            fn, inner = emit.function(self.b.module, name, [argument.type for argument in given], result)
            fn.attributes.add("noinline")
            body(inner, fn.args)
        return self.b.call(fn, given)

    def _emit_enter(self, b: Builder, given: Sequence[Value]) -> None:
        """Gives the address of an event; of one that nobody reads where there is no room for more."""
        table, outer, row = given
        now, number = _lap(b, self.target, table, outer), _get(b, table, Cell.EVENT)
        _add(b, table, row, Column.CALLS, I64(1))
        _set(b, table, Cell.CURRENT, row)
        event = emit.at(b, load_address(b, table, Cell.EVENTS), b.mul(number, I64(len(Event))), I64)
        store_word(b, row, event, Event.ROW)
        store_word(b, now, event, Event.BEGAN)
        store_word(b, I64(0), event, Event.ENDED)
        _set(b, table, Cell.EVENT, emit.size(extents.least(b, b.add(number, I64(1)), _get(b, table, Cell.EVENT_LIMIT))))
        b.ret(event)

    def _emit_leave(self, b: Builder, given: Sequence[Value]) -> None:
        table, event, outer, row, flops, bytes_ = given
        store_word(b, _lap(b, self.target, table, row), event, Event.ENDED)
        _add(b, table, row, Column.FLOPS, flops)
        _add(b, table, row, Column.BYTES, bytes_)
        _set(b, table, Cell.CURRENT, outer)
        b.ret_void()


def _lap(b: Builder, target: Target, table: Value, row: emit.Size) -> Value:
    """All time since the clock's last reading was the row's; gives the reading of now."""
    now = clock(b, target)
    _add(b, table, row, Column.TICKS, b.sub(now, _get(b, table, Cell.LAST)))
    _set(b, table, Cell.LAST, now)
    return now


def _add(b: Builder, table: Value, row: emit.Size, column: Column, amount: Value) -> None:
    cell = _cell(b, table, row, column)
    emit.store(b, b.add(emit.load(b, cell, I64), amount), cell)


def _cell(b: Builder, table: Value, row: emit.Size, column: Column) -> Value:
    return emit.at(b, table, extents.plus(b, extents.times(b, row, len(Column)), FIRST_ROW + column), I64)


def _get(b: Builder, table: Value, cell: Cell) -> Value:
    return load_word(b, table, cell)


def _set(b: Builder, table: Value, cell: Cell, value: Value) -> None:
    store_word(b, value, table, cell)
