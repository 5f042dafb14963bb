"""Bad input while a program runs: a coded error of one paragraph that names the thing; nothing has changed, and the process goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from api_programs import digits
from fixtures import EXAMPLES

import shapescript
from shapescript.engines import EngineName


class Run:
    """A model in training: what a failing step must leave alone."""

    def __init__(self, engine: EngineName) -> None:
        self.program: Any = shapescript.load(EXAMPLES / "train_mlp.ss", engine=engine)
        self.m, self.sink, self.mode = self.program.Mlp(seed=1), shapescript.MemorySink(), shapescript.Train(seed=1)
        self.opt = shapescript.AdamW(self.m)
        pixels, label = digits()
        self.pixels, self.label = pixels[:64].copy(), label[:64].copy()
        self.step()

    def step(self) -> None:
        self.program.train_step(self.m, self.opt, self.batch(), self.sink, self.mode)

    def batch(self) -> Any:
        return self.program.Digit.batch(pixels=self.pixels, label=self.label)

    def data(self) -> Any:
        return self.program.Digit.dataset(pixels=self.pixels, label=self.label)

    def state(self) -> tuple[Any, ...]:
        states = (self.m.buffer, *self.opt.slots[:2])
        return (*(state.tobytes() for state in states), self.opt.step, len(self.sink.records))


@pytest.fixture(params=get_args(EngineName))
def run(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return Run(request.param)


def refused(run: Run, call: Callable[[], Any], code: str, *words: str) -> shapescript.ShapeScriptError:
    """The error, when it says what it should, and leaves everything as it was and usable."""
    before = run.state()
    with pytest.raises(shapescript.ShapeScriptError) as raised:
        call()
    text = str(raised.value)
    assert raised.value.code == code and text.startswith(code) and "\n" not in text
    for word in words:
        assert word in text
    assert run.state() == before
    return raised.value


@pytest.mark.parametrize("label", [10, -1, 2**31, -(2**63)])
def test_a_label_out_of_range(run: Run, label: int) -> None:
    """Field report 34."""
    good = run.label[5]
    run.label[5] = label
    error = refused(run, run.step, "R1101", str(label), "position 5", "10 classes")
    assert isinstance(error, ValueError)
    assert error.span is not None and "cross_entropy" in error.span.text  # type: ignore[attr-defined]
    run.label[5] = good
    run.step()
    assert run.opt.step == 2


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_loss_that_is_not_finite(run: Run, value: float) -> None:
    run.pixels[3, 7] = value
    error = refused(run, run.step, "R1104", "at step 2", "nothing was changed")
    assert error.span is not None and error.step == 2
    run.pixels[3, 7] = 0.5
    run.step()
    assert run.opt.step == 2


def test_a_dataset_without_batches(run: Run) -> None:
    run.pixels, run.label = run.pixels[:0], run.label[:0]
    error = refused(run, lambda: run.program.fit(run.m, run.data(), run.sink, 1, run.mode), "R1102", "empty")
    assert isinstance(error, ValueError)


def test_a_checkpoint_that_cannot_be_written(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(shapescript.CheckpointUnwritable, match=r"R1304: .*file/m\.pt") as raised:
        shapescript.save_checkpoint(tmp_path / "file" / "m.pt", m=run.m)
    assert isinstance(raised.value, OSError)
    (tmp_path / "ckpt.pt").mkdir()
    with pytest.raises(shapescript.CheckpointUnwritable, match=r"R1304: ckpt\.pt"):
        run.program.fit(run.m, run.data(), run.sink, 1, run.mode)
    (tmp_path / "ckpt.pt").rmdir()
    run.program.fit(run.m, run.data(), run.sink, 1, run.mode)
    assert (tmp_path / "ckpt.pt").is_file()


def test_a_checkpoint_that_does_not_fit(run: Run, tmp_path: Path) -> None:
    refused(run, lambda: run.program.resume(run.data(), run.sink, 2, run.mode), "R1301", "ckpt.pt")
    log = shapescript.jsonl("log.jsonl")
    run.program.fit(run.m, run.data(), log, 1, run.mode)
    content = (tmp_path / "ckpt.pt").read_bytes()

    def resume(mode: shapescript.Mode) -> Any:
        return run.program.resume(run.data(), log, 2, mode)

    refused(run, lambda: resume(shapescript.Eval), "R1303", "mode")
    refused(run, lambda: resume(shapescript.Train(seed=2)), "R1303", "mode")
    run.label[0] += 1
    refused(run, lambda: resume(shapescript.Train(seed=1)), "R1303", "dataset")
    run.label[0] -= 1
    for damaged in (content[:1000], content[:-100], b"", content[:5000] + b"\xff" + content[5001:]):
        (tmp_path / "ckpt.pt").write_bytes(damaged)
        refused(run, lambda: resume(shapescript.Train(seed=1)), "R1302", "ckpt.pt")
    (tmp_path / "ckpt.pt").write_bytes(content)
    resume(shapescript.Train(seed=1))
    wide: Any = shapescript.load(EXAMPLES / "train_mlp.ss", dims={"Hidden": 64})
    with pytest.raises(shapescript.CheckpointError, match="R1303") as raised:
        wide.resume(wide.Digit.dataset(pixels=run.pixels, label=run.label), log, 2, shapescript.Train(seed=1))
    assert raised.value.kind == "shape"
