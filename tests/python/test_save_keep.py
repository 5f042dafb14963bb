"""`save("run.{step}.pt", …, keep=n)`: names with the step, and which older files go when the new one is safe."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
from checkpoint_samples import folder_hash, notices
from runtime_samples import filled, mlp_layout

import shapescript
from shapescript.runtime import saving
from shapescript.runtime.checkpoint import read_checkpoint, save_checkpoint
from shapescript.runtime.optimiser import AdamW

PROGRAM = """
model Net:
    w: [2] = ones

fn run(mut m: Net, mut opt: Sgd[Net], steps: int, keep: int):
    for i in 0..steps:
        l, g = value_and_grad(sum(m.w * m.w, over=2), wrt=m)
        update(mut m, mut opt, g, lr=0.1)
        save("run.{step}.pt", m=m, opt=opt, keep=keep)

fn mark(m: Net, epochs: int):
    save("at.{step}.pt", m=m, epochs=epochs)

fn anywhere(path: str, n: int):
    save(path, n=n)
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_newest_stay(program: Any, here: Path) -> None:
    m = program.Net(seed=1)
    opt = shapescript.Sgd(m)
    program.run(m, opt, 5, 2)
    assert names(here) == ["run.4.pt", "run.5.pt"]
    program.run(m, opt, 7, 3)
    assert names(here) == ["run.10.pt", "run.11.pt", "run.12.pt"]
    program.run(m, opt, 1, 2**62)
    assert len(names(here)) == 4


@pytest.mark.parametrize("keep", [0, -1, -(2**63)])
def test_fewer_than_one_is_refused_and_nothing_is_removed(program: Any, here: Path, keep: int) -> None:
    m = program.Net(seed=1)
    opt = shapescript.Sgd(m)
    program.run(m, opt, 2, 1)
    with pytest.raises(shapescript.ShapeScriptError, match=f"R1109: at least 1 checkpoint is kept, not {keep}"):
        program.run(m, opt, 1, keep)
    with pytest.raises(shapescript.ShapeScriptError, match="R1109"):
        save_checkpoint("run.{step}.pt", step=9, keep=keep)
    assert names(here) == ["run.2.pt"]


def test_without_keep_the_step_stands_in_the_name_and_nothing_goes(program: Any, here: Path) -> None:
    for epochs in (1, 2, 30):
        program.mark(program.Net(seed=1), epochs)
    assert names(here) == ["at.1.pt", "at.2.pt", "at.30.pt"]
    assert [read_checkpoint(name).step for name in names(here)] == [1, 2, 30]


def test_a_path_that_a_run_computes_is_checked_there(program: Any, here: Path) -> None:
    with pytest.raises(shapescript.ArgumentError, match=r"R1005: .*nothing that is saved says the step"):
        program.anywhere("a.{step}.pt", 3)
    with pytest.raises(shapescript.ArgumentError, match=r"R1004: .*in the file's name"):
        program.anywhere("{step}/a.pt", 3)
    program.anywhere("a.{other}.pt", 3)
    assert names(here) == ["a.{other}.pt"]


MODEL = filled(mlp_layout())


def state(step: int) -> AdamW:
    made = AdamW(MODEL)
    made.step = step
    return made


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ({"a": state(3), "b": state(8), "step": 99}, 8),
        ({"step": 4, "epochs": 5, "epoch": 6}, 4),
        ({"epochs": 5, "epoch": 6}, 5),
        ({"epoch": 6, "n": 1}, 6),
        ({"step": np.int64(7)}, 7),
        ({"step": 2.0, "epoch": 3}, 3),
        ({"step": True, "epoch": 3}, 3),
        ({"step": "3"}, None),
        ({"step": -1}, None),
        ({"n": 3}, None),
        ({"opt": state(0)}, 0),
    ],
)
def test_the_step_is_the_optimisers_or_what_is_called_so(here: Path, values: dict[str, Any], step: int | None) -> None:
    save_checkpoint("a.pt", **values)
    assert read_checkpoint("a.pt").step == step
    if step is None:
        with pytest.raises(shapescript.ArgumentError, match="R1005"):
            save_checkpoint("a.{step}.pt", **values)
    else:
        save_checkpoint("a.{step}.pt", **values, keep=1)
        assert (here / f"a.{step}.pt").read_bytes() == (here / "a.pt").read_bytes()


STRANGERS = [
    "run.pt",
    "run.x.pt",
    "run.01.pt",
    "run.-1.pt",
    "run.1.pt.bak",
    "xrun.1.pt",
    "run.1.safetensors",
    "RUN.1.pt",
    "run..pt",
    "run.１.pt",
]


def test_only_smaller_steps_of_exactly_this_name_in_this_folder_go(here: Path) -> None:
    for name in STRANGERS:
        (here / name).write_text("not ours")
    (here / "run.2.pt").mkdir()
    (here / "other").mkdir()
    (here / "other" / "run.1.pt").write_text("elsewhere")
    (here / "far.pt").write_text("behind a link")
    (here / "run.3.pt").symlink_to(here / "far.pt")
    for step in (0, 1, 50):
        save_checkpoint("run.{step}.pt", step=step)
    before = set(names(here))
    save_checkpoint("run.{step}.pt", step=9, keep=1)
    assert before - set(names(here)) == {"run.0.pt", "run.1.pt"} and set(names(here)) - before == {"run.9.pt"}
    assert (here / "other" / "run.1.pt").exists() and (here / "far.pt").exists()


def test_steps_are_compared_as_numbers_and_files_of_larger_ones_stay(here: Path) -> None:
    for step in (9, 10, 100, 8):
        save_checkpoint("{step}", step=step)
    save_checkpoint("{step}", step=11, keep=2)
    assert names(here) == ["10", "100", "11"]


def test_letters_that_mean_something_in_patterns_are_themselves(here: Path) -> None:
    for name in ("a+.1.pt", "aa.1.pt", "a+x1.pt"):
        (here / name).write_text("")
    save_checkpoint("a+.{step}.pt", step=2, keep=1)
    assert names(here) == ["a+.2.pt", "a+x1.pt", "aa.1.pt"]
    save_checkpoint("b[{step}]-{step}", step=1)
    (here / "b[1]-0").write_text("")
    save_checkpoint("b[{step}]-{step}", step=2, keep=1)
    assert [name for name in names(here) if name.startswith("b")] == ["b[1]-0", "b[2]-2"]


def failing(number: int) -> Callable[[Path, Callable[[BinaryIO], None]], None]:
    def replace(path: Path, write: Callable[[BinaryIO], None]) -> None:
        raise OSError(number, os.strerror(number))

    return replace


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_a_save_that_fails_removes_nothing(here: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    for step in (1, 2):
        save_checkpoint("run.{step}.pt", step=step)
    before = folder_hash(here)
    monkeypatch.setattr(saving, "replace_file", failing(number))
    with pytest.raises(shapescript.CheckpointUnwritable) as raised:
        save_checkpoint("run.{step}.pt", step=3, keep=1)
    assert (raised.value.kind, raised.value.errno) == ("write", number) and folder_hash(here) == before


def test_what_cannot_be_removed_is_told_and_the_save_stands(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_checkpoint("run.{step}.pt", step=1)

    def unlink(path: str) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr("shapescript.runtime.steps.os.unlink", unlink)
    with notices() as told:
        save_checkpoint("run.{step}.pt", step=2, keep=1)
    monkeypatch.undo()
    assert len(told) == 1 and "run.1.pt: the older checkpoint can't be removed" in told[0]


@pytest.mark.parametrize("keep", [2.0, "2", True, None])
def test_keep_is_an_int(here: Path, keep: Any) -> None:
    if keep is None:
        save_checkpoint("run.{step}.pt", step=1, keep=keep)
        return
    with pytest.raises(shapescript.ArgumentError, match="R1004"):
        save_checkpoint("run.{step}.pt", step=1, keep=keep)
    assert names(here) == []


@pytest.mark.parametrize("name", ["rename", "partial", "force"])
def test_options_are_no_names_of_entries(here: Path, name: str) -> None:
    with pytest.raises(shapescript.ArgumentError, match=f"R1005: save: `{name}` is an option"):
        save_checkpoint("a.pt", **{name: 1}, n=1)
    with pytest.raises(shapescript.ArgumentError, match=r"R1004: .*with `keep` the path says"):
        save_checkpoint("a.pt", n=1, keep=1)


@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"\ud800": 3}, "save: a string with half of a surrogate pair"),
        ({"m": {"a\udfff": np.zeros(1)}}, "m: a string with half of a surrogate pair"),
        ({"m": {1: np.zeros(1), "1": np.ones(1)}}, "m: names in a checkpoint are strings, not int"),
        ({"s": "\ud800"}, "s: a string with half of a surrogate pair"),
    ],
)
def test_what_can_be_no_name_is_refused(here: Path, suffix: str, values: dict[str, Any], text: str) -> None:
    """Two names must not become one, and a file's text is UTF-8."""
    with pytest.raises(shapescript.ArgumentError, match=f"R1004: {text}"):
        save_checkpoint(f"a.{suffix}", **values)
    assert names(here) == []
