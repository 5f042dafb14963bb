"""Programs whose gradients are known to be right aren't looked through again; nothing wrong is ever passed over."""

from __future__ import annotations

from pathlib import Path

import pytest

import shapescript
from shapescript import gradient_checks, known_gradients
from shapescript.object_cache import ObjectCache

RIGHT = """
model Net:
    w: [3] = ones
    b: [3] = zeros

fn loss(m: Net, x: [b 3]) -> []:
    return sum(sum(x * m.w + m.b, over=3), over=b)

fn step(mut m: Net, x: [b 3]) -> []:
    value, g = value_and_grad(loss(m, x), wrt=m)
    return value + sum(g.w, over=3)
"""
UNREACHED = RIGHT.replace("x * m.w + m.b", "x * m.w")


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """A line for each program that was looked through."""
    monkeypatch.setenv("SHAPESCRIPT_CACHE_DIR", str(tmp_path / "cache"))
    found: list[str] = []
    look = gradient_checks.found_by_gradients
    monkeypatch.setattr(
        gradient_checks, "found_by_gradients", lambda program, module: (found.append(program.path), look(program, module))[1]
    )
    return found


def codes(path: Path, text: str) -> list[str]:
    path.write_text(text)
    return [diagnostic.code for diagnostic in shapescript.check(path)]


def test_what_is_right_is_looked_through_once(tmp_path: Path, looked: list[str]) -> None:
    path = tmp_path / "program.ss"
    assert codes(path, RIGHT) == codes(path, f"# a remark\n{RIGHT}") == [] and len(looked) == 1


def test_what_is_wrong_is_told_each_time(tmp_path: Path, looked: list[str]) -> None:
    path = tmp_path / "program.ss"
    assert codes(path, RIGHT) == []
    assert codes(path, UNREACHED) == codes(path, UNREACHED) == ["E0805"] and len(looked) == 3


def test_functions_with_parameters_are_looked_through_where_they_lose_them(tmp_path: Path, looked: list[str]) -> None:
    path = tmp_path / "program.ss"
    generic = UNREACHED.replace("fn step(", "fn step[D](").replace("x: [b 3]) -> []:\n    value", "x: [b 3], y: [D]) -> []:\n    value")
    assert codes(path, generic) == [] and codes(path, UNREACHED) == ["E0805"] and len(looked) == 2


def test_functions_of_an_import_are_looked_through_in_their_own_file(tmp_path: Path, looked: list[str]) -> None:
    """Who imports them isn't told; the functions are the same, and which of them are looked at isn't."""
    path, importing = tmp_path / "program.ss", tmp_path / "importing.ss"
    path.write_text(UNREACHED)
    assert codes(importing, "import program\n") == []
    assert codes(path, UNREACHED) == ["E0805"] and len(looked) == 2


def test_another_compiler_looks_again(tmp_path: Path, looked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "program.ss"
    codes(path, RIGHT)
    monkeypatch.setattr(known_gradients, "code_at_first", lambda: bytes(32))
    codes(path, RIGHT)
    assert len(looked) == 2


def test_what_others_may_have_written_is_not_believed(tmp_path: Path, looked: list[str]) -> None:
    path = tmp_path / "program.ss"
    codes(path, RIGHT)
    (tmp_path / "cache").chmod(0o777)
    codes(path, RIGHT)
    assert len(looked) == 2


def test_without_a_cache_everything_is_looked_through(tmp_path: Path, looked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "program.ss"
    monkeypatch.setattr(known_gradients, "compiler_code", lambda: None)  # it has changed while it ran
    assert codes(path, RIGHT) == [] and not ObjectCache(tmp_path / "cache").entries()
    monkeypatch.setattr(known_gradients, "code_at_first", lambda: None)
    assert codes(path, RIGHT) == []
    monkeypatch.setenv("SHAPESCRIPT_CACHE", "off")
    assert codes(path, RIGHT) == []
    monkeypatch.delenv("SHAPESCRIPT_CACHE")
    (tmp_path / "cache").mkdir(mode=0o777, exist_ok=True)
    (tmp_path / "cache").chmod(0o777)
    assert codes(path, RIGHT) == [] and len(looked) == 4


def test_a_damaged_note_is_none(tmp_path: Path, looked: list[str]) -> None:
    path = tmp_path / "program.ss"
    codes(path, RIGHT)
    (entry,) = (tmp_path / "cache").iterdir()
    entry.write_bytes(entry.read_bytes()[:-1])
    assert codes(path, RIGHT) == codes(path, RIGHT) == [] and len(looked) == 2
