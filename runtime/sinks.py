"""Where log records go: the contract of a sink, and the sink that keeps records in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from reprlib import repr as short_repr  # a damaged file may nest lists deeper than a message can hold
from typing import Any, ClassVar, NoReturn

from shapescript.runtime.errors import CheckpointError, did_you_mean
from shapescript.runtime.log_lines import Position, encode_line, plain_fields


class LogSink(ABC):
    """A place for log records. A sink is a handle: what it stands for grows with each write."""

    kind: ClassVar[str]

    @abstractmethod
    def write(self, record_name: str, fields: Mapping[str, Any]) -> None:
        """Take one record. When this returns, the record has left this process, where the sink is a file.

        Raises ArgumentError R1004 for a field that the sink can't hold; LogError R1401; R1402 where another writes the same file;
        R1403 for a record that doesn't fit the log's columns. Then no part of the record is in the log.
        """

    @abstractmethod
    def flush(self) -> None:
        """Make everything written so far durable. Raises LogError R1401."""

    @abstractmethod
    def position(self) -> dict[str, Any]:
        """What a checkpoint holds of this sink: its kind, bytes, records and chained hash."""

    @abstractmethod
    def check_restore(self, position: Mapping[str, Any]) -> None:
        """Raise, having changed nothing, unless `restore(position)` can be done.

        Raises CheckpointError R1303 of kind "value" where the sink holds something else, R1302 for what is no position; LogError R1401,
        and R1402 where another writes the same file.
        """

    @abstractmethod
    def restore(self, position: Mapping[str, Any]) -> None:
        """Go back to a position: a sink that holds more is cut back and its tail is kept, an empty one begins there."""

    def check_write(self, record_name: str, fields: Mapping[str, Any]) -> None:  # noqa: B027  # a sink may have nothing to check
        """Raise what `write` would find wrong with the record, or with who else writes the log; no record and no file changes."""

    def note(self, kind: str, text: str) -> None:  # noqa: B027
        """Keep a remark among the records, {"note": kind, "text": text}, where the sink can hold one; elsewhere nothing is done.

        Raises LogError R1401 or R1402.
        """

    def release(self) -> None:  # noqa: B027
        """Let go of what the sink holds of the system: its file, and the lock that keeps others away. The next write takes it again."""

    def close(self) -> None:
        """Make what was written durable, then let go; a later write goes on. Raises LogError R1401."""
        self.flush()
        self.release()

    def check_kind(self, position: Mapping[str, Any]) -> None:
        found = position.get("kind")
        if not isinstance(found, str) or found != self.kind:
            message = f"the checkpoint's sink is {short_repr(found)}, this one is {self.kind!r}"
            raise CheckpointError("R1303", message, kind="value", name="sink", expected=self.kind, found=found)


class LogRecord:
    """One record of a log: its fields are attributes, `record.loss`, and reached by name too, `record["loss"]`."""

    __slots__ = ("_fields", "_name")

    def __init__(self, record_name: str, fields: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_name", record_name)
        object.__setattr__(self, "_fields", plain_fields(record_name, fields))

    def __getattr__(self, name: str) -> Any:
        if name in LogRecord.__slots__ or name.startswith("__"):
            raise AttributeError(name)
        if name not in self._fields:
            raise AttributeError(f"{self._name} has no field {name!r}{did_you_mean(name, self._fields)}", name=name, obj=self)
        return self._fields[name]

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a record of a log can't be changed: {name}")

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._fields.values())

    def __len__(self) -> int:
        return len(self._fields)

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self._fields]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LogRecord) and record_line(self) == record_line(other)

    def __hash__(self) -> int:
        return hash(record_line(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return LogRecord, (self._name, self._fields)

    def __repr__(self) -> str:
        return f"{self._name}({', '.join(f'{name}={value!r}' for name, value in self._fields.items())})"


def record_line(record: LogRecord) -> bytes:
    return encode_line(record._name, record._fields)


class MemorySink(LogSink):
    """Keeps records in memory: `records` holds them, oldest first; `tail` those that a restore has cut off."""

    kind = "memory"

    def __init__(self) -> None:
        self.records: list[LogRecord] = []
        self.tail: list[LogRecord] = []
        self._start = self._reached = Position()
        self._counted = 0  # how many records `_reached` stands behind

    def write(self, record_name: str, fields: Mapping[str, Any]) -> None:
        self.records.append(LogRecord(record_name, fields))

    def check_write(self, record_name: str, fields: Mapping[str, Any]) -> None:
        LogRecord(record_name, fields)

    def note(self, kind: str, text: str) -> None:
        self.write("Note", {"note": kind, "text": text})

    def flush(self) -> None:
        """Memory is as durable as it gets."""

    def position(self) -> dict[str, Any]:
        if len(self.records) < self._counted:
            self._counted, self._reached = 0, self._start
        for record in self.records[self._counted :]:
            self._reached = self._reached.after(record_line(record))
        self._counted = len(self.records)
        return {"kind": self.kind, **self._reached.as_dict()}

    def check_restore(self, position: Mapping[str, Any]) -> None:
        self._kept_records(position)

    def restore(self, position: Mapping[str, Any]) -> None:
        kept = self._kept_records(position)
        self._reached, self._counted = Position.from_dict(position), kept
        if not self.records:
            self._start = self._reached
        self.tail += self.records[kept:]
        del self.records[kept:]

    def _kept_records(self, saved: Mapping[str, Any]) -> int:
        """How many records make up the saved position, counted from the sink's start."""
        self.check_kind(saved)
        goal, reached = Position.from_dict(saved), self._start
        if not self.records or reached == goal:
            return 0
        for count, record in enumerate(self.records, 1):
            reached = reached.after(record_line(record))
            if reached == goal:
                return count
        message = f"the sink's {len(self.records)} records don't begin with the {goal.records} that the checkpoint was saved after"
        raise CheckpointError("R1303", message, kind="value", name="sink", expected=saved.get("hash"), found=reached.hash)

    def __repr__(self) -> str:
        return f"<MemorySink of {len(self.records)} records>"
