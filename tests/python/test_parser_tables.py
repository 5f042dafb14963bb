"""The shipped tables are those of the grammar, and our lexer and machine do with them what lark does: the same tree, the same places, the
same refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from fixtures import EXAMPLES, ROOT
from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from shapescript.compiler.diagnostics.model import Source
from shapescript.compiler.syntax import machine, make_tables, parse, tables
from shapescript.compiler.syntax.layout import lay_out
from shapescript.compiler.syntax.lexing import lex
from shapescript.compiler.syntax.machine import Entry, Part, Stuck, what_may_stand
from shapescript.compiler.syntax.read_error import ReadError
from shapescript.compiler.syntax.tables import GRAMMAR, SHIPPED, Tables, checksum
from shapescript.compiler.syntax.tokens import Token as OurToken
from shapescript.compiler.syntax.tokens import mark

STD = sorted((ROOT / "shapescript" / "std").glob("*.ss"))
WRONG = sorted((ROOT / "tests" / "python" / "programs" / "syntax").rglob("*.ss"))
PROGRAMS = [*sorted(EXAMPLES.glob("*.ss")), *STD, *WRONG, *sorted((ROOT / "tests" / "programs").glob("*.ss"))]


@lru_cache(maxsize=1)
def lark() -> Lark:
    return Lark(GRAMMAR.read_text("utf-8"), parser="lalr", lexer="basic", propagate_positions=True, maybe_placeholders=True)


def test_the_shipped_tables_are_the_grammars() -> None:
    made = make_tables.text_of(make_tables.made_tables(GRAMMAR.read_text("utf-8")))
    assert SHIPPED.read_text("utf-8") == made, "run python -m shapescript.compiler.syntax.make_tables"


def test_tables_of_another_grammar_are_made_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    grammar = GRAMMAR.read_text("utf-8").replace('"while"', '"whilst"')
    other = tmp_path / "grammar.lark"
    other.write_text(grammar, "utf-8")
    monkeypatch.setattr(tables, "GRAMMAR", other)
    found = tables.tables.__wrapped__()
    assert found.keywords["whilst"] == "WHILST" and "while" not in found.keywords
    assert json.loads(SHIPPED.read_text("utf-8"))["grammar"] != checksum(grammar)


def test_a_file_of_the_shipped_grammar_needs_no_lark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make_tables, "made_tables", lambda _: pytest.fail("made anew"))
    assert isinstance(tables.tables.__wrapped__(), Tables)


# ---- compared with lark's lexer and machine


def words_of(source: Source) -> list[OurToken]:
    return lex(tables.tables(), source, 0, len(source.text))


def laid_out(path: Path) -> list[OurToken] | None:
    """What the parser gets; None where a text doesn't come so far."""
    source = Source(path.name, path.read_text("utf-8"))
    try:
        tokens = lay_out(source, words_of(source))
    except ReadError:
        return None
    return [*tokens, mark("$END", tokens[-1].end if tokens else 0)]


def as_larks(token: OurToken) -> Token:
    return Token(token.kind, str(token), start_pos=token.start, end_pos=token.end, line=1, column=1, end_line=1, end_column=1)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_words_are_larks(path: Path) -> None:
    text = path.read_text("utf-8")
    try:
        theirs = [(token.type, str(token), token.start_pos, token.end_pos, token.column == 1) for token in lark().lex(text)]
    except UnexpectedCharacters:
        with pytest.raises(ReadError):
            words_of(Source(path.name, text))
    else:
        assert [(token.kind, str(token), token.start, token.end, token.at_margin) for token in words_of(Source(path.name, text))] == theirs


def larks_tree(tokens: list[OurToken]) -> Any:
    """The tree of lark's machine, or the number of the token that it doesn't take, with what it would have taken."""
    state = lark().parse_interactive()
    found: Any = None
    for index, token in enumerate(tokens):
        try:
            found = state.feed_token(as_larks(token))
        except UnexpectedToken:
            again = lark().parse_interactive()
            for before in tokens[:index]:
                again.feed_token(as_larks(before))
            return index, frozenset(again.accepts())  # type: ignore[no-untyped-call]
    return tuple(lines_of_larks(found))


def lines_of_larks(root: Tree[Token]) -> Iterator[tuple[Any, ...]]:
    for subtree in root.iter_subtrees_topdown():
        meta: Any = subtree.meta
        place = None if meta.empty else (meta.start_pos, meta.end_pos)
        yield subtree.data, place, tuple(map(larks_child, subtree.children))


def larks_child(child: Any) -> Any:
    if child is None:
        return None
    if isinstance(child, Token):
        return str(child), child.start_pos, child.end_pos
    return child.data, None if child.meta.empty else (child.meta.container_start_pos, child.meta.container_end_pos)


def our_tree(tokens: list[OurToken]) -> Any:
    """The same of ours."""

    def build(rule: str, part: Part, entries: list[Entry]) -> None:
        place = None if part.start is None else (part.start, part.end)
        inside = [line for entry in entries if isinstance(entry, Part) for line in entry.value]
        part.value = [(rule, place, tuple(map(our_child, entries))), *inside]

    try:
        return tuple(machine.run(tables.tables(), tokens, build))
    except Stuck as stuck:
        return stuck.index, what_may_stand(tables.tables(), tokens[: stuck.index])


def our_child(entry: Entry) -> Any:
    if entry is None:
        return None
    if isinstance(entry, OurToken):
        return str(entry), entry.start, entry.end
    return entry.value[0][0], None if entry.start is None else (entry.start, entry.end)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_trees_and_refusals_are_larks(path: Path) -> None:
    tokens = laid_out(path)
    if tokens is None:
        assert parse.parse(Source(path.name, path.read_text("utf-8")))[0] is None
        return
    assert our_tree(tokens) == larks_tree(tokens)


@pytest.mark.parametrize("path", [EXAMPLES / "train_mlp.ss", STD[0]], ids=lambda path: path.name)
def test_refusals_of_a_text_with_a_word_dropped_are_larks(path: Path) -> None:
    tokens = laid_out(path)
    assert tokens is not None
    for index in range(0, len(tokens) - 1, len(tokens) // 12):
        changed = [*tokens[:index], *tokens[index + 1 :]]
        assert our_tree(changed) == larks_tree(changed)
