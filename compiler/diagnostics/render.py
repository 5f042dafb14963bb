"""The one renderer: diagnostics as text for people and as plain dicts for programs.

Text is bounded whatever the names and lines: long words, lines and lists are cut in the middle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from shapescript.compiler.diagnostics.model import Diagnostic, Severity, Span
from shapescript.compiler.diagnostics.width import ELLIPSIS, bounded, columns, shortened, visible
from shapescript.compiler.records.dataclass import dataclass

LONGEST_MESSAGE = 2000
LONGEST_PATH = 300
LONGEST_EXCERPT = 120  # columns of a source line that are shown; a mark that takes none counts as one
CONTEXT = 30  # columns shown before a place in a line that is too long
MOST_LABELS = 8
MOST_DIAGNOSTICS = 100
RED, YELLOW, BLUE, BOLD, PLAIN = "\x1b[1;31m", "\x1b[1;33m", "\x1b[1;34m", "\x1b[1m", "\x1b[0m"


def render_text(diagnostics: Iterable[Diagnostic], colour: bool = False) -> str:
    """All of them, an empty line between two, without a line break at the end."""
    found = list(diagnostics)
    blocks = ["\n".join(lines_of(diagnostic, colour)) for diagnostic in found[:MOST_DIAGNOSTICS]]
    if len(found) > MOST_DIAGNOSTICS:
        blocks.append(f"and {len(found) - MOST_DIAGNOSTICS} more")
    return "\n\n".join(blocks)


def lines_of(diagnostic: Diagnostic, colour: bool) -> Iterator[str]:
    tint = RED if diagnostic.severity is Severity.ERROR else YELLOW
    place = f"{located(diagnostic.span)}: " if diagnostic.span else ""
    kind = painted(f"{diagnostic.severity.value}[{diagnostic.code}]", tint, colour)
    yield f"{painted(place, BOLD, colour)}{kind}: {bounded(diagnostic.message, LONGEST_MESSAGE)}"
    labels = diagnostic.labels[:MOST_LABELS]
    spans = [label.span for label in labels] + ([diagnostic.span] if diagnostic.span else [])
    gutter = max((len(str(span.line)) for span in spans), default=1)
    if diagnostic.span:
        yield from excerpt_lines(diagnostic.span, "^", "", gutter, tint if colour else None)
    for label in labels:
        if diagnostic.span is None or label.span.source.path != diagnostic.span.source.path:
            yield f"{located(label.span)}:"
        yield from excerpt_lines(label.span, "-", bounded(label.text, LONGEST_MESSAGE), gutter, BLUE if colour else None)
    if len(diagnostic.labels) > MOST_LABELS:
        yield f"and {len(diagnostic.labels) - MOST_LABELS} more places"
    if diagnostic.help:
        yield f"{painted('help', BOLD, colour)}: {bounded(diagnostic.help, LONGEST_MESSAGE)}"


def painted(text: str, tint: str, colour: bool) -> str:
    return f"{tint}{text}{PLAIN}" if colour and text else text


def located(span: Span) -> str:
    return f"{shown_path(span)}:{span.line}:{span.column}"


def shown_path(span: Span) -> str:
    return shortened("".join(visible(character) for character in span.source.path), LONGEST_PATH)


def excerpt_lines(span: Span, sign: str, text: str, gutter: int, tint: str | None) -> Iterator[str]:
    """The source line of a span's start with its number, and below it the signs that mark the place, with a label's text."""
    excerpt = excerpt_of(span)
    mark = sign * excerpt.width + (f" {text}" if text else "")
    if tint:
        mark = f"{tint}{mark}{PLAIN}"
    yield f" {span.line:>{gutter}} | {excerpt.text}".rstrip()
    yield f" {'':>{gutter}} | {' ' * excerpt.indent}{mark}"


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A printable part of a line; the marked place begins after `indent` columns and is `width` columns wide, one at least."""

    text: str
    indent: int
    width: int


def excerpt_of(span: Span) -> Excerpt:
    source = span.source
    line = span.line
    text = source.line_text(line)
    start = min(span.start - source.line_start(line), len(text))
    end = min(max(span.end - source.line_start(line), start), len(text))
    first = 0
    if sum(room_of(character) for character in text[:end]) > LONGEST_EXCERPT:
        first = max(0, start - CONTEXT)
    last = first
    room = LONGEST_EXCERPT
    while last < len(text) and room > 0:
        room -= room_of(text[last])
        last += 1
    before = (ELLIPSIS if first else "") + printable(text[first:start])
    marked = printable(text[start : min(end, last)])
    after = printable(text[min(end, last) : last]) + (ELLIPSIS if last < len(text) else "")
    return Excerpt(before + marked + after, columns(before), max(columns(marked), 1))


def room_of(character: str) -> int:
    return max(columns(visible(character)), 1)


def printable(text: str) -> str:
    return "".join(visible(character) for character in text)


def render_json(diagnostic: Diagnostic) -> dict[str, Any]:
    """A dict of strings, numbers, lists and None. Lines and columns are counted from 1, columns and offsets in characters."""
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity.value,
        "message": bounded(diagnostic.message, LONGEST_MESSAGE),
        "span": span_json(diagnostic.span) if diagnostic.span else None,
        "labels": [
            {"span": span_json(label.span), "text": bounded(label.text, LONGEST_MESSAGE)} for label in diagnostic.labels[:MOST_LABELS]
        ],
        "help": bounded(diagnostic.help, LONGEST_MESSAGE) if diagnostic.help else None,
    }


def span_json(span: Span) -> dict[str, Any]:
    return {"path": span.source.path, "start": position_json(span, span.start), "end": position_json(span, span.end)}


def position_json(span: Span, offset: int) -> dict[str, int]:
    line, column = span.source.position(offset)
    return {"line": line, "column": column, "offset": offset}
