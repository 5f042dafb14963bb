"""Collecting diagnostics. A mistake is reported once, where it was made: what depends on it stops without a word."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from shapescript.compiler.diagnostics.model import Diagnostic, Label, Severity, Span


class Reported(Exception):
    """What was being checked can't be: the reason has been reported."""


class Report:
    """The diagnostics of one program, each at most once."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, int, int], Diagnostic] = {}

    def add(self, diagnostic: Diagnostic) -> None:
        self._found.setdefault((diagnostic.code, *diagnostic.place), diagnostic)

    def error(self, code: str, message: str, span: Span, labels: Iterable[Label] = (), help: str | None = None) -> None:
        self.add(Diagnostic(code, message, span, tuple(labels), help))

    def warn(self, code: str, message: str, span: Span, labels: Iterable[Label] = (), help: str | None = None) -> None:
        self.add(Diagnostic(code, message, span, tuple(labels), help, Severity.WARNING))

    def fail(self, code: str, message: str, span: Span, labels: Iterable[Label] = (), help: str | None = None) -> NoReturn:
        """Report and give up what is being checked."""
        self.error(code, message, span, labels, help)
        raise Reported

    def not_built(self, what: str, span: Span) -> NoReturn:
        self.fail("E0901", f"{what} is part of the language, but this version does not compile it yet", span)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        return tuple(sorted(self._found.values(), key=lambda diagnostic: diagnostic.place))

    @property
    def has_errors(self) -> bool:
        return any(diagnostic.is_error for diagnostic in self._found.values())


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant."""
    import difflib  # for a mistake alone

    candidates = list(known)
    same = [candidate for candidate in candidates if candidate.lower() == name.lower()]
    close = same or difflib.get_close_matches(name, candidates, 1, 0.7)
    return close[0] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    found = nearest(name, known)
    return f"did you mean `{found}`?" if found else None
