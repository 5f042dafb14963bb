"""What is remembered of a machine: LLVM's words, asked for once; anew where the machine is another, or where what is kept is no use."""

from __future__ import annotations

from pathlib import Path

import pytest

from shapescript import this_machine
from shapescript.compiler.codegen import target
from shapescript.compiler.codegen.target import Target
from shapescript.object_cache import ObjectCache

PROCESSOR = "processor : {number}\nvendor_id : Some\nmodel : {model}\ncpu MHz : {speed}\nflags : fpu fma avx2\n\n"
ANSWER = ("x86_64-unknown-linux-gnu", "some", {"fma": True, "avx2": True})


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one each time that LLVM is asked."""
    found: list[int] = []

    def ask() -> tuple[str, str, dict[str, bool]]:
        found.append(1)
        return ANSWER

    monkeypatch.setenv("SHAPESCRIPT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(this_machine, "asked_of_llvm", ask)
    monkeypatch.setattr(this_machine, "PROCESSORS", tmp_path / "cpuinfo")
    tell(tmp_path)
    return found


def tell(folder: Path, model: str = "7", speed: str = "2000.1") -> None:
    (folder / "cpuinfo").write_text("".join(PROCESSOR.format(number=number, model=model, speed=speed) for number in range(2)))


def host() -> Target:
    return this_machine.host.__wrapped__()


def test_llvm_is_asked_once(tmp_path: Path, asked: list[int]) -> None:
    assert host() == host() == target.for_machine(*ANSWER)
    tell(tmp_path, speed="1000.2")  # which says nothing of what it can do
    assert host() == target.for_machine(*ANSWER) and len(asked) == 1


def test_it_is_asked_for_another_machine_and_by_another_version(tmp_path: Path, asked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    host()
    tell(tmp_path, model="8")
    host()
    assert len(asked) == 2
    monkeypatch.setattr(this_machine, "llvm_version", lambda: "another")
    host()
    assert len(asked) == 3


def test_what_is_no_use_is_asked_for_again(tmp_path: Path, asked: list[int]) -> None:
    host()
    cache = ObjectCache(tmp_path / "cache")
    (entry,) = cache.entries()
    for content in (b"", b"\xff", b"[]", b"[1, 2, 3]", b"null"):
        cache.write(entry.name, bytes(32), content)
        before = len(asked)
        assert host() == target.for_machine(*ANSWER) and len(asked) == before + 1
        host()
        assert len(asked) == before + 1


def test_without_a_cache_or_a_description_it_is_asked_each_time(tmp_path: Path, asked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("", "processor : 0\n", "\xff"):
        (tmp_path / "cpuinfo").write_text(text, "latin-1")
        host()
    (tmp_path / "cpuinfo").unlink()
    host()
    assert len(asked) == 4
    tell(tmp_path)
    monkeypatch.setenv("SHAPESCRIPT_CACHE", "off")
    host()
    host()
    assert len(asked) == 6 and not (tmp_path / "cache").exists()
