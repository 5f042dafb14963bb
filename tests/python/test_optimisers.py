"""The built-in optimisers beside PyTorch's, by their definitions, and native code beside the reference byte for byte."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from optimiser_samples import CASES, MIXED, Case, assert_padding_is_zero, each_case, each_engine, fill, program, run_both

import shapescript
from shapescript.compiler.numerics.powers import power_of_step
from shapescript.engines import EngineName
from shapescript.runtime.arrays import Array

STEPS = 200
RATE = 0.02


# ---- beside PyTorch


@each_case
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_two_hundred_updates_are_pytorchs(tmp_path: Path, case: Case, element: str) -> None:
    """PyTorch works in the same type and rounds at other places.

    Each update rounds the value once more: half a unit of the largest value. A moment's rounding errors decay with it, so that a direction
    is right to some tens of units (1 / (1 - 0.9) for the first moment, a quotient and a root), of the largest direction of any update.
    """
    prefix = "" if element == "f32" else "f64"
    both = program(tmp_path, f"    w: {prefix}[7 5] = zeros\n    b: {prefix}[33] = zeros\n    s: {prefix}[] = zeros", case, "native")
    m, g = both.M(seed=0), both.M(seed=0)
    rng = np.random.default_rng(7)
    fill(m, rng)
    theirs = {name: torch.nn.Parameter(torch.from_numpy(np.array(array))) for name, array in m.state_dict().items()}
    state, optimiser = case.ours(m), case.theirs(theirs.values(), RATE)
    largest_value = largest_direction = 0.0
    for turn in range(STEPS):
        fill(g, rng, scale=2.0 if turn < STEPS // 2 else 0.01)
        before = {name: parameter.detach().clone() for name, parameter in theirs.items()}
        for name, parameter in theirs.items():
            parameter.grad = torch.from_numpy(np.array(g[name]))
        optimiser.step()
        both.step(m, state, g, RATE)
        for name, parameter in theirs.items():
            largest_value = max(largest_value, parameter.abs().max().item())
            largest_direction = max(largest_direction, (parameter.detach() - before[name]).abs().max().item())
    assert state.step == STEPS
    unit = float(torch.finfo(torch.float32 if element == "f32" else torch.float64).eps)
    bound = unit * STEPS * (largest_value + 32 * largest_direction)
    for name, parameter in theirs.items():
        np.testing.assert_allclose(m[name], parameter.detach().numpy(), rtol=0, atol=bound)
    assert bound < (1e-2 if element == "f32" else 1e-11)


def test_the_rate_may_change_from_update_to_update(tmp_path: Path) -> None:
    for case in (Case("Sgd", {"momentum": 0.9, "decay": 0.1}), Case("Adam", {"decay": 0.1}), Case("AdamW", {"decay": 0.1})):
        both = program(tmp_path, "    w: f64[20] = ones", case, "native")
        m, g = both.M(seed=0), both.M(seed=0)
        parameter = torch.nn.Parameter(torch.from_numpy(np.array(m.w)))
        state, optimiser, rng = case.ours(m), case.theirs([parameter], 0.1), np.random.default_rng(1)
        for turn in range(50):
            fill(g, rng)
            parameter.grad = torch.from_numpy(np.array(g.w))
            for group in optimiser.param_groups:
                group["lr"] = 0.1 / (1 + turn)
            optimiser.step()
            both.step(m, state, g, 0.1 / (1 + turn))
        np.testing.assert_allclose(m.w, parameter.detach().numpy(), rtol=1e-12, atol=1e-13)


# ---- by the formulas of exactness.md, to the bit


def without_tiny(moment: Array) -> Array:
    return np.where(np.abs(moment) < 2.0**-100, np.zeros_like(moment), moment)


def by_definition(case: Case, tensors: dict[str, Array], g: Array, t: int, rate: float) -> None:
    """One update of a tensor "p" and of what is remembered of it, each number made in f64 and rounded once."""
    kind = tensors["p"].dtype.type
    given = {"betas": (0.9, 0.999), "eps": 1e-8, "momentum": 0.0, "dampening": 0.0, "nesterov": False, "amsgrad": False}
    given.update({"decay": 0.01 if case.kind == "AdamW" else 0.0, **case.options})
    (beta1, beta2), momentum, decay = given["betas"], given["momentum"], given["decay"]
    p = tensors["p"]
    if case.kind != "AdamW":
        g = g + p * kind(decay)
    if case.kind == "Sgd" and not momentum:
        tensors["p"] = p - g * kind(rate)
    elif case.kind == "Sgd":
        u = without_tiny(tensors["velocity"] * kind(momentum) + g * kind(1.0 if t == 1 else 1.0 - given["dampening"]))
        direction = g + u * kind(momentum) if given["nesterov"] else u
        tensors["p"], tensors["velocity"] = p - direction * kind(rate), u
    else:
        m = without_tiny((g - tensors["first"]) * kind(1 - beta1) + tensors["first"])
        v = (g * g) * kind(1 - beta2) + tensors["second"] * kind(beta2)
        tensors["first"], tensors["second"], under = m, v, v
        if given["amsgrad"]:
            tensors["largest"] = under = np.where(tensors["largest"] > v, tensors["largest"], v)
        root = kind(1.0 / math.sqrt(1.0 - power_of_step(beta2, t)))
        moved = (m / (np.sqrt(under) * root + kind(given["eps"]))) * kind(rate / (1.0 - power_of_step(beta1, t)))
        tensors["p"] = (p * kind(1.0 - rate * decay) if case.kind == "AdamW" else p) - moved


@each_engine
@each_case
def test_updates_are_their_formulas(tmp_path: Path, case: Case, engine: EngineName) -> None:
    both = program(tmp_path, "    w: [37] = normal(0, 1)\n    x: f64[21] = normal(0, 1)", case, engine)
    m, g, rng = both.M(seed=1), both.M(seed=1), np.random.default_rng(8)
    state = case.ours(m)
    expected = {leaf: {"p": np.array(m[leaf]), **{slot: np.zeros_like(m[leaf]) for slot in state.slot_names}} for leaf in "wx"}
    for t in (1, 2, 3, 4):
        fill(g, rng, scale=10.0 ** rng.integers(-2, 3))
        both.step(m, state, g, 0.1 / t)
        for leaf, tensors in expected.items():
            by_definition(case, tensors, np.array(g[leaf]), t, 0.1 / t)
            assert m[leaf].tobytes() == tensors["p"].tobytes()
            for slot in state.slot_names:
                assert state.moment(slot, leaf).tobytes() == tensors[slot].tobytes()


# ---- both engines


@each_case
def test_native_code_does_what_the_reference_does(tmp_path: Path, case: Case) -> None:
    native, reference = run_both(tmp_path, MIXED, case)
    assert native == reference


def random_members(rng: np.random.Generator) -> str:
    """A model of up to eight tensors of any size and type, some of them treated in a way of their own."""
    members, groups = [], []
    for place in range(rng.integers(1, 9)):
        size = rng.choice([0, 1, 2, 15, 16, 17, 33, 100, 4097])
        members.append(f"    {rng.choice(['', '', 'buffer '])}p{place}: {rng.choice(['', '', 'f64'])}[{size}] = ones")
        if "buffer" not in members[-1] and rng.random() < 0.6:
            treatment = ["decay=false", "rate=0.5", "rate=3.0, decay=false", "frozen=true", "rate=0.0"][rng.integers(5)]
            groups.append(f'    group "p{place}": {treatment}')
    return "\n".join([*members, *groups])


@pytest.mark.parametrize("seed", range(12))
def test_random_models_with_treatments(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    case = CASES[rng.integers(len(CASES))]
    native, reference = run_both(tmp_path, random_members(rng), case, turns=2)
    assert native == reference


@pytest.mark.parametrize("kind", ["Sgd", "Adam", "AdamW"])
def test_a_model_without_parameters_is_updated(tmp_path: Path, kind: str) -> None:
    native, reference = run_both(tmp_path, "    buffer count: int[] = zeros", Case(kind))
    assert native == reference and native[0][1] == 8 and native[1] == [0.0] * 4


# ---- small numbers


@each_engine
@pytest.mark.parametrize("case", [Case("Sgd", {"momentum": 0.9}), Case("Adam"), Case("AdamW")], ids=str)
def test_tiny_moments_become_zero(tmp_path: Path, case: Case, engine: EngineName) -> None:
    both = program(tmp_path, "    w: [20] = ones\n    x: f64[20] = ones", case, engine)
    m, g = both.M(seed=0), both.M(seed=0)
    state = case.ours(m)
    both.step(m, state, g, 0.1)
    name = state.slot_names[0]
    assert state.moment(name, "w").all()
    g.w, g.x = np.zeros(20, np.float32), np.zeros(20)
    for _ in range(700):  # 0.9 ** 700 is about 2 ** -106
        both.step(m, state, g, 0.1)
    assert not state.moment(name, "w").any() and not state.moment(name, "x").any()


@each_engine
def test_an_eps_that_is_nothing_in_f32_leaves_zeros_between_tensors(tmp_path: Path, engine: EngineName) -> None:
    both = program(tmp_path, MIXED, Case("AdamW"), engine)
    m, g = both.M(seed=0), both.M(seed=1)
    state = shapescript.AdamW(m, eps=1e-60)
    both.step(m, state, g, 0.1)
    assert_padding_is_zero(m, state.slot("first"), state.slot("second"))
