"""The thread pool's code in the cache: compiled once for all processes, and anew where what is kept is no use."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from shapescript import code_places
from shapescript.compiler.codegen import loading
from shapescript.compiler.codegen.pool import NOTHING
from shapescript.compiler.codegen.pool_block import Place
from shapescript.compiler.codegen.target import host
from shapescript.compiler.codegen.workers import PROCESS, Pool
from shapescript.object_cache import SUFFIX, ObjectCache
from shapescript.pool_code import pool_code

COMPILED = "compiled the thread pool: it isn't in the cache"
LOADED = "loaded the thread pool"
Told = Callable[[], list[str]]


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Told:
    """What was told since it was asked last, without times; in a cache of the test's own."""
    monkeypatch.setenv("SHAPESCRIPT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("SHAPESCRIPT_LOG", "compile")

    def lines() -> list[str]:
        found = [line.removeprefix("shapescript: ") for line in capfd.readouterr().err.splitlines()]
        return [re.sub(r"; (looking it up|codegen) .*| from the cache: .*", "", line) for line in found]

    return lines


def works(pool: Pool) -> bool:
    """Whether each share of a job is done, by the code that the pool has."""
    pool.ensure(3)
    pool.fork(pool._code.address(NOTHING), 0, 3)
    done = int(pool.block[Place.FINISHED])
    pool.stop()
    return done == 3


def kept(tmp_path: Path) -> Path:
    (entry,) = ObjectCache(tmp_path / "cache").entries()
    return tmp_path / "cache" / f"{entry.name}{SUFFIX}"


def test_it_is_compiled_once(told: Told) -> None:
    assert works(Pool(host(), code=pool_code)) and works(Pool(host(), code=pool_code))
    assert told() == [COMPILED, LOADED]


def test_a_call_asks_for_it_once_in_a_process(tmp_path: Path, told: Told) -> None:
    path = tmp_path / "wide.ss"
    path.write_text("fn wide(x: [n k], y: [k m]) -> [n m]:\n    return x @ y\n", "utf-8")
    code = """
import sys, numpy as np, shapescript
from shapescript.compiler.codegen.thread_count import asked_for
x = np.ones((65, 64), np.float32)
for turn in range(2):
    with asked_for(2, grain=1):
        assert (shapescript.load(sys.argv[1]).wide(x, x.T.copy()) == 64).all()
"""
    causes = []
    for _ in range(2):
        subprocess.run([sys.executable, "-c", code, str(path)], check=True)
        causes.append([line for line in told() if "thread pool" in line])
    assert causes == [[COMPILED], [LOADED]]


def test_the_process_has_it_from_the_cache() -> None:
    import shapescript.native_functions  # noqa: F401  # as the first native call does

    assert PROCESS.code is pool_code


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def rewrite(path: Path) -> None:
    """Whole, and of no sense."""
    ObjectCache(path.parent).write(path.stem, bytes(32), b"no code")


def open_up(path: Path) -> None:
    path.chmod(0o666)


@pytest.mark.parametrize("damage", [cut, rewrite, open_up])
def test_what_is_damaged_is_compiled_and_replaced(tmp_path: Path, told: Told, damage: Callable[[Path], None]) -> None:
    pool_code(host())
    damage(kept(tmp_path))
    assert works(Pool(host(), code=pool_code))
    pool_code(host())
    first, second, third = told()
    assert (first, third) == (COMPILED, LOADED)
    assert second.startswith("compiled the thread pool: what the cache has is no use: ")


def test_without_a_cache_it_is_compiled(tmp_path: Path, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").write_text("no folder")
    assert works(Pool(host(), code=pool_code))
    monkeypatch.setenv("SHAPESCRIPT_CACHE", "off")
    assert works(Pool(host(), code=pool_code))
    problem = f"the cache can't be used: {tmp_path / 'cache'}: it is no folder"
    assert told() == [f"compiled the thread pool: {problem}", "compiled the thread pool: the cache is off"]


def test_what_cannot_be_kept_is_told(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ObjectCache, "write", lambda *_: "No space left on device")
    pool_code(host())
    monkeypatch.setattr(code_places, "compiler_digest", lambda: None)
    pool_code(host())
    assert told() == [
        COMPILED,
        "not kept the thread pool: No space left on device",
        COMPILED,
        "not kept the thread pool: the compiler's files have changed",
    ]


def test_what_is_no_object_is_refused() -> None:
    with pytest.raises(ValueError, match="not an object file"):
        loading.load_object(np.arange(100, dtype=np.uint8).tobytes(), host())
