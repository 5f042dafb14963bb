"""What breaks elsewhere in optimisers, and what must hold here (reports 37, 38, 40 and 42): both engines byte for byte.

The numbers of report 37, gradients whose norm would overflow, are in test_clipping; report 39 is in
test_field_reports_unreached.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from both_engines import Both
from optimiser_samples import contents

import shapescript
from shapescript.compiler.numerics.powers import power_of_step
from shapescript.compiler.passes.pipeline import compile_entry

# ---- 37. a gradient that isn't finite is refused, skipped or allowed, as the program says

NONFINITE = """
dim D = 4

model M:
    a: [D] = ones
    b: [D] = ones

fn loss(m: M, x: [D]) -> []:
    return sum(sqrt(m.a * x) + m.b * x, over=D)

fn refused(mut m: M, mut opt: AdamW[M], x: [D]) -> float:
    l, g = value_and_grad(loss(m, x), wrt=m)
    update(mut m, mut opt, g, lr=0.1)
    return l

fn skipped(mut m: M, mut opt: AdamW[M], x: [D]) -> float:
    l, g = value_and_grad(loss(m, x), wrt=m, nonfinite="allow")
    update(mut m, mut opt, g, lr=0.1, nonfinite="skip")
    return l

fn skipped_when_clipped(mut m: M, mut opt: AdamW[M], x: [D]) -> float:
    l, mut g = value_and_grad(loss(m, x), wrt=m, nonfinite="allow")
    norm = clip_norm(mut g, 0.5)
    update(mut m, mut opt, g, lr=0.1, nonfinite="skip")
    return norm

fn allowed(mut m: M, mut opt: AdamW[M], x: [D]) -> float:
    l, mut g = value_and_grad(loss(m, x), wrt=m, nonfinite="allow")
    norm = clip_norm(mut g, 0.5)
    update(mut m, mut opt, g, lr=0.1, nonfinite="allow")
    return norm

fn run(mut m: M, mut opt: AdamW[M], x: [n D]) -> (int, [n]):
    mut losses = zeros[n]
    for i in 0..n:
        l, mut g = value_and_grad(loss(m, x[n=i]), wrt=m, nonfinite="allow")
        clip_norm(mut g, 0.5)
        update(mut m, mut opt, g, lr=0.1, nonfinite="skip")
        losses[n=i] = l
    return opt.step, losses
"""


@pytest.fixture(scope="module")
def nonfinite(tmp_path_factory: pytest.TempPathFactory) -> Both:
    return Both(tmp_path_factory.mktemp("nonfinite"), NONFINITE)


GOOD = np.array([1, 2, 3, 4], np.float32)
SPOILT = np.array([1, np.nan, 3, 4], np.float32)


@pytest.mark.parametrize(
    ("bad", "code", "text"), [("loss", "R1104", "the loss is nan"), ("gradient", "R1105", "the gradient of a is not finite")]
)
def test_a_step_with_what_is_not_finite_is_refused(nonfinite: Both, bad: str, code: str, text: str) -> None:
    for program in (nonfinite.native, nonfinite.reference):
        m = program.M(seed=0)
        opt = shapescript.AdamW(m)
        program.refused(m, opt, GOOD)
        if bad == "gradient":
            m.a = np.array([1, 0, 1, 1], np.float32)  # the root has no slope at 0
        before = contents(m, opt)
        with pytest.raises(shapescript.ShapeScriptError, match=text) as caught:
            program.refused(m, opt, SPOILT if bad == "loss" else GOOD)
        assert caught.value.code == code and caught.value.step == 2 and caught.value.span is not None
        assert contents(m, opt) == before


@pytest.mark.parametrize("name", ["skipped", "skipped_when_clipped"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_a_step_that_is_skipped_changes_nothing(nonfinite: Both, name: str, bad: float) -> None:
    m = nonfinite.native.M(seed=0)
    opt = shapescript.AdamW(m)
    nonfinite.call(name, m, opt, GOOD)
    before = contents(m, opt)
    assert opt.step == 1 and not math.isfinite(nonfinite.call(name, m, opt, np.array([1, bad, 3, 4], np.float32)))
    assert contents(m, opt) == before
    nonfinite.call(name, m, opt, GOOD)
    assert opt.step == 2 and contents(m, opt) != before


def test_a_run_that_skips_is_the_run_without_these_steps(nonfinite: Both) -> None:
    x = np.abs(np.random.default_rng(1).standard_normal((12, 4))).astype(np.float32)
    spoilt = np.insert(x, [0, 5, 5, 12], np.float32(np.nan), axis=0)
    m, other = nonfinite.native.M(seed=0), nonfinite.native.M(seed=0)
    m.a = other.a = np.full(4, 9, np.float32)
    opt, state = shapescript.AdamW(m), shapescript.AdamW(other)
    steps, losses = nonfinite.call("run", m, opt, spoilt)
    wanted, same = nonfinite.call("run", other, state, x)
    assert steps == wanted == 12 and contents(m, opt) == contents(other, state)
    assert np.isnan(losses).sum() == 4 and losses[~np.isnan(losses)].tobytes() == same.tobytes()


def test_what_is_allowed_goes_into_the_parameters_that_it_belongs_to(nonfinite: Both) -> None:
    m = nonfinite.native.M(seed=0)
    m.a = np.array([1, 0, 1, 1], np.float32)
    opt = shapescript.AdamW(m)
    assert nonfinite.call("allowed", m, opt, GOOD) == math.inf and opt.step == 1
    assert np.isnan(m.a).tolist() == [False, True, False, False] and np.isfinite(m.b).all()


def test_a_check_behind_clipping_costs_no_pass(nonfinite: Both) -> None:
    """What is finite is known of the norm, and the factor goes into the update."""
    for name in ("skipped_when_clipped", "allowed"):
        checked = vars(nonfinite.native)["_checked"]
        function = compile_entry(checked.module, checked.functions[name][0].key, {})
        names = [op.name for op in function.body.ops]
        assert "scale_model" not in names and "copy" not in names and names.count("global_norm") == 1
        assert all(op.operands[0].type != op.result.type for op in function.body.ops if op.name == "all_finite")


# ---- 38. the decay works on what is said to be decayed, and on nothing else

DECAYED = """
model Layer:
    weight: [4 3] = normal(0, 1)
    bias: [3] = normal(0, 1)

model M:
    layers: Layer * 2
    ln_1: [5] = normal(0, 1)
    buffer seen: [2] = ones
    group "*.bias", "ln_1": decay=false
    group "layers.1.weight": frozen=true

fn table(m: M) -> str:
    return groups(m)

fn loss(m: M) -> []:
    mut l = sum(m.ln_1, over=5)
    for layer in m.layers:
        l = l + sum(layer.weight, over=(4, 3)) + sum(layer.bias, over=3)
    return 0.0 * l

fn by_the_loss(mut m: M, mut opt: AdamW[M]):
    for i in 0..10:
        l, g = value_and_grad(loss(m), wrt=m)
        update(mut m, mut opt, g, lr=0.1)

fn by_zeros(mut m: M, mut opt: AdamW[M]):
    for i in 0..10:
        update(mut m, mut opt, zeros_like(m), lr=0.1)
"""


@pytest.mark.parametrize("name", ["by_the_loss", "by_zeros"])
def test_zero_gradients_shrink_what_is_printed_as_decayed(tmp_path: Path, name: str) -> None:
    both = Both(tmp_path, DECAYED)
    assert both.native.diagnostics == ()
    m = both.native.M(seed=2)
    before, opt = m.state_dict(), shapescript.AdamW(m, decay=0.05)
    rows = [line.split() for line in both.call("table", m).splitlines()[1:]]
    decayed = {parameter for parameter, decay, _, frozen in rows if decay == "yes" and frozen == "no"}
    assert decayed == {"layers.0.weight"}
    both.call(name, m, opt)
    assert opt.step == 10
    for parameter, value in m.state_dict().items():
        if parameter in decayed:
            np.testing.assert_allclose(value, before[parameter] * (1 - 0.1 * 0.05) ** 10, rtol=1e-6)
        else:
            assert value.tobytes() == before[parameter].tobytes(), parameter


# ---- 40. small parameters, exact numbers

LOW = """
model M:
    w: bf16[5] = ones

fn train(mut m: M, mut opt: KIND[M], g: M, steps: int):
    for i in 0..steps:
        update(mut m, mut opt, g, lr=1e-3)
"""


def test_the_state_of_bf16_parameters_is_exact_after_a_thousand_steps(tmp_path: Path) -> None:
    both = Both(tmp_path, LOW.replace("KIND", "AdamW"))
    m, g = both.native.M(seed=0), both.native.M(seed=0)
    g.w = shapescript.bfloat16(np.full(5, 0.1, np.float32))
    value = float(g.w[0])
    opt = shapescript.AdamW(m, betas=(0.9, 0.999), decay=0.0)
    both.call("train", m, opt, g, 1000)
    first, second = opt.moment("first", "w"), opt.moment("second", "w")
    assert opt.step == 1000 and first.dtype == second.dtype == np.float32
    np.testing.assert_allclose(first, value * (1 - 0.9**1000), rtol=1e-5)
    np.testing.assert_allclose(second, value**2 * (1 - 0.999**1000), rtol=1e-4)
    for beta in (0.9, 0.999):
        assert power_of_step(beta, 1000) == pytest.approx(math.exp(1000 * math.log(beta)), rel=1e-10)
    assert (m.w == 1.0).all()  # each update is less than half a unit: lost in the rounding, as docs/language.md says


def test_a_parameter_of_f32_keeps_small_updates(tmp_path: Path) -> None:
    both = Both(tmp_path, LOW.replace("KIND", "Sgd").replace("bf16[5]", "[5]").replace("lr=1e-3", "lr=1e-4"))
    m, g = both.native.M(seed=0), both.native.M(seed=0)
    both.call("train", m, shapescript.Sgd(m), g, 100)
    np.testing.assert_allclose(m.w, 0.99, rtol=1e-5)


# ---- 42. a NaN ends the run before it is saved

SAVED = """
model M:
    w: [3] = ones

fn train(mut m: M, x: [n 3], path: str):
    mut opt = AdamW(m)
    for i in 0..n:
        row = x[n=i]
        l, g = value_and_grad(sum(log(m.w * row), over=3), wrt=m)
        update(mut m, mut opt, g, lr=1e-3)
        if opt.step % 10 == 0:
            save(path, m=m, opt=opt)
"""


@pytest.mark.parametrize("engine", ["native", "numpy"])
def test_a_run_that_meets_nan_stops_there_and_keeps_its_checkpoint(tmp_path: Path, engine: Any) -> None:
    path = tmp_path / "p.ss"
    path.write_text(SAVED)
    program = shapescript.load(path, engine=engine)
    x = np.ones((80, 3), np.float32)
    x[49, 1] = np.nan
    m = program.M(seed=0)
    with pytest.raises(shapescript.ShapeScriptError, match="the loss is nan at step 50") as caught:
        program.train(m, x, str(tmp_path / "last.pt"))
    assert caught.value.code == "R1104" and caught.value.step == 50 and caught.value.span.line == 9
    saved = torch.load(tmp_path / "last.pt", weights_only=True)
    assert np.isfinite(saved["m"]["w"].numpy()).all()
    again = program.M(seed=0)
    program.train(again, x[:40], str(tmp_path / "forty.pt"))
    assert (tmp_path / "forty.pt").read_bytes() == (tmp_path / "last.pt").read_bytes()
