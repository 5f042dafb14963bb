"""`load(…, partial=true)`: what the file has is taken, what it lacks stays as it was, and both are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoint_samples import notices, state_hash
from runtime_samples import filled, leaf, mlp_layout, same_bytes

import shapescript
from shapescript.runtime.layout import Layout
from shapescript.runtime.optimiser import Adam, AdamW, Sgd
from shapescript.runtime.partial import LoadReport
from shapescript.runtime.restore import Start, restore

PROGRAM = """
model Body:
    weight: [4 3] = uniform(-1, 1)
    bias: [3] = zeros

model Old:
    body: Body
    head: [3] = ones

model New:
    body: Body
    tail: [5] = ones

fn step_old(mut m: Old, mut opt: AdamW[Old], x: [b 4]):
    l, g = value_and_grad(sum(sum(x @ m.body.weight + m.body.bias, over=b) * m.head, over=3), wrt=m)
    update(mut m, mut opt, g, lr=0.1)

fn save_old(m: Old, opt: AdamW[Old]):
    save("old.pt", m=m, opt=opt, epochs=4)

fn load_new(m: New, opt: AdamW[New]) -> (New, int, AdamW[New]):
    mut m2, mut epochs, mut opt2 = load("old.pt", m=m, epochs=int, opt=opt, partial=true)
    return m2, epochs, opt2

fn load_one(m: New) -> New:
    return load("old.pt", m=m, partial=true)

fn load_exact(m: New):
    load("old.pt", m=m, partial=false)
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def trained(program: Any) -> tuple[Any, Any]:
    m = program.Old(seed=1)
    opt = AdamW(m, betas=(0.8, 0.9))
    for _ in range(3):
        program.step_old(m, opt, np.arange(8, dtype=np.float32).reshape(2, 4))
    return m, opt


def test_matching_parameters_are_the_files_and_others_stay(program: Any, here: Path) -> None:
    old, old_opt = trained(program)
    program.save_old(old, old_opt)
    new = program.New(seed=9)
    new.tail = np.arange(5, dtype=np.float32)
    opt = AdamW(new)
    before = state_hash(new, opt)
    with notices() as told:
        loaded, epochs, loaded_opt = program.load_new(new, opt)
    assert state_hash(new, opt) == before and epochs == 4
    assert loaded.body.weight.tobytes() == old.body.weight.tobytes() and loaded.body.bias.tobytes() == old.body.bias.tobytes()
    assert loaded.tail.tolist() == [0, 1, 2, 3, 4]
    assert (loaded_opt.step, loaded_opt.betas) == (3, (0.9, 0.999))
    for slot in ("first", "second"):
        assert loaded_opt.moment(slot, "body.weight").tobytes() == old_opt.moment(slot, "body.weight").tobytes()
        assert not loaded_opt.moment(slot, "tail").any()
    text = "2 of 3 parameters loaded: body.bias, body.weight; 1 missing in the file, and left as they were: tail; "
    text += "1 unexpected in the file, and left out: head"
    assert told == [
        f"old.pt: m: {text}",
        f"old.pt: opt: {text}",
        "old.pt: opt: betas is (0.8, 0.9) in the checkpoint and stays (0.9, 0.999)",
    ]


def test_one_result_is_no_tuple_and_partial_false_is_a_whole_load(program: Any, here: Path) -> None:
    program.save_old(*trained(program))
    with notices():
        assert isinstance(program.load_one(program.New(seed=9)), shapescript.Model)
    with pytest.raises(shapescript.CheckpointError) as raised:
        program.load_exact(program.New(seed=9))
    assert raised.value.kind == "value" and "force=true" in raised.value.message


def report_of(model: Any, state: dict[str, Any], **options: Any) -> LoadReport:
    with notices():
        report: LoadReport = model.load_state_dict(state, **options)
    return report


def test_from_python_the_report_says_what_was_loaded() -> None:
    model, other = filled(mlp_layout(), 1), filled(mlp_layout(), 2)
    state = other.state_dict()
    state["head.weight"] = state.pop("output.weight")
    report = report_of(model, state, partial=True)
    assert report.loaded == ("hidden.bias", "hidden.weight", "output.bias")
    assert (report.missing, report.unexpected) == (("output.weight",), ("head.weight",)) and not report.is_whole
    assert model.hidden.weight.tobytes() == other.hidden.weight.tobytes()
    assert model.output.weight.tobytes() == filled(mlp_layout(), 1).output.weight.tobytes()
    whole = report_of(model, other.state_dict())
    assert whole.is_whole and whole.loaded == mlp_layout().names and same_bytes(model, other)


def test_a_name_that_is_nearly_right_is_pointed_out() -> None:
    report = report_of(filled(mlp_layout()), {"hiden.weight": np.zeros(1), "hidden.bias": np.zeros(6, np.float32)}, partial=True)
    assert "hiden.weight (did you mean 'hidden.weight'?)" in str(report)


@pytest.mark.parametrize(
    ("state", "kind", "name", "words"),
    [
        ({}, "missing", "hidden.bias", ["nothing in the file"]),
        ({"weight": np.zeros(6, np.float32), "bias": np.zeros(6, np.float32)}, "missing", "hidden.bias", ["4 missing", "2 unexpected"]),
        ({"module.hidden.bias": np.zeros(6, np.float32)}, "missing", "hidden.bias", ["did you mean 'hidden.bias'?"]),
        ({"hidden.bias": np.zeros(7, np.float32)}, "shape", "hidden.bias", ["(6,)", "(7,)"]),
        ({"hidden.bias": np.zeros(6)}, "dtype", "hidden.bias", ["float32", "float64"]),
        ({"hidden.bias": 3}, "dtype", "hidden.bias", ["int"]),
        ({"hidden.bias": np.ones(6, np.float32), "hidden.weight": np.zeros((4, 6), np.float32)}, "shape", "hidden.weight", ["(6, 4)"]),
    ],
)
def test_nothing_that_matches_and_what_matches_and_does_not_fit_are_refused(
    tmp_path: Path, state: dict[str, Any], kind: str, name: str, words: list[str]
) -> None:
    model = filled(mlp_layout())
    before = state_hash(model)
    with pytest.raises(shapescript.CheckpointError) as raised:
        model.load_state_dict(state, partial=True)
    assert (raised.value.code, raised.value.kind, raised.value.name, state_hash(model)) == ("R1303", kind, name, before)
    assert all(word in raised.value.message for word in words), raised.value.message
    if kind in ("shape", "dtype") and all(isinstance(value, np.ndarray) for value in state.values()):
        torch.save({"m": {key: torch.from_numpy(value) for key, value in state.items()}}, tmp_path / "a.pt")
        with pytest.raises(shapescript.CheckpointError) as raised:
            restore(tmp_path / "a.pt", {"m": Start(model)})
        assert (raised.value.kind, raised.value.name, state_hash(model)) == (kind, name, before)


def test_axes_that_stand_at_another_place_are_refused(tmp_path: Path) -> None:
    shapescript.save_checkpoint(tmp_path / "a.pt", m=filled(Layout("M", [leaf("w", "V D", 4, 4)])))
    with pytest.raises(shapescript.CheckpointError) as raised:
        restore(tmp_path / "a.pt", {"m": Start(filled(Layout("M", [leaf("w", "D V", 4, 4), leaf("u", "D", 4)])))})
    assert (raised.value.kind, raised.value.name) == ("shape", "w")


def state_of(layout: Layout, step: int = 7) -> AdamW:
    state = AdamW(filled(layout))
    state.step = step
    for number, each in enumerate(layout.slots):
        layout.slots.view(state.slot("first"), each.name)[...] = number + 1
        layout.slots.view(state.slot("second"), each.name)[...] = number + 10
    return state


def test_an_optimisers_step_and_matching_slots_come_from_the_file(tmp_path: Path) -> None:
    shapescript.save_checkpoint(tmp_path / "a.pt", opt=state_of(Layout("M", [leaf("a", "D", 4), leaf("b", "D", 4)])))
    start = state_of(Layout("M", [leaf("b", "D", 4), leaf("c", "D", 4)]), step=2)
    with notices():
        results = restore(tmp_path / "a.pt", {"opt": Start(start)})
    assert results.reports == {"opt": LoadReport(("b",), ("c",), ("a",))}
    (opt,) = results
    assert (opt.step, start.step) == (7, 2)
    assert opt.moment("first", "b").tolist() == [2] * 4 and opt.moment("second", "b").tolist() == [11] * 4
    assert opt.moment("first", "c").tolist() == [2] * 4 and start.moment("first", "b").tolist() == [1] * 4


@pytest.mark.parametrize("part", ["step", "first", "second", "name of second"])
def test_a_part_that_is_missing_is_never_a_default(tmp_path: Path, part: str) -> None:
    layout = Layout("M", [leaf("a", "D", 4), leaf("b", "D", 4)])
    shapescript.save_checkpoint(tmp_path / "a.pt", opt=state_of(layout))
    tree = torch.load(tmp_path / "a.pt", weights_only=True)
    if part == "name of second":
        del tree["opt"]["second"]["b"]
    else:
        del tree["opt"][part]
    torch.save(tree, tmp_path / "a.pt")
    start = state_of(layout, step=1)
    before = state_hash(start)
    with pytest.raises(shapescript.CheckpointError) as raised:
        restore(tmp_path / "a.pt", {"opt": Start(start)})
    assert raised.value.kind == "missing" and state_hash(start) == before


def test_other_kinds_of_optimisers_and_no_matching_slot_are_refused(tmp_path: Path) -> None:
    layout = Layout("M", [leaf("a", "D", 4)])
    shapescript.save_checkpoint(tmp_path / "a.pt", opt=state_of(layout), n=3)
    for start, kind in ((Adam(filled(layout)), "optimiser"), (state_of(Layout("M", [leaf("z", "D", 4)])), "missing")):
        with pytest.raises(shapescript.CheckpointError) as raised:
            restore(tmp_path / "a.pt", {"opt": Start(start)})
        assert raised.value.kind == kind
    with pytest.raises(shapescript.CheckpointError) as raised:
        restore(tmp_path / "a.pt", {"n": Start(state_of(layout))})
    assert raised.value.kind == "optimiser"


def test_an_optimiser_that_remembers_nothing_takes_the_step(tmp_path: Path) -> None:
    layout = Layout("M", [leaf("a", "D", 4)])
    state = Sgd(filled(layout))
    state.step = 5
    shapescript.save_checkpoint(tmp_path / "a.pt", opt=state)
    with notices():
        (opt,) = restore(tmp_path / "a.pt", {"opt": Start(Sgd(filled(layout)))})
    assert opt.step == 5


def test_a_state_dict_and_an_optimiser_of_pytorch_are_taken_in_part(tmp_path: Path) -> None:
    net = torch.nn.ModuleDict({"hidden": torch.nn.Linear(4, 6), "other": torch.nn.Linear(6, 3)})
    theirs = torch.optim.AdamW(net.named_parameters())
    net["other"](net["hidden"](torch.ones(2, 4))).sum().backward()
    theirs.step()
    torch.save(net.state_dict(), tmp_path / "m.pt")
    torch.save({"opt": theirs.state_dict()}, tmp_path / "o.pt")
    model = filled(mlp_layout())
    with notices():
        found = restore(tmp_path / "m.pt", {"m": Start(model)})
        states = restore(tmp_path / "o.pt", {"opt": Start(AdamW(model))})
    report = LoadReport(("hidden.bias", "hidden.weight"), ("output.bias", "output.weight"))
    assert found.reports["m"].loaded == states.reports["opt"].loaded == report.loaded
    assert found.reports["m"].missing == states.reports["opt"].missing == report.missing
    assert found[0].hidden.weight.tobytes() == net["hidden"].weight.detach().numpy().tobytes()
    assert states[0].step == 1
    assert states[0].moment("first", "hidden.weight").tobytes() == theirs.state[net["hidden"].weight]["exp_avg"].numpy().tobytes()


def test_long_lists_of_names_are_cut() -> None:
    text = str(LoadReport(tuple(f"a{number}" for number in range(1000)), ("b",), tuple(f"c{number}" for number in range(5000))))
    assert "1000 of 1001 parameters loaded" in text and "and 980 more" in text and "and 4980 more" in text and len(text) < 2000
