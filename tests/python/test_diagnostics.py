"""Diagnostics as data, the registry of codes, and the renderer: alignment, bounds, and the JSON form."""

from __future__ import annotations

import json
import pickle
import re
import unicodedata

import pytest
from fixtures import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

from shapescript.compiler.diagnostics.codes import CODES, FAMILIES, entries
from shapescript.compiler.diagnostics.model import CompileError, Diagnostic, InternalError, Label, Severity, Source, Span
from shapescript.compiler.diagnostics.render import render_json, render_text

QUOTED_CODE = re.compile(r'"([ER]\d{4})"')


def at(text: str, marked: str, path: str = "a.ss", occurrence: int = 0) -> Span:
    """The place of some words in a text."""
    start = -1
    for _ in range(occurrence + 1):
        start = text.index(marked, start + 1)
    return Span(Source(path, text), start, start + len(marked))


# ---- places -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "a", "a\n", "a\nbc", "a\r\nbc\r\n", "\n\n", "é\n漢字\n\tx", "a\rb\n"])
def test_positions_agree_with_counting(text: str) -> None:
    source = Source("a.ss", text)
    for offset in range(len(text) + 1):
        before = text[:offset]
        assert source.position(offset) == (before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1)
    assert source.line_count == text.count("\n") + 1
    lines = text.split("\n")
    assert [source.line_text(number) for number in range(1, source.line_count + 1)] == [line.removesuffix("\r") for line in lines]


def test_offsets_outside_the_text_are_clamped() -> None:
    source = Source("a.ss", "ab\ncd")
    assert source.position(-5) == (1, 1)
    assert source.position(99) == (2, 3)


def test_span() -> None:
    text = "fn f():\n    return x\n"
    span = at(text, "return").to(at(text, "x"))
    assert (span.text, span.line, span.column, str(span)) == ("return x", 2, 5, "a.ss:2:5")


# ---- exceptions ---------------------------------------------------------------------------------------------------------------


def test_compile_error_shows_all_its_diagnostics() -> None:
    text = "dim A = B\ndim C = D\n"
    error = CompileError(Diagnostic("E0201", f"`{name}` isn't defined", at(text, name)) for name in "BD")
    assert [found.code for found in error.diagnostics] == ["E0201", "E0201"]
    assert str(error) == render_text(error.diagnostics)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert CompileError(error.diagnostics[0]).diagnostics == error.diagnostics[:1]


def test_internal_error_names_stage_and_place() -> None:
    error = InternalError("fuse", "a loop without a body", at("x = 1\n", "1"))
    assert str(error) == "internal error of the compiler in fuse at a.ss:1:5: a loop without a body"
    assert str(InternalError("fuse", "no body")) == "internal error of the compiler in fuse: no body"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_diagnostics_sort_by_place() -> None:
    text = "a b c"
    places = [at(text, "c"), at(text, "a"), None, at(text, "b", path="0.ss")]
    found = sorted((Diagnostic("E0201", "m", place) for place in places), key=lambda diagnostic: diagnostic.place)
    assert [str(diagnostic.span) for diagnostic in found] == ["None", "0.ss:1:3", "a.ss:1:1", "a.ss:1:5"]


# ---- codes --------------------------------------------------------------------------------------------------------------------


def test_codes_are_unique_and_well_formed() -> None:
    assert len(CODES) == len(list(entries()))
    for code, entry in CODES.items():
        assert re.fullmatch(r"[ER]\d{4}", code)
        assert entry.family == FAMILIES[code[:3]]
        assert entry.title
        assert entry.title == entry.title.strip(" .")
        assert entry.explanation.endswith(".")
        assert "  " not in entry.explanation


def test_codes_of_each_table_ascend() -> None:
    for letter in "ER":
        codes = [code for code in CODES if code[0] == letter]
        assert codes == sorted(codes)


def test_every_code_in_the_sources_is_registered() -> None:
    for room in ("compiler", "runtime", "shapescript"):
        for path in (ROOT / room).rglob("*.py"):
            unknown = set(QUOTED_CODE.findall(path.read_text("utf-8"))) - set(CODES)
            assert not unknown, (path, unknown)


# ---- text ---------------------------------------------------------------------------------------------------------------------

PROGRAM = """\
fn f(x: [b n],
     y: [b m]) -> [b n]:
    return x + y
"""


def test_text_with_labels_and_help() -> None:
    diagnostic = Diagnostic(
        "E0401",
        "`x` has axes [b n], `y` has [b m]",
        at(PROGRAM, "x + y"),
        (Label(at(PROGRAM, "[b n]"), "axes of `x`, declared here"), Label(at(PROGRAM, "[b m]"), "axes of `y`")),
        "rename `m` or `n`",
    )
    assert render_text([diagnostic]) == (
        "a.ss:3:12: error[E0401]: `x` has axes [b n], `y` has [b m]\n"
        " 3 |     return x + y\n"
        "   |            ^^^^^\n"
        " 1 | fn f(x: [b n],\n"
        "   |         ----- axes of `x`, declared here\n"
        " 2 |      y: [b m]) -> [b n]:\n"
        "   |         ----- axes of `y`\n"
        "help: rename `m` or `n`"
    )


def test_text_of_a_warning_of_another_file_and_of_no_place() -> None:
    label = Label(at("model M:\n    w: [D]\n", "w", path="lib/m.ss"), "declared here")
    found = [
        Diagnostic("E0203", "near a dim's name", at("x: [hidden]", "hidden"), (label,), severity=Severity.WARNING),
        Diagnostic("R1005", "`x` is missing", None, (Label(at(PROGRAM, "x:"), "declared here"),)),
        Diagnostic("R1005", "`x` is missing", None, help="give it"),
    ]
    assert render_text(found) == (
        "a.ss:1:5: warning[E0203]: near a dim's name\n"
        " 1 | x: [hidden]\n"
        "   |     ^^^^^^\n"
        "lib/m.ss:2:5:\n"
        " 2 |     w: [D]\n"
        "   |     - declared here\n"
        "\n"
        "error[R1005]: `x` is missing\n"
        "a.ss:1:6:\n"
        " 1 | fn f(x: [b n],\n"
        "   |      -- declared here\n"
        "\n"
        "error[R1005]: `x` is missing\n"
        "help: give it"
    )


def test_place_over_several_lines_is_marked_on_its_first() -> None:
    text = "ab cd\nef\n"
    assert render_text([Diagnostic("E0100", "m", Span(Source("a.ss", text), 3, 8))]).endswith(" 1 | ab cd\n   |    ^^")


@pytest.mark.parametrize("text", ["", "x", "x\n", "x\r\n"])
def test_empty_place_at_the_end_has_one_caret(text: str) -> None:
    rendered = render_text([Diagnostic("E0100", "m", Span(Source("a.ss", text), len(text), len(text)))])
    assert rendered.count("^") == 1


def test_line_numbers_of_different_widths_align() -> None:
    text = "a\n" * 9 + "bcd\n"
    found = Diagnostic("E0202", "twice", at(text, "bcd"), (Label(at(text, "a"), "first"),))
    assert render_text([found]).splitlines()[1:] == [" 10 | bcd", "    | ^^^", "  1 | a", "    | - first"]


def terminal_columns(text: str) -> int:
    """Columns by the Unicode tables, written independently of the renderer's."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) != 0 for character in text)


@pytest.mark.parametrize(
    ("before", "marked"),
    [("", "x"), ("\t", "x"), ("a\tb\t", "\t"), ("漢字", "x"), ("漢", "字字"), ("e\u0301", "x"), ("°", "\U0001f600"), ("a\u200bb\x07", "x")],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_carets_stand_below_the_place(before: str, marked: str, end: str) -> None:
    text = f"first{end or chr(10)}{before}{marked}rest{end}"
    start = text.index(before + marked, 5) + len(before)
    rendered = render_text([Diagnostic("E0100", "m", Span(Source("a.ss", text), start, start + len(marked)))])
    _, line, carets = rendered.split("\n")
    assert "\t" not in rendered
    assert "\r" not in rendered
    gutter = line.index("|") + 2
    shown_before, shown_rest = line[gutter:-4], line[-4:]
    assert shown_rest == "rest"
    assert terminal_columns(line[gutter:]) - 4 == len(carets[gutter:])
    assert carets[gutter:].strip() == "^" * terminal_columns(shown_before[len(shown_before) - len(marked.replace("\t", "    ")) :])


def test_what_moves_the_cursor_is_not_printed() -> None:
    text = "a\x1b[31m\u202eb\x00\ud800"
    rendered = render_text([Diagnostic("E0101", text, at(text, "b", path="\x1b\n.ss"), help=text)])
    assert not set(rendered) & set("\x1b\u202e\x00\ud800")
    rendered.encode("utf-8")


def test_colours_change_nothing_but_colours() -> None:
    found = [Diagnostic("E0401", "m", at(PROGRAM, "x + y"), (Label(at(PROGRAM, "y"), "l"),), "h")]
    coloured = render_text(found, colour=True)
    assert coloured != render_text(found)
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == render_text(found)


# ---- bounds -------------------------------------------------------------------------------------------------------------------

NAMES = ["", "x", "é" * 10_000, "n" * 10_000, "漢 " * 5000, "\n" * 10_000, "\t" * 10_000, "\u0301" * 10_000, "`" * 10_000]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: f"{name[:1]!a}*{len(name)}")
@pytest.mark.parametrize("labels", [0, 1, 500])
def test_text_and_json_are_bounded(name: str, labels: int) -> None:
    text = f"fn {name}({name}): {name}"
    span = at(text, name) if name else Span(Source("a.ss", text), len(text), len(text))
    label = Label(span, f"axes of {name}, declared here")
    found = Diagnostic("E0401", f"{name} has axes {name}", span, (label,) * labels, f"rename {name} to {name}")
    whole = Diagnostic("E0401", name, Span(Source(name, text), 0, len(text)))
    for rendered in (render_text([found, whole]), json.dumps([render_json(found)])):
        assert len(rendered) < 80_000
    assert "E0401" in render_text([found])


def test_long_name_leaves_the_sentence_readable() -> None:
    found = Diagnostic("E0201", f"`{'n' * 10_000}` isn't defined here", None)
    assert render_text([found]).endswith("nn` isn't defined here")


def test_many_diagnostics_are_counted() -> None:
    found = [Diagnostic("E0100", "m", at("x", "x"))] * 1000
    assert render_text(found).endswith("and 900 more")


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.text(max_size=300), st.data())
def test_any_place_in_any_text_renders(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    span = Span(Source("a.ss", text), start, end)
    found = Diagnostic("E0100", text, span, (Label(span, text),), text or None)
    render_text([found], colour=data.draw(st.booleans())).encode("utf-8")
    json.dumps(render_json(found))


# ---- JSON ---------------------------------------------------------------------------------------------------------------------


def test_json() -> None:
    found = Diagnostic("E0401", "m", at(PROGRAM, "x + y"), (Label(at(PROGRAM, "x:"), "l"),), "h")
    assert json.loads(json.dumps(render_json(found))) == {
        "code": "E0401",
        "severity": "error",
        "message": "m",
        "span": {
            "path": "a.ss",
            "start": {"line": 3, "column": 12, "offset": 51},
            "end": {"line": 3, "column": 17, "offset": 56},
        },
        "labels": [
            {
                "span": {
                    "path": "a.ss",
                    "start": {"line": 1, "column": 6, "offset": 5},
                    "end": {"line": 1, "column": 8, "offset": 7},
                },
                "text": "l",
            }
        ],
        "help": "h",
    }
    assert render_json(Diagnostic("R1005", "m", None)) == {
        "code": "R1005",
        "severity": "error",
        "message": "m",
        "span": None,
        "labels": [],
        "help": None,
    }
