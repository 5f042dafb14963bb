"""One writer a log: a second run is refused by the number of the first, and a run that was killed holds nothing."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from shapescript.runtime import locks
from shapescript.runtime.csv_sink import csv
from shapescript.runtime.errors import LogError
from shapescript.runtime.jsonl import jsonl
from shapescript.runtime.locks import FileLock, HeldError
from shapescript.runtime.tensorboard_sink import tensorboard

HOLD = """
import sys
import shapescript
if sys.argv[3] == "without flock":
    from shapescript.runtime import locks
    locks.fcntl = None
sink = getattr(shapescript, sys.argv[1])(sys.argv[2])
sink.write("Row", {"step": 1})
print("written", flush=True)
sys.stdin.readline()
sink.close()
print("closed", flush=True)
sys.stdin.readline()
"""
MAKERS = {"jsonl": jsonl, "csv": csv, "tensorboard": tensorboard}


@pytest.fixture(params=["flock", "without flock"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "without flock":
        monkeypatch.setattr(locks, "fcntl", None)
    return str(request.param)


@contextmanager
def writer(kind: str, path: Path, way: str = "flock") -> Iterator[subprocess.Popen[str]]:
    """A process that has written a record, and closes its sink when it is told a line."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, kind, str(path), way], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    try:
        assert process.stdout and process.stdout.readline() == "written\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def refused(act: Any) -> str:
    with pytest.raises(LogError, match="R1402") as raised:
        act()
    assert isinstance(raised.value, OSError)
    return raised.value.message


@pytest.mark.parametrize("kind", MAKERS)
def test_a_second_run_is_refused_and_changes_nothing(kind: str, way: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    with writer(kind, path, way) as process:
        before = sorted(file.name for file in tmp_path.rglob("*"))
        second = MAKERS[kind](path)
        position = second.position()
        for act in (lambda: second.write("Row", {"step": 2}), lambda: second.restore(position), lambda: second.check_restore(position)):
            message = refused(act)
            assert str(path) in message and f"process {process.pid}" in message
        assert sorted(file.name for file in tmp_path.rglob("*")) == before
        assert process.stdin and process.stdout
        process.stdin.write("\n")
        assert process.stdout.readline() == "closed\n"
        second.write("Row", {"step": 2})
        second.close()
    assert not list(tmp_path.rglob("*.lock"))


@pytest.mark.parametrize("kind", MAKERS)
def test_the_lock_of_a_killed_run_does_not_count(kind: str, way: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    with writer(kind, path, way) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        (lock,) = tmp_path.rglob("*.lock")
        assert lock.read_text() == f"{process.pid}\n"
        sink = MAKERS[kind](path)
        sink.write("Row", {"step": 2})
        assert lock.read_text() == f"{os.getpid()}\n"
        sink.close()
    assert not list(tmp_path.rglob("*.lock*"))


def test_two_sinks_of_one_process(way: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "log")
    first, second = jsonl(tmp_path / "log"), jsonl(tmp_path / "link", append=True)
    first.write("Row", {"step": 1})
    assert "another sink of this process" in refused(lambda: second.write("Row", {"step": 2}))
    first.close()
    second.write("Row", {"step": 2})
    refused(lambda: first.write("Row", {"step": 3}))
    second.close()
    assert "another run has written the log" in refused(lambda: first.write("Row", {"step": 3}))
    assert (tmp_path / "log").read_text() == '{"step": 1}\n{"step": 2}\n'
    assert sorted(file.name for file in tmp_path.iterdir()) == ["link", "log"]


def test_a_sink_that_is_garbage_or_failed_holds_nothing(way: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    jsonl(path).write("Row", {"step": 1})
    gc.collect()
    failing = csv(path, append=True)
    with pytest.raises(LogError, match="R1403"):
        failing.write("Row", {"loss": 1.0})
    other = jsonl(path)
    with pytest.raises(Exception, match="R1303"):
        other.restore({"kind": "jsonl", "bytes": 5, "records": 1, "hash": "00" * 16})
    assert [file.name for file in tmp_path.iterdir()] == ["log"]


def test_a_process_that_ends_removes_its_locks(tmp_path: Path) -> None:
    code = "import shapescript; sink = shapescript.jsonl('log'); sink.write('Row', {'step': 1})"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=60)
    assert [file.name for file in tmp_path.iterdir()] == ["log"]


def test_a_forked_child_holds_no_lock_and_cannot_write_beside_its_parent(tmp_path: Path) -> None:
    code = """
import os, sys
import shapescript
sink = shapescript.jsonl("log")
sink.write("Row", {"step": 1})
child = os.fork()
if not child:
    try:
        sink.write("Row", {"step": 2})
    except shapescript.LogError as error:
        assert error.code == "R1402" and str(os.getppid()) in error.message, error
        sink.close()
        os._exit(7)  # a child's end
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert os.path.exists("log.lock")
sink.write("Row", {"step": 3})
r, w = os.pipe()
lives, living = os.pipe()
child = os.fork()
if not child:
    os.close(w)
    os.write(living, b".")
    os.read(r, 1)  # lives until its parent is gone
    os._exit(0)
os.read(lives, 1)
print(child, flush=True)
os.kill(os.getpid(), 9)
"""
    process = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline().strip().isdigit()
    assert process.wait(60) == -9
    jsonl(tmp_path / "log", append=True).write("Row", {"step": 4})
    assert (tmp_path / "log").read_text() == '{"step": 1}\n{"step": 3}\n{"step": 4}\n'
    process.communicate()


@pytest.mark.parametrize("content", [b"", b"4194304999\n", b"123"])
def test_a_lock_that_was_left_is_taken(content: bytes, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(pid: int, number: int) -> None:
        raise ProcessLookupError

    monkeypatch.setattr("os.kill", gone)
    path = tmp_path / "a.lock"
    path.write_bytes(content)
    FileLock(path).release()
    assert list(tmp_path.iterdir()) == []


def test_a_number_that_is_ours_but_was_anothers_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(locks, "fcntl", None)
    (tmp_path / "a.lock").write_bytes(b"%d\n" % os.getpid())
    lock = FileLock(tmp_path / "a.lock")
    with pytest.raises(HeldError):
        FileLock(tmp_path / "a.lock")
    lock.release()


@pytest.mark.parametrize("content", [b"my notes\n", b"12 monkeys", b"\xff" * 100])
def test_a_file_that_is_no_lock_is_left_alone(content: bytes, way: str, tmp_path: Path) -> None:
    (tmp_path / "log.lock").write_bytes(content)
    with pytest.raises(LogError, match=r"R1401.*no lock"):
        jsonl(tmp_path / "log").write("Row", {"step": 1})
    assert (tmp_path / "log.lock").read_bytes() == content and len(list(tmp_path.iterdir())) == 1


def test_a_link_in_the_locks_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("")
    (tmp_path / "log.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(LogError, match="R1401"):
        jsonl(tmp_path / "log").write("Row", {"step": 1})
    assert (tmp_path / "precious").read_text() == ""


def test_of_many_that_come_at_once_one_writes(way: str, tmp_path: Path) -> None:
    """Each process takes the lock and gives it back again and again: never do two hold it, whatever the order."""
    code = """
import os, sys
from pathlib import Path
from shapescript.runtime import locks
if sys.argv[1] == "without flock":
    locks.fcntl = None
taken = 0
while taken < 60:
    try:
        lock = locks.FileLock(Path("a.lock"))
    except locks.HeldError:
        continue
    inside = os.open("inside", os.O_CREAT | os.O_EXCL)  # fails where another is inside
    os.close(inside)
    os.unlink("inside")
    lock.release()
    taken += 1
"""
    processes = [subprocess.Popen([sys.executable, "-c", code, way], cwd=tmp_path) for _ in range(3)]
    assert [process.wait(120) for process in processes] == [0, 0, 0]
    assert list(tmp_path.iterdir()) == []
