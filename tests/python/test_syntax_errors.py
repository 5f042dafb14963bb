"""What is said about text that can't be read: each mistake once, at its place, in a reader's words, whatever the input."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fixtures import EXAMPLES, PROGRAMS, ROOT, expected
from hypothesis import given, settings
from hypothesis import strategies as st

from shapescript.compiler.diagnostics.codes import CODES
from shapescript.compiler.diagnostics.model import Diagnostic, Source
from shapescript.compiler.diagnostics.render import render_text
from shapescript.compiler.syntax.parse import parse, parse_partly
from shapescript.compiler.syntax.tree import ImportModule, ImportNames

INVALID_PROGRAMS = sorted((PROGRAMS / "syntax").glob("*.ss"))
EXAMPLE = (EXAMPLES / "train_mlp.ss").read_text("utf-8")
TOKEN = re.compile(r'"[^"\n]*"|\|>|->|\.\.|\w+|[^\w\s]|\n[ ]*')
TOKEN_NAMES = re.compile(r"\b(?:[LR](?:PAR|SQB)|_?(?:NEWLINE|INDENT|DEDENT|PATTERN|ARROW|DOTS)|NAME|COLON|COMMA|EQUAL|\$END|__ANON\w*)\b")


def diagnosed(text: str) -> list[Diagnostic]:
    module, diagnostics = parse(Source("test.ss", text))
    assert (module is None) == bool(diagnostics)
    return diagnostics


def told(text: str) -> list[tuple[str, int, int]]:
    """Code, line and column of each diagnostic."""
    return [(found.code, found.span.line, found.span.column) for found in diagnosed(text) if found.span]


# ---- programs with mistakes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", INVALID_PROGRAMS, ids=lambda path: path.stem)
def test_invalid_program_gives_what_its_header_says(path: Path) -> None:
    diagnostics = diagnosed(path.read_bytes().decode("utf-8"))
    assert [(found.code, found.span.line, found.span.column) for found in diagnostics if found.span] == expected(path)
    for found in diagnostics:
        assert not TOKEN_NAMES.search(f"{found.message} {found.help}")


def test_each_code_of_syntax_has_a_program() -> None:
    given_codes = {code for path in INVALID_PROGRAMS for code, _, _ in expected(path)}
    assert given_codes == {code for code in CODES if code.startswith("E01")}


def test_header_that_is_not_understood_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "program.ss"
    program.write_text("# expect: E0104 at 7:5\n# expect: E01 at 7\n")
    with pytest.raises(ValueError, match="malformed"):
        expected(program)


# ---- several mistakes ---------------------------------------------------------------------------------------------------------


def test_mistakes_in_different_declarations_are_told_in_one_run() -> None:
    text = "fn f(x: int) -> int\n    return x\n\nfn g(x: int) -> int:\n    return x\n\nfn h(x: int) -> int:\n    return x +\n"
    assert told(text) == [("E0114", 1, 20), ("E0100", 8, 15)]


def test_statements_at_the_margin_are_told_once() -> None:
    assert told("import a\nx = 1\ny = 2\nprint(x)\ndim A = 1\nz = 3\n") == [("E0113", 2, 1), ("E0113", 6, 1)]


def test_body_at_the_margin_is_told_once() -> None:
    assert told("fn f(x: int) -> int:\nreturn x\n\ndim A = 3\n") == [("E0106", 1, 1)]


def test_open_bracket_hides_nothing_in_the_next_declaration() -> None:
    assert told("dim A = (1\n\nfn f(:\n    return\n\ndim B = ]\n") == [("E0107", 1, 9), ("E0107", 3, 5), ("E0108", 6, 9)]


def test_mistakes_of_grammar_and_of_numbers_are_told_together() -> None:
    assert told("dim A = 99999999999999999999\ndim B = = 1\n") == [("E0110", 1, 9), ("E0123", 2, 9)]


def test_what_can_be_read_is_given_to_editors() -> None:
    text = "import a.b as c\nfrom d import e, f g\nfn good(x: int):\n    return\nfn bad(x):\n    return\ndim Bad = (\nmodel Bad2\n"
    module, diagnostics = parse_partly(Source("test.ss", text))
    assert len(module.declarations) == 2
    assert module.unparsed == ("e", "f", "g", "bad", "Bad", "Bad2")
    assert len(diagnostics) == 4


def test_deleting_a_word_of_the_example_leaves_the_other_declarations_readable() -> None:
    """A deletion breaks the declaration that it is in, and at most the one before (where a line joins it).

    Every seventh word: all of them pass too, in half a minute.
    """
    total = len(parse_partly(Source("whole.ss", EXAMPLE))[0].declarations)
    for match in list(TOKEN.finditer(EXAMPLE))[::7]:
        text = EXAMPLE[: match.start()] + EXAMPLE[match.end() :]
        module, diagnostics = parse_partly(Source("part.ss", text))
        assert len(module.declarations) >= total - 2, match
        assert len(diagnostics) <= 2, (match, render_text(diagnostics))
        for found in diagnostics:
            assert found.span is not None
            assert found.code in CODES


def test_imports_that_can_be_read_are_kept() -> None:
    module, _ = parse_partly(Source("test.ss", "import a\nfrom b import c\nfn f(\n"))
    assert [type(declaration) for declaration in module.declarations] == [ImportModule, ImportNames]


# ---- any input ----------------------------------------------------------------------------------------------------------------

WORDS = (
    *("fn", "model", "data", "dim", "const", "import", "from", "buffer", "requires", "if", "elif", "else", "while", "for", "in"),
    *("return", "mut", "and", "or", "not", "true", "as", "x", "D", "m", "1", "0.5", "99999999999999999999", "1e999", '"a"', '"\\q"'),
    *("(", ")", "[", "]", ",", ":", "=", "==", "<", "|>", "->", "..", ".", "+", "-", "*", "**", "/", "//", "%", "@", "!", "|", "&"),
    *("\n", "\n    ", "\n        ", "\n  ", "\n\t", "\r\n", " ", "\t", "#", '"', "'", "\\", "é", "\u00a0", "\ufeff", "\0", "\ud800", "{"),
)


def assert_readable(text: str) -> None:
    module, diagnostics = parse(Source("any.ss", text))
    assert (module is None) == bool(diagnostics)
    for found in diagnostics:
        assert found.code in CODES
        assert found.span is not None
        assert 0 <= found.span.start <= found.span.end <= len(text)
        assert not TOKEN_NAMES.search(re.sub(r"`[^`]*`", "", found.message))
    assert [found.place for found in diagnostics] == sorted(found.place for found in diagnostics)
    render_text(diagnostics)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(WORDS), max_size=40))
def test_any_words(words: list[str]) -> None:
    assert_readable(" ".join(words))
    assert_readable("".join(words))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.text(max_size=60))
def test_any_text(text: str) -> None:
    assert_readable(text)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.data())
def test_mutated_programs(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from([EXAMPLES / "train_mlp.ss", *sorted((ROOT / "tests" / "programs").glob("*.ss")), *INVALID_PROGRAMS]))
    tokens = re.findall(r'"[^"\n]*"|\|>|->|\.\.|\w+|\s+|.', path.read_bytes().decode("utf-8"))
    for _ in range(data.draw(st.integers(1, 8))):
        place = data.draw(st.integers(0, len(tokens) - 1))
        tokens[place : place + data.draw(st.integers(0, 2))] = data.draw(st.lists(st.sampled_from(WORDS), max_size=2))
        tokens = tokens or ["x"]
    assert_readable("".join(tokens))


MANY = 3000
LONG = {
    "open brackets": "dim A = " + "(" * MANY,
    "brackets": "dim A = " + "(" * MANY + "1" + ")" * MANY,
    "calls": "dim A = " + "f(" * MANY + "1" + ")" * MANY,
    "calls and a mistake": "dim A = " + "f(" * MANY + "1 2" + ")" * MANY,
    "a sum": "dim A = " + "1 + " * MANY + "1",
    "signs": "dim A = " + "- " * MANY + "1",
    "negations": "dim A = " + "not " * MANY + "1",
    "powers": "dim A = " + "1 ** " * MANY + "1",
    "a pipe": "dim A = x" + " |> f" * MANY,
    "attributes": "dim A = x" + ".f" * MANY,
    "groups": "fn f(x: [" + "(" * MANY + "a b" + " c)" * MANY + "]):\n    return\n",
    "types": "fn f(x: " + "A[" * MANY + "b" + "]" * MANY + "):\n    return\n",
    "blocks": "fn f():\n" + "".join(" " * (2 * depth + 2) + "if x:\n" for depth in range(300)) + " " * 602 + "return\n",
    "a name": "dim " + "A" * 10000 + " = " + "B" * 10000 + " C",
    "digits": "dim A = " + "9" * 10000,
    "escapes": 'const A = "' + "\\q" * MANY + '"',
    "bad declarations": "dim A = = 1\n" * MANY,
    "lines at the margin": "x = 1\n" * MANY,
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG.keys())
def test_long_and_deep_input(text: str) -> None:
    assert_readable(text)
    assert len(render_text(diagnosed(text))) < 100_000


def test_deep_input_says_that_it_is_deep() -> None:
    assert [found.code for found in diagnosed("dim A = " + "f(" * 101 + "1" + ")" * 101)] == ["E0112"]
