"""Parameters that no gradient reaches stay as they are (report 39 of what breaks elsewhere in optimisers): both engines byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from both_engines import Both

import shapescript

UNREACHED = """
dim D = 3

model Inner:
    w: [D] = normal(0, 1)
    unused: [D] = normal(0, 1)

model M:
    inner: Inner
    stopped: [D] = normal(0, 1)
    used: f64[D] = normal(0, 1)
    apart: [20] = normal(0, 1)

fn loss(m: M, x: [D]) -> []:
    return sum((m.inner.w * x + stop_gradient(m.stopped) + f32(m.used)) ** 2, over=D)

fn step(mut m: M, mut opt: KIND[M], x: [D]) -> float:
    l, mut g = value_and_grad(loss(m, x), wrt=m)
    norm = clip_norm(mut g, 0.1)
    update(mut m, mut opt, g, lr=0.1)
    return norm

fn accumulated(mut m: M, mut opt: KIND[M], x: [n D]):
    mut total = zeros_like(m)
    for i in 0..n:
        l, g = value_and_grad(loss(m, x[n=i]), wrt=m)
        total = total + g
    mut mean = total / n
    clip_norm(mut mean, 0.1)
    update(mut m, mut opt, mean, lr=0.1, nonfinite="skip")

fn limited(mut m: M, mut opt: KIND[M], x: [D], often: bool):
    l, g = value_and_grad(loss(m, x), wrt=m)
    mut h = minimum(maximum(-g, -0.5), 0.5)
    if often:
        h = h * 2.0
    update(mut m, mut opt, -h, lr=0.1)

fn averaged(mut m: M, mut opt: KIND[M], x: [n D]):
    mut average = zeros_like(m)
    for i in 0..n:
        l, g = value_and_grad(loss(m, x[n=i]), wrt=m)
        average = 0.9 * average + 0.1 * g
        update(mut m, mut opt, average, lr=0.1)

fn given(mut m: M, mut opt: KIND[M], g: M):
    update(mut m, mut opt, g, lr=0.1)
"""
STILL = ("inner.unused", "stopped", "apart")
MOVED = ("inner.w", "used")
KINDS = {
    "AdamW": lambda m: shapescript.AdamW(m, decay=0.1),
    "Adam": lambda m: shapescript.Adam(m, decay=0.1, amsgrad=True),
    "Sgd": lambda m: shapescript.Sgd(m, momentum=0.9, decay=0.1),
}


@pytest.mark.parametrize(
    ("kind", "name"), [*((kind, "step") for kind in KINDS), *(("AdamW", name) for name in ("accumulated", "limited", "averaged"))]
)
def test_what_no_gradient_reaches_is_unchanged_after_twenty_steps(tmp_path: Path, kind: str, name: str) -> None:
    both = Both(tmp_path, UNREACHED.replace("KIND", kind))
    m, rng = both.native.M(seed=1), np.random.default_rng(2)
    before, opt = m.state_dict(), KINDS[kind](m)
    for turn in range(20):
        x = rng.standard_normal((5, 3)).astype(np.float32)
        both.call(
            name, m, opt, *((x,) if name in ("accumulated", "averaged") else (x[0],)), *((turn % 2 == 0,) if name == "limited" else ())
        )
    assert opt.step == (100 if name == "averaged" else 20)
    for parameter in STILL:
        assert m[parameter].tobytes() == before[parameter].tobytes(), parameter
        assert not any(opt.moment(slot, parameter).any() for slot in opt.slot_names)
    for parameter in MOVED:
        assert (m[parameter] != before[parameter]).all()
        assert all(opt.moment(slot, parameter).any() for slot in opt.slot_names)
    assert set(m.state_dict()) == {*STILL, *MOVED}  # what a checkpoint has


def test_steps_are_pytorchs_with_parameters_that_have_no_gradient(tmp_path: Path) -> None:
    both = Both(tmp_path, UNREACHED.replace("KIND", "AdamW"))
    m, rng = both.native.M(seed=1), np.random.default_rng(3)
    theirs = {name: torch.nn.Parameter(torch.from_numpy(np.array(value))) for name, value in m.state_dict().items()}
    optimiser, opt = torch.optim.AdamW(theirs.values(), lr=0.1, weight_decay=0.1), shapescript.AdamW(m, decay=0.1)
    for _ in range(20):
        x = rng.standard_normal(3).astype(np.float32)
        optimiser.zero_grad()
        made = theirs["inner.w"] * torch.from_numpy(x) + theirs["stopped"].detach() + theirs["used"].float()
        (made**2).sum().backward()
        norm = torch.nn.utils.clip_grad_norm_(theirs.values(), 0.1)
        optimiser.step()
        assert both.call("step", m, opt, x) == pytest.approx(float(norm), rel=1e-4)
    for name, parameter in theirs.items():
        np.testing.assert_allclose(m[name], parameter.detach().numpy(), rtol=1e-3, atol=1e-4)


def test_a_gradient_from_python_is_one_of_all_parameters(tmp_path: Path) -> None:
    both = Both(tmp_path, UNREACHED.replace("KIND", "AdamW"))
    m, g = both.native.M(seed=1), both.native.M(seed=1)
    g.buffer[:] = 0
    before = m.state_dict()
    both.call("given", m, shapescript.AdamW(m, decay=0.1), g)
    assert all((m[name] != value).all() for name, value in before.items())


BRANCHES = """
model M:
    a: [] = ones
    b: [] = ones
    c: [] = ones

fn both(m: M) -> []:
    return m.a + m.b

fn one(m: M) -> []:
    return m.b * m.b

fn either(mut m: M, mut opt: AdamW[M], first: bool):
    mut g = zeros_like(m)
    if first:
        l, h = value_and_grad(both(m), wrt=m)
        g = h
    else:
        l, h = value_and_grad(one(m), wrt=m)
        g = h
    update(mut m, mut opt, g, lr=0.1)

fn in_the_loss(m: M, first: bool) -> []:
    if first:
        return both(m)
    return one(m)

fn through(mut m: M, mut opt: AdamW[M], first: bool):
    l, g = value_and_grad(in_the_loss(m, first), wrt=m)
    update(mut m, mut opt, g, lr=0.1)

fn known(mut m: M, mut opt: AdamW[M], first: bool):
    l, g = value_and_grad(in_the_loss(m, false), wrt=m)
    update(mut m, mut opt, g, lr=0.1)
"""


@pytest.mark.parametrize(
    ("name", "first", "still"), [("either", True, "c"), ("either", False, "c"), ("through", False, "c"), ("known", True, "ac")]
)
def test_what_one_way_reaches_counts_as_reached(tmp_path: Path, name: str, first: bool, still: str) -> None:
    program = Both(tmp_path, BRANCHES)
    m = program.native.M(seed=0)
    program.call(name, m, shapescript.AdamW(m, decay=0.5), first)
    assert {parameter for parameter, value in m.state_dict().items() if value == 1.0} == set(still)


def warnings(tmp_path: Path, text: str) -> list[Any]:
    path = tmp_path / "p.ss"
    path.write_text(text)
    found = shapescript.check(path)
    assert all(not diagnostic.is_error and diagnostic.code == "E0805" for diagnostic in found)
    return found


def test_one_warning_names_what_no_gradient_reaches(tmp_path: Path) -> None:
    found = warnings(tmp_path, UNREACHED.replace("KIND", "AdamW"))
    assert [diagnostic.span.line for diagnostic in found] == [18, 26, 33, 42]
    for diagnostic in found:
        assert diagnostic.message.startswith("no gradient reaches `apart`, `inner.unused` and `stopped` of `M`")
        assert diagnostic.help is not None and "frozen=true" in diagnostic.help
    frozen = UNREACHED.replace("KIND", "AdamW").replace(
        "    apart: [20] = normal(0, 1)\n", "    buffer apart: [20] = zeros\n" + '    group "stopped", "inner.unused": frozen=true\n'
    )
    assert warnings(tmp_path, frozen) == []


def test_a_branch_that_one_caller_leaves_out_is_no_warning(tmp_path: Path) -> None:
    text = BRANCHES.replace("    c: [] = ones\n", "").split("fn either")[0]
    text += "fn loss(m: M, first: bool) -> []:\n    if first:\n        return both(m)\n    return one(m)\n\n"
    text += "fn gradient(m: M, first: bool) -> M:\n    l, g = value_and_grad(loss(m, first), wrt=m)\n    return g\n\n"
    text += "fn always(m: M) -> M:\n    return gradient(m, false)\n"
    assert warnings(tmp_path, text) == []
