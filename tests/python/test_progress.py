"""The progress line: what it shows, how often, that it gives way to what a program prints, and how it leaves a terminal."""

from __future__ import annotations

import fcntl
import io
import os
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shapescript.progress import Progress
from shapescript.runtime.sinks import MemorySink

HIDE_CURSOR, SHOW_CURSOR, AGAIN = "\x1b[?25l", "\x1b[?25h", "\r\x1b[2K"
COLOURS = re.compile(r"\x1b\[[\d;]*m")


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def progress(live: bool) -> tuple[Progress, io.StringIO, Clock]:
    stream, clock = io.StringIO(), Clock()
    return Progress(stream, live, clock), stream, clock


def record(step: int, loss: float = 0.5) -> dict[str, Any]:
    return {"step": step, "loss": loss}


def drawn(text: str) -> list[str]:
    """The lines that a terminal shows one after the other in one place."""
    return COLOURS.sub("", text).replace(HIDE_CURSOR, "").replace(SHOW_CURSOR, "").split(AGAIN)


# ---- plain lines


def test_plain_lines_at_flushes_at_most_one_a_second() -> None:
    shown, stream, clock = progress(live=False)
    for epoch in range(20):
        for step in range(10):
            shown.wrote(record(10 * epoch + step + 1))
            clock.now += 0.01
        shown.flushed()
    shown.close()
    lines = stream.getvalue().splitlines()
    assert lines[0] == "epoch 1  step 10  loss 0.5000  100 steps/s"
    assert lines[1] == "epoch 11  step 110  loss 0.5000  100 steps/s"
    assert lines[-1] == "epoch 20  step 200  loss 0.5000  100 steps/s"
    assert len(lines) == 3


def test_an_epoch_that_has_ended_is_shown_before_what_is_printed() -> None:
    shown, stream, clock = progress(live=False)
    for epoch in range(3):
        shown.wrote(record(epoch + 1))
        shown.printing()
        shown.flushed()
        clock.now += 0.1
    assert stream.getvalue().splitlines() == ["epoch 1  step 1  loss 0.5000"]
    shown.printing()
    assert stream.getvalue().splitlines()[1:] == ["epoch 3  step 3  loss 0.5000  10 steps/s"]
    shown.printing()
    assert len(stream.getvalue().splitlines()) == 2
    shown.wrote(record(4))
    clock.now += 1.0
    shown.printing()
    assert stream.getvalue().splitlines()[2:] == ["epoch 4  step 4  loss 0.5000  10 steps/s"]
    shown.close()
    assert len(stream.getvalue().splitlines()) == 3


def test_steps_a_second_are_those_of_the_last_one_or_two_seconds() -> None:
    shown, stream, clock = progress(live=False)
    for step, seconds in ((1, 0.0), (2, 100.0), (3, 4.0), (103, 1.0), (1, 50.0), (3, 0.5)):
        clock.now += seconds
        shown.wrote(record(step))
        shown.flushed()
    shown.close()
    found = [line.split("  ")[3:] for line in stream.getvalue().splitlines()]
    assert found == [[], ["0.01 steps/s"], ["0.25 steps/s"], ["100 steps/s"], [], ["4 steps/s"]]


# ---- the line on a terminal


def test_a_line_that_changes_on_a_terminal() -> None:
    shown, stream, clock = progress(live=True)
    shown.wrote(record(1))
    clock.now += 0.05
    shown.wrote(record(2))
    assert not stream.getvalue()
    clock.now += 0.05
    shown.wrote(record(3, loss=0.25))
    assert drawn(stream.getvalue()) == ["epoch 1  step 3  loss 0.2500  20 steps/s  0:00:00"]
    clock.now += 3700
    shown.polled()
    assert drawn(stream.getvalue())[1:] == ["epoch 1  step 3  loss 0.2500  20 steps/s  1:01:40"]
    shown.close()
    assert drawn(stream.getvalue())[-1] == "epoch 1  step 3  loss 0.2500  20 steps/s  1:01:40\n"


def test_the_line_gives_way_to_what_is_printed() -> None:
    shown, stream, clock = progress(live=True)
    shown.wrote(record(1))
    clock.now += 0.2
    shown.polled()
    shown.printing()
    before = stream.getvalue()
    assert before.startswith(HIDE_CURSOR) and SHOW_CURSOR in before and before.endswith("\x1b[2K")
    shown.flushed()
    shown.printing()
    left = stream.getvalue()[len(before) :]
    assert drawn(left)[-1] == "epoch 1  step 1  loss 0.5000  0:00:00\n" and left.endswith(SHOW_CURSOR)
    shown.printing()
    clock.now += 0.2
    shown.polled()
    shown.close()
    assert stream.getvalue() == before + left


def test_a_run_that_logs_nothing_shows_nothing() -> None:
    for live in (True, False):
        shown, stream, clock = progress(live)
        clock.now += 1.0
        shown.polled()
        shown.printing()
        shown.close()
        assert not stream.getvalue()


# ---- what is shown


def test_the_epoch_is_the_programs_where_it_names_one() -> None:
    shown, stream, _ = progress(live=False)
    shown.loaded("a.pt", {}, {"epochs": 7})
    shown.wrote(record(1))
    shown.flushed()
    shown.wrote(record(2))
    shown.close()
    assert stream.getvalue() == "epoch 8  step 1  loss 0.5000\nepoch 9  step 2  loss 0.5000\n"
    shown, stream, _ = progress(live=False)
    shown.wrote({"epoch": 5, **record(1)})
    shown.flushed()
    assert stream.getvalue() == "epoch 5  step 1  loss 0.5000\n"


def test_records_count_as_steps_where_they_name_none() -> None:
    shown, stream, _ = progress(live=False)
    for _ in range(3):
        shown.wrote({"loss": 1.0, "rate": 0.1})
    shown.flushed()
    assert stream.getvalue() == "epoch 1  step 3  loss 1.0000\n"


@pytest.mark.parametrize("live", [False, True])
def test_a_notice_is_one_line_without_what_a_terminal_obeys(live: bool) -> None:
    """Names in it may be a hostile file's."""
    shown, stream, _ = progress(live=live)
    shown.told("a.pt: m: 1 unexpected: \x1b[31mred\n\x07\u202e")
    assert stream.getvalue().endswith("note: a.pt: m: 1 unexpected: \ufffd[31mred\ufffd\ufffd\ufffd\n")


def test_a_finished_run_is_told() -> None:
    shown, stream, _ = progress(live=False)
    shown.loaded("a.pt", {"sink": MemorySink()}, {})
    shown.close()
    assert stream.getvalue() == "a.pt: the run that was saved is finished already; nothing was done\n"
    shown, stream, _ = progress(live=False)
    shown.loaded("a.pt", {"sink": MemorySink()}, {})
    shown.wrote(record(1))
    shown.close()
    assert "finished" not in stream.getvalue()
    shown, stream, _ = progress(live=False)
    shown.loaded("a.pt", {"m": object()}, {})
    shown.close()
    assert not stream.getvalue()


# ---- a real terminal

TRAINS = """
data Row:
    step: int
    loss: float

fn main(steps: int):
    sink = jsonl("rows.jsonl")
    for n in 0..steps:
        write(sink, Row(step=n + 1, loss=0.5))
    flush(sink)
    print("done")
"""


class Terminal:
    """A command whose streams are a terminal of 60 columns."""

    def __init__(self, folder: Path, *words: str) -> None:
        self._ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "60"}
        command = [sys.executable, "-m", "shapescript", *words]
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        self.text = ""

    def read_until(self, found: Callable[[str], bool]) -> None:
        """Reads till what was written satisfies, or nothing writes any more."""
        while not found(self.text):
            try:
                self.text += os.read(self._ours, 1 << 16).decode()
            except OSError:  # the other side is closed
                break

    def wait(self) -> int:
        self.read_until(lambda text: False)
        os.close(self._ours)
        return self.process.wait()


def test_a_terminal_shows_the_line_and_keeps_its_cursor(tmp_path: Path) -> None:
    (tmp_path / "program.ss").write_text(TRAINS)
    terminal = Terminal(tmp_path, "run", "--engine=numpy", "program.ss", "--steps", "100")
    assert terminal.wait() == 0
    assert terminal.text.count(HIDE_CURSOR) == terminal.text.count(SHOW_CURSOR) > 0
    shown, printed = terminal.text.rsplit(SHOW_CURSOR, 1)
    assert re.fullmatch(r"epoch 1  step 100  loss 0\.5000  \d+ steps/s  0:00:\d\d\r\n", drawn(shown)[-1])
    assert printed == "done\r\n"


@pytest.mark.parametrize(("number", "status", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")])
def test_a_signal_leaves_a_terminal_as_it_was(tmp_path: Path, number: int, status: int, word: str) -> None:
    (tmp_path / "program.ss").write_text(TRAINS)
    terminal = Terminal(tmp_path, "run", "--engine=numpy", "program.ss", "--steps", "1000000000")
    terminal.read_until(lambda text: text.count(AGAIN) > 2)
    terminal.process.send_signal(number)
    assert terminal.wait() == status
    assert "Traceback" not in terminal.text
    shown, after = terminal.text.rsplit(SHOW_CURSOR, 1)
    assert HIDE_CURSOR not in after and after == f"shapescript: {word}\r\n"
    assert drawn(shown)[-1].startswith("epoch 1  step ") and shown.endswith("\r\n")


@pytest.mark.parametrize(("terminal", "loaded"), [(True, True), (False, False)])
def test_rich_is_loaded_for_a_terminal_only(terminal: bool, loaded: bool) -> None:
    code = f"""
import io, sys
from shapescript.progress import Progress
Progress(io.StringIO(), {terminal}).close()
assert ("rich" in sys.modules) is {loaded}
"""
    subprocess.run([sys.executable, "-c", code], check=True)
