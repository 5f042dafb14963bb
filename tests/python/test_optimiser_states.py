"""States of optimisers as they are saved, loaded, and exchanged with PyTorch."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from optimiser_samples import CASES, ENGINES, Case, contents, fill, program

import shapescript
from shapescript.engines import EngineName
from shapescript.runtime.checkpoint import load_checkpoint, save_checkpoint
from shapescript.runtime.errors import ArgumentError, CheckpointError
from shapescript.runtime.optimiser import OPTIMISERS, Optimiser
from shapescript.runtime.restore import OptimiserType, restore

each_case = pytest.mark.parametrize("case", CASES, ids=str)

MEMBERS = "    weight: [4 3] = normal(0, 1)\n    bias: [4] = normal(0, 1)\n    buffer seen: int[] = zeros"
SAVING = """
fn keep(m: M, opt: KIND[M]):
    save("state.pt", m=m, opt=opt)

fn again(m: M) -> KIND[M]:
    opt = load("state.pt", opt=KIND[M])
    return opt
"""


class Pair:
    """One model here and in PyTorch, with a state each, trained by the same gradients."""

    def __init__(self, folder: Path, case: Case, engine: EngineName = "native") -> None:
        self.case, self.program = case, program(folder, MEMBERS, case, engine, SAVING.replace("KIND", case.kind))
        self.m, self.g, self.rng = self.program.M(seed=1), self.program.M(seed=1), np.random.default_rng(6)
        self.net = torch.nn.Linear(3, 4)
        self.net.load_state_dict({name: torch.from_numpy(np.array(self.m[name])) for name in ("weight", "bias")})
        self.ours, self.theirs = case.ours(self.m), case.theirs(self.net.named_parameters(), 0.1)

    def train(self, turns: int, ours: bool = True, theirs: bool = True) -> None:
        for _ in range(turns):
            fill(self.g, self.rng)
            if theirs:
                self.net.weight.grad, self.net.bias.grad = (torch.from_numpy(np.array(self.g[name])) for name in ("weight", "bias"))
                self.theirs.step()
            if ours:
                self.program.step(self.m, self.ours, self.g, 0.1)

    def assert_near(self) -> None:
        for name, parameter in self.net.named_parameters():
            np.testing.assert_allclose(self.m[name], parameter.detach().numpy(), rtol=1e-4, atol=1e-4)


def tensors(state: Any) -> Any:
    """A state with PyTorch's tensors in the place of arrays."""
    if isinstance(state, np.ndarray):
        return torch.from_numpy(state.copy())
    if isinstance(state, dict):
        return {name: tensors(value) for name, value in state.items()}
    return [tensors(value) for value in state] if isinstance(state, list) else state


# ---- PyTorch's form


@each_case
def test_a_state_goes_to_pytorch_and_on_there(tmp_path: Path, case: Case) -> None:
    pair = Pair(tmp_path, case)
    pair.train(5)
    state = pair.ours.state_dict(dict(pair.net.named_parameters()), lr=0.1)
    assert [group["param_names"] for group in state["param_groups"]] == [["weight", "bias"]]
    pair.net = copy.deepcopy(pair.net)
    pair.theirs = case.theirs(pair.net.named_parameters(), 0.7)
    pair.theirs.load_state_dict(tensors(state))
    pair.train(5)
    pair.assert_near()


@each_case
def test_a_state_comes_from_pytorch_and_goes_on_here(tmp_path: Path, case: Case) -> None:
    pair = Pair(tmp_path, case)
    pair.train(5)
    pair.ours = OPTIMISERS[case.kind](pair.m)  # type: ignore[call-arg]
    pair.ours.load_state_dict(pair.theirs.state_dict())
    assert pair.ours.options == case.ours(pair.m).options
    assert pair.ours.step == (5 if case.kind != "Sgd" else 1 if "momentum" in case.options else 0)
    pair.train(5)
    pair.assert_near()
    unnamed = pair.theirs.state_dict()
    for group in unnamed["param_groups"]:
        del group["param_names"]
    pair.ours.load_state_dict(unnamed, dict(pair.net.named_parameters()))
    pair.train(5)
    pair.assert_near()


@each_case
def test_a_state_comes_back_from_its_own_form(tmp_path: Path, case: Case) -> None:
    pair = Pair(tmp_path, case)
    pair.train(3, theirs=False)
    twin = OPTIMISERS[case.kind](pair.m)  # type: ignore[call-arg]
    for names in (None, ["weight", "bias"], ["bias", "weight"]):
        twin.load_state_dict(pair.ours.state_dict(names))
        assert contents(pair.m, twin) == contents(pair.m, pair.ours)


def test_treatments_are_groups_in_pytorch(tmp_path: Path) -> None:
    members = "\n".join(f"    {name}: [4] = ones" for name in "abcd") + '\n    group "b": decay=false\n    group "c": frozen=true\n'
    case = Case("AdamW", {"decay": 0.25})
    both = program(tmp_path, members + '    group "d": rate=0.5', case, "native")
    m, g = both.M(seed=1), both.M(seed=1)
    opt = case.ours(m)
    both.step(m, opt, g, 0.1)
    state = opt.state_dict(lr=0.1)
    shown = [(group["param_names"], group["params"], group["lr"], group["weight_decay"]) for group in state["param_groups"]]
    assert shown == [(["a"], [0], 0.1, 0.25), (["b"], [1], 0.1, 0.0), (["d"], [2], 0.05, 0.25)] and list(state["state"]) == [0, 1, 2]
    twin = shapescript.AdamW(m)
    twin.load_state_dict(state)
    assert contents(m, twin) == contents(m, opt)
    state["param_groups"][1]["weight_decay"] = 0.25
    with pytest.raises(CheckpointError, match=r"R1303: M: b: expected decay 0.0, .* found 0.25"):
        twin.load_state_dict(state)
    assert contents(m, twin) == contents(m, opt)


def changed(edit: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Mapping[str, Any]]:
    def apply(state: dict[str, Any]) -> Mapping[str, Any]:
        edit(state)
        return state

    return apply


def regrouped(**settings: Any) -> Callable[[dict[str, Any]], Mapping[str, Any]]:
    return changed(lambda state: state["param_groups"][0].update(settings))


REFUSED: dict[str, tuple[str, Callable[[dict[str, Any]], Any], str]] = {
    "no state": ("optimiser", lambda state: {"weight": state}, "expected a state of AdamW"),
    "no dict": ("optimiser", lambda state: [state], "expected a state of AdamW"),
    "Adam": ("optimiser", regrouped(decoupled_weight_decay=False), "expected a state of AdamW"),
    "RAdam": ("optimiser", changed(lambda state: state["param_groups"][0].pop("amsgrad")), "expected a state of AdamW"),
    "Adamax": ("optimiser", changed(lambda state: state["state"][0].update(exp_inf=1)), "expected a state of AdamW"),
    "by position": ("optimiser", changed(lambda state: state["param_groups"][0].pop("param_names")), "by position"),
    "maximize": ("value", regrouped(maximize=True), "maximises"),
    "decay": ("value", regrouped(weight_decay=-1.0), "decay: expected a float that is at least 0"),
    "betas": ("value", regrouped(betas=0.9), "betas: expected two floats"),
    "amsgrad": ("value", regrouped(amsgrad=1), "amsgrad: expected a bool"),
    "fewer names": ("missing", regrouped(param_names=["weight"]), "2 parameters has 1 names"),
    "other names": ("missing", regrouped(param_names=["weight", "bios"]), "missing bias"),
    "steps": ("value", changed(lambda state: state["state"][1].update(step=torch.tensor(3.0))), "have done 2 updates, others 3"),
    "half a step": ("value", changed(lambda state: state["state"][1].update(step=1.5)), "bias: the number of updates"),
    "a word for a step": ("value", changed(lambda state: state["state"][1].update(step="1")), "bias: the number of updates"),
    "a shape": ("shape", changed(lambda state: state["state"][1].update(exp_avg=torch.zeros(3))), "exp_avg: bias"),
    "a dtype": (
        "dtype",
        changed(lambda state: state["state"][1].update(exp_avg_sq=torch.zeros(4, dtype=torch.float64))),
        "exp_avg_sq: bias",
    ),
    "a part less": ("missing", changed(lambda state: state["state"][1].pop("exp_avg_sq")), "exp_avg_sq: missing bias"),
    "nothing of one": ("value", changed(lambda state: state["state"].pop(1)), "have done 0 updates, others 2"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_state_of_pytorchs_that_does_not_fit_changes_nothing(tmp_path: Path, what: str) -> None:
    kind, edit, words = REFUSED[what]
    pair = Pair(tmp_path, Case("AdamW"))
    pair.train(2)
    before = contents(pair.m, pair.ours)
    with pytest.raises(CheckpointError) as raised:
        pair.ours.load_state_dict(edit(copy.deepcopy(pair.theirs.state_dict())))
    assert (raised.value.code, raised.value.kind) == ("R1303", kind) and words in raised.value.message
    assert contents(pair.m, pair.ours) == before


def test_names_that_are_not_the_parameters_are_refused(tmp_path: Path) -> None:
    pair = Pair(tmp_path, Case("AdamW"))
    for names, words in (
        (["weight"], "'bias' isn't among"),
        (["weight", "bias", "bios"], "no parameter 'bios'; did you mean 'bias'"),
        (["bias", "weight", "bias"], "twice"),
    ):
        with pytest.raises(ArgumentError, match=words):
            pair.ours.state_dict(names)
    with pytest.raises(CheckpointError, match="unexpected bios; did you mean 'bias'"):
        pair.ours.load_state_dict(pair.theirs.state_dict(), ["weight", "bios"])
    with pytest.raises(CheckpointError, match="1 names more than parameters"):
        pair.ours.load_state_dict(pair.theirs.state_dict(), ["weight", "bias", "more"])


# ---- checkpoints


@pytest.mark.parametrize("engine", ENGINES)
@each_case
def test_a_program_saves_and_loads_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: Case, engine: EngineName) -> None:
    monkeypatch.chdir(tmp_path)
    pair = Pair(tmp_path, case, engine)
    pair.train(3, theirs=False)
    pair.program.keep(pair.m, pair.ours)
    assert contents(pair.m, pair.program.again(pair.m)) == contents(pair.m, pair.ours)
    saved = torch.load("state.pt", weights_only=True)["opt"]
    assert saved["kind"] == case.kind and saved["step"] == 3
    assert {name for name in saved if isinstance(saved[name], dict)} == set(pair.ours.slot_names)
    for slot in pair.ours.slot_names:
        assert {name: tensor.numpy().tobytes() for name, tensor in saved[slot].items()} == {
            name: pair.ours.moment(slot, name).tobytes() for name in ("weight", "bias")
        }


@pytest.mark.parametrize(("saved", "asked"), [*itertools.permutations(OPTIMISERS, 2)])
def test_one_kind_is_not_loaded_as_another(tmp_path: Path, saved: str, asked: str) -> None:
    pair = Pair(tmp_path, Case(saved))
    pair.train(2)
    save_checkpoint(tmp_path / "ours.pt", opt=pair.ours)
    torch.save({"opt": pair.theirs.state_dict()}, tmp_path / "theirs.pt")
    for name, found in (("ours.pt", saved), ("theirs.pt", "another kind")):
        with pytest.raises(CheckpointError, match=f"expected a state of {asked}") as raised:
            restore(tmp_path / name, {"opt": OptimiserType(OPTIMISERS[asked], pair.m.layout)})
        assert (raised.value.code, raised.value.kind) == ("R1303", "optimiser") and found in raised.value.message


@each_case
def test_a_state_that_pytorch_saved_with_names_is_loaded_from_its_file(tmp_path: Path, case: Case) -> None:
    pair = Pair(tmp_path, case)
    pair.train(4)
    torch.save({"opt": pair.theirs.state_dict(), "epoch": 3}, tmp_path / "t.pt")
    (pair.ours,) = restore(tmp_path / "t.pt", {"opt": OptimiserType(OPTIMISERS[case.kind], pair.m.layout)})
    pair.train(4)
    pair.assert_near()


def test_an_adamw_saved_before_amsgrad_has_none(tmp_path: Path) -> None:
    pair = Pair(tmp_path, Case("AdamW"))
    pair.train(2, theirs=False)
    save_checkpoint(tmp_path / "a.pt", opt=pair.ours)
    saved = torch.load(tmp_path / "a.pt", weights_only=True)
    del saved["opt"]["amsgrad"]
    assert set(saved["opt"]) == {"kind", "step", "betas", "eps", "decay", "first", "second"}
    torch.save(saved, tmp_path / "a.pt")
    (state,) = restore(tmp_path / "a.pt", {"opt": OptimiserType(shapescript.AdamW, pair.m.layout)})
    assert not state.amsgrad and contents(pair.m, state) == contents(pair.m, pair.ours)


@pytest.mark.parametrize("case", [Case("Sgd", {"momentum": 0.5, "nesterov": True}), Case("Adam", {"amsgrad": True})], ids=str)
def test_a_part_that_is_missing_is_named(tmp_path: Path, case: Case) -> None:
    pair = Pair(tmp_path, case)
    save_checkpoint(tmp_path / "a.pt", opt=pair.ours)
    whole = load_checkpoint(tmp_path / "a.pt")["opt"]
    for part in set(whole) - {"kind", "nesterov", "amsgrad"}:
        torch.save({"opt": tensors({name: value for name, value in whole.items() if name != part})}, tmp_path / "b.pt")
        with pytest.raises(CheckpointError, match=f"the saved state has no '{part}'") as raised:
            restore(tmp_path / "b.pt", {"opt": OptimiserType(OPTIMISERS[case.kind], pair.m.layout)})
        assert raised.value.kind == "missing" and raised.value.name == f"opt.{part}"


# ---- Python's objects


@each_case
def test_a_state_says_what_it_is_and_copies(tmp_path: Path, case: Case) -> None:
    pair = Pair(tmp_path, case)
    pair.train(2, theirs=False)
    for twin in (pair.ours.copy(), copy.deepcopy(pair.ours)):
        assert contents(pair.m, twin) == contents(pair.m, pair.ours) and type(twin) is type(pair.ours)
        assert all(twin.slot(name).ctypes.data != pair.ours.slot(name).ctypes.data for name in twin.slot_names)
    assert repr(pair.ours).startswith(f"<{case.kind} of M, step 2, ")
    for name, value in case.options.items():
        assert getattr(pair.ours, name) == value


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda m: shapescript.Sgd(m, momentum=1.0), "momentum: expected a float that is at least 0 and below 1, got 1.0"),
        (lambda m: shapescript.Sgd(m, nesterov=True), "nesterov: a nesterov step needs a momentum above 0"),
        (lambda m: shapescript.Sgd(m, 0.5, True, dampening=0.5), "nesterov: a nesterov step needs a momentum above 0, and no dampening"),
        (lambda m: shapescript.Sgd(m, nesterov=1), "nesterov: expected a bool, got int"),
        (lambda m: shapescript.Sgd(m, dampening=-1.0), "dampening: expected a float that is at least 0 and at most 1"),
        (lambda m: shapescript.Adam(m, betas=(0.9, 1.0)), "betas[1]: expected a float that is at least 0 and below 1, got 1.0"),
        (lambda m: shapescript.Adam(m, eps=0), "eps: expected a float that is above 0 and finite, got 0.0"),
        (lambda m: shapescript.AdamW(m, decay=float("inf")), "decay: expected a float that is at least 0 and finite, got inf"),
        (lambda m: shapescript.AdamW(m, amsgrad="yes"), "amsgrad: expected a bool, got str"),
        (lambda m: shapescript.Adam([m]), "Adam: expected a model, got list"),
    ],
)
def test_options_out_of_their_range_are_refused(tmp_path: Path, make: Callable[[Any], Optimiser], words: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        make(Pair(tmp_path, Case("Sgd")).m)
    assert raised.value.code == "R1004" and words in raised.value.message


def test_a_function_takes_the_kind_that_it_declares(tmp_path: Path) -> None:
    pair = Pair(tmp_path, Case("Adam"))
    with pytest.raises(ArgumentError, match=r"R1004: opt: expected Adam\[M\], as shapescript.Adam\(model\) makes, got AdamW"):
        pair.program.step(pair.m, shapescript.AdamW(pair.m), pair.g, 0.1)
