"""`run --profile` and `run --trace`: what they print and write, however the program ends."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shapescript
from shapescript.cli import main

PROGRAM = """
dim K = 8

data Line:
    step: int

fn turned(x: [K K], turns: int) -> [K K]:
    mut y = x
    for i in 0..turns:
        y = relu(y @ x)
    return y

fn main(turns: int = 5, divisor: int = 1, endless: bool = false):
    sink = jsonl("lines.jsonl")
    x = zeros[K K] + 0.25
    mut step = 0
    while step < turns or endless:
        y = turned(x, 3)
        step = step + 1
        write(sink, Line(step=step))
        flush(sink)
        if step == turns:
            print("largest", max(y @ zeros[K], over=K))
    print("rest", 7 % divisor)
"""

PRODUCT = "fused_contraction f32[K K] f32[K K] -> f32[K K]"
COUNTED = re.compile(r"^ +([\d.]+) +([\d.]+) +(\d+) +(?:(\S+) +(\S+) +(\d+%|-) +(\S+) +(\d+%|-) +)?([^\d ].*)$", re.MULTILINE)
FOREGROUND = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.executable, [sys.executable, "-m", "shapescript", *sys.argv[1:]])
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.ss").write_text(PROGRAM)
    return tmp_path


def tables(text: str) -> tuple[dict[str, tuple[float, float, int]], dict[str, tuple[float, float, int]]]:
    """The lines and the kernels of a report: milliseconds, share and calls."""
    _, by_line, by_kernel, _ = re.split(r"^ +ms +%.*$|^outside.*$", text, flags=re.MULTILINE)
    found = []
    for part in (by_line, by_kernel):
        found.append({name: (float(ms), float(share), int(calls)) for ms, share, calls, *_, name in COUNTED.findall(part)})
    return found[0], found[1]


def test_a_profile_is_shown_behind_the_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "program.ss"]) == 0
    plain = capsys.readouterr()
    assert main(["run", "--profile", "program.ss"]) == 0
    out, err = capsys.readouterr()
    assert out == plain.out and "profile:" not in plain.err
    lines, kernels = tables(err)
    assert lines["program.ss:10: y = relu(y @ x)"][2] == kernels[PRODUCT][2] == 15
    assert kernels["write LogSink"][2] == lines["program.ss:20: write(sink, Line(step=step))"][2] == 5
    for table in (lines, kernels):
        assert sum(share for _, share, _ in table.values()) == pytest.approx(100, abs=0.1 * len(table))
        assert [ms for ms, _, _ in table.values()] == sorted((ms for ms, _, _ in table.values()), reverse=True)
    assert re.search(r"this machine, one core: [\d.]+ GFLOP/s \([\d.]+ in f64\), [\d.]+ GB/s", err)
    assert re.findall(r"^ +[\d.]+  (\w+)$", err.partition("outside of native code")[2], re.MULTILINE) == [
        *(["start"] if Path("/proc/self/stat").exists() else []),
        "checking",
        "compiling",
        "Python",
    ]


def test_a_failed_run_shows_what_ran(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--profile", "program.ss", "--divisor", "0"]) == 1
    _, err = capsys.readouterr()
    assert tables(err)[1][PRODUCT][2] == 15 and "error[R1106]" in err


def test_a_program_with_errors_has_no_profile(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "wrong.ss").write_text("fn main():\n    print(missing)\n")
    assert main(["run", "--profile", "wrong.ss"]) == 1
    assert "profile:" not in capsys.readouterr().err


def test_an_interrupted_run_shows_what_ran(here: Path) -> None:
    command = [sys.executable, "-c", FOREGROUND, "run", "--profile", "--trace", "trace.json", "program.ss", "--endless"]
    process = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    log = here / "lines.jsonl"
    while process.poll() is None and not (log.exists() and log.stat().st_size > 1000):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130, err
    assert tables(err)[1][PRODUCT][2] >= 15 and err.endswith("shapescript: interrupted\n")
    assert_well_formed(json.loads((here / "trace.json").read_text()))


@pytest.mark.parametrize("option", [["--profile"], ["--trace", "trace.json"]])
def test_the_reference_evaluator_has_no_profile(here: Path, capsys: pytest.CaptureFixture[str], option: list[str]) -> None:
    assert main(["run", "--engine=numpy", *option, "program.ss"]) == 2
    assert "can't be given with --engine numpy" in capsys.readouterr().err
    assert not (here / "trace.json").exists() and not (here / "lines.jsonl").exists()


def test_options_behind_the_file_are_refused_with_their_place(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "program.ss", "--profile"]) == 2
    assert "stands before the file" in capsys.readouterr().err


# ---- traces


def assert_well_formed(trace: Mapping[str, Any]) -> list[dict[str, Any]]:
    """By the rules of Chrome's trace events; gives the complete ones."""
    process = {event["pid"] for event in trace["traceEvents"]}
    assert len(process) == 1
    complete: list[dict[str, Any]] = []
    named = set()
    for event in trace["traceEvents"]:
        assert isinstance(event["name"], str) and isinstance(event["tid"], int) and isinstance(event["args"], dict)
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name") and isinstance(event["args"]["name"], str)
            named.add(event["tid"])
        else:
            assert event["ph"] == "X" and isinstance(event["cat"], str) and event["ts"] >= 0 and event["dur"] >= 0
            complete.append(event)
    assert named >= {event["tid"] for event in complete}
    assert [event["ts"] for event in complete] == sorted(event["ts"] for event in complete)
    for thread in named:  # viewers need events of a thread to lie one in another, or apart
        open_: list[float] = []
        for event in (event for event in complete if event["tid"] == thread):
            end = round(event["ts"] + event["dur"], 3)
            while open_ and open_[-1] <= event["ts"]:
                open_.pop()
            assert not open_ or end <= open_[-1]
            open_.append(end)
    return complete


def test_a_trace_has_an_event_for_each_operation(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--trace", "trace.json", "program.ss"]) == 0
    assert "profile:" not in capsys.readouterr().err
    events = assert_well_formed(json.loads((here / "trace.json").read_text()))
    names = [event["name"] for event in events]
    assert names.count("fused_contraction program.ss:10") == 15 and names.count("write program.ss:20") == 5
    assert names.count("fn main") == names.count("checking") == names.count("compiling") == 1
    product = events[names.index("fused_contraction program.ss:10")]
    assert product["args"] == {"line": "program.ss:10", "text": "y = relu(y @ x)", "shapes": "f32[K K] f32[K K] -> f32[K K]"}


def test_a_trace_that_cannot_be_written_is_told_before_the_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--trace", "missing/trace.json", "program.ss"]) == 1
    assert "missing/trace.json" in capsys.readouterr().err and not (here / "lines.jsonl").exists()


def test_calls_of_several_threads_are_told_apart(here: Path) -> None:
    program = shapescript.load("program.ss")
    x = np.ones((8, 8), np.float32)
    with shapescript.profile() as p:
        threads = [threading.Thread(target=lambda: [program.turned(x, 2) for _ in range(3)]) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    p.write_trace("trace.json")
    events = assert_well_formed(json.loads((here / "trace.json").read_text()))
    calls = [event["tid"] for event in events if event["name"] == "fn turned"]
    assert p.calls == 6 and sorted(calls.count(thread) for thread in set(calls)) == [3, 3]


def test_a_long_run_keeps_the_first_events(here: Path) -> None:
    program = shapescript.load("program.ss")
    x = np.ones((8, 8), np.float32)
    with shapescript.profile(events=20) as p:
        for _ in range(30):
            program.turned(x, 10)
    p.write_trace("trace.json")
    assert len(assert_well_formed(json.loads((here / "trace.json").read_text()))) <= 23
    assert {row.kernel.name: row.calls for row in p.rows}["fused_contraction"] == 300
