"""Why a load fails is data, and whatever it is, nothing has changed; what a file says of the program that saved it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from checkpoint_samples import folder_hash, notices, state_hash

import shapescript
from shapescript.engines import EngineName
from shapescript.runtime.errors import CheckpointErrorKind
from shapescript.runtime.sinks import MemorySink

PROGRAM = """
data Row:
    x: [2]

data Line:
    step: int

model Net:
    w: [2] = uniform(-1, 1)

fn step(mut m: Net, mut opt: AdamW[Net], sink: LogSink, mode: Mode):
    l, g = value_and_grad(sum(dropout(m.w, 0.5, mode), over=2), wrt=m)
    update(mut m, mut opt, g, lr=0.1)
    write(sink, Line(step=opt.step))

fn save_it(m: Net, opt: AdamW[Net], sink: LogSink, mode: Mode, rows: Dataset[Row], size: int):
    save("a.pt", m=m, opt=opt, sink=sink, mode=mode, rows=rows, size=size)

fn load_it(mut m: Net, mut opt: AdamW[Net], sink: LogSink, mode: Mode, rows: Dataset[Row], size: int):
    m, opt = load("a.pt", m=Net, opt=AdamW[Net], sink=sink, mode=mode, rows=rows, size=size)
"""

Tree = dict[str, Any]


def edit(change: Callable[[Tree], object]) -> Callable[[], None]:
    def act() -> None:
        tree = torch.load("a.pt", weights_only=True)
        change(tree)
        torch.save(tree, "a.pt")

    return act


def rewrite(change: Callable[[bytes], bytes]) -> Callable[[], None]:
    return lambda: Path("a.pt").write_bytes(change(Path("a.pt").read_bytes())) and None


# What is done to the file; the code, kind and name that follow; what of the two is expected and found.
FAILURES: dict[str, tuple[Callable[[], None], str, CheckpointErrorKind, str | None, object, object]] = {
    "no file": (lambda: Path("a.pt").unlink(), "R1301", "missing", None, None, None),
    "cut": (rewrite(lambda whole: whole[:-100]), "R1302", "truncated", None, ..., ...),
    "empty": (rewrite(lambda whole: b""), "R1302", "truncated", None, ..., ...),
    "text": (rewrite(lambda whole: b"text" * 100), "R1302", "corrupt", None, ..., ...),
    "version": (edit(lambda tree: tree["shapescript"].update(version=99)), "R1302", "version", None, 1, 99),
    "no entry": (edit(lambda tree: tree.pop("opt")), "R1303", "missing", "opt", "opt", ...),
    "no parameter": (edit(lambda tree: tree["m"].pop("w")), "R1303", "missing", "w", ("w",), ()),
    "a parameter more": (edit(lambda tree: tree["m"].update(u=torch.zeros(2))), "R1303", "unexpected", "u", (), ("u",)),
    "a moment's shape": (edit(lambda tree: tree["opt"]["first"].update(w=torch.zeros(3))), "R1303", "shape", "w", (2,), (3,)),
    "dtype": (edit(lambda tree: tree["m"].update(w=torch.zeros(2, dtype=torch.float64))), "R1303", "dtype", "w", "float32", "float64"),
    "optimiser": (edit(lambda tree: tree["opt"].update(kind="Sgd")), "R1303", "optimiser", "opt", "AdamW", "Sgd"),
    "a number": (edit(lambda tree: tree.update(size=9)), "R1303", "value", "size", 8, 9),
    "a seed": (edit(lambda tree: tree["mode"].update(seed=9)), "R1303", "value", "mode", "Train(seed=1, draws=3)", "Train(seed=9)"),
    "the log": (edit(lambda tree: tree["sink"].update(hash="00" * 16)), "R1303", "value", "sink", ..., ...),
    "the data": (edit(lambda tree: tree["rows"].update(fingerprint="x")), "R1303", "value", "rows", ..., ...),
    "draws": (edit(lambda tree: tree["mode"].update(draws=-1)), "R1302", "corrupt", "mode", ..., ...),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_why_a_load_fails_is_data_and_nothing_has_changed(
    program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: str
) -> None:
    monkeypatch.chdir(tmp_path)
    m, mode, sink = program.Net(seed=1), shapescript.Train(seed=1), MemorySink()
    opt, rows = shapescript.AdamW(m), program.Row.dataset(x=np.ones((3, 2), np.float32))
    program.step(m, opt, sink, mode)
    program.save_it(m, opt, sink, mode, rows, 8)
    for _ in range(2):
        program.step(m, opt, sink, mode)
    change, code, kind, name, expected, found = FAILURES[failure]
    change()
    before, files = state_hash(m, opt, sink, mode), folder_hash(tmp_path)
    with pytest.raises(shapescript.CheckpointError) as raised:
        program.load_it(m, opt, sink, mode, rows, 8)
    error = raised.value
    assert (error.code, error.kind) == (code, kind) and error.kind in get_args(CheckpointErrorKind) and "a.pt" in error.message
    assert error.name == name and expected in (..., error.expected) and found in (..., error.found)
    assert error.span is not None and (state_hash(m, opt, sink, mode), folder_hash(tmp_path)) == (before, files)


# ---- what a file says of the program that saved it

MAIN = """
import base

fn save_it(n: int):
    save("a.pt", n=n)

fn load_it() -> int:
    return load("a.pt", n=int)
"""
CHANGED = "a.pt: another program has saved it, or this one before it was changed"


def made(folder: Path, main: str = MAIN, base: str = "const A = 1\n", engine: EngineName = "native") -> Any:
    folder.mkdir(exist_ok=True)
    (folder / "main.ss").write_text(main)
    (folder / "base.ss").write_text(base)
    return shapescript.load(folder / "main.ss", engine=engine)


def test_another_program_is_told_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made(tmp_path / "p").save_it(3)
    for text in (MAIN, MAIN + "# a comment\n"):
        with notices() as told:
            assert made(tmp_path / "p", text).load_it() == 3
        assert told == ([] if text == MAIN else [CHANGED])
    with notices() as told:
        assert made(tmp_path / "p", base="const A = 2\n").load_it() == 3
    assert told == [CHANGED]
    shapescript.save_checkpoint("a.pt", n=4)
    with notices() as told:
        assert made(tmp_path / "p").load_it() == 4
    assert told == []


@pytest.mark.parametrize("program_fact", [3, None, "x" * 10**5, ["a"]])
def test_a_hash_that_is_none_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program_fact: object) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"n": 1, "shapescript": {"version": 1, "program": program_fact, "entries": {}}}, "a.pt")
    with notices() as told:
        assert made(tmp_path / "p").load_it() == 1
    assert told == ([CHANGED] if isinstance(program_fact, str) else [])


def test_the_bytes_depend_on_program_values_and_names_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = set()
    for folder, engine in (("p", "native"), ("q", "numpy"), ("r", "native")):
        made(tmp_path / folder, engine=engine).save_it(3)  # type: ignore[arg-type]
        found.add(Path("a.pt").read_bytes())
        shutil.move("a.pt", f"{folder}.pt")
    assert len(found) == 1
    made(tmp_path / "p", MAIN + "\n").save_it(3)
    assert Path("a.pt").read_bytes() not in found


def test_save_load_save_without_a_step_gives_the_same_bytes(program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    m, mode, sink = program.Net(seed=1), shapescript.Train(seed=1), MemorySink()
    opt, rows = shapescript.AdamW(m), program.Row.dataset(x=np.ones((3, 2), np.float32))
    for _ in range(3):
        program.step(m, opt, sink, mode)
    program.save_it(m, opt, sink, mode, rows, 8)
    first = Path("a.pt").read_bytes()
    other, fresh = program.Net(seed=9), shapescript.Train(seed=1)
    state, log = shapescript.AdamW(other), MemorySink()
    program.load_it(other, state, log, fresh, rows, 8)
    program.save_it(other, state, log, fresh, rows, 8)
    assert Path("a.pt").read_bytes() == first
