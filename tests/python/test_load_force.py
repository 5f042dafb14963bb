"""`load(…, force=true)`: values and facts that differ are told, both of them; what can't be used is refused all the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoint_samples import notices, state_hash
from runtime_samples import filled, leaf, mlp_layout

import shapescript
from shapescript.runtime.entries import Tensor
from shapescript.runtime.layout import Layout
from shapescript.runtime.optimiser import AdamW
from shapescript.runtime.restore import ModelType, OptimiserType, ScalarType, TensorType, restore
from shapescript.runtime.sinks import MemorySink

PROGRAM = """
data Point:
    x: [2]

model Net:
    w: [2] = ones

fn save_it(m: Net, epochs: int, name: str, mode: Mode, points: Dataset[Point], sink: LogSink):
    save("a.pt", m=m, epochs=epochs, name=name, mode=mode, data=points, sink=sink)

fn load_it(epochs: int, name: str, mode: Mode, points: Dataset[Point], sink: LogSink, force: bool) -> Net:
    return load("a.pt", m=Net, epochs=epochs, name=name, mode=mode, data=points, sink=sink, force=force)
"""


def points(program: Any, count: int = 4, change: float = 0.0) -> Any:
    x = np.arange(2 * count, dtype=np.float32).reshape(count, 2)
    x[0, 0] += np.float32(change)
    return program.Point.dataset(x=x)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_values_and_facts_that_differ_are_told_with_both_values(program: Any, here: Path) -> None:
    data, mode = points(program), shapescript.Train(seed=1)
    mode.draws = 6
    sink = shapescript.jsonl("log.jsonl")
    sink.write("Line", {"step": 1})
    program.save_it(program.Net(seed=1), 10, "a", mode, data, sink)
    sink.close()
    other, own = points(program, change=1.0), shapescript.Train(seed=2)
    log = shapescript.jsonl("log.jsonl")
    with pytest.raises(shapescript.CheckpointError) as raised:
        program.load_it(20, "b", own, other, log, False)
    assert "epochs: the value isn't the saved one: 10 in the checkpoint, 20 in the program; `force=true`" in raised.value.message
    assert (raised.value.kind, raised.value.name, raised.value.expected, raised.value.found) == ("value", "epochs", 20, 10)
    assert own.draws == 0 and Path("log.jsonl").read_text() == '{"step": 1}\n'
    with notices() as told:
        program.load_it(20, "b", own, other, log, True)
    expected = [
        "epochs: 10 in the checkpoint, 20 in the program",
        "name: 'a' in the checkpoint, 'b' in the program",
        "mode: Train(seed=1) in the checkpoint, Train(seed=2) in the program",
        f"data: 4 examples with fingerprint {data.fingerprint()} in the checkpoint, "
        f"4 examples with fingerprint {other.fingerprint()} in the program",
    ]
    assert told == [f"a.pt: forced: {text}" for text in expected]
    assert (own.seed, own.draws) == (2, 6)
    log.close()
    lines = [json.loads(line) for line in Path("log.jsonl").read_text().splitlines()]
    assert lines == [{"step": 1}, *({"note": "forced", "text": text} for text in expected)]


def test_what_fits_is_loaded_silently_under_force(program: Any, here: Path) -> None:
    mode, sink = shapescript.Train(seed=1), MemorySink()
    program.save_it(program.Net(seed=1), 10, "a", mode, points(program), sink)
    with notices() as told:
        program.load_it(10, "a", mode, points(program), sink, True)
    assert told == [] and sink.records == []


@pytest.mark.parametrize(
    ("name", "wanted", "kind"),
    [
        ("n", 64.0, "dtype"),
        ("n", "64", "dtype"),
        ("n", True, "dtype"),
        ("s", 1, "dtype"),
        ("w", np.zeros(4, np.float32), "shape"),
        ("w", np.zeros(3, np.float64), "shape"),
        ("t", Tensor(np.zeros((4, 4), np.float32), ("D", "V")), "shape"),
        ("n", shapescript.Train(seed=1), "dtype"),
        ("missing", 1, "missing"),
        ("n", ScalarType("float"), "dtype"),
        ("w", TensorType("f32", ("D",), (4,)), "shape"),
        ("w", TensorType("f64", ("D",), (3,)), "dtype"),
        ("m", ModelType(Layout("M", [leaf("a", "D", 5)])), "shape"),
        ("m", ModelType(Layout("M", [leaf("b", "D", 4)])), "missing"),
        ("m", filled(Layout("M", [leaf("a", "D", 5)])), "dtype"),
        ("m", filled(Layout("M", [leaf("b", "D", 4)])), "dtype"),
        ("opt", OptimiserType(AdamW, Layout("M", [leaf("b", "D", 4)])), "missing"),
    ],
)
def test_shapes_dtypes_and_missing_names_refuse_all_the_same(tmp_path: Path, name: str, wanted: object, kind: str) -> None:
    layout, mode, sink = Layout("M", [leaf("a", "D", 4)]), shapescript.Train(seed=1), MemorySink()
    values: dict[str, Any] = {"n": 64, "s": "x", "w": np.zeros(3, np.float32), "t": Tensor(np.zeros((4, 4), np.float32), ("V", "D"))}
    shapescript.save_checkpoint(tmp_path / "a.pt", **values, m=filled(layout), opt=AdamW(filled(layout)), mode=mode, sink=sink)
    mode.draws = 3
    sink.write("Line", {"step": 1})
    before = state_hash(mode, sink)
    with pytest.raises(shapescript.CheckpointError) as raised, notices() as told:
        restore(tmp_path / "a.pt", {"mode": mode, "sink": sink, "s": "another", name: wanted}, force=True)
    assert (raised.value.code, raised.value.kind, told) == ("R1303", kind, []) and state_hash(mode, sink) == before


@pytest.mark.parametrize(
    "entry", [{"kind": "Train", "seed": 1, "draws": -1}, {"kind": "Train", "seed": 1}, {"kind": "Train", "draws": "a"}]
)
def test_damage_refuses_all_the_same(tmp_path: Path, entry: dict[str, Any]) -> None:
    torch.save({"mode": entry}, tmp_path / "a.pt")
    mode = shapescript.Train(seed=1)
    with pytest.raises(shapescript.CheckpointError) as raised:
        restore(tmp_path / "a.pt", {"mode": mode}, force=True)
    assert (raised.value.kind, mode.draws) == ("corrupt", 0)


def test_models_optimisers_and_tensors_of_other_values_are_forced(tmp_path: Path) -> None:
    model, other = filled(mlp_layout(), 1), filled(mlp_layout(), 2)
    state, later = AdamW(model), AdamW(model)
    later.step = 4
    shapescript.save_checkpoint(tmp_path / "a.pt", m=model, opt=state, w=np.zeros(3), size=8)
    wanted: dict[str, object] = {"m": other, "opt": later, "w": np.ones(3), "size": 16}
    for name, value in wanted.items():
        with pytest.raises(shapescript.CheckpointError, match="force=true"):
            restore(tmp_path / "a.pt", {name: value})
    with notices() as told:
        assert restore(tmp_path / "a.pt", wanted, force=True) == []
    assert len(told) == 4 and told[3].endswith("size: 8 in the checkpoint, 16 in the program")
    for text in told[:3]:  # a hash tells them apart
        saved, given = text.split(" in the checkpoint, ")
        assert saved.split()[-1] != given.split()[-4] and len(given.split()[-4]) == 16


def test_another_log_is_forced_and_nothing_of_it_is_cut(tmp_path: Path) -> None:
    sink = MemorySink()
    sink.write("Line", {"step": 1})
    shapescript.save_checkpoint(tmp_path / "a.pt", sink=sink)
    other = MemorySink()
    other.write("Line", {"step": 9})
    with pytest.raises(shapescript.CheckpointError, match="force=true"):
        restore(tmp_path / "a.pt", {"sink": other})
    with notices() as told:
        restore(tmp_path / "a.pt", {"sink": other}, force=True)
    assert len(told) == 1 and other.records[0].step == 9 and other.tail == [] and other.records[1].note == "forced"


def test_train_and_eval_are_forced_both_ways(tmp_path: Path) -> None:
    shapescript.save_checkpoint(tmp_path / "a.pt", one=shapescript.Train(seed=1), two=shapescript.Eval)
    mode = shapescript.Train(seed=3)
    with notices() as told:
        restore(tmp_path / "a.pt", {"one": shapescript.Eval, "two": mode}, force=True)
    assert told[0].endswith("one: Train(seed=1) in the checkpoint, Eval in the program") and mode.draws == 0
