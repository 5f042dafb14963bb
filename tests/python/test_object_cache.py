"""The cache's folder: whole files or none, found out when damaged, bounded in size, and never in a program's way."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shapescript import object_cache
from shapescript.object_cache import HEADER_BYTES, LEAST_ROOM, MAGIC, SUFFIX, UNFINISHED, Damaged, ObjectCache

WHO, OTHER = bytes(32), bytes([1]) * 32
DAY = 24 * 3600


@pytest.fixture
def cache(tmp_path: Path) -> ObjectCache:
    return ObjectCache(tmp_path / "above" / "cache")


def file_of(cache: ObjectCache, name: str) -> Path:
    return cache.folder / f"{name}{SUFFIX}"


def used_before(cache: ObjectCache, name: str, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(file_of(cache, name), (then, then))


def test_what_is_written_is_read(cache: ObjectCache) -> None:
    assert cache.read("a") is None and cache.problem() is None and cache.entries() == []
    assert cache.write("a", WHO, b"content") is None
    assert cache.write("b", OTHER, b"") is None
    assert (cache.read("a"), cache.read("b"), cache.read("c")) == (b"content", b"", None)
    assert cache.write("a", WHO, b"new") is None and cache.read("a") == b"new"
    assert list(cache.made_for(WHO)) == ["a"] and list(cache.made_for(OTHER)) == ["b"]


def test_nobody_else_sees_what_is_written(cache: ObjectCache) -> None:
    before = os.umask(0)
    try:
        cache.write("a", WHO, b"content")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (cache.folder, file_of(cache, "a"))]
    assert modes == [0o700, 0o600] and os.listdir(cache.folder) == [f"a{SUFFIX}"]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda data: b"",
    "cut in the header": lambda data: data[: HEADER_BYTES - 1],
    "cut in the content": lambda data: data[:-1],
    "longer": lambda data: data + b"\0",
    "a bit of the content": lambda data: data[:-3] + bytes([data[-3] ^ 4]) + data[-2:],
    "a bit of who it was made for": lambda data: data[: len(MAGIC)] + bytes([data[len(MAGIC)] ^ 1]) + data[len(MAGIC) + 1 :],
    "a bit of the checksum": lambda data: data[: HEADER_BYTES - 1] + bytes([data[HEADER_BYTES - 1] ^ 128]) + data[HEADER_BYTES:],
    "another format": lambda data: data.replace(b"object 1", b"object 2"),
    "something else": lambda data: b"\x7fELF" + bytes(200),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_is_found_out_and_mended(cache: ObjectCache, damage: Callable[[bytes], bytes]) -> None:
    cache.write("a", WHO, b"content")
    path = file_of(cache, "a")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(Damaged):
        cache.read("a")
    assert cache.write("a", WHO, b"content") is None and cache.read("a") == b"content"


def test_the_checksum_is_of_name_who_and_content(cache: ObjectCache) -> None:
    cache.write("a", WHO, b"content")
    assert file_of(cache, "a").read_bytes() == MAGIC + WHO + hashlib.sha256(b"a\0" + WHO + b"content").digest() + b"content"


def test_a_file_under_anothers_name_is_found_out(cache: ObjectCache) -> None:
    cache.write("a", WHO, b"content")
    file_of(cache, "a").rename(file_of(cache, "b"))
    with pytest.raises(Damaged, match="checksum"):
        cache.read("b")


def test_what_others_may_have_written_is_not_read(cache: ObjectCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.write("a", WHO, b"content")
    path = file_of(cache, "a")
    for mode in (0o620, 0o602):
        path.chmod(mode)
        with pytest.raises(Damaged, match="other users may write to it"):
            cache.read("a")
    path.chmod(0o600)
    for mode in (0o720, 0o702):
        cache.folder.chmod(mode)
        assert cache.problem() == "other users may write to it" == cache.write("b", WHO, b"content")
    cache.folder.chmod(0o755)
    assert cache.problem() is None and cache.read("a") == b"content"
    uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    assert cache.problem() == "it belongs to another user" == cache.write("b", WHO, b"content")
    with pytest.raises(Damaged, match="belongs to another user"):
        cache.read("a")


def test_links_pipes_and_folders_are_not_read(cache: ObjectCache) -> None:
    cache.write("a", WHO, b"content")
    file_of(cache, "link").symlink_to(file_of(cache, "a"))
    os.mkfifo(file_of(cache, "pipe"), 0o600)
    file_of(cache, "folder").mkdir()
    elsewhere = ObjectCache(cache.folder / "elsewhere")
    elsewhere.write("whole", WHO, b"content")
    file_of(cache, "whole").symlink_to(file_of(elsewhere, "whole"))  # nothing but the link is wrong with it
    for name in ("link", "whole", "pipe", "folder"):
        with pytest.raises(Damaged):
            cache.read(name)
    assert [entry.name for entry in cache.entries()] == ["a"]
    assert cache.write("link", WHO, b"new") is None and (cache.read("link"), cache.read("a")) == (b"new", b"content")
    assert cache.write("folder", WHO, b"new") is not None


def test_a_folder_that_cant_be_made_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "cache"):
        cache = ObjectCache(folder)
        assert cache.problem() and cache.write("a", WHO, b"content") and cache.entries() == [] and cache.clear() == (0, 0)


def test_a_full_disk_leaves_no_half_file(cache: ObjectCache, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(file: int, data: bytes) -> None:
        os.write(file, data[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(object_cache, "write_all", write)
    assert cache.write("a", WHO, b"content") == os.strerror(errno.ENOSPC)
    assert os.listdir(cache.folder) == [] and cache.read("a") is None


def test_an_interrupt_leaves_no_half_file(cache: ObjectCache, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(file: int, data: bytes) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(object_cache, "write_all", write)
    with pytest.raises(KeyboardInterrupt):
        cache.write("a", WHO, b"content")
    assert os.listdir(cache.folder) == []


def test_the_least_recently_used_make_room(cache: ObjectCache) -> None:
    cache.limit = 4 * (HEADER_BYTES + 40_000)
    for place, name in enumerate("abcd"):
        assert cache.write(name, WHO, bytes(40_000)) is None
        used_before(cache, name, (3 - place) * DAY + 2 * DAY)
    assert [entry.name for entry in cache.entries()] == ["a", "b", "c", "d"]
    assert cache.read("a") is not None  # now it is the last one used
    assert cache.write("e", WHO, bytes(60_000)) is None
    assert sorted(entry.name for entry in cache.entries()) == ["a", "d", "e"]
    assert sum(entry.size for entry in cache.entries()) <= cache.limit


def test_many_small_files_take_room_too(cache: ObjectCache) -> None:
    """Each change of a program that is checked leaves a small one."""
    cache.limit = 3 * LEAST_ROOM
    for place, name in enumerate("abcde"):
        assert cache.write(name, WHO, b"") is None
        used_before(cache, name, (5 - place) * DAY)
    assert [entry.name for entry in cache.entries()] == ["c", "d", "e"]
    assert cache.write("f", WHO, bytes(LEAST_ROOM + 1)) is None  # it takes the room of more than one
    assert [entry.name for entry in cache.entries()] == ["e", "f"]


def test_what_is_larger_than_the_cache_is_not_kept(cache: ObjectCache) -> None:
    cache.limit = HEADER_BYTES + 100
    cache.write("a", WHO, bytes(100))
    assert "more than the cache may hold" in str(cache.write("b", WHO, bytes(101)))
    assert [entry.name for entry in cache.entries()] == ["a"]


def test_a_use_is_noted_once_a_day(cache: ObjectCache) -> None:
    cache.write("a", WHO, b"content")
    for age, is_noted in ((DAY // 2, False), (2 * DAY, True)):
        used_before(cache, "a", age)
        before = cache.entries()[0].used
        cache.read("a")
        assert (cache.entries()[0].used > before) is is_noted


def test_unfinished_files_of_processes_that_are_gone_are_removed(cache: ObjectCache) -> None:
    cache.write("a", WHO, b"content")
    new, old, foreign = (cache.folder / name for name in (f"b.1{UNFINISHED}", f"b.2{UNFINISHED}", "notes.txt"))
    for path in (new, old, foreign):
        path.write_bytes(b"half")
        if path != new:
            os.utime(path, (1, 1))
    cache.write("c", WHO, b"content")
    assert (new.exists(), old.exists(), foreign.exists()) == (True, False, True)
    assert cache.clear() == (2, 2 * (HEADER_BYTES + 7))
    assert os.listdir(cache.folder) == ["notes.txt"]


WRITER = """
import sys
from pathlib import Path
from shapescript.object_cache import HEADER_BYTES, ObjectCache
cache = ObjectCache(Path(sys.argv[1]), 5 * (HEADER_BYTES + 50_000))
number = int(sys.argv[2])
for turn in range(60):
    name = f"entry{(turn * 7 + number) % 8}"
    assert cache.write(name, bytes(32), name.encode() * 8000) is None
    found = cache.read(f"entry{turn % 8}")
    assert found in (None, f"entry{turn % 8}".encode() * 8000)
"""


def test_many_processes_may_write_and_read_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(folder), str(number)]) for number in range(4)]
    assert [writer.wait(60) for writer in writers] == [0] * 4
    cache = ObjectCache(folder)
    assert all(name.endswith(SUFFIX) for name in os.listdir(folder))
    assert [cache.read(entry.name) for entry in cache.entries()] == [entry.name.encode() * 8000 for entry in cache.entries()]
