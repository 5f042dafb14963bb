"""A process that is killed while it saves: the checkpoint before is whole, nothing unfinished is offered, and the next save cleans up."""

from __future__ import annotations

import fcntl
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from shapescript.runtime.checkpoint import load_checkpoint, save_checkpoint
from shapescript.runtime.files import is_unfinished, remove_abandoned
from shapescript.runtime.inspection import inspect
from shapescript.runtime.latest import latest_checkpoint

FORMATS = ["a.pt", "a.safetensors"]

# For each number n a process of its own saves step after step, and kills itself at the n-th thing that it asks of the operating system.
SAVING = """
import os, signal, sys
import numpy as np
from shapescript.runtime import files, saving
from shapescript.runtime.checkpoint import save_checkpoint

name, moments = sys.argv[1], int(sys.argv[2])
passed = deadly = 0

def moment():
    global passed
    passed += 1
    if passed == deadly:
        os.kill(os.getpid(), signal.SIGKILL)

def audited(event, arguments):
    if event in ("os.rename", "os.remove", "os.scandir", "fcntl.flock") or event == "open" and ".shapescript-" in str(arguments[0]):
        moment()

class Halved:
    def __init__(self, file):
        self.file = file
    def write(self, data):
        self.file.write(data[: len(data) // 2])
        self.file.flush()
        if len(data) > 100:
            moment()
        self.file.write(data[len(data) // 2 :])

def fsync(descriptor, real=os.fsync):
    moment()
    real(descriptor)
    moment()

def replace_file(path, write, real=files.replace_file):
    real(path, lambda file: write(Halved(file)))

os.fsync, saving.replace_file = fsync, replace_file
sys.addaudithook(audited)
save_checkpoint("warm" + name, step=0)  # all is imported
for number in range(1, moments + 1):
    os.mkdir(str(number))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        passed, deadly, step = 0, number, 0
        while True:
            step += 1
            save_checkpoint(os.path.join(str(number), name), step=step, w=np.full(300, step))
            os.write(writing, b".")
    os.close(writing)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    print(number, len(os.read(reading, 1000)))
    os.close(reading)
"""
MOMENTS = 50


@pytest.fixture(scope="module", params=FORMATS)
def killed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, int]]:
    """The files of processes that were killed at each of the first moments of a loop of saves, and how many saves had ended in each."""
    folder = tmp_path_factory.mktemp("killed")
    command = [sys.executable, "-c", SAVING, request.param, str(MOMENTS)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert len(lines) == MOMENTS and int(lines[-1][1]) > 1
    return [(folder / number / request.param, int(ended)) for number, ended in lines]


def test_a_kill_at_each_moment_leaves_a_completed_save(killed: list[tuple[Path, int]]) -> None:
    unfinished = 0
    for path, ended in killed:
        others = [each for each in path.parent.iterdir() if each != path]
        assert all(is_unfinished(each) for each in others) and len(others) <= 1
        unfinished += len(others)
        if not path.exists():
            assert ended == 0
            continue
        found = load_checkpoint(path)
        assert found["step"] in (ended, ended + 1) and found["w"].tolist() == [found["step"]] * 300
        assert inspect(path).error is None
    assert unfinished > 10


def test_nothing_unfinished_is_offered_as_the_latest(killed: list[tuple[Path, int]]) -> None:
    for path, _ in killed[::3]:
        if path.exists():
            for pattern in ("*", ".*", "**", f".{path.name}*", f"*{path.suffix}"):
                if pattern.startswith("."):
                    with pytest.raises(FileNotFoundError):
                        latest_checkpoint(path.parent / pattern)
                else:
                    assert latest_checkpoint(path.parent / pattern) == str(path)


def test_the_next_save_removes_what_killed_ones_left(killed: list[tuple[Path, int]]) -> None:
    for path, _ in killed:
        save_checkpoint(path, step=7)
        assert list(path.parent.iterdir()) == [path] and load_checkpoint(path) == {"step": 7}


@pytest.mark.parametrize("name", FORMATS)
def test_a_kill_at_any_instant_leaves_a_completed_save(tmp_path: Path, name: str) -> None:
    """A real kill from outside, after a seeded part of the time that a save takes."""
    code = """
import itertools, sys, time
import numpy as np
from shapescript.runtime.checkpoint import load_checkpoint, save_checkpoint
path = sys.argv[1]
first = load_checkpoint(path)["step"] + 1 if len(sys.argv) > 2 else 0
for step in itertools.count(first):
    start = time.perf_counter()
    save_checkpoint(path, step=step, w=np.full(100_000, step))
    print(step, time.perf_counter() - start, flush=True)
"""
    choose, path, again = random.Random(5), tmp_path / name, list[str]()
    for _ in range(6):
        with subprocess.Popen([sys.executable, "-c", code, path, *again], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(choose.randint(1, 3)):
                reached, took = process.stdout.readline().split()
            threading.Event().wait(choose.random() * float(took))
            process.send_signal(signal.SIGKILL)
            process.wait(timeout=60)
        again = ["again"]
        found = load_checkpoint(path)
        assert found["step"] >= int(reached) and (found["w"] == found["step"]).all() and found["w"].shape == (100_000,)
        assert sum(map(is_unfinished, tmp_path.iterdir())) <= 1  # those of the rounds before have been removed


def test_only_abandoned_files_of_ours_are_removed(tmp_path: Path) -> None:
    ours = f".a.pt.shapescript-{'0' * 16}.tmp"
    others = [".a.pt.tmp", ".a.pt.shapescript-12.tmp", "a.pt.shapescript-0123456789abcdef.tmp", f"{ours}.txt", "b.tmp"]
    for name in [*others, ours]:
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / f".link.shapescript-{'1' * 16}.tmp").symlink_to(tmp_path / "b.tmp")
    (tmp_path / f".folder.shapescript-{'2' * 16}.tmp").mkdir()
    os.mkfifo(tmp_path / f".pipe.shapescript-{'3' * 16}.tmp")
    kept = sorted(each.name for each in tmp_path.iterdir() if each.name != ours)
    save_checkpoint(tmp_path / "a.pt", step=1)
    assert sorted(each.name for each in tmp_path.iterdir() if each.name != "a.pt") == kept


def test_a_file_that_a_living_process_writes_is_left_to_it(tmp_path: Path) -> None:
    """Another process is in the middle of a save to the same file."""
    code = """
import sys
from pathlib import Path
from shapescript.runtime.files import replace_file
def write(file):
    file.write(b"whole")
    print("begun", flush=True)
    sys.stdin.readline()
replace_file(Path(sys.argv[1]), write)
"""
    command = [sys.executable, "-c", code, str(tmp_path / "a.pt")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "begun\n"
        save_checkpoint(tmp_path / "a.pt", step=1)
        assert len(list(tmp_path.iterdir())) == 2 and load_checkpoint(tmp_path / "a.pt") == {"step": 1}
        process.communicate("\n", timeout=60)
        assert process.returncode == 0
    assert (tmp_path / "a.pt").read_bytes() == b"whole" and len(list(tmp_path.iterdir())) == 1


def test_a_new_file_that_is_taken_for_abandoned_before_it_is_locked_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, removed = fcntl.flock, []

    def late(file: object, operation: int) -> None:
        if not removed and operation == fcntl.LOCK_EX:
            removed.append(True)
            remove_abandoned(tmp_path)
            assert not list(tmp_path.iterdir())
        real(file, operation)  # type: ignore[arg-type]

    monkeypatch.setattr("fcntl.flock", late)
    save_checkpoint(tmp_path / "a.pt", step=1)
    assert removed and load_checkpoint(tmp_path / "a.pt") == {"step": 1} and len(list(tmp_path.iterdir())) == 1


def test_a_file_system_without_locks_is_written_and_nothing_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    ours = tmp_path / f".a.pt.shapescript-{'0' * 16}.tmp"
    ours.write_bytes(b"x")
    monkeypatch.setattr("fcntl.flock", refuse)
    save_checkpoint(tmp_path / "a.pt", step=1)
    assert ours.exists() and load_checkpoint(tmp_path / "a.pt") == {"step": 1}


def test_many_processes_that_save_one_file_disturb_none(tmp_path: Path) -> None:
    code = """
import sys
import numpy as np
from shapescript.runtime.checkpoint import save_checkpoint
for step in range(30):
    save_checkpoint(sys.argv[1], step=step, w=np.full(1000, step))
"""
    processes = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "a.pt")]) for _ in range(3)]
    while any(process.poll() is None for process in processes):
        if (tmp_path / "a.pt").exists():
            found = load_checkpoint(tmp_path / "a.pt")
            assert np.unique(found["w"]).tolist() == [found["step"]]
        time.sleep(0)
    assert [process.returncode for process in processes] == [0, 0, 0] and len(list(tmp_path.iterdir())) == 1
