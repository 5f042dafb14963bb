"""The sink that writes JSON lines: one record a line, in strict JSON."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from shapescript.runtime.line_sink import LineSink
from shapescript.runtime.log_lines import encode_line


class JsonLinesSink(LineSink):
    """Appends records to a file as lines of strict JSON; line_sink.py says what happens to a file that is there."""

    kind = "jsonl"

    def note(self, kind: str, text: str) -> None:
        self.write("Note", {"note": kind, "text": text})

    def _encode(self, record_name: str, fields: Mapping[str, Any]) -> bytes:
        return encode_line(record_name, fields)

    def _pieces(self, content: BinaryIO) -> Iterator[bytes]:
        return whole_lines(content)


def jsonl(path: str | os.PathLike[str], append: bool = False) -> JsonLinesSink:
    """A sink that writes JSON lines to `path`; nothing is opened before the first write.

    append: go on in a file that is there, instead of moving it aside.
    """
    return JsonLinesSink(path, append)


def whole_lines(content: BinaryIO) -> Iterator[bytes]:
    """The lines of a file with their newlines; a last one without is torn."""
    for line in content:
        if line.endswith(b"\n"):
            yield line
