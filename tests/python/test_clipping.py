"""The norm of a gradient and its clipping: right for numbers of every size, beside exact arithmetic; both engines byte for byte."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from both_engines import Both

import shapescript
from shapescript.compiler.numerics.norms import LARGEST_NORM

PROGRAM = """
model M:
    w: {F}[100] = zeros
    b: {F}[3] = zeros
    buffer seen: [2] = ones

fn norm(g: M) -> float:
    mut h = g
    return clip_norm(mut h, 1.0)

fn clipped(g: M, limit: float) -> (float, M):
    mut h = g
    norm = clip_norm(mut h, limit)
    return norm, h

fn step(mut m: M, mut opt: Sgd[M], g: M, limit: float) -> float:
    mut h = g
    norm = clip_norm(mut h, limit)
    update(mut m, mut opt, h, lr=1.0)
    return norm
"""

TYPES = {"": np.float32, "bf16": np.float32, "f64": np.float64}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Both]:
    """One for each type of elements."""
    return {element: Both(tmp_path_factory.mktemp(f"of{element}"), PROGRAM.replace("{F}", element)) for element in TYPES}


def gradient(both: Both, w: Any, b: Any = 0.0) -> Any:
    g = both.native.M(seed=0)
    for name, value in (("w", w), ("b", b)):
        g[name] = np.broadcast_to(np.asarray(value), g[name].shape).astype(g[name].dtype)
    return g


def exact_norm(*tensors: Any) -> float:
    """Of exact squares; the root to 40 digits, rounded once."""
    total = sum((Fraction(float(x)) ** 2 for tensor in tensors for x in np.asarray(tensor).reshape(-1)), Fraction(0))
    if total == 0:
        return 0.0
    shift = 2 * ((total.denominator.bit_length() - total.numerator.bit_length()) // 2 + 140)
    scaled = total * Fraction(2) ** shift
    try:
        return float(Fraction(math.isqrt(scaled.numerator // scaled.denominator)) / Fraction(2) ** (shift // 2))
    except OverflowError:
        return math.inf


# ---- 37. finite gradients neither overflow nor vanish


@pytest.mark.parametrize("element", ["", "bf16", "f64"])
def test_a_hundred_gradients_of_1e20_become_a_tenth_each(programs: dict[str, Both], element: str) -> None:
    both = programs[element]
    g = gradient(both, 0.0 if element == "bf16" else np.float32(1e20))
    if element == "bf16":
        g.w = shapescript.bfloat16(np.full(100, 1e20, np.float32))
    norm, h = both.call("clipped", g, 1.0)
    unit = {"": 2.0**-23, "bf16": 2.0**-8, "f64": 2.0**-23}[element]
    np.testing.assert_allclose(h.w, 0.1, rtol=2 * unit)
    assert norm == pytest.approx(1e21, rel=unit)


SIZES = [1e-323, 1e-310, 1e-300, 1e-200, 1e-160, 1e-150, 1e-140, 1e-30, 1.0, 1e30, 1e140, 1e150, 1e160, 1e200, 1e300, 1e307]


@pytest.mark.parametrize("size", SIZES)
def test_norms_of_f64_are_right_for_every_size(programs: dict[str, Both], size: float) -> None:
    both = programs["f64"]
    rng = np.random.default_rng(3)
    g = gradient(both, rng.standard_normal(100) * size, rng.standard_normal(3) * size * 1e-3)
    wanted = exact_norm(g.w, g.b)
    assert both.call("norm", g) == pytest.approx(wanted, rel=4e-15)
    # subnormal elements have few digits themselves: what they have is kept
    limit = 0.5 * wanted if wanted > 1e-290 else 1.0
    _, h = both.call("clipped", g, limit)
    factor = Fraction(limit) / (Fraction(wanted) + Fraction(1e-6))
    if factor >= 1:
        assert h.w.tobytes() == g.w.tobytes()
    else:
        exact = np.array([float(Fraction(float(x)) * factor) for x in g.w])
        np.testing.assert_allclose(h.w, exact, rtol=2.0**-23)


@pytest.mark.parametrize(("element", "size"), [("", 1e38), ("", 1e-44), ("f64", 1e200), ("f64", 1e-200), ("f64", 1e270), ("f64", 3e-308)])
@pytest.mark.parametrize("limit", [1e-30, 1e-6, 1.0, 1e6])
def test_clipped_gradients_are_right_for_every_size(programs: dict[str, Both], element: str, size: float, limit: float) -> None:
    both = programs[element]
    rng = np.random.default_rng(4)
    g = gradient(both, rng.uniform(-1, 1, 100) * size, rng.uniform(-1, 1, 3) * size)
    wanted = min(exact_norm(g.w, g.b), LARGEST_NORM)
    norm, h = both.call("clipped", g, limit)
    assert norm == pytest.approx(wanted, rel=1e-14)
    factor = min(Fraction(1), Fraction(limit) / (Fraction(wanted) + Fraction(1e-6)))
    kind = TYPES[element]
    for found, given in ((h.w, g.w), (h.b, g.b)):
        exact = np.array([float(Fraction(float(x)) * factor) for x in given])
        np.testing.assert_allclose(found, exact, rtol=2.0**-22, atol=2 * float(np.finfo(kind).smallest_subnormal))
    m = both.native.M(seed=0)
    opt = shapescript.Sgd(m)
    both.call("step", m, opt, g, limit)  # the factor goes into the update
    assert m.w.tobytes() == (kind(0) - h.w).tobytes() and m.b.tobytes() == (kind(0) - h.b).tobytes()


@pytest.mark.parametrize(("low", "high"), [(2.0**-450, 2.0**-449), (2.0**496, 2.0**497)])
def test_where_scaling_begins_norms_go_on(programs: dict[str, Both], low: float, high: float) -> None:
    both = programs["f64"]
    norms = [both.call("norm", gradient(both, size, size)) / size for size in np.linspace(low, high, 9)]
    np.testing.assert_allclose(norms, math.sqrt(103), rtol=1e-15)


MIXED = """
model M:
    a: [40] = zeros
    c: bf16[40] = zeros
    e: f64[40] = zeros

fn norm(g: M) -> float:
    mut h = g
    return clip_norm(mut h, 1.0)
"""


@pytest.mark.parametrize("size", [1.0, 1e30, 1e-30])
@pytest.mark.parametrize("wide", [1.0, 1e170, 1e-170, 0.0])
def test_the_norm_of_mixed_types_is_that_of_f64(tmp_path: Path, size: float, wide: float) -> None:
    both = Both(tmp_path, MIXED)
    g, rng = both.native.M(seed=0), np.random.default_rng(5)
    g.a, g.e = (rng.standard_normal(40) * size).astype(np.float32), rng.standard_normal(40) * wide
    g.c = shapescript.bfloat16((rng.standard_normal(40) * size).astype(np.float32))
    assert both.call("norm", g) == pytest.approx(exact_norm(g.a, np.array(g.c, np.float64), g.e), rel=1e-14)


def test_a_norm_beyond_f64_counts_as_its_largest_number(programs: dict[str, Both]) -> None:
    both = programs["f64"]
    largest = float(np.finfo(np.float64).max)
    norm, h = both.call("clipped", gradient(both, largest, -largest), 1.0)
    assert norm == largest
    np.testing.assert_allclose(h.w, 1.0, rtol=1e-12)


# ---- numbers that aren't finite


@pytest.mark.parametrize("element", ["", "f64"])
@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_a_gradient_that_is_not_finite_is_left_to_the_update(programs: dict[str, Both], element: str, bad: float) -> None:
    both = programs[element]
    g = gradient(both, 1.0, 2.0)
    w = np.array(g.w)
    w[7] = bad
    g.w = w
    norm, h = both.call("clipped", g, 1.0)
    assert math.isnan(norm) if math.isnan(bad) else norm == math.inf
    np.testing.assert_array_equal(h.w, g.w)
    for program_ in (both.native, both.reference):
        m = both.native.M(seed=0)
        opt = shapescript.Sgd(m)
        with pytest.raises(shapescript.ShapeScriptError) as caught:
            program_.step(m, opt, g, 1.0)
        assert caught.value.code == "R1105" and caught.value.step == 1 and caught.value.span.text.startswith("update(")
        assert f"the gradient of w is not finite at step 1 (the norm is {norm})" in caught.value.message
        assert opt.step == 0 and not m.w.any()


def test_bits_in_the_ordinary_range_are_as_defined(programs: dict[str, Both]) -> None:
    """By the formulas of exactness.md: the factor is rounded once to f32, and each element is multiplied by it."""
    both = programs["f64"]
    rng = np.random.default_rng(8)
    g = gradient(both, rng.standard_normal(100), rng.standard_normal(3))
    norm, h = both.call("clipped", g, 0.5)
    factor = np.float64(np.float32(np.float64(0.5) / (np.float64(norm) + 1e-6)))
    assert h.w.tobytes() == (g.w * factor).tobytes() and h.b.tobytes() == (g.b * factor).tobytes()
