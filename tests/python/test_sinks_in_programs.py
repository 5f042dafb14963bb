"""Sinks that programs make: both engines write the same bytes, and hold a file only while a call runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shapescript
from shapescript.runtime.read_log import read_log
from shapescript.runtime.tensorboard_sink import FILE_NAME

PROGRAM = """
data Row:
    step: int
    loss: float
    half: f32[]
    ok: bool
    note: str

data Other:
    x: int

fn row(step: int) -> Row:
    return Row(step=step, loss=1.0 / float(step), half=f32(0.1) * f32(step), ok=step > 1, note="a,b")

fn all_kinds(steps: int, go_on: bool) -> LogSink:
    kept = memory()
    sink = tee(kept, jsonl("run.jsonl", append=go_on), tee(csv("run.csv", go_on), tensorboard("runs")))
    for step in 1..steps + 1:
        write(sink, row(step))
    flush(sink)
    return kept

fn two_types():
    sink = csv("two.csv")
    write(sink, row(1))
    write(sink, Other(x=1))

fn twice(sink: LogSink):
    write(tee(sink, sink), row(1))

fn two_sinks():
    a = jsonl("same.jsonl")
    b = jsonl("same.jsonl", append=true)
    write(a, row(1))
    write(b, row(2))

fn opened(path: str) -> LogSink:
    sink = jsonl(path)
    write(sink, Other(x=1))
    return sink

fn more(sink: LogSink, x: int):
    write(sink, Other(x=x))

fn fails(x: [n]) -> LogSink:
    sink = csv("failing.csv")
    write(sink, Other(x=1))
    write(sink, Other(x=int(max(x, over=n))))
    return sink

fn until(steps: int, save_at: int, carry_on: bool):
    sink = tee(jsonl("run.jsonl"), tee(csv("run.csv"), tensorboard("runs")))
    mut done = 0
    if carry_on:
        done = load("run.pt", done=int, sink=sink)
    for step in done + 1..steps + 1:
        write(sink, row(step))
        if step == save_at:
            save("run.pt", done=step, sink=sink)
"""
FILES = ("run.jsonl", "run.csv", f"runs/{FILE_NAME}")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def names(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())


def test_all_kinds_write_the_same_in_both_engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "program.ss").write_text(PROGRAM)
    found = []
    for engine in ("native", "numpy"):
        (tmp_path / engine).mkdir()
        monkeypatch.chdir(tmp_path / engine)
        program: Any = shapescript.load(tmp_path / "program.ss", engine=engine)  # type: ignore[arg-type]
        kept = program.all_kinds(3, False)
        assert isinstance(kept, shapescript.MemorySink) and names(Path()) == sorted(FILES)
        found.append([*(Path(file).read_bytes() for file in FILES), repr(kept.records)])
    assert found[0] == found[1]
    assert found[0][1].splitlines()[1] == b'1,1.0,0.10000000149011612,false,"a,b"'
    assert list(read_log("run.csv")) == list(read_log("run.jsonl")) == kept.records


def test_appending_goes_on_and_without_it_the_old_file_moves(program: Any) -> None:
    program.all_kinds(2, False)
    program.all_kinds(1, True)
    assert [record.step for record in read_log("run.jsonl")] == [record.step for record in read_log("run.csv")] == [1, 2, 1]
    assert names(Path()) == sorted([*FILES, "runs/events.1"])
    program.all_kinds(1, False)
    assert len(read_log("run.csv")) == 1 and len(read_log("run.csv.1")) == 3


def test_mistakes_are_coded_errors_at_their_place(program: Any) -> None:
    for call, code, words in (
        (program.two_types, "R1403", ["step, loss, half, ok, note", "Other with x"]),
        (program.two_sinks, "R1402", ["another sink of this process"]),
        (lambda: program.twice(shapescript.MemorySink()), "R1004", ["given twice"]),
    ):
        with pytest.raises(shapescript.ShapeScriptError) as raised:
            call()
        assert raised.value.code == code and raised.value.span is not None
        assert all(word in raised.value.message for word in words)
    assert [record.step for record in read_log("two.csv")] == [1]
    assert names(Path()) == ["same.jsonl", "two.csv"]


def test_what_a_call_opened_is_let_go_when_it_ends(program: Any) -> None:
    sink = program.opened("kept.jsonl")
    assert names(Path()) == ["kept.jsonl"]  # no lock
    program.more(sink, 2)
    assert names(Path()) == ["kept.jsonl"]
    sink.write("Other", {"x": 3})
    assert names(Path()) == ["kept.jsonl", "kept.jsonl.lock"]
    program.more(sink, 4)
    assert [record.x for record in read_log("kept.jsonl")] == [1, 2, 3, 4] and names(Path()) == ["kept.jsonl"]
    with Path("kept.jsonl").open("a") as file:
        file.write("{}\n")
    with pytest.raises(shapescript.LogError, match="R1402"):
        program.more(sink, 5)


def test_a_sink_of_the_callers_stays_open(program: Any) -> None:
    sink = shapescript.jsonl("mine.jsonl")
    program.more(sink, 1)
    assert Path("mine.jsonl.lock").exists()
    sink.close()
    assert names(Path()) == ["mine.jsonl"]


def test_a_call_that_fails_lets_go_too(program: Any) -> None:
    for _ in range(2):
        with pytest.raises(shapescript.ShapeScriptError):
            program.fails(np.zeros(0, np.float32))
        assert [record.x for record in read_log("failing.csv")] == [1] and not Path("failing.csv.lock").exists()


def test_calls_inside_of_calls_and_of_other_threads_end_nothing_of_a_callers(program: Any) -> None:
    """A sink of the caller's calls the program again, and lets another thread do so, while the outer call goes on with its own log."""

    class Calling(shapescript.MemorySink):
        locks: list[bool]

        def write(self, record_name: str, fields: Any) -> None:
            inner = [program.opened("inner.jsonl")]
            thread = threading.Thread(target=lambda: inner.append(program.opened("other.jsonl")))
            thread.start()
            thread.join()
            self.locks = [Path(f"{name}.jsonl.lock").exists() for name in ("inner", "other")]
            super().write(record_name, fields)

    sink = Calling()
    program.more(sink, 1)
    # `inner` belongs to the outermost call of its thread, which still runs; `other` to a call that has ended.
    assert sink.locks == [True, False] and len(sink.records) == 1
    assert names(Path()) == ["inner.jsonl", "other.jsonl"]


def test_a_program_goes_on_where_its_checkpoint_was(program: Any) -> None:
    program.until(20, 0, False)
    whole = [Path(file).read_bytes() for file in FILES]
    for file in FILES:
        Path(file).unlink()
    program.until(15, 10, False)
    program.until(20, 0, True)
    assert [Path(file).read_bytes() for file in FILES] == whole
    assert [json.loads(line)["step"] for line in Path("run.jsonl.tail.1").read_text().splitlines()] == [11, 12, 13, 14, 15]
    assert Path("run.csv.tail.1").read_text().startswith("11,") and Path("runs/events.tail.1").exists()


def test_the_command_line_tells_of_a_run_that_writes_the_log(tmp_path: Path) -> None:
    (tmp_path / "main.ss").write_text('data Row:\n    x: int\n\nfn main():\n    sink = csv("a.csv")\n    write(sink, Row(x=1))\n')

    def run() -> tuple[int, str]:
        words = [sys.executable, "-m", "shapescript", "run", "--engine=numpy", "main.ss"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
        return done.returncode, done.stderr

    holder = shapescript.csv("a.csv")
    holder.write("Row", {"x": 0})
    status, told = run()
    assert status == 1 and "R1402" in told and f"process {os.getpid()}" in told and "Traceback" not in told
    holder.close()
    assert run()[0] == 0 and names(Path()) == ["a.csv", "a.csv.1", "main.ss"]
