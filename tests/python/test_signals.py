"""SIGINT and SIGTERM end a run in whatever phase it is, within a step, with whole logs and checkpoints, and it goes on exactly."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import signal_programs
from chains import inside
from forked import Child, Forks

import shapescript
from shapescript.compiler.codegen import waiting
from shapescript.compiler.codegen.waiting import interruptible

SIGNALS = [(signal.SIGINT, 130, "shapescript: interrupted"), (signal.SIGTERM, 143, "shapescript: terminated")]
PHASES = {  # the numbers of the last steps that are logged and saved when the signal comes, at least
    "checking": (0, 0),
    "compiling": (0, 0),
    "loading_data": (0, 0),
    "logging": (5, 4),
    "saving": (4, 2),
    "saved": (4, 4),
}
ENDLESS = {"training": (5, 4), "evaluating": (4, 4), "computing": (4, 4)}
STEPS = 12


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("program")
    place(folder)
    return shapescript.load(folder / "program.ss", engine="numpy")


@pytest.fixture(scope="module")
def whole(program: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What a run leaves that nothing stops."""
    folder = tmp_path_factory.mktemp("whole")
    with inside(folder):
        program.main()
    return left(folder)


def place(folder: Path) -> None:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(signal_programs.COUNT, 2)).astype(np.float32)
    np.savez(folder / "rows.npz", x=x, label=draw.integers(0, 3, signal_programs.COUNT))
    (folder / "program.ss").write_text(signal_programs.PROGRAM)


def left(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in ("run.jsonl", "run.pt")}


@dataclass
class Starter:
    """Starts command lines in a folder, each of which gets a signal."""

    forks: Forks
    folder: Path
    beside: Path

    def start(self, number: int, phase: str, *words: str) -> Child:
        return self.forks.start(self.folder, self.beside, "signal_programs", [str(number), phase, "run", *words])


@pytest.fixture
def starter(forks: Forks, tmp_path: Path) -> Starter:
    folder = tmp_path / "run"
    folder.mkdir()
    place(folder)
    return Starter(forks, folder, tmp_path)


def check_end(ended: tuple[int, str], status: int, line: str) -> None:
    """The status, and one line of text, behind at most the lines of progress."""
    found, err = ended
    assert found == status, err
    *before, last = err.splitlines()
    assert last == line and all(re.match("epoch ", progress) for progress in before), err


def check_left(folder: Path, logged: int, saved: int) -> None:
    """Whole lines, a whole checkpoint, as far as they must be; and nothing beside."""
    log = folder / "run.jsonl"
    lines = log.read_text() if log.exists() else ""
    steps = [json.loads(line)["step"] for line in lines.splitlines()]
    assert steps == list(range(1, len(steps) + 1)) and len(steps) >= logged and lines.endswith("\n" if lines else "")
    step = shapescript.load_checkpoint(folder / "run.pt")["opt"]["step"] if (folder / "run.pt").exists() else 0
    assert saved <= step <= len(steps)
    assert {path.name for path in folder.iterdir()} <= {"program.ss", "rows.npz", "run.jsonl", "run.jsonl.lock", "run.pt"}


def check_going_on(program: Any, folder: Path, whole: dict[str, bytes]) -> None:
    with inside(folder):
        program.main(carry_on=(folder / "run.pt").exists())
    assert left(folder) == whole


# ---- each phase


@pytest.mark.parametrize(("number", "status", "line"), SIGNALS)
@pytest.mark.parametrize("phase", PHASES)
def test_a_signal_ends_each_phase(
    starter: Starter, program: Any, whole: dict[str, bytes], phase: str, number: int, status: int, line: str
) -> None:
    check_end(starter.start(number, phase, "--engine", "numpy", "program.ss").end(), status, line)
    check_left(starter.folder, *PHASES[phase])
    check_going_on(program, starter.folder, whole)


@pytest.mark.parametrize(("number", "status", "line"), SIGNALS)
@pytest.mark.parametrize(("engine", "phase"), [("native", phase) for phase in ENDLESS] + [("numpy", "training"), ("numpy", "evaluating")])
def test_a_signal_ends_a_loop_that_would_not_end(
    starter: Starter, program: Any, whole: dict[str, bytes], engine: str, phase: str, number: int, status: int, line: str
) -> None:
    child = starter.start(number, "", "--engine", engine, "program.ss", f"--endless={1 + list(ENDLESS).index(phase)}")
    said = child.stdout.readline()
    child.send_signal(number)
    check_end(child.end(), status, line)
    assert said == f"{phase}\n"
    check_left(starter.folder, *ENDLESS[phase])
    check_going_on(program, starter.folder, whole)


@pytest.mark.parametrize(("number", "status", "line"), SIGNALS)
def test_a_signal_does_not_wait_for_a_compile(starter: Starter, number: int, status: int, line: str) -> None:
    """LLVM's thread never comes back here."""
    check_end(starter.start(number, "compiling_natively", "program.ss").end(), status, line)
    check_left(starter.folder, 0, 0)


@pytest.mark.parametrize(("number", "status", "line"), SIGNALS)
@pytest.mark.parametrize("engine", ["native", "numpy"])
def test_a_signal_that_python_drops_ends_the_run_all_the_same(
    starter: Starter, program: Any, whole: dict[str, bytes], engine: str, number: int, status: int, line: str
) -> None:
    check_end(starter.start(number, "dropping", "--engine", engine, "program.ss", "--endless=3").end(), status, line)
    check_left(starter.folder, 2, 0)
    check_going_on(program, starter.folder, whole)


@pytest.mark.parametrize(("number", "status", "line"), SIGNALS)
def test_a_signal_while_a_checkpoint_is_loaded(
    starter: Starter, program: Any, whole: dict[str, bytes], number: int, status: int, line: str
) -> None:
    with inside(starter.folder):
        program.main()
    check_end(starter.start(number, "loading", "--engine", "numpy", "program.ss", "--carry-on").end(), status, line)
    assert left(starter.folder) == whole


@pytest.mark.parametrize(("number", "status", "line"), SIGNALS)
def test_a_signal_while_a_failure_is_cleaned_up(starter: Starter, number: int, status: int, line: str) -> None:
    (starter.folder / "program.ss").write_text("fn main(n: int = 0):\n    print(1 // n)\n")
    check_end(starter.start(number, "failing", "--engine", "numpy", "program.ss").end(), status, line)


@pytest.mark.parametrize(("number", "status", "line"), SIGNALS)
def test_a_signal_while_the_command_line_is_loaded(tmp_path: Path, number: int, status: int, line: str) -> None:
    command = [sys.executable, signal_programs.__file__, str(number), "importing", "--version"]
    done = subprocess.run(command, cwd=tmp_path, text=True, capture_output=True, check=False)
    check_end((done.returncode, done.stderr), status, line)


@pytest.mark.parametrize(("number", "status", "line"), SIGNALS)
@pytest.mark.parametrize("phase", ["twice", "twice_in_a_save"])
def test_a_second_signal_ends_the_process_at_once(
    starter: Starter, program: Any, whole: dict[str, bytes], phase: str, number: int, status: int, line: str
) -> None:
    found, err = starter.start(number, phase, "--engine", "numpy", "program.ss").end()
    assert found == status and line not in err and "Traceback" not in err
    check_left(starter.folder, 4, 2)
    check_going_on(program, starter.folder, whole)


# ---- from Python

INTERRUPTS_A_COMPILE = """
    import os, signal, sys, threading
    sys.path.insert(0, {tests!r})
    import signal_programs
    import shapescript
    from shapescript.compiler.codegen import jit

    os.environ["SHAPESCRIPT_CACHE"] = "off"
    signal.signal(signal.SIGINT, signal.default_int_handler)
    go_on = threading.Event()
    interrupt = lambda: os.kill(os.getpid(), signal.SIGINT)
    program = shapescript.load("program.ss")
"""


def run_python(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    place(folder)
    script = textwrap.dedent(INTERRUPTS_A_COMPILE).format(tests=str(Path(__file__).parent)) + textwrap.dedent(text)
    return subprocess.run([sys.executable, "-c", script], cwd=folder, text=True, capture_output=True, check=False)


def test_ctrl_c_in_a_compile_from_python_and_a_later_call(tmp_path: Path, whole: dict[str, bytes]) -> None:
    """LLVM's thread waits until the interrupt has been raised, then compiles; the second call compiles too."""
    text = """
        signal_programs.before(jit, "parse", lambda: (interrupt(), go_on.wait()))
        try:
            program.main()
        except KeyboardInterrupt:
            print("interrupted")
        go_on.set()
        program.main()
    """
    done = run_python(tmp_path, text)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("interrupted\nloss ") and not done.stderr
    assert left(tmp_path) == whole


def test_python_ends_well_while_a_compile_that_nobody_waits_for_goes_on(tmp_path: Path) -> None:
    """Interrupted once in the compile, and once more where Python waits for it at its end."""
    text = """
        import atexit

        atexit.register(lambda: print("at exit", flush=True))
        ends = threading.Event()
        def parse():
            interrupt()
            ends.wait()
            if {again}:
                interrupt()
        signal_programs.before(jit, "parse", parse)
        signal_programs.before(threading, "_shutdown", ends.set)
        try:
            program.main()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """
    for again in (False, True):
        done = run_python(tmp_path, text.replace("{again}", str(again)))
        assert done.returncode == 0, done.stderr
        assert done.stdout == "interrupted\nat exit\n"
        assert again or not done.stderr


def test_work_in_a_thread_gives_what_it_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def work() -> int:
        threads.append(threading.current_thread())
        return 7

    def fails() -> int:
        raise ValueError("mine")

    main = threading.main_thread()
    assert interruptible(work) == 7 and threads.pop() is not main
    with pytest.raises(ValueError, match="mine"):
        interruptible(fails)

    def elsewhere() -> None:  # Python raises no KeyboardInterrupt there
        assert interruptible(work) == 7

    other = threading.Thread(target=elsewhere)
    other.start()
    other.join()
    assert threads.pop() is other

    def refused(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(waiting.threading.Thread, "start", refused)
    assert interruptible(work) == 7 and threads.pop() is main
    monkeypatch.undo()

    before = set(threading.enumerate())
    goes_on = threading.Event()

    def interrupted() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        goes_on.wait()

    with pytest.raises(KeyboardInterrupt):
        interruptible(interrupted)
    goes_on.set()
    for thread in set(threading.enumerate()) - before:
        thread.join()
