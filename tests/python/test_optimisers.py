"""The built-in optimisers beside PyTorch's, native code beside the reference byte for byte, and what updates leave alone."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from optimiser_samples import CASES, ENGINES, Case, assert_padding_is_zero, contents, fill, program

import shapescript
from shapescript.compiler.codegen.callbacks import Frame
from shapescript.compiler.codegen.lower_optimisers import alike, runs
from shapescript.compiler.ir.flat import flat_layout, slot_layout
from shapescript.compiler.ir.sizes import number
from shapescript.compiler.ir.types import Element, Group, Member, ModelType, TensorType
from shapescript.compiler.numerics.powers import power_of_step
from shapescript.engines import EngineName
from shapescript.runtime.arrays import Array

each_case = pytest.mark.parametrize("case", CASES, ids=str)
each_engine = pytest.mark.parametrize("engine", ENGINES)

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

MIXED = """
    empty: [0 3] = zeros
    one: [1] = ones
    wide: f64[19] = uniform(-1, 1)
    long: [4097] = normal(0, 1)
    exact: f64[] = ones
    last: [3 17] = normal(0, 1)
    buffer seen: int[2] = zeros
    buffer mean: [5] = ones
    buffer flag: bool[] = true
"""


def run_both(tmp_path: Path, members: str, case: Case, turns: int = 4) -> list[Any]:
    """What updates and clipped updates leave, in each engine."""
    found = []
    for engine in ENGINES:
        both = program(tmp_path, members, case, engine)
        m, g = both.M(seed=3), both.M(seed=3)
        state, rng, norms = case.ours(m), np.random.default_rng(5), []
        for turn in range(turns):
            fill(g, rng, scale=10.0 ** rng.integers(-3, 3))
            both.step(m, state, g, 0.1 / (turn + 1))
            norms.append(both.clipped(m, state, g, 0.05, 0.5))
        assert_padding_is_zero(m, *(state.slot(name) for name in state.slot_names))
        found.append((contents(m, state), norms))
    return found


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


# ---- states


@each_engine
@each_case
def test_a_state_made_in_a_program_is_the_one_made_in_python(tmp_path: Path, case: Case, engine: EngineName) -> None:
    both = program(tmp_path, MIXED, case, engine)
    m = both.M(seed=3)
    assert contents(m, both.made(m)) == contents(m, case.ours(m))


@pytest.mark.parametrize(
    ("case", "names"),
    [
        (Case("Sgd"), ()),
        (Case("Sgd", {"momentum": 0.5}), ("velocity",)),
        (Case("Adam"), ("first", "second")),
        (Case("AdamW", {"amsgrad": True}), ("first", "second", "largest")),
    ],
    ids=str,
)
def test_a_state_has_the_slots_that_it_needs(tmp_path: Path, case: Case, names: tuple[str, ...]) -> None:
    both = program(tmp_path, MIXED, case, "native")
    for state in (case.ours(both.M(seed=1)), both.made(both.M(seed=1))):
        assert state.slot_names == names
        there = [name.name for name, slot in zip(state.kind.slots, state.slots, strict=True) if slot is not None]
        assert tuple(there) == names and (state.block[1 : 1 + len(state.slots)] != 0).sum() == len(names)
        with pytest.raises(KeyError, match="has no 'third'"):
            state.slot("third")


CHANGES = [
    (before, after)
    for choices in (
        (Case("Sgd"), Case("Sgd", {"momentum": 0.5}), Case("Sgd", {"momentum": 0.25, "nesterov": True})),
        (Case("AdamW"), Case("AdamW", {"amsgrad": True})),
    )
    for before in choices
    for after in choices
]


@each_engine
@pytest.mark.parametrize(("before", "after"), CHANGES, ids=str)
def test_a_program_gives_the_callers_state_other_options(tmp_path: Path, before: Case, after: Case, engine: EngineName) -> None:
    """It may need a slot that the state hasn't had, or leave one out."""
    both = program(tmp_path, MIXED, after, engine)
    m, g = both.M(seed=3), both.M(seed=4)
    state, twin = before.ours(m), m.copy()
    both.step(m, state, g, 0.1)
    m.take(twin.state_dict())
    both.renewed(m, state)
    assert contents(m, state) == contents(m, after.ours(m))
    fresh = after.ours(twin)
    for _ in range(2):
        both.step(m, state, g, 0.1)
        both.step(twin, fresh, g, 0.1)
    assert contents(m, state) == contents(twin, fresh)
    assert contents(m, state.copy()) == contents(m, state)


@pytest.mark.parametrize(
    ("before", "after"), [(before, after) for before, after in CHANGES if not before.options and after.options], ids=str
)
def test_a_state_asks_for_no_slot_that_it_could_not_be_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: Case, after: Case
) -> None:
    """The call ends where there is no memory for the slot, and updates go on with the slots that the state has."""
    both = program(tmp_path, MIXED, after, "native")
    m, g = both.M(seed=3), both.M(seed=4)
    state, twin = before.ours(m), before.ours(m)
    both.step(m, state, g, 0.1)
    both.step(m, state, g, 0.1)  # what later calls need is there

    def refuse(*_: object) -> None:
        raise MemoryError("no more")

    monkeypatch.setattr(Frame, "_make_slot", refuse)
    with pytest.raises(shapescript.OutOfMemoryError, match=r"^R1111: `renewed` needs more memory than there is: no more"):
        both.renewed(m, state)
    assert state.options == before.ours(m).options and state.slot_names == twin.slot_names
    other = m.copy()
    twin.load_state_dict(state.state_dict())
    both.step(m, state, g, 0.1)
    both.step(other, twin, g, 0.1)
    assert contents(m, state) == contents(other, twin)


LOOPS = """
fn train(mut m: M, g: M, turns: int, wanted: bool) -> KIND[M]:
    mut opt = MADE
    mut best = opt
    for i in 0..turns:
        if i == 3 and wanted:
            opt = OTHER
        update(mut m, mut opt, g, lr=0.1)
        if i == 1:
            best = opt
    if wanted:
        return opt
    return best
"""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Case("Sgd"), Case("Sgd", {"momentum": 0.5})),
        (Case("AdamW", {"amsgrad": True}), Case("AdamW")),
        (Case("Adam"), Case("Adam", {"amsgrad": True})),
    ],
    ids=str,
)
def test_states_with_and_without_a_slot_go_through_loops_and_branches(tmp_path: Path, one: Case, other: Case) -> None:
    text = LOOPS.replace("KIND", one.kind).replace("MADE", one.written()).replace("OTHER", other.written())
    for turns, wanted in ((0, True), (2, False), (6, True), (6, False)):
        found = []
        for engine in ENGINES:
            both = program(tmp_path, MIXED, one, engine, text)
            m, g = both.M(seed=3), both.M(seed=4)
            found.append((contents(m, both.train(m, g, turns, wanted)), m.buffer.tobytes()))
        assert found[0] == found[1], (turns, wanted)


# ---- treatments

TREATED = """
    a: [40] = normal(0, 1)
    b: [40] = normal(0, 1)
    c: f64[9] = normal(0, 1)
    d: [5] = normal(0, 1)
    e: f64[3] = normal(0, 1)
    buffer f: [4] = ones
    group "b": decay=false
    group "c": rate=0.25
    group "d": frozen=true
    group "e": decay=false, rate=2.0
"""


@each_engine
@each_case
def test_groups_are_pytorchs_parameter_groups(tmp_path: Path, case: Case, engine: EngineName) -> None:
    both = program(tmp_path, TREATED, case, engine)
    m, g = both.M(seed=1), both.M(seed=1)
    theirs = {name: torch.nn.Parameter(torch.from_numpy(np.array(array))) for name, array in m.state_dict().items()}
    before, state = m.state_dict(), case.ours(m)
    optimiser = case.theirs([theirs["a"]], 0.1)
    for name, settings in (("b", {"weight_decay": 0.0}), ("c", {"lr": 0.025}), ("e", {"weight_decay": 0.0, "lr": 0.2})):
        optimiser.add_param_group({"params": [theirs[name]], **settings})
    rng = np.random.default_rng(2)
    for _ in range(20):
        fill(g, rng)
        for name in "abce":
            theirs[name].grad = torch.from_numpy(np.array(g[name]))
        optimiser.step()
        both.step(m, state, g, 0.1)
    for name in "abce":
        unit = 1e-6 if name in "ab" else 1e-14
        np.testing.assert_allclose(m[name], theirs[name].detach().numpy(), rtol=20 * unit, atol=20 * unit)
    for name in "df":
        assert m[name].tobytes() == before[name].tobytes()
        assert not any(state.moment(slot, name).any() for slot in state.slot_names)


@each_engine
def test_norm_and_checks_see_only_what_is_trained(tmp_path: Path, engine: EngineName) -> None:
    case = Case("AdamW")
    both = program(tmp_path, TREATED, case, engine)
    m, g = both.M(seed=1), both.M(seed=2)
    g.d, g.f = np.full(5, np.nan, np.float32), np.full(4, np.inf, np.float32)
    norm = both.clipped(m, case.ours(m), g, 0.1, 1.0)
    flat = np.concatenate([g[name].astype(np.float64) for name in "abce"])
    assert norm == pytest.approx(np.linalg.norm(flat), rel=1e-12)
    both.step(m, case.ours(m), g, 0.1)
    g.b = np.full(40, np.nan, np.float32)
    for call in (lambda: both.step(m, case.ours(m), g, 0.1), lambda: both.clipped(m, case.ours(m), g, 0.1, 1.0)):
        with pytest.raises(shapescript.ShapeScriptError, match="R1105: the gradient of b"):
            call()


SCALED = """
fn scaled(g: M, limit: float) -> M:
    mut h = g
    clip_norm(mut h, limit)
    return h
"""


@each_engine
def test_clipping_scales_what_is_trained(tmp_path: Path, engine: EngineName) -> None:
    both = program(tmp_path, TREATED, Case("Sgd"), engine, SCALED)
    g = both.M(seed=2)
    found = both.scaled(g, 1e-3)
    for name in "df":
        assert found[name].tobytes() == g[name].tobytes()
    flat = np.concatenate([found[name].astype(np.float64) for name in "abce"])
    assert np.linalg.norm(flat) == pytest.approx(1e-3, rel=1e-5)
    assert both.scaled(g, math.inf).buffer.tobytes() == g.buffer.tobytes()


# ---- runs


def found_runs(*leaves: tuple[str, int, str]) -> list[tuple[str, list[tuple[int, int]]]]:
    """The runs of a model whose tensors have these names, sizes and elements; a name's first letter says its group."""
    members = tuple(Member(name, TensorType(Element(element), (number(size),))) for name, size, element in leaves)
    groups = (Group(("n*",), decay=False), Group(("s*",), rate=0.5), Group(("z*",), frozen=True))
    model = ModelType("M", "main", (), members, groups=groups)
    slots = {part.leaf.name: part for part in slot_layout(model).leaves}
    sorts = alike(flat_layout(model))
    return [(str(element), [(run.low, run.high) for run in runs(parts, slots)]) for (element, _), parts in sorts.items()]


def test_parameters_that_are_treated_alike_are_one_run() -> None:
    assert found_runs(("a", 40, "f32"), ("b", 1, "f32"), ("c", 0, "f32"), ("d", 16, "f32")) == [("float", [(0, 80)])]
    assert found_runs(("a", 9, "f64"), ("b", 8, "f64")) == [("double", [(0, 24)])]
    many = [(f"{letter}{place}", 16, "f32") for place in range(3) for letter in "an"]
    assert found_runs(*many) == [("float", [(0, 48)]), ("float", [(48, 96)])]


def test_what_is_treated_otherwise_ends_a_run() -> None:
    leaves = (("a", 16, "f32"), ("b", 3, "f64"), ("m", 16, "f32"), ("n", 16, "f32"), ("o", 5, "f32"), ("z", 16, "f32"), ("zz", 16, "i64"))
    assert found_runs(*leaves) == [("float", [(0, 16), (32, 48), (64, 80)]), ("double", [(8, 16)]), ("float", [(48, 64)])]


@pytest.mark.parametrize("kind", ["Sgd", "AdamW"])
def test_many_runs_are_done_from_a_table(tmp_path: Path, kind: str) -> None:
    members = "\n".join(f"    {letter}{place}: [{place}] = normal(0, 1)" for place in range(20) for letter in "pq")
    groups = '    group "q1*": decay=false\n    group "p*": rate=0.5\n    group "q3", "p7": frozen=true'
    native, reference = run_both(tmp_path, f"{members}\n{groups}", Case(kind, {"decay": 0.1}), turns=2)
    assert native == reference


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


# ---- numbers out of their range

COMPUTED = """
fn sgd(m: M, momentum: float, nesterov: bool, decay: float, dampening: float) -> Sgd[M]:
    return Sgd(m, momentum, nesterov, decay, dampening)

fn adam(m: M, beta1: float, beta2: float, eps: float, decay: float, amsgrad: bool) -> Adam[M]:
    return Adam(m, beta1, beta2, eps, decay, amsgrad)

fn adamw(m: M, beta1: float, beta2: float, eps: float, decay: float, amsgrad: bool) -> AdamW[M]:
    return AdamW(m, beta1, beta2, eps, decay, amsgrad)
"""
GOOD: dict[str, tuple[Any, ...]] = {
    "sgd": (0.9, False, 0.0, 0.0),
    "adam": (0.9, 0.999, 1e-8, 0.0, False),
    "adamw": (0.9, 0.999, 1e-8, 0.0, True),
}
NESTEROV = "a nesterov step needs a momentum above 0, and no dampening"
BAD = [
    *(("sgd", 0, value, f"momentum is at least 0 and below 1, not {value}") for value in (1.0, -0.1, math.nan)),
    *(("sgd", 2, value, f"decay is at least 0 and finite, not {value}") for value in (-1e-3, math.inf)),
    *(("sgd", 3, value, f"dampening is at least 0 and at most 1, not {value}") for value in (-0.5, 1.5, math.nan)),
    *((name, 0, value, f"beta1 is at least 0 and below 1, not {value}") for name in ("adam", "adamw") for value in (1.0, -0.1, math.nan)),
    *((name, 1, value, f"beta2 is at least 0 and below 1, not {value}") for name in ("adam", "adamw") for value in (1.0, -0.1)),
    *((name, 2, value, f"eps is above 0 and finite, not {value}") for name in ("adam", "adamw") for value in (0.0, -1e-8, math.inf)),
    *((name, 3, value, f"decay is at least 0 and finite, not {value}") for name in ("adam", "adamw") for value in (-0.01, math.nan)),
]


@each_engine
def test_constants_that_a_run_computes_are_checked_in_the_run(tmp_path: Path, engine: EngineName) -> None:
    both = program(tmp_path, "    w: [3] = ones", Case("Sgd"), engine, COMPUTED)
    m = both.M(seed=0)
    for name, good in GOOD.items():
        assert getattr(both, name)(m, *good).step == 0
    bad = [(name, [*GOOD[name][:place], value, *GOOD[name][place + 1 :]], text) for name, place, value, text in BAD]
    bad += [("sgd", [0.0, True, 0.0, 0.0], NESTEROV), ("sgd", [0.9, True, 0.0, 0.1], NESTEROV)]
    for name, arguments, text in bad:
        with pytest.raises(shapescript.ShapeScriptError) as raised:
            getattr(both, name)(m, *arguments)
        assert raised.value.code == "R1109" and raised.value.message == f"{text}; nothing was changed", (name, arguments)
        assert raised.value.span.text.startswith(name.replace("adamw", "AdamW").replace("adam", "Adam").replace("sgd", "Sgd"))


@each_engine
def test_rates_and_limits_are_checked_before_anything_changes(tmp_path: Path, engine: EngineName) -> None:
    case = Case("Sgd", {"momentum": 0.9})
    both = program(tmp_path, "    w: [3] = ones", case, engine)
    m, g = both.M(seed=0), both.M(seed=0)
    state = case.ours(m)
    both.clipped(m, state, g, 0.0, math.inf)
    before = contents(m, state)
    bad = [(lr, 1.0, f"a rate is at least 0 and finite, not {lr}") for lr in (-1e-9, math.nan, math.inf)]
    bad += [(0.1, limit, f"the limit of a norm is above 0, not {limit}") for limit in (0.0, -1.0, math.nan)]
    for lr, limit, text in bad:
        with pytest.raises(shapescript.ShapeScriptError) as raised:
            both.clipped(m, state, g, lr, limit)
        assert raised.value.code == "R1109" and raised.value.message == f"{text}; nothing was changed"
        assert contents(m, state) == before


CONSTANTS = [
    *(f"Sgd(m, momentum={value})" for value in ("1.0", "-0.5")),
    "Sgd(m, nesterov=true)",
    "Sgd(m, 0.5, nesterov=true, dampening=0.5)",
    "Sgd(m, dampening=2)",
    "Sgd(m, decay=-1)",
    *(f"{kind}(m, {name}={value})" for kind in ("Adam", "AdamW") for name in ("beta1", "beta2") for value in ("1", "-0.1", "1.5")),
    *(f"{kind}(m, eps={value})" for kind in ("Adam", "AdamW") for value in ("0", "-1e-8", "0.0")),
    *(f"{kind}(m, decay=-0.01)" for kind in ("Adam", "AdamW")),
]


@pytest.mark.parametrize("call", CONSTANTS)
def test_constants_in_a_program_are_checked_with_it(tmp_path: Path, call: str) -> None:
    path = tmp_path / "p.ss"
    path.write_text(f"model M:\n    w: [3] = ones\n\nfn make(m: M) -> {call.split('(', maxsplit=1)[0]}[M]:\n    return {call}\n")
    (found,) = shapescript.check(path)
    assert found.code == "E0503" and found.span is not None and found.span.line == 5
