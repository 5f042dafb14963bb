"""The sink that hands each record to several others."""

from __future__ import annotations

from collections.abc import Mapping
from reprlib import repr as short_repr  # a damaged file may nest lists deeper than a message can hold
from typing import Any, NoReturn

from shapescript.runtime.errors import ArgumentError, CheckpointError
from shapescript.runtime.line_sink import LineSink
from shapescript.runtime.sinks import LogSink


class TeeSink(LogSink):
    """Writes to all of `sinks`, in order. What one of them would refuse is found before any is changed."""

    kind = "tee"

    def __init__(self, *sinks: LogSink) -> None:
        if not sinks:
            raise ArgumentError("R1004", "tee: it takes at least one sink")
        for sink in sinks:
            if not isinstance(sink, LogSink):
                raise ArgumentError("R1004", f"tee: it takes log sinks, got {type(sink).__name__}")
        parts = [part for sink in sinks for part in _parts(sink)]
        for place, part in enumerate(parts):
            if any(_is_same(part, other) for other in parts[:place]):
                raise ArgumentError("R1004", f"tee: {part!r} is given twice")
        self.sinks = sinks

    def write(self, record_name: str, fields: Mapping[str, Any]) -> None:
        self.check_write(record_name, fields)
        for sink in self.sinks:
            sink.write(record_name, fields)

    def check_write(self, record_name: str, fields: Mapping[str, Any]) -> None:
        for sink in self.sinks:
            sink.check_write(record_name, fields)

    def note(self, kind: str, text: str) -> None:
        for sink in self.sinks:
            sink.note(kind, text)

    def flush(self) -> None:
        for sink in self.sinks:
            sink.flush()

    def release(self) -> None:
        for sink in self.sinks:
            sink.release()

    def position(self) -> dict[str, Any]:
        return {"kind": self.kind, "sinks": [sink.position() for sink in self.sinks]}

    def check_restore(self, position: Mapping[str, Any]) -> None:
        for sink, own in zip(self.sinks, self._positions(position), strict=True):
            sink.check_restore(own)

    def restore(self, position: Mapping[str, Any]) -> None:
        self.check_restore(position)
        for sink, own in zip(self.sinks, self._positions(position), strict=True):
            sink.restore(own)

    def _positions(self, saved: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        self.check_kind(saved)
        found = saved.get("sinks")
        if not isinstance(found, list | tuple) or not all(isinstance(own, Mapping) for own in found):
            raise CheckpointError("R1302", f"no positions of sinks: {short_repr(found)}", kind="corrupt", name="sink")
        kinds, own = [position.get("kind") for position in found], [sink.kind for sink in self.sinks]
        if kinds != own:
            message = f"the checkpoint's sink is a tee of {short_repr(kinds)}, this one of {own!r}"
            raise CheckpointError("R1303", message, kind="value", name="sink", expected=own, found=kinds)
        return list(found)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a TeeSink can't be pickled or copied: it stands for what its sinks stand for")

    def __repr__(self) -> str:
        return f"TeeSink({', '.join(map(repr, self.sinks))})"


def _parts(sink: LogSink) -> list[LogSink]:
    """The sinks that a sink writes to in the end."""
    return [part for inner in sink.sinks for part in _parts(inner)] if isinstance(sink, TeeSink) else [sink]


def _is_same(sink: LogSink, other: LogSink) -> bool:
    """Whether two sinks are one, or write one file."""
    if sink is other:
        return True
    return isinstance(sink, LineSink) and isinstance(other, LineSink) and sink.path == other.path


def tee(*sinks: LogSink) -> TeeSink:
    """A sink that writes each record to all of these, in order. Raises ArgumentError R1004 for none, or one given twice."""
    return TeeSink(*sinks)
