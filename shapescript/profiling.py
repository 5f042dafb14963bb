"""`profile`: where the time of calls goes, operation by operation."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from shapescript import measuring
from shapescript.compiler.codegen.measurement import Column, Measured, Row, added
from shapescript.compiler.codegen.peak import Peak, clock, measured_peak
from shapescript.compiler.ir.nodes import Function
from shapescript.profile_rows import Kernel, Origin, ProfileRow, described

EVENTS = 100_000
MOST_EVENTS = 10_000_000
LEAST_NANOSECONDS = 10_000_000  # between the two readings of both clocks by which ticks become seconds


@dataclass(frozen=True)
class Part:
    """Time outside of native code that has a name, in nanoseconds of `time.perf_counter_ns`."""

    name: str
    began: int
    ended: int
    thread: int


class Profile:
    """What was measured between `with` and its end, of calls from any thread. `events` operations, the first, are kept for a trace.

    A function that is called there is compiled anew, with readings of the clock; what it computes is the same to the bit.
    """

    def __init__(self, events: int = EVENTS) -> None:
        if not isinstance(events, int) or not 0 <= events <= MOST_EVENTS:
            raise ValueError(f"events: expected a whole number up to {MOST_EVENTS}, got {events!r}")
        self.parts: list[Part] = []
        self.kept: list[Measured] = []
        self.calls = 0
        self.start = 0.0  # seconds of the process before the profile
        self._native_ticks = 0
        self._totals: dict[int, tuple[Function, Sequence[Row], Any]] = {}
        self._rate: float | None = None
        self._room = events
        self._lock = threading.Lock()
        self.began = _now()
        self._ended: tuple[int, int] | None = None
        self._is_begun = False

    def __enter__(self) -> Profile:
        if self._is_begun:
            raise RuntimeError("a profile measures once: make another with profile()")
        self._is_begun = True
        self.began = _now()
        measuring.begin(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        measuring.end(self)
        self._ended = _now()

    # ---- recording

    def room(self) -> int:
        return self._room

    def record(self, call: Measured) -> None:
        with self._lock:
            self.calls += 1
            self._native_ticks += call.ended - call.began
            known = self._totals.get(id(call.rows))
            self._totals[id(call.rows)] = (call.function, call.rows, call.table if known is None else added(known[2], call.table))
            if self._room:
                self._room = max(self._room - 1 - len(call.events), 0)
                self.kept.append(call)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """What is done inside belongs to a part outside of native code."""
        began = time.perf_counter_ns()
        try:
            yield
        finally:
            self.parts.append(Part(name, began, time.perf_counter_ns(), threading.get_native_id()))

    # ---- what was found

    @property
    def rows(self) -> list[ProfileRow]:
        """The costliest first. Together they are the time in native code."""
        scale = self.seconds_per_tick
        found: dict[tuple[Origin, Kernel], Any] = {}
        for function, rows, table in list(self._totals.values()):
            for row, numbers in zip(rows, table, strict=True):
                if numbers[Column.CALLS]:
                    key = described(function, row)
                    found[key] = added(found[key], numbers) if key in found else numbers
        made = []
        for (origin, kernel), numbers in found.items():
            calls, ticks, flops, bytes_, threads = map(int, numbers)
            made.append(ProfileRow(origin, kernel, calls, ticks * scale, flops, bytes_, max(threads, 1)))
        return sorted(made, key=lambda row: (-row.seconds, str(row.origin), str(row.kernel)))

    @property
    def seconds(self) -> float:
        """From the start of `with` to its end, or to now."""
        return (self._end[0] - self.began[0]) / 1e9

    @property
    def native_seconds(self) -> float:
        """In native code, and in what it asks of Python, such as logs and checkpoints; of all threads together."""
        return self._native_ticks * self.seconds_per_tick

    @property
    def outside(self) -> dict[str, float]:
        """Seconds outside of native code: the parts that have names, and the rest, which is the caller's Python. What the process did
        before the profile comes beside."""
        found: dict[str, float] = {}
        for part in self.parts:
            found[part.name] = found.get(part.name, 0.0) + (part.ended - part.began) / 1e9
        found["Python"] = max(self.seconds - self.native_seconds - sum(found.values()), 0.0)
        return {"start": self.start, **found} if self.start else found

    @property
    def machine(self) -> Peak:
        """What one core can do."""
        return measured_peak()

    @property
    def seconds_per_tick(self) -> float:
        if self._rate is None or self._ended is None:
            if time.perf_counter_ns() - self.began[0] < LEAST_NANOSECONDS:
                time.sleep(LEAST_NANOSECONDS / 1e9)
            now = _now()
            self._rate = (now[0] - self.began[0]) / (now[1] - self.began[1]) / 1e9
        return self._rate

    def write_trace(self, to: str | os.PathLike[str] | TextIO) -> None:
        """A file that ui.perfetto.dev and chrome://tracing show: what ran when, of the operations that began first."""
        from shapescript.profile_trace import trace_text

        if isinstance(to, str | os.PathLike):
            Path(to).write_text(trace_text(self), "utf-8")
        else:
            to.write(trace_text(self))

    def __str__(self) -> str:
        from shapescript.profile_report import report

        return report(self)

    @property
    def _end(self) -> tuple[int, int]:
        return _now() if self._ended is None else self._ended


def profile(events: int = EVENTS) -> Profile:
    """`with profile() as p:` measures the calls inside; `print(p)` then shows where their time went."""
    return Profile(events)


def _now() -> tuple[int, int]:
    return time.perf_counter_ns(), clock()
