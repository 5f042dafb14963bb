"""What breaks elsewhere when a run goes on, and what must hold here. Each test is named after what must hold. Reports 18 and 19 are in
test_field_reports_windows.py, 30, that signals end a run in every phase, in test_signals.py; test_chains.py has longer chains of stops."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chains import inside
from fed_data import Slow, slow
from fixtures import ROOT
from resume_programs import BATCH, EPOCHS, ROWS, STEPS, TRAINING, files, rows_of

import shapescript
from shapescript.runtime.dataset import Dataset
from shapescript.runtime.sources import Arrays

Run = Callable[..., dict[str, bytes]]


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("program") / "program.ss"
    path.write_text(TRAINING)
    return shapescript.load(path)


@pytest.fixture(scope="module")
def examples(training: Any) -> Any:
    return rows_of(training)


@pytest.fixture
def run(training: Any, examples: Any, tmp_path_factory: pytest.TempPathFactory, capfd: pytest.CaptureFixture[str]) -> Run:
    """Links of a run in a folder of its own; gives the files that it leaves."""

    def run(*stops: int, rows: Any = None, prefetch: int = 0, evaluate: int = 0, other: int = 0) -> dict[str, bytes]:
        folder = tmp_path_factory.mktemp("run")
        with inside(folder):
            for link, stop in enumerate(stops):
                # What is done apart is done behind the load of the last link.
                last = other if link == len(stops) - 1 else 0
                sink = shapescript.jsonl("run.jsonl")
                training.go(examples if rows is None else rows, sink, stop, prefetch, evaluate, last, link > 0)
                sink.close()
        return files(folder)

    return run


@pytest.fixture
def whole(run: Run) -> dict[str, bytes]:
    return run(STEPS)


def lines(left: dict[str, bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in left["run.jsonl"].splitlines()]


def test_11_a_run_that_goes_on_within_an_epoch_has_the_ids_of_one_that_does_not_stop(
    run: Run, whole: dict[str, bytes], examples: Any
) -> None:
    wanted = [int(row) for epoch in range(EPOCHS) for row in examples.shuffle(epoch).rows(0, ROWS)]
    assert [row for line in lines(whole) for row in _rows(line["rows"])] == wanted
    for stop in range(STEPS + 1):
        assert run(stop, STEPS) == whole


def _rows(code: int) -> list[int]:
    return [code // 100**place % 100 for place in reversed(range(BATCH))]


def test_12_each_resume_of_a_chain_is_right_at_epoch_ends_too(run: Run, whole: dict[str, bytes]) -> None:
    assert run(3, 7, 16, 17, 32, 33, STEPS) == whole
    assert run(3, 7, 8, 9, 16, 17, STEPS) == whole
    assert [line["batch"] for line in lines(whole)] == [*range(ROWS // BATCH)] * EPOCHS


def test_12_loading_and_saving_without_a_step_changes_no_byte(run: Run) -> None:
    for stop in (0, 7, 16, STEPS):
        assert run(stop, stop, stop) == run(stop)


@pytest.mark.parametrize("other", [1, 2, 3])
def test_13_what_is_made_between_the_load_and_the_first_step_changes_nothing(run: Run, whole: dict[str, bytes], other: int) -> None:
    for stop in (0, 5, 16, 47):
        assert run(stop, STEPS, other=other) == whole


def test_14_the_rate_of_a_schedule_goes_on(run: Run, whole: dict[str, bytes]) -> None:
    rates = [line["lr"] for line in lines(whole)]
    assert rates[0] == pytest.approx(0.02) and rates[4] == pytest.approx(0.1) and rates[5:45] == sorted(set(rates[5:45]), reverse=True)
    assert rates[20] < 0.2 * rates[19]
    for stop in (0, 4, 5, 19, 20, 39):
        assert [line["lr"] for line in lines(run(stop, STEPS))] == rates


# ---- the end, and the best


FINISHING = """
data Line:
    step: int

fn main(steps: int = 5, carry_on: bool = false):
    sink = jsonl("run.jsonl")
    mut done = 0
    if carry_on:
        done = load("run.pt", step=int, sink=sink)
    for step in done..steps:
        write(sink, Line(step=step + 1))
        save("run.pt", step=step + 1, sink=sink)
"""


@pytest.mark.parametrize("engine", ["native", "numpy"])
def test_28_a_finished_run_does_nothing_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str], engine: str) -> None:
    from shapescript.cli import main

    (tmp_path / "program.ss").write_text(FINISHING)
    command = ["run", "--engine", engine, "program.ss"]
    with inside(tmp_path):
        assert main(command) == 0
        before, changed = files(tmp_path), (tmp_path / "run.pt").stat().st_mtime_ns
        capsys.readouterr()
        assert main([*command, "--carry-on"]) == 0
        assert capsys.readouterr().err == "run.pt: the run that was saved is finished already; nothing was done\n"
        assert files(tmp_path) == before and (tmp_path / "run.pt").stat().st_mtime_ns == changed
        (tmp_path / "program.ss").write_text(FINISHING + "    print(10 // (done - 5))\n")
        capsys.readouterr()
        assert main([*command, "--carry-on"]) == 1
        error = capsys.readouterr().err
        assert "R1106" in error and "finished already" not in error  # it failed: that is no end
        (tmp_path / "program.ss").write_text(FINISHING)
        assert main([*command, "--carry-on", "--steps", "6"]) == 0
        assert "finished already" not in capsys.readouterr().err
    assert [line["step"] for line in lines(files(tmp_path))] == [1, 2, 3, 4, 5, 6]


BEST = """
data Score:
    value: float

# The least of the scores; NaN isn't less than anything, so it is never best.
fn best_of(scores: Dataset[Score], carry_on: bool) -> (float, int):
    mut best = 1.0 / 0.0
    mut kept = 0
    if carry_on:
        best, kept = load("run.pt", best=float, kept=int)
    for batch in scores |> batches(1):
        score = float(sum(batch.value, over=batch))
        if score < best:
            best = score
            kept = kept + 1
            save("best.pt", score=score)
    save("run.pt", best=best, kept=kept)
    return best, kept
"""


@pytest.mark.parametrize("engine", ["native", "numpy"])
def test_29_the_best_score_goes_on_and_nan_is_never_best(tmp_path: Path, engine: Any) -> None:
    (tmp_path / "program.ss").write_text(BEST)
    program = shapescript.load(tmp_path / "program.ss", engine=engine)

    def scores(*values: float) -> Any:
        return program.Score.dataset(value=np.array(values, np.float32))

    with inside(tmp_path):
        assert program.best_of(scores(0.75, 0.625), False) == (0.625, 2)
        assert program.best_of(scores(0.6875, 0.625, math.nan), True) == (0.625, 2)
        assert program.best_of(scores(0.5625), True) == (0.5625, 3)
        assert shapescript.load_checkpoint("best.pt") == {"score": 0.5625}
        assert program.best_of(scores(math.nan, 0.5, math.nan, 0.25), False) == (0.25, 2)
        assert program.best_of(scores(math.nan), False) == (math.inf, 0)
        assert program.best_of(scores(math.inf, 7.0), True) == (7.0, 1)


# ---- what reads data beside training


def test_46_evaluating_changes_no_parameter(run: Run, whole: dict[str, bytes], examples: Any) -> None:
    assert next(iter(examples.batches(4))) is not None  # a look from Python
    for evaluate in (1, 7):
        assert run(STEPS, evaluate=evaluate) == whole
    assert run(13, STEPS, evaluate=7) == whole


@pytest.mark.parametrize("prefetch", [0, 1, 8])
def test_49_a_checkpoint_holds_what_was_used_and_not_what_was_read_ahead(
    run: Run, whole: dict[str, bytes], training: Any, prefetch: int
) -> None:
    """Read row by row; a save after each step of an epoch, where up to eight batches lie read."""
    for stop in (1, 5, 15, 16, 30):
        rows = slow(rows_of(training))
        assert run(stop, rows=rows, prefetch=prefetch) == run(stop)
        assert run(stop, STEPS, rows=rows, prefetch=prefetch) == whole


class Numbers(Slow):
    """Examples that are made when they are read."""

    def __init__(self, inner: Arrays, count: int) -> None:
        super().__init__(inner)
        self.count = count

    def __len__(self) -> int:
        return self.count

    def read(self, rows: Any, names: Any = None) -> dict[str, Any]:
        self.reads.append(len(rows))
        return {"id": np.array(rows, np.int64)}


LAST = """
data Row:
    id: int

data Line:
    rows: int

fn last(rows: Dataset[Row], start: int, sink: LogSink):
    for batch in rows |> shuffle(3) |> batches(1000, start=start):
        write(sink, Line(rows=int(sum(batch.id, over=batch))))
"""


@pytest.mark.parametrize("engine", ["native", "numpy"])
def test_50_going_on_at_99_percent_reads_nothing_of_what_is_before(tmp_path: Path, engine: Any) -> None:
    (tmp_path / "program.ss").write_text(LAST)
    program = shapescript.load(tmp_path / "program.ss", engine=engine)
    count, start = 10**7, 9_990_000
    source = Numbers(program.Row.dataset(id=np.zeros(1, np.int64)).source, count)
    rows, sink = Dataset.of_source(source), shapescript.MemorySink()
    program.last(rows, start, sink)
    places = rows.shuffle(3).rows(start, count - start).reshape(-1, 1000)
    assert [record.rows for record in sink.records] == places.sum(axis=1).tolist()
    assert sum(source.reads) == count - start
    direct = shapescript.MemorySink()
    program.last(program.Row.dataset(id=np.arange(count)), start, direct)
    assert direct.records == sink.records


# ---- the program that the docs show


@pytest.mark.parametrize("engine", ["native", "numpy"])
def test_the_program_of_the_docs_goes_on_exactly(tmp_path: Path, engine: Any) -> None:
    """From each of its checkpoints: those within an epoch and those at an epoch's end."""
    section = (ROOT / "docs" / "saving.md").read_text().partition("## Going on exactly")[2]
    (tmp_path / "program.ss").write_text(section.partition("```shapescript\n")[2].partition("```")[0].replace("keep=3", "keep=100"))
    draw = np.random.default_rng(0)
    examples = np.column_stack([draw.normal(size=(100, 4)).astype(np.float32), draw.integers(0, 3, 100)])
    np.savetxt(tmp_path / "points.csv", examples, "%s,%s,%s,%s,%d", header="x.0,x.1,x.2,x.3,label", comments="")
    program = shapescript.load(tmp_path / "program.ss", engine=engine)
    with inside(tmp_path):
        program.main(epochs=3, every=3)
        wanted = files(tmp_path)
        assert [line["step"] for line in map(json.loads, wanted["net.jsonl"].splitlines())] == list(range(1, 13))
        assert sorted(wanted) == sorted(["net.jsonl", *(f"net.{step}.pt" for step in (3, 4, 6, 8, 9, 12))])
        for last in (9, 8, 6, 4, 3):
            for step in range(last + 1, 13):
                Path(f"net.{step}.pt").unlink(missing_ok=True)
            program.main(epochs=3, every=3, carry_on=True)
            assert files(tmp_path) == wanted
