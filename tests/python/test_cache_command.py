"""`shapescript cache`: what it tells, what it removes, and what it leaves."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shapescript.cli import main
from shapescript.object_cache import HEADER_BYTES, ObjectCache

MIB = 1 << 20


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectCache:
    """Two entries, of 1.5 MiB together."""
    monkeypatch.setenv("SHAPESCRIPT_CACHE_DIR", str(tmp_path / "cache"))
    cache = ObjectCache(tmp_path / "cache")
    for name, size in (("a", MIB), ("b", MIB // 2)):
        cache.write(name, bytes(32), bytes(size - HEADER_BYTES))
    return cache


def told(capsys: pytest.CaptureFixture[str], command: str, status: int = 0) -> list[str]:
    assert main(["cache", command]) == status
    return capsys.readouterr().out.splitlines()


def info(folder: Path, state: str, entries: int, size: str) -> list[str]:
    return [f"folder   {folder}", f"state    {state}", f"entries  {entries}", f"size     {size} MiB of at most 256 MiB"]


def test_info(cache: ObjectCache, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(capsys, "info") == info(cache.folder, "on", 2, "1.5")
    cache.folder.chmod(0o770)
    assert told(capsys, "info") == info(cache.folder, "can't be used: other users may write to it", 2, "1.5")
    monkeypatch.setenv("SHAPESCRIPT_CACHE", "off")
    assert told(capsys, "info") == info(cache.folder, "off (SHAPESCRIPT_CACHE=off)", 2, "1.5")


def test_clear_removes_entries_alone(cache: ObjectCache, capsys: pytest.CaptureFixture[str]) -> None:
    (cache.folder / "notes.txt").write_text("mine")
    assert told(capsys, "clear") == ["removed 2 entries, 1.5 MiB"]
    assert os.listdir(cache.folder) == ["notes.txt"]
    assert told(capsys, "clear") == ["removed 0 entries, 0.0 MiB"]
    assert told(capsys, "info") == info(cache.folder, "on", 0, "0.0")


def test_a_cache_that_isnt_there_is_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHAPESCRIPT_CACHE_DIR", str(tmp_path / "none"))
    assert told(capsys, "info") == info(tmp_path / "none", "on", 0, "0.0")
    assert told(capsys, "clear") == ["removed 0 entries, 0.0 MiB"] and not (tmp_path / "none").exists()


def test_what_cant_be_removed_is_told(cache: ObjectCache, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def unlink(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "unlink", unlink)
    assert main(["cache", "clear"]) == 1
    out, err = capsys.readouterr()
    assert out == "removed 0 entries, 0.0 MiB\n"
    assert err == f"shapescript cache clear: error: 2 could not be removed from {cache.folder}\n"


@pytest.mark.parametrize("command", ["info", "clear"])
def test_without_a_home_there_is_no_folder(command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("SHAPESCRIPT_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", home)
    assert main(["cache", command]) == 1
    assert capsys.readouterr().err == f"shapescript cache {command}: error: you have no home; SHAPESCRIPT_CACHE_DIR names a folder\n"
