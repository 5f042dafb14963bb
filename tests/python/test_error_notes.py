"""What a run that fails leaves in its logs: what it wrote before, and the error; and that going on takes the error out again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from chains import inside

import shapescript
from shapescript.cli import main

FAILS = """
data Line:
    step: int
    value: float

fn main(stop: int, carry_on: bool = false):
    sink = SINK
    mut step = 0
    if carry_on:
        step = load("run.pt", step=int, sink=sink)
    while step < 4:
        step = step + 1
        write(sink, Line(step=step, value=1.0))
        if step == 2:
            save("run.pt", step=step, sink=sink)
        k = 1 // (stop - step)
"""


LOGS = """
data Line:
    step: int

fn log(sink: LogSink, n: int):
    write(sink, Line(step=1 // n))
    write(sink, Line(step=1 // (n - 1)))
"""


def fails(folder: Path, sink: str, engine: str, *words: str) -> int:
    (folder / "fails.ss").write_text(FAILS.replace("SINK", sink))
    with inside(folder):
        return main(["run", "--engine", engine, "fails.ss", *words])


@pytest.mark.parametrize("engine", ["native", "numpy"])
def test_a_failing_run_leaves_its_error_in_the_log_and_goes_on_without_it(tmp_path: Path, engine: str) -> None:
    assert fails(tmp_path, 'jsonl("run.jsonl")', engine, "--stop", "3") == 1
    lines = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines[:3]] == [1, 2, 3]
    assert lines[3:] == [{"note": "error", "text": "R1106: 1 // 0 divides by zero"}]
    assert fails(tmp_path, 'jsonl("run.jsonl")', engine, "--stop", "-1", "--carry-on") == 0
    assert [json.loads(line)["step"] for line in (tmp_path / "run.jsonl").read_text().splitlines()] == [1, 2, 3, 4]
    kept = [json.loads(line) for line in (tmp_path / "run.jsonl.tail.1").read_text().splitlines()]
    assert kept[0]["step"] == 3 and kept[1]["note"] == "error"


def test_a_log_that_cannot_hold_a_remark_is_left_as_it_is(tmp_path: Path) -> None:
    assert fails(tmp_path, 'csv("run.csv")', "numpy", "--stop", "2") == 1
    assert len((tmp_path / "run.csv").read_text().splitlines()) == 3
    assert fails(tmp_path, 'tee(csv("run.csv"), jsonl("run.jsonl"))', "numpy", "--stop", "2") == 1
    assert (tmp_path / "run.jsonl").read_text().count('"note": "error"') == 1


def test_a_log_that_nothing_was_written_to_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that can't even load its checkpoint moves no old log aside."""
    (tmp_path / "run.jsonl").write_text('{"step": 1}\n')
    assert fails(tmp_path, 'jsonl("run.jsonl")', "numpy", "--stop", "2", "--carry-on") == 1
    assert "R1301" in capsys.readouterr().err
    assert (tmp_path / "run.jsonl").read_text() == '{"step": 1}\n' and not (tmp_path / "run.jsonl.1").exists()


@pytest.mark.parametrize("engine", ["native", "numpy"])
def test_from_python_a_call_that_fails_behind_a_record_says_so(tmp_path: Path, engine: Any) -> None:
    (tmp_path / "fails.ss").write_text(LOGS)
    program = shapescript.load(tmp_path / "fails.ss", engine=engine)
    sink = shapescript.MemorySink()
    for n in (0, 1):
        with pytest.raises(shapescript.ShapeScriptError, match="R1106"):
            program.log(sink, n)
    program.log(sink, 2)
    assert [repr(record) for record in sink.records] == [
        "Line(step=1)",
        "Note(note='error', text='R1106: 1 // 0 divides by zero')",
        "Line(step=0)",
        "Line(step=1)",
    ]
