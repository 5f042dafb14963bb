"""Sizes that text files decide."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from text_programs import TEXT, program

import shapescript
from shapescript.compiler.check.checker import check_file

SIZES = """
const Text = "input.txt"
dim Vocabulary = characters(Text)
dim Twice = 2 * Vocabulary + 1
dim Longest = longest_line("input.txt")
const Lines = lines("input.txt") / 2
"""


@pytest.mark.parametrize("text", [TEXT, TEXT.replace("\n", "\r\n"), "\ufeff" + TEXT])
def test_sizes_are_those_of_the_text(tmp_path: Path, text: str) -> None:
    (tmp_path / "input.txt").write_bytes(text.encode())
    found = program(tmp_path, SIZES)
    lines = TEXT.split("\n")
    assert (found.Vocabulary, found.Twice) == (len(set(TEXT)), 2 * len(set(TEXT)) + 1)
    assert (found.Longest, found.Lines) == (max(map(len, lines)), len(lines) / 2)


def test_an_empty_text_has_sizes(tmp_path: Path) -> None:
    (tmp_path / "input.txt").write_bytes(b"")
    found = program(tmp_path, SIZES)
    assert (found.Vocabulary, found.Longest, found.Lines) == (0, 0, 0.0)


def test_a_text_is_looked_for_beside_the_program_then_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "input.txt").write_text("abc")
    assert program(tmp_path / "inner", SIZES).Vocabulary == 3
    (tmp_path / "inner" / "input.txt").write_text("abcd")
    assert program(tmp_path / "inner", SIZES).Vocabulary == 4
    (tmp_path / "inner" / "sizes.ss").write_text(SIZES)
    (tmp_path / "main.ss").write_text("from inner.sizes import Vocabulary\ndim Own = Vocabulary\n")
    assert shapescript.load(tmp_path / "main.ss").Own == 3


def test_a_size_from_the_host_needs_no_text(tmp_path: Path) -> None:
    text = 'dim Vocabulary = characters("missing.txt")\ndim Next = Vocabulary + 1\n'
    assert program(tmp_path, text, Vocabulary=65).Next == 66
    found = check_file(tmp_path / "text.ss").diagnostics
    assert [d.code for d in found] == ["E0506"] and str(tmp_path / "missing.txt") in found[0].message and found[0].span.column == 29


@pytest.mark.parametrize(("data", "reason"), [(b"ab\xff", "byte 2 is 0xFF"), (None, "no regular file")])
def test_what_is_no_text_is_told(tmp_path: Path, data: bytes | None, reason: str) -> None:
    path = tmp_path / "input.txt"
    path.mkdir() if data is None else path.write_bytes(data)
    (tmp_path / "text.ss").write_text('dim Vocabulary = characters("input.txt")\n')
    (found,) = check_file(tmp_path / "text.ss").diagnostics
    assert found.code == "E0506" and reason in found.message


def test_a_text_is_read_once_and_again_when_it_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, read = tmp_path / "input.txt", []
    path.write_text("abc")
    whole = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda self: (read.append(self.name), whole(self))[1])
    assert [program(tmp_path, SIZES).Vocabulary for _ in range(3)] == [3, 3, 3]
    assert read.count("input.txt") == 1
    path.write_text("abcde")
    assert program(tmp_path, SIZES).Vocabulary == 5 and read.count("input.txt") == 2


def test_counting_loads_neither_numpy_nor_llvmlite(tmp_path: Path) -> None:
    (tmp_path / "text.ss").write_text('dim Vocabulary = characters("python:pydoc_data/topics.py")\n')
    code = (
        "import sys, shapescript\n"
        f"assert shapescript.check({str(tmp_path / 'text.ss')!r}) == []\n"
        "assert not {'numpy', 'llvmlite'} & set(sys.modules), 'loaded'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
