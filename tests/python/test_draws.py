"""Draws by a mode's stream: an index by its probability and tensors of random numbers, natively as in the reference evaluator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from evaluating import apply, function_of, tensor
from native_harness import assert_same, finished

import shapescript
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.sizes import fresh, of
from shapescript.compiler.ir.types import INT, Element
from shapescript.compiler.numerics.philox import Domain, stream_words
from shapescript.compiler.ops.build import Builder
from shapescript.compiler.ops.protocol import ExecutionError

NAN, INF = float("nan"), float("inf")
ENGINES = ("native", "numpy")


def normal(*shape: int, seed: int = 0, dtype: type = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def by_hand(logits: np.ndarray, seed: int, draw: int) -> list[int]:
    """The definition, in Python's floats, with NumPy's exp."""
    rows = logits.reshape(-1, logits.shape[-1])
    words = stream_words(seed, Domain.DRAW, draw, 0, len(rows)).tolist()
    chosen = []
    for row, word in zip(rows, words, strict=True):
        powers = np.exp((row - row.max()).astype(np.float64)).tolist()
        aim = (word + 0.5) * 2.0**-32 * math.fsum(powers)
        chosen.append(next(place for place in range(len(powers)) if math.fsum(powers[: place + 1]) > aim))
    return chosen


# ---- an index by its probability


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_definition_by_hand(dtype: type) -> None:
    for shape in ((200, 7), (3, 4, 65), (50, 1), (30, 300)):
        logits = 3 * normal(*shape, dtype=dtype)
        found = apply("categorical", logits, 5, 2)
        assert found.dtype == np.int64 and found.shape == shape[:-1]
        assert found.reshape(-1).tolist() == by_hand(logits, 5, 2)


@pytest.mark.parametrize("element", [Element.F32, Element.F64])
def test_categorical_in_native_code(element: Element) -> None:
    b, n = of(fresh("b")), of(fresh("n"))

    def build(builder: Builder, logits: Value, seed: Value, draw: Value) -> Sequence[Value]:
        return [builder.op("categorical", logits, seed, draw)]

    dtype = np.float32 if element is Element.F32 else np.float64
    function = finished(function_of([tensor(b, n, element=element), INT, INT], build))
    sizes = [(0, 5), (1, 1), (3, 2), (5, 15), (5, 16), (5, 17), (70, 33), (2, 5000), (3, 0), (0, 0)]
    calls = [[4 * normal(*size, dtype=dtype), 2**40 + 3, draw] for size in sizes for draw in (-1, 0, 2**50)]
    special = [
        [[0.0, -INF, 1.0], [-INF, -INF, 0.0]],
        [[0.0, 1.0], [NAN, 1.0]],
        [[INF, 1.0]],
        [[1.0, 2.0], [-INF, -INF]],
        [[1e30, -1e30, 1e30]],
        [[-0.0, 0.0]],
    ]
    assert_same(function, [*calls, *([np.array(rows, dtype), 1, draw] for rows in special for draw in (-1, 4))])


def test_one_row_gives_one_number() -> None:
    function = finished(function_of([tensor(9), INT], lambda b, x, s: b.op("categorical", x, s, b.constant(3, Element.I64))))
    assert_same(function, [[normal(9), seed] for seed in range(5)])


def test_what_has_no_probability_is_never_drawn() -> None:
    logits = np.full((5000, 6), -INF, np.float32)
    logits[:, [1, 4]] = [0.0, math.log(3)]
    found = apply("categorical", logits, 0, 0)
    assert set(found.tolist()) == {1, 4} and abs((found == 4).mean() - 0.75) < 0.02


def test_rows_without_a_distribution_are_named() -> None:
    for row in ([0.0, NAN], [0.0, INF], [-INF, -INF]):
        logits = np.array([[0.0, 0.0], row], np.float32)
        with pytest.raises(ExecutionError, match="R1108: the largest logit of row 1 is NaN or infinite"):
            apply("categorical", logits, 0, 0)
    with pytest.raises(ExecutionError, match="R1103: categorical of nothing"):
        apply("categorical", np.zeros((2, 0), np.float32), 0, 0)


def test_frequencies_are_the_probabilities() -> None:
    logits = np.array([0.0, 1.0, -1.0, 2.5, 0.3, -4.0], np.float32)
    count = 60_000
    found = apply("categorical", np.tile(logits, (count, 1)), 11, 0)
    expected = count * np.exp(logits.astype(np.float64)) / np.exp(logits.astype(np.float64)).sum()
    seen = np.bincount(found, minlength=len(logits))
    assert ((seen - expected) ** 2 / expected).sum() < 15.1  # chi-square with 5 degrees of freedom, 1 in 100


# ---- tensors of random numbers


@pytest.mark.parametrize("name", ["random_uniform", "random_normal"])
def test_random_tensors_in_native_code(name: str) -> None:
    b, n = of(fresh("b")), of(fresh("n"))

    def build(builder: Builder, x: Value, seed: Value, draw: Value) -> Sequence[Value]:
        return [builder.op(name, seed, draw, axes=axes) for axes in ((b, n), (n, b), ())]

    function = finished(function_of([tensor(b, n), INT, INT], build))
    sizes = [(0, 3), (1, 1), (3, 5), (1, 63), (8, 8), (5, 13), (2, 64), (65, 100)]
    assert_same(function, [[normal(*size), 9, draw] for size in sizes for draw in (-1, 0, 7)])


def test_random_numbers_are_words_of_the_stream() -> None:
    words = stream_words(9, Domain.DRAW, 4, 0, 1000)
    uniform = apply("random_uniform", 9, 4, axes=tensor(10, 100).axes)
    assert uniform.dtype == np.float32 and (uniform.reshape(-1) == ((words >> 8) * 2.0**-24).astype(np.float32)).all()
    found = apply("random_normal", 9, 4, axes=tensor(1000).axes)
    exact = [NormalDist().inv_cdf((word + 0.5) * 2.0**-32) for word in words.tolist()]
    np.testing.assert_allclose(found, exact, rtol=3e-7)
    many = apply("random_normal", 1, 1, axes=tensor(100_000).axes).astype(np.float64)
    assert abs(many.mean()) < 0.01 and abs(many.std() - 1) < 0.01


# ---- in programs

PROGRAM = """
fn choose(logits: [b n], mode: Mode) -> int[b]:
    return categorical(logits, mode, over=n)

fn choose_down(logits: [b n], mode: Mode) -> int[n]:
    return logits / 0.5 |> categorical(mode, over=b)

fn one(logits: [n], mode: Mode) -> int:
    return int(categorical(logits, mode, over=n))

fn noisy(x: [b n], mode: Mode) -> ([b n], [], [b n]):
    kept = dropout(x, 0.5, mode)
    return x + random_normal[b n](mode), random_uniform[](mode), kept

fn spread(mean: [b], log_deviation: [b], mode: Mode) -> ([], [b], [b]):
    l, g = value_and_grad(drawn(mean, log_deviation, mode), wrt=mean)
    k, h = value_and_grad(drawn(mean, log_deviation, mode), wrt=log_deviation)
    return l + k, g, h

fn drawn(mean: [b], log_deviation: [b], mode: Mode) -> []:
    return sum(mean + exp(log_deviation) * random_normal[b](mode), over=b)

fn as_often(start: int, stop: int, mode: Mode) -> int:
    mut total = 0
    for i in start..stop:
        total = 10 * total + int(categorical(zeros[9], mode, over=9))
    return total
"""


def test_each_draw_moves_the_stream(tmp_path: Path) -> None:
    (tmp_path / "draws.ss").write_text(PROGRAM)
    logits, found = 2 * normal(5, 7), []
    for engine in ENGINES:
        program = shapescript.load(tmp_path / "draws.ss", engine=engine)
        mode = shapescript.Train(seed=3)
        first = program.choose(logits, mode)
        assert first.tolist() == by_hand(logits, 3, 0) and mode.draws == 1
        assert program.choose_down(logits, mode).tolist() == by_hand(2 * logits.T, 3, 1)
        assert program.one(logits[2], mode) == by_hand(logits[2], 3, 2)[0]
        x, number, kept = program.noisy(logits, mode)
        assert mode.draws == 6 and number == (stream_words(3, Domain.DRAW, 5, 0, 1)[0] >> 8) * 2.0**-24
        l, g, h = program.spread(logits[0], logits[1], mode)
        noise = apply("random_normal", 3, 7, axes=tensor(7).axes)
        assert g.tolist() == [1.0] * 7
        np.testing.assert_allclose(h, np.exp(logits[1]) * noise, rtol=1e-6)
        found.append([first.tobytes(), x.tobytes(), kept.tobytes(), l, g.tobytes(), h.tobytes(), program.as_often(0, 15, mode), mode.draws])
    assert found[0] == found[1] and found[0][-1] == 23


@pytest.mark.parametrize("engine", ENGINES)
def test_eval_draws_nothing(tmp_path: Path, engine: shapescript.engines.EngineName) -> None:
    (tmp_path / "draws.ss").write_text(PROGRAM)
    program = shapescript.load(tmp_path / "draws.ss", engine=engine)
    logits = np.array([[0.0, 2.0, 2.0], [5.0, -1.0, NAN]], np.float32)
    assert program.choose(logits, shapescript.Eval).tolist() == [1, 2]
    x, number, kept = program.noisy(logits[:1], shapescript.Eval)
    assert x.tolist() == kept.tolist() == logits[:1].tolist() and number == 0.5
    with pytest.raises(shapescript.ShapeScriptError, match="R1108") as raised:
        program.choose(logits, shapescript.Train(seed=0))
    assert raised.value.code == "R1108" and raised.value.span.line == 3


def test_a_run_goes_on_where_the_mode_was_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "draws.ss").write_text(PROGRAM)
    program = shapescript.load(tmp_path / "draws.ss")
    whole = program.as_often(0, 16, shapescript.Train(seed=8))
    mode = shapescript.Train(seed=8)
    first = program.as_often(0, 7, mode)
    again = shapescript.Train(seed=8)
    again.draws = mode.draws
    assert first * 10**9 + program.as_often(7, 16, again) == whole
