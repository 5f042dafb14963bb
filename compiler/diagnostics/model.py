"""What the compiler says about a program, as data: places in a source, diagnostics, and the exceptions that carry them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import field
from enum import Enum

from shapescript.compiler.records.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Source:
    """A program's text and the path that its messages name. Offsets count characters of `text`, from 0."""

    path: str
    text: str = field(repr=False)
    _line_starts: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        starts = [0]
        starts.extend(place + 1 for place, character in enumerate(self.text) if character == "\n")
        object.__setattr__(self, "_line_starts", tuple(starts))

    @property
    def line_count(self) -> int:
        return len(self._line_starts)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1; the column counts characters. An offset outside the text is clamped."""
        offset = min(max(offset, 0), len(self.text))
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def line_start(self, line: int) -> int:
        """Offset of the first character of a line counted from 1."""
        return self._line_starts[line - 1]

    def line_text(self, line: int) -> str:
        """A line counted from 1, without its line break (LF or CRLF)."""
        end = self._line_starts[line] - 1 if line < self.line_count else len(self.text)
        return self.text[self._line_starts[line - 1] : end].removesuffix("\r")


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of a source's characters: `source.text[start:end]`."""

    source: Source
    start: int
    end: int

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    @property
    def line(self) -> int:
        """Line of the first character, from 1."""
        return self.source.position(self.start)[0]

    @property
    def column(self) -> int:
        """Column of the first character, from 1, in characters."""
        return self.source.position(self.start)[1]

    def to(self, other: Span) -> Span:
        """The range from this one's start to the other's end."""
        return Span(self.source, self.start, other.end)

    def __str__(self) -> str:
        line, column = self.source.position(self.start)
        return f"{self.source.path}:{line}:{column}"


class Severity(Enum):
    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Label:
    """A second place that explains the first: "argument 2 of `f`, declared here"."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing to say: a code of the registry, one sentence, the place, what explains it, and a mend where one is known.

    `span` is None only for what has no place in a program, such as an error of a call from Python.
    """

    code: str
    message: str
    span: Span | None
    labels: tuple[Label, ...] = ()
    help: str | None = None
    severity: Severity = Severity.ERROR

    @property
    def is_error(self) -> bool:
        return self.severity is Severity.ERROR

    @property
    def place(self) -> tuple[str, int, int]:
        """What diagnostics are sorted by: path, start, end; those without a place come first."""
        return (self.span.source.path, self.span.start, self.span.end) if self.span else ("", 0, 0)

    def __str__(self) -> str:
        prefix = f"{self.span}: " if self.span else ""
        return f"{prefix}{self.severity.value}[{self.code}]: {self.message}"


class CompileError(Exception):
    """A program that can't be compiled. Carries its diagnostics; as text, all of them rendered."""

    def __init__(self, diagnostics: Iterable[Diagnostic] | Diagnostic) -> None:
        found = (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        super().__init__(found)
        self.diagnostics: tuple[Diagnostic, ...] = found

    def __str__(self) -> str:
        from shapescript.compiler.diagnostics.render import render_text  # the renderer reads this module's classes

        return render_text(self.diagnostics)


class InternalError(Exception):
    """A mistake of the compiler itself, never of the program: the stage that made it and the place that it was at."""

    def __init__(self, stage: str, message: str, span: Span | None = None) -> None:
        super().__init__(stage, message, span)
        self.stage = stage
        self.message = message
        self.span = span

    def __str__(self) -> str:
        place = f" at {self.span}" if self.span else ""
        return f"internal error of the compiler in {self.stage}{place}: {self.message}"
