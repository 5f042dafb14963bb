"""What the rules of the tree's building share: a node's parts, and the checks of single words."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

from shapescript.compiler.diagnostics.model import Diagnostic, Label, Source, Span
from shapescript.compiler.syntax.machine import Entry, Part
from shapescript.compiler.syntax.tokens import Token
from shapescript.compiler.syntax.tree import Identifier

LARGEST_INT = 2**63 - 1

SIMPLE_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\", '"': '"'}
ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)


class Parts:
    """One rule's match: what it was built of (`children`: nodes, words, None for what is absent), where, and where to report what the
    grammar can't refuse."""

    __slots__ = ("_entries", "children", "end", "problems", "source", "start")

    def __init__(self, source: Source, start: int, end: int, entries: list[Entry], problems: list[Diagnostic]) -> None:
        self.source, self.start, self.end, self.problems = source, start, end, problems
        self._entries = entries
        self.children: list[Any] = [entry.value if isinstance(entry, Part) else entry for entry in entries]

    @property
    def places(self) -> list[tuple[int, int] | None]:
        """The children's offsets in the text with all their brackets, None for what is absent."""
        return [place_of(entry) for entry in self._entries]

    @property
    def span(self) -> Span:
        return Span(self.source, self.start, self.end)

    @property
    def present(self) -> list[Any]:
        return [child for child in self.children if child is not None]

    def identifier(self, token: Token) -> Identifier:
        return Identifier(self.token_span(token), str(token))

    def optional_identifier(self, token: Token | None) -> Identifier | None:
        return None if token is None else self.identifier(token)

    def token_span(self, token: Token) -> Span:
        return Span(self.source, token.start, token.end)

    def report(self, code: str, message: str, span: Span, help: str | None = None, labels: tuple[Label, ...] = ()) -> None:
        self.problems.append(Diagnostic(code, message, span, labels, help))


def place_of(entry: Entry) -> tuple[int, int] | None:
    return None if entry is None or entry.start is None or entry.end is None else (entry.start, entry.end)


# One entry a rule of the grammar, by its name.
Rule: TypeAlias = Callable[[Parts], Any]


def int_value(parts: Parts, token: Token) -> int:
    """The number, or 0 with a report where it has no 64 bits' room."""
    digits = token.lstrip("0") or "0"
    if len(digits) <= len(str(LARGEST_INT)) and int(digits) <= LARGEST_INT:
        return int(digits)
    parts.report("E0110", f"this number is too large: the largest is {LARGEST_INT}", parts.token_span(token))
    return 0


def float_value(parts: Parts, token: Token) -> float:
    """The number, or 0 with a report where it is beyond the largest."""
    value = float(token)
    if value == float("inf"):
        parts.report("E0110", "this number is too large: the largest float is about 1.8e308", parts.token_span(token))
        return 0.0
    return value


def string_value(parts: Parts, token: Token) -> str:
    """The text between the quotes with its escapes replaced; an unknown escape is reported and stays as it is."""
    start = token.start + 1

    def replaced(match: re.Match[str]) -> str:
        number, letter = match.groups()
        if number is not None and not 0xD800 <= int(number, 16) <= 0xDFFF:
            return chr(int(number, 16))
        if letter in SIMPLE_ESCAPES:
            return SIMPLE_ESCAPES[letter]
        parts.report(
            "E0111",
            f"`{match.group()}` is no escape",
            Span(parts.source, start + match.start(), start + match.end()),
            'there are `\\n`, `\\t`, `\\r`, `\\0`, `\\"`, `\\\\` and `\\u` with four hexadecimal digits; a backslash is written `\\\\`',
        )
        return match.group()

    return ESCAPE.sub(replaced, token[1:-1])
