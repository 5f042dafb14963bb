"""shapescript.std.metric: sums and counts beside PyTorch and NumPy, over masks and batches of unequal size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from both_engines import Both
from torch.nn import functional

import shapescript

PROGRAM = """
import shapescript.std.metric as metric

fn hits(x: T[..s c], label: int[..s]) -> (int, int):
    right, seen = metric.hits(x, label)
    return right, seen

fn hits(x: T[..s c], label: int[..s], mask: bool[..s]) -> (int, int):
    right, seen = metric.hits(x, label, mask)
    return right, seen

fn three(x: T[..s c], label: int[..s]) -> (int, int):
    right, seen = metric.top_hits[3](x, label)
    return right, seen

fn three(x: T[..s c], label: int[..s], mask: bool[..s]) -> (int, int):
    right, seen = metric.top_hits[3](x, label, mask)
    return right, seen

fn total(x: T[..s c], label: int[..s]) -> (float, int):
    found, seen = metric.total_cross_entropy(x, label)
    return found, seen

fn total(x: T[..s c], label: int[..s], mask: bool[..s]) -> (float, int):
    found, seen = metric.total_cross_entropy(x, label, mask)
    return found, seen

fn perplexity(total: float, count: int) -> float:
    return metric.perplexity(total, count)

data Token:
    logits: [4]
    label: int

fn over_batches(tokens: Dataset[Token], size: int) -> (float, float):
    mut right = 0
    mut loss = 0.0
    mut seen = 0
    for batch in tokens |> batches(size):
        hits, count = metric.hits(batch.logits, batch.label)
        sum, rows = metric.total_cross_entropy(batch.logits, batch.label)
        right = right + hits
        loss = loss + sum
        seen = seen + count
    return right / seen, metric.perplexity(loss, seen)
"""


@pytest.fixture(scope="module", params=["f32", "f64"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Both, Any]:
    dtype = np.float32 if request.param == "f32" else np.float64
    return Both(tmp_path_factory.mktemp(request.param), PROGRAM.replace("T[", f"{request.param}[")), dtype


def numbers(dtype: Any, *shape: int, classes: int = 6) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(11)
    return rng.standard_normal((*shape, classes)).astype(dtype), rng.integers(0, classes, shape), rng.random(shape) < 0.6


@pytest.mark.parametrize("shape", [(40,), (5, 7), (1,), (0,), (2, 0, 3), ()])
def test_hits(both: tuple[Both, Any], shape: tuple[int, ...]) -> None:
    program, dtype = both
    x, label, mask = numbers(dtype, *shape)
    label, mask = np.asarray(label), np.asarray(mask)
    for name, k in (("hits", 1), ("three", 3)):
        right = (np.argsort(-x, axis=-1)[..., :k] == label[..., None]).any(-1)
        assert program.call(name, x, label) == (right.sum(), right.size)
        assert program.call(name, x, np.where(mask, label, -5), mask) == (right[mask].sum(), mask.sum())


def test_the_first_of_equals_is_the_largest(both: tuple[Both, Any]) -> None:
    program, dtype = both
    x = np.array([[1, 1, 1, 0], [0, 2, 2, 2]], dtype)
    assert program.call("hits", x, np.array([0, 1])) == (2, 2)
    assert program.call("hits", x, np.array([1, 2])) == (0, 2)
    assert program.call("three", x, np.array([2, 0])) == (1, 2)


def test_what_is_no_label_is_an_error(both: tuple[Both, Any]) -> None:
    program, dtype = both
    x, label, mask = numbers(dtype, 8)
    for engine in (program.native, program.reference):
        for name in ("hits", "three", "total"):
            for wrong in (label + 6, label - 6):
                with pytest.raises(shapescript.ShapeScriptError) as caught:
                    getattr(engine, name)(x, wrong, mask)
                assert caught.value.code == "R1101"
        with pytest.raises(shapescript.ShapeScriptError) as caught:
            engine.three(x[:, :2], label * 0)
        assert caught.value.code == "R1107"


def test_cross_entropy_and_perplexity(both: tuple[Both, Any]) -> None:
    program, dtype = both
    x, label, mask = numbers(dtype, 5, 7)
    losses = functional.cross_entropy(torch.from_numpy(x).double().reshape(-1, 6), torch.from_numpy(label).reshape(-1), reduction="none")
    for given, wanted in (((), losses), ((mask,), losses[torch.from_numpy(mask).reshape(-1)])):
        total, count = program.call("total", x, np.where(mask, label, -1) if given else label, *given)
        assert count == len(wanted) and total == pytest.approx(float(wanted.sum()), rel=1e-6)
        assert program.call("perplexity", total, count) == pytest.approx(float(torch.exp(wanted.mean())), rel=1e-6)
    assert program.call("total", x * np.nan, label - 10, mask & False) == (0.0, 0)
    assert np.isnan(program.call("perplexity", 0.0, 0))


@pytest.mark.parametrize("size", [1, 4, 7, 23])
def test_batches_of_unequal_size(both: tuple[Both, Any], size: int) -> None:
    program, _ = both
    x, label, _ = numbers(np.float32, 23, classes=4)
    tokens = program.native.Token.dataset(logits=x, label=label)
    share, perplexity = program.native.over_batches(tokens, size)
    assert share == (x.argmax(1) == label).mean()
    wanted = functional.cross_entropy(torch.from_numpy(x).double(), torch.from_numpy(label))
    assert perplexity == pytest.approx(float(torch.exp(wanted)), rel=1e-6)
