"""`loss.ctc` beyond its comparison with PyTorch: every alignment counted one by one, long rows, lengths, targets without an alignment."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from both_engines import Both
from torch.nn import functional

import shapescript

PROGRAM = """
import shapescript.std.loss as loss

fn each(x: T[b n c], target: int[b k], inputs: int[b], labels: int[b], blank: int) -> T[b]:
    return loss.ctc_each(x, target, inputs, labels, blank)

fn finite(x: T[b n c], target: int[b k], inputs: int[b], labels: int[b]) -> (T[b], T[b n c]):
    l, g = value_and_grad(sum(loss.ctc_each(log_softmax(x, over=c), target, inputs, labels, zero_infinity=true), over=b), wrt=x)
    return loss.ctc_each(log_softmax(x, over=c), target, inputs, labels, zero_infinity=true), g

fn feasible(x: T[b n c], target: int[b k], inputs: int[b], labels: int[b], blank: int) -> (T[], T[b n c]):
    l, g = value_and_grad(loss.ctc(log_softmax(x, over=c), target, inputs, labels, blank), wrt=x)
    return l, g

fn counted(x: T[b n c], target: int[b k], inputs: int[b], labels: int[b], mask: bool[b]) -> T[b n c]:
    l, g = value_and_grad(sum(where(mask, loss.ctc_each(x, target, inputs, labels), 0.0), over=b), wrt=x)
    return g

fn one(x: T[n c], target: int[k], inputs: int[], labels: int[]) -> T[]:
    return loss.ctc_each(x, target, inputs, labels)

fn steepness(x: T[b n c], target: int[b k], inputs: int[b], labels: int[b]) -> T[]:
    l, g = value_and_grad(loss.ctc(log_softmax(x, over=c), target, inputs, labels), wrt=x)
    return sum(g * g, over=(b, n, c))

fn bent(x: T[b n c], target: int[b k], inputs: int[b], labels: int[b]) -> (T[], T[b n c]):
    l, g = value_and_grad(steepness(x, target, inputs, labels), wrt=x)
    return l, g
"""
EPSILON = {np.float32: 2e-6, np.float64: 1e-13}


@pytest.fixture(scope="module")
def of(tmp_path_factory: pytest.TempPathFactory) -> Any:
    elements = {np.float32: "f32", np.float64: "f64"}
    made = {dtype: Both(tmp_path_factory.mktemp(element), PROGRAM.replace("T[", f"{element}[")) for dtype, element in elements.items()}
    return made.__getitem__


def distributions(dtype: Any, *shape: int, seed: int = 0) -> Any:
    x = np.random.default_rng(seed).standard_normal(shape)
    return (x - np.log(np.exp(x).sum(-1, keepdims=True))).astype(dtype)


def read(path: tuple[int, ...], blank: int) -> list[int]:
    return [label for label, _ in itertools.groupby(path) if label != blank]


def by_enumeration(x: Any, target: list[int], blank: int) -> float:
    """Minus the logarithm of the chances of all paths that say the target, added up."""
    paths = itertools.product(range(x.shape[1]), repeat=len(x))
    chances = (np.exp(sum(float(x[t, symbol]) for t, symbol in enumerate(path))) for path in paths if read(path, blank) == target)
    with np.errstate(divide="ignore"):
        return float(-np.log(sum(chances)))


TARGETS = [[], [1], [2, 1], [1, 1], [2, 2, 1], [1, 1, 1], [1, 2, 1], [1, 2, 1, 2]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("inputs", [0, 1, 2, 4, 5])
@pytest.mark.parametrize("blank", [0, 2])
def test_every_alignment_is_counted(of: Any, dtype: Any, inputs: int, blank: int) -> None:
    targets = [[(label + blank) % 3 for label in target] for target in TARGETS]
    x = distributions(dtype, len(targets), 6, 3)
    padded = np.array([target + [77] * (4 - len(target)) for target in targets])
    lengths = np.array([len(target) for target in targets])
    found = of(dtype).call("each", x, padded, np.full(len(targets), inputs), lengths, blank)
    wanted = [by_enumeration(row[:inputs].astype(float), target, blank) for row, target in zip(x, targets, strict=True)]
    np.testing.assert_allclose(found, wanted, rtol=EPSILON[dtype], atol=EPSILON[dtype])
    assert np.isfinite(found).any()
    assert np.isinf(found).any() == (inputs < 5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_long_rows_neither_overflow_nor_vanish(of: Any, dtype: Any) -> None:
    rng = np.random.default_rng(5)
    x = (rng.standard_normal((3, 200, 12)) * 8).astype(dtype)
    target, inputs, labels = rng.integers(0, 11, (3, 60)), np.array([200, 150, 200]), np.array([60, 20, 0])
    found, gradient = of(dtype).call("feasible", x, target, inputs, labels, 11)
    theirs = torch.from_numpy(x).requires_grad_()
    given = (theirs.log_softmax(2).transpose(0, 1), *map(torch.from_numpy, (target, inputs, labels)))
    wanted = functional.ctc_loss(*given, blank=11)
    wanted.backward()
    assert theirs.grad is not None
    assert found == pytest.approx(wanted.item(), rel=10 * EPSILON[dtype])
    np.testing.assert_allclose(gradient, theirs.grad, rtol=0, atol=1e-3 if dtype is np.float32 else 1e-10)
    assert np.isfinite(gradient).all() and not gradient[1, 150:].any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_targets_that_no_alignment_says(of: Any, dtype: Any) -> None:
    """Too few inputs: for two labels, for two equal ones, for one at a probability of 0."""
    x = distributions(dtype, 4, 3, 4)
    x[2, :, 3] = -np.inf
    target, inputs, labels = np.array([[1, 2], [1, 1], [3, 1], [1, 2]]), np.array([1, 2, 3, 3]), np.array([2, 2, 2, 2])
    found = of(dtype).call("each", x, target, inputs, labels, 0)
    assert np.isinf(found[:3]).all() and np.isfinite(found[3])
    zeroed, gradient = of(dtype).call("finite", x, target, inputs, labels)
    assert not zeroed[:3].any() and zeroed[3] == pytest.approx(found[3], rel=EPSILON[dtype])
    assert not gradient[:3].any() and np.isfinite(gradient).all() and gradient[3].any()
    gradient = of(dtype).call("counted", x, target, inputs, labels, np.isfinite(found))
    assert not gradient[:3].any() and np.isfinite(gradient).all() and gradient[3].any()


def test_an_infinite_loss_stops_a_step(of: Any) -> None:
    x = distributions(np.float32, 1, 2, 3)
    for program in (of(np.float32).native, of(np.float32).reference):
        with pytest.raises(shapescript.ShapeScriptError) as caught:
            program.feasible(x, np.array([[1, 1]]), np.array([2]), np.array([2]), 0)
        assert caught.value.code == "R1104"


def test_what_stands_behind_a_row_counts_nothing(of: Any) -> None:
    both, x = of(np.float64), distributions(np.float64, 2, 7, 4)
    target, inputs, labels = np.array([[1, 2, 3], [3, 3, 1]]), np.array([4, 7]), np.array([2, 3])
    found = both.call("each", x, target, inputs, labels, 0)
    spoilt, wild = x.copy(), target.copy()
    spoilt[0, 4:], wild[0, 2] = [[np.nan] * 4, [np.inf] * 4, [-np.inf] * 4], -7
    assert both.call("each", spoilt, wild, inputs, labels, 0).tobytes() == found.tobytes()
    gradient = both.call("counted", spoilt, wild, inputs, labels, np.ones(2, bool))
    assert not gradient[0, 4:].any() and np.isfinite(gradient).all()
    assert both.call("one", x[1], target[1], np.array(7), np.array(3)) == found[1]


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("inputs", 4, "R1101"),
        ("inputs", -1, "R1101"),
        ("labels", 3, "R1101"),
        ("labels", -1, "R1101"),
        ("target", 4, "R1101"),
        ("target", -1, "R1101"),
        ("blank", 4, "R1107"),
        ("blank", -1, "R1107"),
    ],
)
def test_lengths_and_labels_out_of_range(of: Any, name: str, value: int, code: str) -> None:
    given: dict[str, Any] = {"target": np.array([[1, 2]]), "inputs": np.array([3]), "labels": np.array([2]), "blank": 0}
    given[name] = value if name == "blank" else np.full_like(given[name], value)
    for program in (of(np.float32).native, of(np.float32).reference):
        with pytest.raises(shapescript.ShapeScriptError) as caught:
            program.each(distributions(np.float32, 1, 3, 4), *given.values())
        assert caught.value.code == code


@pytest.mark.parametrize("shape", [(0, 3, 4, 2), (2, 3, 4, 0), (2, 1, 1, 0), (1, 1, 2, 1)])
def test_sizes_of_nothing_and_one(of: Any, shape: tuple[int, int, int, int]) -> None:
    b, n, c, k = shape
    x, target = distributions(np.float64, b, n, c), np.ones((b, k), int)
    found, gradient = of(np.float64).call("finite", x, target, np.full(b, n), np.full(b, k))
    given = (torch.from_numpy(x).log_softmax(2).transpose(0, 1), torch.from_numpy(target), torch.full((b,), n), torch.full((b,), k))
    wanted = functional.ctc_loss(*given, reduction="none") if b else torch.zeros(0)
    np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-13)
    assert gradient.shape == x.shape and np.isfinite(gradient).all()


def test_a_gradient_of_the_gradient(of: Any) -> None:
    program, rng = of(np.float64).native, np.random.default_rng(2)
    x, way = rng.standard_normal((2, 5, 4)), rng.standard_normal((2, 5, 4))
    more = np.array([[1, 1], [3, 2]]), np.array([5, 4]), np.array([2, 2])
    _, gradient = of(np.float64).call("bent", x, *more)
    up, down = (program.steepness(x + sign * 1e-6 * way, *more) for sign in (1, -1))
    assert np.vdot(gradient, way) == pytest.approx((up - down) / 2e-6, rel=1e-6)
