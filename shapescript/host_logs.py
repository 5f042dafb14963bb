"""A program's logs: its sinks, what it writes to them, and what it holds open while it runs."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from shapescript.compiler.diagnostics.model import InternalError
from shapescript.compiler.ir.nodes import Op
from shapescript.runtime.csv_sink import csv
from shapescript.runtime.errors import ShapeScriptError
from shapescript.runtime.jsonl import jsonl
from shapescript.runtime.sinks import LogSink, MemorySink
from shapescript.runtime.tee_sink import tee
from shapescript.runtime.tensorboard_sink import tensorboard

SINKS: dict[str, Callable[..., LogSink]] = {
    "jsonl": jsonl,
    "csv": csv,
    "tensorboard": tensorboard,
    "memory": MemorySink,
    "tee": tee,
}


class LogWatcher(Protocol):
    """Who is told what a program logs."""

    def opened(self, sink: LogSink) -> None: ...
    def wrote(self, fields: Mapping[str, Any]) -> None: ...
    def flushed(self) -> None: ...


class _Held(threading.local):
    """What one thread's calls hold: how many calls are in each other, the sinks that they have made and that still live, and those that
    the outermost one has written to, by their ids."""

    def __init__(self) -> None:
        self.depth = 0
        self.sinks: weakref.WeakSet[LogSink] = weakref.WeakSet()
        self.written: dict[int, LogSink] = {}


class LogHost:
    """The operations on logs. Between `begin` and `end` of a thread's outermost call its sinks keep their files open, and locked."""

    def __init__(self, watcher: LogWatcher | None) -> None:
        self._watcher, self._held = watcher, _Held()
        self.handlers: dict[str, Callable[[Op, Sequence[Any]], Sequence[Any]]] = {
            "sink_open": self._sink_open,
            "write": self._write,
            "flush": self._flush,
        }

    def begin(self) -> None:
        self._held.depth += 1

    def end(self) -> None:
        """Let go of the files of the sinks that this thread's calls have made, when the outermost one ends, however it does."""
        held = self._held
        held.depth -= 1
        if not held.depth:
            held.written.clear()
            if held.sinks:  # walking through an empty weak set takes 1 µs
                for sink in list(held.sinks):
                    sink.release()

    def failed(self, error: ShapeScriptError) -> None:
        """The outermost call ends with this error: the logs that it has written to say so. A log that nothing was written to is left alone:
        an old one may be there. One that can't be written isn't what failed."""
        if self._held.depth == 1:
            for sink in self._held.written.values():
                with contextlib.suppress(ShapeScriptError):
                    sink.note("error", f"{error.code}: {error.message}")
                    sink.flush()

    def _sink_open(self, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
        make = SINKS.get(op.attributes["kind"])
        if make is None:
            raise InternalError("host", f"no sink of kind {op.attributes['kind']}", op.span)
        sink = make(*operands)
        self._held.sinks.add(sink)
        if self._watcher:
            self._watcher.opened(sink)
        return (sink,)

    def _write(self, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
        fields = dict(zip(op.attributes["fields"], operands[1:], strict=True))
        sink = operands[0]
        sink.write(str(op.attributes["record"]), fields)
        self._held.written[id(sink)] = sink
        if self._watcher:
            self._watcher.wrote(fields)
        return ()

    def _flush(self, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
        operands[0].flush()
        if self._watcher:
            self._watcher.flushed()
        return ()
