"""What a call that measures itself finds, in a table of 64-bit words which Python gives to native code. No LLVM is loaded for it.

words 0 to 7          see Cell
then for each row     see Column
elsewhere             for the first operations that begin: see Event
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Protocol

import numpy as np

from shapescript.compiler.ir.nodes import Function, Op
from shapescript.compiler.records.dataclass import dataclass


class Cell(IntEnum):
    """Words of a table that belong to no row."""

    BEGAN = 0  # the clock at the call's start; 0 where the call hasn't begun
    LAST = 1  # the clock's last reading
    CURRENT = 2  # the row that time belongs to now
    EVENTS = 3  # the address of the events
    EVENT = 4  # the number of the next one
    EVENT_LIMIT = 5  # how many there are; one more is there for those behind the last


FIRST_ROW = 8


class Column(IntEnum):
    """Words of a row."""

    CALLS = 0
    TICKS = 1
    FLOPS = 2
    BYTES = 3
    THREADS = 4  # the most that one of its calls was shared out to; 0 where none could be


class Event(IntEnum):
    """Words of an event."""

    ROW = 0
    BEGAN = 1
    ENDED = 2


@dataclass(frozen=True)
class Row:
    """What is measured by itself: an operation, or a part of one. Without an operation: the function."""

    op: Op | None = None
    part: str = ""


@dataclass(frozen=True)
class Measured:
    """One call of a function, from its start to its end in ticks of the clock.

    table: a line for each of the rows, its columns as Column says. events: the first operations that began, as Event says, in the order of
    their beginnings; one that the call didn't come back to, because it was left in the middle, ended with the call.
    """

    function: Function
    rows: Sequence[Row]
    table: Any
    events: Any
    began: int
    ended: int
    thread: int


def added(table: Any, more: Any) -> Any:
    """The table of the calls of both."""
    found = table + more
    found[..., Column.THREADS] = np.maximum(table[..., Column.THREADS], more[..., Column.THREADS])
    return found


class Recorder(Protocol):
    def room(self) -> int:
        """How many events of the next call are wanted."""
        ...

    def record(self, call: Measured) -> None: ...


class Table:
    """The table of one call at a time, used again by later ones."""

    def __init__(self, function: Function, rows: Sequence[Row]) -> None:
        self.function, self.rows = function, rows
        self._words = np.zeros(FIRST_ROW + len(rows) * len(Column), np.int64)
        self._events = np.zeros((1, len(Event)), np.int64)
        self.address: int = self._words.ctypes.data

    def begin(self, recorder: Recorder | None) -> None:
        room = recorder.room() if recorder else 0
        if room >= len(self._events):
            self._events = np.zeros((room + 1, len(Event)), np.int64)
        self._words[:] = 0
        self._words[Cell.EVENTS] = self._events.ctypes.data
        self._words[Cell.EVENT_LIMIT] = room

    def end(self, recorder: Recorder) -> None:
        """Hand over what the call has measured; nothing, where native code wasn't reached."""
        words = self._words
        began, ended = int(words[Cell.BEGAN]), int(words[Cell.LAST])
        if not began:
            return
        events = self._events[: words[Cell.EVENT]].copy()
        open_ = events[:, Event.ENDED] == 0
        events[open_, Event.ENDED] = ended
        table = words[FIRST_ROW:].reshape(len(self.rows), len(Column)).copy()
        words[Cell.BEGAN] = 0
        recorder.record(Measured(self.function, self.rows, table, events, began, ended, threading.get_native_id()))
