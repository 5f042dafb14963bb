"""A profile as a trace in the format of Chrome's trace events, which Perfetto shows: one complete event for each call, each operation
and each part outside of native code."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from shapescript.compiler.codegen.measurement import Event, Measured, Row
from shapescript.compiler.ir.nodes import Function
from shapescript.profile_rows import described
from shapescript.profiling import Profile

MICROSECONDS = 1e6


def trace_text(profile: Profile) -> str:
    """An object of JSON with the key `traceEvents`. Times are microseconds since the profile's start."""
    process, names = os.getpid(), _Names()
    events = [*_parts(profile), *(event for call in profile.kept for event in _operations(profile, call, names))]
    threads = sorted({event["tid"] for event in events})
    named = [_named(process, "process_name", 0, "shapescript"), *(_named(process, "thread_name", tid, f"thread {tid}") for tid in threads)]
    found = [*named, *({**event, "pid": process} for event in sorted(events, key=lambda event: float(event["ts"])))]
    return json.dumps({"traceEvents": found, "displayTimeUnit": "ms"}, ensure_ascii=False)


def _named(process: int, what: str, thread: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}


def _parts(profile: Profile) -> Iterator[dict[str, Any]]:
    for part in profile.parts:
        began, ended = (1e-3 * (time - profile.began[0]) for time in (part.began, part.ended))
        yield _event(part.name, "outside", part.thread, began, ended, {})


class _Names:
    """Name, category and arguments of the events of each row."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[str, str, dict[str, str]]] = {}

    def of(self, call: Measured, row: int) -> tuple[str, str, dict[str, str]]:
        key = id(call.rows), row
        if key not in self._known:
            self._known[key] = _names(call.function, call.rows[row])
        return self._known[key]


def _operations(profile: Profile, call: Measured, names: _Names) -> Iterator[dict[str, Any]]:
    scale, first = profile.seconds_per_tick * MICROSECONDS, profile.began[1]

    def event(row: int, began: int, ended: int) -> dict[str, Any]:
        name, category, arguments = names.of(call, row)
        return _event(name, category, call.thread, (began - first) * scale, (ended - first) * scale, arguments)

    yield event(0, call.began, call.ended)
    for numbers in call.events.tolist():
        yield event(numbers[Event.ROW], numbers[Event.BEGAN], numbers[Event.ENDED])


def _names(function: Function, row: Row) -> tuple[str, str, dict[str, str]]:
    origin, kernel = described(function, row)
    arguments = {"line": str(origin), "text": origin.text, "shapes": kernel.shapes}
    name = f"fn {kernel.name}" if row.op is None else f"{kernel.name} {os.path.basename(origin.path)}:{origin.line}"
    return name, "function" if row.op is None else kernel.name, arguments


def _event(name: str, category: str, thread: int, began: float, ended: float, arguments: dict[str, str]) -> dict[str, Any]:
    """A complete event; in nanoseconds exactly, so that one inside of another doesn't stand out."""
    start = round(began, 3)
    duration = max(round(round(ended, 3) - start, 3), 0.0)
    return {"name": name, "cat": category, "ph": "X", "ts": start, "dur": duration, "tid": thread, "args": arguments}
