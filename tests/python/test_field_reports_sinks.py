"""What breaks elsewhere with logs, and must not here: reports 68 to 73 of users of other systems, each as a test of what must hold."""

from __future__ import annotations

import csv as reader
import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

import shapescript

PROGRAM = """
data Row:
    step: int
    loss: float

data Wide:
    step: int
    loss: float
    lr: float

fn run(steps: int, save_at: int, stop_at: int, carry_on: bool):
    lines = jsonl("run.jsonl")
    rows = csv("run.csv")
    mut done = 0
    if carry_on:
        done = load("run.pt", done=int, lines=lines, rows=rows)
    for step in done + 1..steps + 1:
        write(lines, Row(step=step, loss=1.0 / float(step)))
        write(rows, Row(step=step, loss=1.0 / float(step)))
        if step == save_at:
            save("run.pt", done=step, lines=lines, rows=rows)
        if step == stop_at:
            print("stopped")

fn other_columns():
    rows = csv("run.csv")
    done = load("run.pt", done=int, rows=rows)
    write(rows, Wide(step=done + 1, loss=0.5, lr=0.1))

fn not_finite(zero: float):
    lines = jsonl("run.jsonl")
    rows = csv("run.csv")
    write(lines, Row(step=1, loss=zero / zero))
    write(lines, Row(step=2, loss=1.0 / zero))
    write(lines, Row(step=3, loss=-1.0 / zero))
    write(rows, Row(step=1, loss=zero / zero))
    write(rows, Row(step=2, loss=1.0 / zero))
    write(rows, Row(step=3, loss=-1.0 / zero))

fn failing(x: [n], steps: int):
    lines = jsonl("run.jsonl")
    rows = csv("run.csv")
    for step in 1..steps + 1:
        write(lines, Row(step=step, loss=0.5))
        write(rows, Row(step=step, loss=0.5))
        if step == steps:
            write(rows, Row(step=step, loss=float(max(x, over=n))))
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def strict_json(path: str) -> list[dict[str, Any]]:
    def forbidden(name: str) -> NoReturn:
        raise AssertionError(name)

    content = Path(path).read_text("utf-8", "strict")
    assert content.endswith("\n")
    return [json.loads(line, parse_constant=forbidden) for line in content.splitlines()]


def strict_csv(path: str) -> list[list[str]]:
    with Path(path).open(newline="", encoding="utf-8") as file:
        return list(reader.reader(file, strict=True))


def test_68_a_log_torn_at_any_byte_costs_at_most_that_record() -> None:
    """With a checkpoint before the torn record, and, without one, appending to what is there."""
    sink = shapescript.jsonl("run.jsonl")
    for step in range(3):
        sink.write("Row", {"step": step, "note": "é漢"})
    saved = sink.position()
    sink.write("Row", {"step": 3, "note": "é漢"})
    sink.close()
    whole = Path("run.jsonl").read_bytes()
    goings: list[Callable[[], shapescript.JsonLinesSink]] = [
        lambda: _restored(shapescript.jsonl("run.jsonl"), saved),
        lambda: shapescript.jsonl("run.jsonl", append=True),
    ]
    for length in range(saved["bytes"], len(whole)):
        for going in goings:
            Path("run.jsonl").write_bytes(whole[:length])
            resumed = going()
            for step in (3, 4, 5):
                resumed.write("Row", {"step": step, "note": "é漢"})
            resumed.close()
            assert [row["step"] for row in strict_json("run.jsonl")] == [0, 1, 2, 3, 4, 5]


def _restored(sink: shapescript.JsonLinesSink, position: dict[str, Any]) -> shapescript.JsonLinesSink:
    sink.restore(position)
    return sink


def test_69_a_resumed_run_logs_each_step_once(tmp_path: Path) -> None:
    """To 15 with a checkpoint at 10, killed, resumed to 20; the tail of the old run lies beside."""
    (tmp_path / "program.ss").write_text(PROGRAM)
    program: Any = shapescript.load(tmp_path / "program.ss", engine="numpy")
    kill = "import os, sys, builtins, shapescript\nprogram = shapescript.load('program.ss', engine='numpy')\n"
    kill += "builtins.print = lambda *words, **named: os.kill(os.getpid(), 9)\nprogram.run(10, 10, 0, False)\nprogram.run(20, 0, 15, True)"
    killed = subprocess.run([sys.executable, "-c", kill], timeout=120, check=False)
    assert killed.returncode == -signal.SIGKILL and len(strict_json("run.jsonl")) == 15
    program.run(20, 0, 0, True)
    steps = list(range(1, 21))
    assert [row["step"] for row in strict_json("run.jsonl")] == steps
    assert [int(row[0]) for row in strict_csv("run.csv")[1:]] == steps and strict_csv("run.csv")[0] == ["step", "loss"]
    assert [row["step"] for row in strict_json("run.jsonl.tail.1")] == list(range(11, 16))
    assert [int(row[0]) for row in strict_csv("run.csv.tail.1")] == list(range(11, 16))


def test_70_what_is_not_finite_is_valid_and_told_apart(program: Any) -> None:
    program.not_finite(0.0)
    assert [row["loss"] for row in strict_json("run.jsonl")] == ["NaN", "Infinity", "-Infinity"]
    assert [row[1] for row in strict_csv("run.csv")[1:]] == ["NaN", "Infinity", "-Infinity"]
    for path in ("run.jsonl", "run.csv"):
        losses = [record.loss for record in shapescript.read_log(path)]
        assert math.isnan(losses[0]) and losses[1:] == [math.inf, -math.inf]


def test_71_the_header_has_all_columns_at_once_and_stands_there_once(program: Any) -> None:
    Path("run.csv").write_bytes(b"")  # an existing empty file
    program.run(3, 2, 0, False)
    program.run(4, 0, 0, True)
    assert Path("run.csv").read_text().count("step,loss\n") == 1 and len(strict_csv("run.csv")) == 5
    before = Path("run.csv").read_bytes()
    with pytest.raises(shapescript.LogError, match=r"R1403.*step, loss;.*step, loss, lr"):
        program.other_columns()
    assert before.startswith(Path("run.csv").read_bytes())


def test_72_a_step_that_fails_keeps_what_was_logged_before(program: Any) -> None:
    import numpy as np

    with pytest.raises(shapescript.ShapeScriptError, match="R1103") as raised:
        program.failing(np.zeros(0, np.float32), 4)
    records = [row for row in strict_json("run.jsonl") if "step" in row]
    assert [row["step"] for row in records] == [1, 2, 3, 4] and [row[0] for row in strict_csv("run.csv")[1:]] == ["1", "2", "3", "4"]
    (note,) = [row for row in strict_json("run.jsonl") if "step" not in row]
    assert note == {"note": "error", "text": str(raised.value)}


@pytest.mark.parametrize("kind", ["jsonl", "csv", "tensorboard"])
def test_72_what_was_written_before_a_kill_is_on_the_disk(kind: str) -> None:
    code = f"""
import os, shapescript
sink = shapescript.{kind}("log")
for step in range(5):
    sink.write("Row", {{"step": step}})
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", code], timeout=60, check=False)
    if kind == "tensorboard":
        from shapescript.runtime.event_frames import whole_frames
        from shapescript.runtime.tensorboard_sink import FILE_NAME

        with Path("log", FILE_NAME).open("rb") as file:
            assert len(list(whole_frames(file))) == 1 + 5
    else:
        assert [record.step for record in shapescript.read_log("log")] == [0, 1, 2, 3, 4] and not shapescript.read_log("log").torn


def test_73_a_second_run_is_refused_and_a_killed_one_is_not_in_the_way() -> None:
    code = """
import sys, shapescript
sink = shapescript.jsonl("run.jsonl")
try:
    sink.write("Row", {"step": 1})
except shapescript.LogError as error:
    print(error, flush=True)
    sys.exit(1)
print("writing", flush=True)
sys.stdin.readline()
"""

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    runs = [start(), start()]
    told = [run.stdout.readline() for run in runs if run.stdout]
    (first,) = [run for run, line in zip(runs, told, strict=True) if line == "writing\n"]
    (refusal,) = [line for line in told if line != "writing\n"]
    assert refusal.startswith("R1402") and f"process {first.pid}" in refusal and os.path.exists("run.jsonl.lock")
    first.kill()
    first.wait()
    third = start()
    assert third.stdout and third.stdout.readline() == "writing\n"
    for run in (*runs, third):
        run.communicate()
    assert strict_json("run.jsonl") == strict_json("run.jsonl.1") == [{"step": 1}]
    assert sorted(os.listdir()) == ["run.jsonl", "run.jsonl.1"]
