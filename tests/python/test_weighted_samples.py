"""Samples by weight: their definition, how likely each example is, and weights that nothing can be drawn by."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from runtime_samples import digits

from shapescript.compiler.numerics.philox import Domain, stream_words
from shapescript.compiler.numerics.sampling import running_sums, weighted_rows
from shapescript.runtime.errors import ArgumentError, DataError


def python_weighted(weights: list[float], seed: int, k: int, place: int) -> int:
    """As docs/exactness.md says, by exact arithmetic where it rounds nothing."""
    a, b = stream_words(seed, Domain.SAMPLE, k, 2 * place, 2).tolist()
    u = ((a << 32 | b) >> 11) * 2.0**-53
    sums, total = [], 0.0
    for weight in weights:
        total += weight
        sums.append(total)
    reached = min(u * total, math.nextafter(total, 0.0))
    return next(i for i, value in enumerate(sums) if value > reached)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_weighted_sample_is_its_definition(dtype: Any) -> None:
    weights = (np.random.default_rng(2).random(37) ** 4).astype(dtype)
    weights[[0, 5, 6, 36]] = 0
    ordered = digits(37).sample(300, 4, seed=11, weights=weights)
    expected = [python_weighted([float(weight) for weight in weights], 11, 4, place) for place in range(300)]
    assert ordered.rows(0, 300).tolist() == expected and not {0, 5, 6, 36} & set(expected)


def test_draws_are_as_likely_as_their_weights() -> None:
    weights = np.array([0.0, 1.0, 2.0, 0.0, 5.0])
    counts = np.bincount(digits(5).sample(80_000, 0, weights=weights).rows(0, 80_000), minlength=5)
    expected = weights / 8 * 80_000
    assert counts[0] == counts[3] == 0
    assert (((counts - expected)[[1, 2, 4]] ** 2 / expected[[1, 2, 4]]).sum()) < 13.8  # chi-square, 1 in 1000


def test_running_sums_are_one_chain_of_additions() -> None:
    weights = np.random.default_rng(1).random(5000)
    total, chain = 0.0, []
    for weight in weights.tolist():
        total += weight
        chain.append(total)
    assert running_sums(weights).tolist() == chain
    assert Fraction(chain[-1]) != sum(map(Fraction, weights.tolist()))  # so that the order matters here


def test_only_ratios_of_weights_count_where_nothing_rounds() -> None:
    data, weights = digits(9), np.arange(9, dtype=np.float64)
    first = data.sample(50, 0, weights=weights).rows(0, 50).tolist()
    for scale in (0.5, 8.0, 2.0**900, 2.0**-900):
        assert data.sample(50, 0, weights=weights * scale).rows(0, 50).tolist() == first


def test_the_least_and_the_greatest_words_stay_inside() -> None:
    ends = np.array([0, 2**32 - 1], np.uint32)
    for sums in ([1.0], [0.0, 1.0, 1.0], [5e-324], [0.0, 5e-324, 1e-323], [1e308, 1.7e308], [0.1, 0.3, 0.3]):
        rows = weighted_rows(np.array(sums), (ends, ends)).tolist()
        positive = [i for i, value in enumerate(sums) if value > (sums[i - 1] if i else 0.0)]
        assert rows == [positive[0], positive[-1]]


@pytest.mark.parametrize(
    ("weights", "kind", "code", "words"),
    [
        (np.array([1.0, -1.0, 2.0]), DataError, "R1113", ["weights", "number 1", "-1.0"]),
        (np.array([1.0, 2.0, np.nan]), DataError, "R1113", ["number 2", "nan"]),
        (np.array([np.inf, 1, 1]), DataError, "R1113", ["number 0", "inf"]),
        (np.zeros(3), DataError, "R1113", ["weights", "sum is 0.0"]),
        (np.array([-0.0, 0.0, 0.0]), DataError, "R1113", ["sum"]),
        (np.full(3, 1e308), DataError, "R1113", ["sum is inf"]),
        (np.ones(4), ArgumentError, "R1002", ["weights", "(3,)", "(4,)"]),
        (np.ones((3, 1)), ArgumentError, "R1002", ["weights", "(3, 1)"]),
        (np.ones(3, np.int64), ArgumentError, "R1001", ["weights", "float64", "int64"]),
        (np.ones(3, np.float16), ArgumentError, "R1001", ["weights", "float16"]),
        ([1.0, 1.0, 1.0], ArgumentError, "R1004", ["weights", "list"]),
        (np.ma.masked_array(np.ones(3), False), ArgumentError, "R1006", ["weights", "masked"]),
    ],
)
def test_weights_that_nothing_can_be_drawn_by(weights: Any, kind: type[ArgumentError | DataError], code: str, words: list[str]) -> None:
    data = digits(3)
    for examples in (data, data.shuffle(0)):
        with pytest.raises(kind) as raised:
            examples.sample(5, 0, weights=weights)
        assert raised.value.code == code and all(word in raised.value.message for word in words)


def test_weights_are_those_of_the_examples_also_where_an_order_is_sampled() -> None:
    weights = np.zeros(20)
    weights[13] = 1.0
    assert digits(20).shuffle(4).sample(30, 0, weights=weights).rows(0, 30).tolist() == [13] * 30
    place = digits(20).shuffle(4).rows(0, 20).tolist().index(13)
    with pytest.raises(DataError, match="R1113"):
        digits(20).shuffle(4).take(place).sample(3, 0, weights=weights)
