"""The progress line: what it shows, how often, and that it gives way to what a program prints."""

from __future__ import annotations

import io
from typing import Any

from shapescript.progress import Progress
from shapescript.runtime.sinks import MemorySink


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


def test_plain_lines_at_flushes_at_most_one_a_second() -> None:
    shown, stream, clock = progress(live=False)
    for epoch in range(20):
        for step in range(10):
            shown.wrote(record(10 * epoch + step + 1))
            clock.now += 0.01
        shown.flushed()
    shown.close()
    lines = stream.getvalue().splitlines()
    assert lines[0] == "epoch 1  step 10  loss 0.5000  90 steps/s"
    assert lines[1] == "epoch 11  step 110  loss 0.5000  100 steps/s"
    assert lines[-1] == "epoch 20  step 200  loss 0.5000  100 steps/s"
    assert len(lines) == 3


def test_a_line_that_changes_on_a_terminal() -> None:
    shown, stream, clock = progress(live=True)
    shown.wrote(record(1))
    clock.now += 0.05
    shown.wrote(record(2))
    assert not stream.getvalue()
    clock.now += 0.05
    shown.wrote(record(3, loss=0.25))
    assert stream.getvalue() == "\r\x1b[Kepoch 1  step 3  loss 0.2500  20 steps/s"
    shown.printing()
    assert stream.getvalue().endswith("\r\x1b[K")
    clock.now += 0.2
    shown.polled()
    assert stream.getvalue().endswith("\r\x1b[Kepoch 1  step 3  loss 0.2500")
    shown.close()
    assert stream.getvalue().endswith("\n")


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
