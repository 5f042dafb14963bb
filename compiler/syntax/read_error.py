"""How a stage of the reading says that it can't go on: an exception that carries the diagnostic."""

from __future__ import annotations

from shapescript.compiler.diagnostics.model import Diagnostic, Label, Source, Span


class ReadError(Exception):
    """Part of a program can't be read; `diagnostic` says why."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic)
        self.diagnostic = diagnostic


def diagnose(
    source: Source,
    code: str,
    message: str,
    place: tuple[int, int],
    *,
    help: str | None = None,
    labels: tuple[tuple[tuple[int, int], str], ...] = (),
) -> Diagnostic:
    """A diagnostic whose places are given as offsets (start, end)."""
    return Diagnostic(
        code,
        message,
        Span(source, *place),
        tuple(Label(Span(source, *at), text) for at, text in labels),
        help,
    )
