"""Functions and selections in programs: host numbers, errors of a run, gradients that are cut or refused. Values: test_comparisons."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from gradients import Gradient

import shapescript
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.types import Element
from shapescript.compiler.ops.build import Builder
from shapescript.engines import EngineName

PROGRAM = """
fn of_float(x: float) -> (float, float, float, float):
    return gelu(x) + silu(x), floor(x) + ceil(x) + round(x), sign(x) * abs(x), clamp(x, -1, 1) + leaky_relu(x) + elu(x, 2.0)

fn of_int(n: int, m: int) -> (int, int, int, int, int):
    return abs(n), sign(n), minimum(n, m), maximum(n, m), clamp(n, -2, 2)

fn mixed(n: int, x: float) -> (float, float, float, float):
    return maximum(n, x), sqrt(n), n ** x, pow(n, 2)

fn halves(x: float) -> (float, float):
    return round(x), round(-x)

fn chosen(hot: bool, x: [b]) -> ([b], float, int):
    return where(hot, x, 0.0), float(f64(where(hot, 0.25, 1))), int(where(hot, 3, 4))

fn quotients(x: int[b], y: int[b]) -> (int[b], int[b]):
    return x // y, x % y

fn quotient(x: int[], y: int[]) -> int[]:
    return x // y

fn halved(x: int[b]) -> (int[b], int[b]):
    return x // 2, x % -3

fn estimate(x: [b n], correction: int) -> [b]:
    return variance(x, over=n, correction=correction)

fn rows(x: [b n]) -> ([b], [b n], [b n]):
    return logsumexp(x, over=n), log_softmax(x, over=n), softmax(x, over=n)

fn masked_rows(x: [b n], mask: bool[b n], weight: [b n]) -> []:
    scores = masked_fill(x, mask, -inf())
    return sum(where(mask, 0.0, log_softmax(scores, over=n) * weight), over=(b, n)) + sum(softmax(scores, over=n) * weight, over=(b, n))

fn inf() -> float:
    return exp(1000.0)

fn masked_gradient(x: [b n], mask: bool[b n], weight: [b n]) -> [b n]:
    l, g = value_and_grad(masked_rows(x, mask, weight), wrt=x)
    return g

fn cut(x: [b]) -> ([b], [b], [b]):
    l, g = value_and_grad(sum(where(x > 0.0, sqrt(x), 0.0), over=b), wrt=x)
    l2, g2 = value_and_grad(sum(masked_fill(log(x), x <= 0.0, -1.0), over=b), wrt=x)
    l3, g3 = value_and_grad(sum(where(x > 0.0, x * log(x), 0.0), over=b), wrt=x)
    return g, g2, g3

fn cut_rows(x: [b n], bias: [n], weight: [b]) -> ([b n], [n]):
    l, g = value_and_grad(rows_that_count(x, bias, weight), wrt=x)
    l2, g2 = value_and_grad(rows_that_count(x, bias, weight), wrt=bias)
    return g, g2

fn rows_that_count(x: [b n], bias: [n], weight: [b]) -> []:
    means = mean(rearrange(log(rearrange(x: b n -> n b)) : n b -> b n) / bias, over=n)
    return sum(where(weight > 0.0, means * weight, 0.0), over=b)

fn used_twice(x: [b]) -> []:
    y = sqrt(x)
    return sum(where(x > 1.0, y, 0.0) + y * 0.5, over=b)

fn also_used(x: [b]) -> [b]:
    l, g = value_and_grad(used_twice(x), wrt=x)
    return g

fn by_slope(x: [b], slope: []) -> []:
    l, g = value_and_grad(sum(elu(x, slope) + leaky_relu(x, slope), over=b), wrt=slope)
    return g

fn straight_through(x: [b]) -> [b]:
    l, g = value_and_grad(sum((x + stop_gradient(round(x) - x)) ** 2, over=b), wrt=x)
    return g

fn by_exponent(x: [b], y: [b]) -> [b]:
    l, g = value_and_grad(sum(where(x >= 0.0, x ** y, 0.0), over=b), wrt=y)
    return g

fn by_base(x: [b], y: [b]) -> [b]:
    l, g = value_and_grad(sum(x ** y, over=b), wrt=x)
    return g
"""


@pytest.fixture(scope="module", params=get_args(EngineName))
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    path = tmp_path_factory.mktemp("functions") / "functions.ss"
    path.write_text(PROGRAM)
    yield shapescript.load(path, engine=request.param)


def f32(*numbers: float) -> np.ndarray[Any, Any]:
    return np.array(numbers, np.float32)


def test_host_floats(program: Any) -> None:
    x = -1.75
    smooth, steps, same, others = program.of_float(x)
    assert smooth == pytest.approx(x * 0.5 * math.erfc(-x / math.sqrt(2)) + x / (1 + math.exp(-x)), rel=1e-14)
    assert (steps, same) == (-2.0 - 1.0 - 2.0, x)
    assert others == pytest.approx(-1.0 + 0.01 * x + 2 * math.expm1(x), rel=1e-14)


def test_host_ints_stay_ints(program: Any) -> None:
    assert program.of_int(-7, 3) == (7, -1, -7, 3, -2)
    assert all(type(value) is int for value in program.of_int(5, 3))
    assert program.mixed(9, 0.5) == (9.0, 3.0, 3.0, 81.0)


def test_halves_are_rounded_to_even(program: Any) -> None:
    assert [program.halves(x) for x in (0.5, 1.5, 2.5, 2.6)] == [(0.0, -0.0), (2.0, -2.0), (2.0, -2.0), (3.0, -3.0)]


def test_a_condition_chooses(program: Any) -> None:
    kept, quarter, three = program.chosen(True, f32(1, 2))
    assert (kept.tolist(), quarter, three) == ([1, 2], 0.25, 3)
    dropped, one, four = program.chosen(False, f32(1, 2))
    assert (dropped.tolist(), one, four) == ([0, 0], 1.0, 4)


def test_quotients_are_pythons(program: Any) -> None:
    x, y = np.array([7, -7, 7, -7, 0, 2**62]), np.array([3, 3, -3, -3, 5, -1])
    quotient, remainder = program.quotients(x, y)
    assert list(zip(quotient.tolist(), remainder.tolist(), strict=True)) == [
        divmod(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)
    ]
    half, third = program.halved(x)
    assert half.tolist() == [a // 2 for a in x.tolist()] and third.tolist() == [a % -3 for a in x.tolist()]
    assert program.quotient(-9, 2) == -5


@pytest.mark.parametrize(("x", "y"), [(5, 0), (-(2**63), -1)])
def test_a_quotient_that_does_not_exist_is_an_error(program: Any, x: int, y: int) -> None:
    with pytest.raises(shapescript.ShapeScriptError, match="R1106"):
        program.quotients(np.array([1, x]), np.array([1, y]))
    with pytest.raises(shapescript.ShapeScriptError, match="R1106"):
        program.quotient(x, y)
    empty = np.zeros(0, np.int64)
    assert [part.tolist() for part in program.quotients(empty, empty)] == [[], []]


def test_a_variance_divides_by_the_count_less_the_correction(program: Any) -> None:
    x = f32(1, 2, 4, 9).reshape(1, 4)
    for correction in (0, 1, 3):
        assert program.estimate(x, correction).tolist() == [np.float32(38 / (4 - correction))]
    for correction in (4, 5):
        with pytest.raises(shapescript.ShapeScriptError, match="R1103: variance of too few elements"):
            program.estimate(x, correction)
    with pytest.raises(shapescript.ShapeScriptError, match="R1103"):
        program.estimate(np.zeros((2, 0), np.float32), 0)


def test_rows_of_minus_infinity_alone(program: Any) -> None:
    x = np.array([[-np.inf, -np.inf], [0.0, -np.inf], [1e30, -1e30], [np.inf, 0.0]], np.float32)
    sums, logarithms, shares = program.rows(x)
    assert sums.tolist() == [-np.inf, 0.0, np.float32(1e30), np.inf]
    assert logarithms[:3].tolist() == [[-np.inf, -np.inf], [0.0, -np.inf], [0.0, -np.float32(2e30)]]
    assert shares[:3].tolist() == [[0.0, 0.0], [1.0, 0.0], [1.0, 0.0]]


def test_a_masked_row_gives_no_gradient(program: Any) -> None:
    x, mask = np.zeros((2, 3), np.float32), np.array([[True] * 3, [False, True, False]])
    found = program.masked_gradient(x, mask, np.arange(6, dtype=np.float32).reshape(2, 3))
    assert found[mask].tolist() == [0.0] * 4
    assert np.isfinite(found).all() and (found[1, [0, 2]] != 0).all()


def test_a_mask_cuts_gradients(program: Any) -> None:
    """What isn't chosen may have an infinite slope, or be NaN."""
    roots, logarithms, entropies = program.cut(f32(4.0, 0.0, -1.0))
    assert roots.tolist() == [0.25, 0.0, 0.0]
    assert logarithms.tolist() == [0.25, 0.0, 0.0]
    assert entropies.tolist() == pytest.approx([1 + math.log(4), 0.0, 0.0], rel=1e-6)


def test_a_mask_cuts_gradients_of_whole_rows(program: Any) -> None:
    x = np.array([[1.0, 2.0], [0.0, -1.0]], np.float32)
    by_x, by_bias = program.cut_rows(x, f32(1.0, 2.0), f32(3.0, 0.0))
    np.testing.assert_allclose(by_x, [[1.5, 0.375], [0.0, 0.0]], rtol=1e-6)
    np.testing.assert_allclose(by_bias, [0.0, -1.5 * math.log(2) / 4], rtol=1e-6)


def test_what_is_used_unmasked_too_is_not_cut(program: Any) -> None:
    assert program.also_used(f32(4.0, 0.0)).tolist() == [0.375, math.inf]


def test_gradients_by_host_numbers_and_exponents(program: Any) -> None:
    assert program.by_slope(f32(-1.0, 2.0), 0.5) == pytest.approx(math.expm1(-1.0) - 1.0, rel=1e-6)
    assert program.straight_through(f32(0.4, 1.6)).tolist() == [0.0, 4.0]
    assert program.by_exponent(f32(0.0, 0.0, 4.0), f32(0.0, 2.0, 0.5)).tolist() == pytest.approx([0.0, 0.0, 2 * math.log(4)], rel=1e-6)
    assert program.by_base(f32(0.0, 0.0, 0.0, -2.0, -2.0), f32(0.0, 1.0, 2.0, 3.0, 0.0)).tolist() == [0.0, 1.0, 0.0, 12.0, 0.0]


def test_a_gradient_reaches_the_mean_of_a_variance_too() -> None:
    """The entry gives both; their gradients are added."""
    x = np.random.default_rng(3).standard_normal((3, 4))

    def both(b: Builder, x: Value) -> Value:
        spread, centre = b.emit("variance", x, b.constant(1, Element.I64), positions=(1,))
        return b.op("add", b.op("mul", spread, centre), centre)

    _, found = Gradient(both, x).at(x)
    twin = torch.from_numpy(x).requires_grad_()
    (twin.var(1) * twin.mean(1) + twin.mean(1)).sum().backward()
    np.testing.assert_allclose(found, twin.grad, rtol=1e-12)


@pytest.mark.parametrize("name", ["sign", "floor", "ceil", "round"])
def test_no_gradient_flows_through_steps(name: str, tmp_path: Path) -> None:
    path = tmp_path / "steps.ss"
    path.write_text(
        f"fn f(x: [b]) -> []:\n    return sum({name}(x) * x, over=b)\n\n"
        "fn g(x: [b]) -> [b]:\n    l, g = value_and_grad(f(x), wrt=x)\n    return g\n"
    )
    with pytest.raises(shapescript.CompileError, match=f"E0801.*{name} can't be differentiated"):
        shapescript.load(path).g(f32(1.5))
