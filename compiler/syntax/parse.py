"""Source to untyped tree, with every syntax error as a diagnostic.

A file is read whole. Only where that fails is it cut at the left margin into its declarations, each read by itself, so that a
mistake in one hides nothing in the others and several are told in one run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from shapescript.compiler.diagnostics.model import Diagnostic, Source, Span
from shapescript.compiler.records.dataclass import dataclass
from shapescript.compiler.syntax.build import Builder
from shapescript.compiler.syntax.explain import explain
from shapescript.compiler.syntax.failure import Failure
from shapescript.compiler.syntax.layout import DECLARATION_WORDS, lay_out
from shapescript.compiler.syntax.lexing import lex
from shapescript.compiler.syntax.machine import Stuck, run, what_may_stand
from shapescript.compiler.syntax.read_error import ReadError
from shapescript.compiler.syntax.tables import tables
from shapescript.compiler.syntax.tokens import mark
from shapescript.compiler.syntax.tree import Declaration, Module

# A line that can only begin a declaration, even where a bracket above it is still open.
DECLARATION_LINE = re.compile(r"(?:import|dim|const|data|model|fn)[ \t]+(?P<name>[A-Za-z_]\w*)|from[ \t]+[\w.]+[ \t]+import\b", re.ASCII)
IMPORTED = re.compile(r"import[ \t]+(?:[\w.]+[ \t]+as[ \t]+|(?:\w+[.])*)(?P<name>\w+)|from[ \t]+[\w.]+[ \t]+import(?P<names>[^#\n]*)")
STRING_OR_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|#.*')


def parse(source: Source) -> tuple[Module | None, list[Diagnostic]]:
    """The tree of a source and what there is to say about it, sorted by place; no tree if there is an error. Never raises."""
    module, diagnostics = parse_partly(source)
    return (None if any(found.is_error for found in diagnostics) else module), diagnostics


def parse_partly(source: Source) -> tuple[Module, list[Diagnostic]]:
    """As `parse`, for editors: always a tree, of the declarations that can be read; `unparsed` names the others."""
    whole = Span(source, 0, len(source.text))
    try:
        declarations, diagnostics = read(source, whole.start, whole.end)
        return Module(whole, declarations), sorted(diagnostics, key=lambda found: found.place)
    except ReadError as error:
        module, diagnostics = read_pieces(source, whole)
        return module, diagnostics or [error.diagnostic]


def read(source: Source, start: int, end: int) -> tuple[tuple[Declaration, ...], list[Diagnostic]]:
    """Read a part of a source that begins at a line's start. Raises ReadError at what the grammar doesn't take."""
    tokens = lay_out(source, lex(tables(), source, start, end))
    tokens.append(mark("$END", tokens[-1].end if tokens else start))
    builder = Builder(source)
    try:
        declarations = run(tables(), tokens, builder.build)
    except Stuck as stuck:
        allowed = what_may_stand(tables(), tokens[: stuck.index])
        raise ReadError(explain(Failure(source, tokens, stuck.index, allowed))) from None
    return declarations, builder.found()


@dataclass(frozen=True, slots=True)
class Piece:
    """The text from one line at the left margin to the next."""

    start: int
    end: int
    begins_declaration: bool


def read_pieces(source: Source, whole: Span) -> tuple[Module, list[Diagnostic]]:
    """Read each declaration by itself: one diagnostic for each that fails, one for a run of lines that begin none.

    Lines that follow a header without a block are taken to be its block at the wrong place, and not told again.
    """
    declarations: list[Declaration] = []
    diagnostics: list[Diagnostic] = []
    unparsed: list[str] = []
    in_stray_lines = False
    for piece in pieces(source):
        try:
            found, problems = read(source, piece.start, piece.end)
        except ReadError as error:
            if piece.begins_declaration or not in_stray_lines:
                diagnostics.append(error.diagnostic)
            unparsed.extend(declared_names(source.text[piece.start : piece.end]))
            in_stray_lines = not piece.begins_declaration or error.diagnostic.code == "E0106"
        else:
            declarations.extend(found)
            diagnostics.extend(problems)
            in_stray_lines = False
    diagnostics.sort(key=lambda found: found.place)
    return Module(whole, tuple(declarations), tuple(unparsed)), diagnostics


def pieces(source: Source) -> Iterator[Piece]:
    """Cut a source before each line that begins at the left margin and goes on with nothing above it."""
    start, begins_declaration = 0, False
    depth = 0
    for line in range(1, source.line_count + 1):
        at, text = source.line_start(line), source.line_text(line)
        declares = DECLARATION_LINE.match(text.removeprefix("\ufeff")) is not None
        continues = depth > 0 or text.startswith(("|>", ")", "]", "}"))
        if declares or (text[:1] not in ("", " ", "\t", "#") and not continues):
            if source.text[start:at].strip():
                yield Piece(start, at, begins_declaration)
            first_word = re.split(r"\W", text, maxsplit=1)[0]
            start, begins_declaration = at, declares or first_word in DECLARATION_WORDS
            depth = 0
        bare = STRING_OR_COMMENT.sub("", text)
        depth = max(depth + sum(bare.count(opening) for opening in "([{") - sum(bare.count(closing) for closing in ")]}"), 0)
    yield Piece(start, len(source.text), begins_declaration)


def declared_names(text: str) -> list[str]:
    """The names that a declaration which can't be read was to declare."""
    text = text.removeprefix("\ufeff")
    if imported := IMPORTED.match(text):
        return [imported["name"]] if imported["name"] else re.findall(r"\w+", imported["names"])
    declaration = DECLARATION_LINE.match(text)
    return [declaration["name"]] if declaration else []
