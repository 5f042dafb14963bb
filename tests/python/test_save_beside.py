"""`save` in a program takes what is saved at once and writes it beside what follows: what is in the file is the state at the call."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
from checkpoint_samples import notices, state_hash
from fed_data import own_threads

import shapescript
from shapescript.runtime import restore, saving
from shapescript.runtime.files import replace_file
from shapescript.runtime.optimiser import AdamW
from shapescript.runtime.sinks import LogSink, MemorySink

PROGRAM = """
data Line:
    step: int

model Net:
    w: [8] = uniform(-1, 1)
    seen: f64[2 3] = ones

fn step(mut m: Net, mut opt: AdamW[Net], mode: Mode):
    l, g = value_and_grad(sum(dropout(m.w * m.w, 0.5, mode), over=8) + f32(sum(m.seen, over=(2, 3))), wrt=m)
    update(mut m, mut opt, g, lr=0.1)

fn run(mut m: Net, mut opt: AdamW[Net], mode: Mode, sink: LogSink, before: int, behind: int):
    for i in 0..before:
        step(mut m, mut opt, mode)
        write(sink, Line(step=opt.step))
    save("a.pt", m=m, opt=opt, mode=mode, sink=sink, w=m.w, step=opt.step)
    for i in 0..behind:
        step(mut m, mut opt, mode)
        write(sink, Line(step=opt.step))

fn save_and_load(m: Net, sink: LogSink) -> int:
    mut found = 0
    for i in 0..3:
        save("a.pt", m=m, i=i)
        write(sink, Line(step=i))
        found = load("a.pt", i=int)
    return found

fn save_and_find(m: Net, sink: LogSink) -> str:
    save("a.pt", m=m, step=3)
    write(sink, Line(step=0))
    return latest("*.pt")

fn twice(m: Net, sink: LogSink):
    save("a.pt", m=m, i=1)
    write(sink, Line(step=1))
    save("b.pt", m=m, i=2)

fn refused(m: Net, sink: LogSink):
    save("a.pt", m=m, i=1)
    write(sink, Line(step=1))
    load("a.pt", i=2)
"""

Replace = Callable[[Path, Callable[[BinaryIO], None]], None]


class Told(MemorySink):
    """A sink that does something at each record."""

    def __init__(self, act: Callable[[int], None]) -> None:
        super().__init__()
        self._act = act

    def write(self, record_name: str, fields: Any) -> None:
        super().write(record_name, fields)
        self._act(len(self.records))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Writer:
    """Writing that waits until it is let go: `started` says that it has begun."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> None:
        self.started, self.free, self.error = threading.Event(), threading.Event(), error
        self.threads: list[threading.Thread] = []
        monkeypatch.setattr(saving, "replace_file", self)

    def __call__(self, path: Path, write: Callable[[BinaryIO], None]) -> None:
        self.threads.append(threading.current_thread())
        self.started.set()
        assert self.free.wait(60)
        if self.error is not None:
            raise self.error
        replace_file(path, write)


def test_what_is_written_is_the_state_at_the_call(program: Any, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def made() -> tuple[Any, AdamW, shapescript.Train]:
        m = program.Net(seed=3)
        return m, AdamW(m), shapescript.Train(seed=5)

    m, opt, mode = made()
    sink: LogSink = MemorySink()
    program.run(m, opt, mode, sink, 4, 0)
    wanted, whole = state_hash(m, opt, mode, sink), Path("a.pt").read_bytes()

    writer = Writer(monkeypatch)
    seen: list[bool] = []

    def act(records: int) -> None:
        if records == 54:  # 50 more steps have been done
            seen.append(writer.started.wait(60) and not Path("a.pt").exists())
            writer.free.set()

    Path("a.pt").unlink()
    m, opt, mode = made()
    sink = Told(act)
    program.run(m, opt, mode, sink, 4, 50)
    assert seen == [True] and opt.step == 54 and state_hash(m, opt, mode, sink) != wanted
    assert writer.threads[0] is not threading.current_thread()
    assert Path("a.pt").read_bytes() == whole
    layouts = m.layout
    fresh, fresh_sink = shapescript.Train(seed=5), MemorySink()
    requests: dict[str, Any] = {"m": restore.ModelType(layouts), "opt": restore.OptimiserType(AdamW, layouts)}
    found_m, found_opt = restore.restore("a.pt", {**requests, "mode": fresh, "sink": fresh_sink})
    assert state_hash(found_m, found_opt, fresh, fresh_sink) == wanted


def test_a_load_waits_for_the_save_before_it(program: Any, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(monkeypatch)
    sink = Told(lambda records: writer.free.set())
    assert program.save_and_load(program.Net(seed=1), sink) == 2 and len(writer.threads) == 3


def test_a_search_waits_for_the_save_before_it(program: Any, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(monkeypatch)
    assert program.save_and_find(program.Net(seed=1), Told(lambda records: writer.free.set())) == "a.pt"


def test_the_end_of_a_call_waits(program: Any, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(monkeypatch)
    m = program.Net(seed=1)
    threading.Timer(0, lambda: writer.started.wait(60) and writer.free.set()).start()
    program.run(m, AdamW(m), shapescript.Train(seed=1), MemorySink(), 1, 0)
    assert Path("a.pt").exists() and not any(thread.is_alive() for thread in writer.threads)


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("function", ["twice", "save_and_load", "save_and_find"])
def test_an_error_is_raised_at_the_next_wait_with_the_saves_place(
    program: Any, here: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    writer = Writer(monkeypatch, FULL)
    with pytest.raises(shapescript.CheckpointUnwritable) as raised:
        getattr(program, function)(program.Net(seed=1), Told(lambda records: writer.free.set()))
    span: Any = raised.value.span
    assert raised.value.errno == errno.ENOSPC and span.text.startswith('save("a.pt"') and os.listdir(here) == []


def test_an_error_is_raised_at_the_end_of_the_call(program: Any, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(monkeypatch, FULL)
    writer.free.set()
    m = program.Net(seed=1)
    with pytest.raises(shapescript.CheckpointUnwritable, match=r"R1304: a.pt: .*No space left"):
        program.run(m, AdamW(m), shapescript.Train(seed=1), MemorySink(), 1, 3)
    writer.error = None  # nothing of the failed save is left for later calls
    program.run(m, AdamW(m), shapescript.Train(seed=1), MemorySink(), 1, 3)
    assert Path("a.pt").exists()


class Stop(Exception):
    """What ends a call from outside."""


@pytest.mark.parametrize("kind", [Stop, KeyboardInterrupt])
def test_a_call_that_is_ended_by_something_else_leaves_the_save_whole(
    program: Any, here: Path, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]
) -> None:
    writer = Writer(monkeypatch)

    def stop(records: int) -> None:
        writer.free.set()
        raise kind

    with pytest.raises(kind):
        program.twice(program.Net(seed=1), Told(stop))
    assert shapescript.load_checkpoint("a.pt")["i"] == 1 and not any(thread.is_alive() for thread in writer.threads)


def test_an_error_of_the_save_behind_another_one_is_told(program: Any, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(monkeypatch, FULL)

    def stop(records: int) -> None:
        writer.free.set()
        raise Stop

    with notices() as told, pytest.raises(Stop):
        program.twice(program.Net(seed=1), Told(stop))
    assert len(told) == 1 and "a.pt: the checkpoint can't be written: No space left" in told[0]


def test_a_refused_load_behind_a_save_leaves_the_save(program: Any, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(monkeypatch)
    with pytest.raises(shapescript.CheckpointError, match="R1303"):
        program.refused(program.Net(seed=1), Told(lambda records: writer.free.set()))
    assert shapescript.load_checkpoint("a.pt")["i"] == 1


def test_each_threads_calls_wait_for_their_own_saves(program: Any, here: Path) -> None:
    errors: list[BaseException] = []

    def run(name: str) -> None:
        try:
            for _ in range(10):
                program.save_and_load(program.Net(seed=1), MemorySink())
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(str(number),)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_without_threads_it_is_written_at_once(program: Any, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(saving._Writing, "start", refuse)
    assert program.save_and_load(program.Net(seed=1), MemorySink()) == 2


@pytest.mark.parametrize("begins", [False, True])
def test_a_save_whose_beginning_is_interrupted_is_waited_for(
    program: Any, here: Path, monkeypatch: pytest.MonkeyPatch, begins: bool
) -> None:
    """A Ctrl-C while the thread is begun, before and after it is: the file is whole when the call is over, and no older save follows it."""
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        if begins:
            start(thread)
        raise KeyboardInterrupt

    m, sink = program.Net(seed=1), MemorySink()
    with monkeypatch.context() as patched:
        patched.setattr(saving._Writing, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            program.twice(m, sink)
    assert shapescript.load_checkpoint("a.pt")["i"] == 1 and not (here / "b.pt").exists() and not sink.records
    program.twice(m, sink)
    assert shapescript.load_checkpoint("b.pt")["i"] == 2 and sorted(path.name for path in here.glob("*.pt")) == ["a.pt", "b.pt"]


def test_from_python_a_save_is_done_when_it_returns(here: Path) -> None:
    before = own_threads()
    shapescript.save_checkpoint("a.pt", w=np.zeros(3))
    assert Path("a.pt").exists() and own_threads() == before
