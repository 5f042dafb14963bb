"""Parameters that are treated in a way of their own: what updates leave alone, and runs of parameters that are treated alike."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from optimiser_samples import Case, each_case, each_engine, fill, program, run_both

import shapescript
from shapescript.compiler.codegen.lower_optimisers import alike, runs
from shapescript.compiler.ir.flat import flat_layout, slot_layout
from shapescript.compiler.ir.sizes import number
from shapescript.compiler.ir.types import Element, Group, Member, ModelType, TensorType
from shapescript.engines import EngineName

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
