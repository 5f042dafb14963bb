"""Philox against its published answers; streams, starts, dropout and orders against their definitions and simple statistics."""

import itertools
import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from shapescript.compiler.numerics import random
from shapescript.compiler.numerics.evaluation import evaluate
from shapescript.compiler.numerics.permutation import GREATEST_COUNT
from shapescript.compiler.numerics.random import Domain
from shapescript.compiler.numerics.scalar import F32, F64, U32, Argument

Array = NDArray[Any]
PI = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)

# Random123's kat_vectors: counter, key, answer.
KNOWN_ANSWERS = [
    ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (PI, (0xA4093822, 0x299F31D0), (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_philox_gives_the_published_answers(counter: tuple[int, int, int, int], key: tuple[int, int], answer: tuple[int, ...]) -> None:
    assert tuple(random.philox_words(counter, key).tolist()) == answer


def python_philox(counter: tuple[int, ...], key: tuple[int, ...]) -> list[int]:
    c, k = list(counter), list(key)
    for _ in range(10):
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(second >> 32) ^ c[1] ^ k[0], second & 0xFFFFFFFF, (first >> 32) ^ c[3] ^ k[1], first & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def python_word(seed: int, domain: int, number: int, i: int) -> int:
    """Element i of a stream as docs/exactness.md defines it."""
    group = 16 * (i // 64) + i % 16
    stream = (number % 2**62) | domain << 62
    counter = (group % 2**32, group >> 32, stream % 2**32, stream >> 32)
    return python_philox(counter, (seed % 2**32, seed % 2**64 >> 32))[i // 16 % 4]


@pytest.mark.parametrize("seed", [0, 7, -1, 2**63 - 1])
@pytest.mark.parametrize("number", [0, 3, 2**62 - 1, 2**40 + 9])
def test_stream_elements_are_where_the_definition_says(seed: int, number: int) -> None:
    for domain in Domain:
        found = random.stream_words(seed, domain, number, 0, 150)
        assert found.dtype == np.uint32
        assert found.tolist() == [python_word(seed, domain, number, i) for i in range(150)]


@pytest.mark.parametrize(("start", "count"), [(0, 0), (0, 1), (5, 70), (63, 2), (64, 64), (1000, 3), (2**40 + 17, 100)])
def test_a_part_of_a_stream_is_that_part_of_the_whole(start: int, count: int) -> None:
    found = random.stream_words(1, Domain.DRAW, 2, start, count).tolist()
    assert found == [python_word(1, 2, 2, start + i) for i in range(count)]


def test_domains_and_seeds_do_not_meet() -> None:
    streams = [random.stream_words(seed, domain, 5, 0, 64).tobytes() for seed in (0, 1) for domain in Domain]
    assert len(set(streams)) == len(streams)


def test_parameter_streams_are_fnv_hashes() -> None:
    # published FNV-1a 64-bit values, less their two highest bits
    assert random.parameter_stream("") == 0xCBF29CE484222325 % 2**62
    assert random.parameter_stream("a") == 0xAF63DC4C8601EC8C % 2**62
    assert random.parameter_stream("foobar") == 0x85944171F73967E8 % 2**62


def test_uniform_starts_are_their_definition() -> None:
    low, high = float(np.float32(-0.1)), float(np.float32(0.3))
    words = [python_word(3, Domain.PARAMETER, random.parameter_stream("m.weight"), i) for i in range(100)]
    expected = [np.float32(low + (high - low) * ((word >> 8) * 2.0**-24)) for word in words]
    assert random.start_uniform(3, "m.weight", 100, -0.1, 0.3).tobytes() == np.array(expected, np.float32).tobytes()
    in_f64 = random.start_uniform(3, "m.weight", 100, -0.1, 0.3, kind=F64)
    assert in_f64.tolist() == [-0.1 + (0.3 - -0.1) * ((word >> 8) * 2.0**-24) for word in words]


def test_uniform_never_reaches_its_upper_bound() -> None:
    number = random.uniform(Argument(0, U32), Argument(1, F64), Argument(2, F64), F32)
    low, high = 1.0, float(np.nextafter(np.float32(1.0), np.float32(2.0)))
    for first, second in [(low, high), (-high, -low), (-(2.0**-149), 0.0), (0.0, 2.0**-149), (-1.0, 0.0), (0.0, 1.0)]:
        words = np.array([0, 1 << 31, 2**32 - 1], np.uint32)
        found = evaluate(number, [words, np.float64(first), np.float64(second)])
        assert (found >= first).all() and (found < second).all() and found[0] == np.float32(first)
    assert evaluate(number, [words, np.float64(2), np.float64(2)]).tolist() == [2.0] * 3


def test_starts_are_spread_as_they_say() -> None:
    x = random.start_uniform(1, "a", 100_000, -2.0, 6.0)
    assert abs(x.mean(dtype=np.float64) - 2.0) < 0.03 and abs(x.var(dtype=np.float64) - 64 / 12) < 0.06
    assert x.min() < -1.99 and 5.99 < x.max() < 6.0
    z = np.sort(random.start_normal(1, "a", 100_000, 1.0, 0.5))
    expected = np.array([NormalDist(1.0, 0.5).cdf(value) for value in z[::100].tolist()])
    assert np.abs(expected - np.arange(0, 1, 0.001)).max() < 0.006  # Kolmogorov and Smirnov: 1 in 1000 exceeds 0.0062


def test_normal_inverts_the_distribution() -> None:
    words = np.array([0, 1, 12345, 2**28, 2**31 - 1, 2**31, 3 * 2**30, 2**32 - 2, 2**32 - 1], np.uint32)
    found = evaluate(random.standard_normal(Argument(0, U32)), [words])
    for word, z in zip(words.tolist(), found.tolist(), strict=True):
        assert math.isclose(z, NormalDist().inv_cdf((word + 0.5) / 2**32), rel_tol=1e-13, abs_tol=1e-17)
    assert (evaluate(random.standard_normal(Argument(0, U32)), [~words]) == -found).all()
    starts = random.start_normal(4, "b.c", 300, 0.25, 2.0)
    words = random.stream_words(4, Domain.PARAMETER, random.parameter_stream("b.c"), 0, 300)
    z = evaluate(random.standard_normal(Argument(0, U32)), [words])
    assert starts.tobytes() == (0.25 + 2.0 * z).astype(np.float32).tobytes()


def test_a_start_depends_on_seed_and_name_alone() -> None:
    long, short = (random.start_normal(9, "x", count, 0.0, 1.0) for count in (20_000, 10))
    assert long[:10].tobytes() == short.tobytes()
    assert random.start_normal(9, "y", 10, 0.0, 1.0).tobytes() != short.tobytes() != random.start_normal(8, "x", 10, 0.0, 1.0).tobytes()


@pytest.mark.parametrize("bounds", [(1.0, 0.0), (0.0, math.inf), (math.nan, 1.0), (0.0, 1e39)])
def test_impossible_starts_are_refused(bounds: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="uniform"):
        random.start_uniform(0, "a", 1, *bounds)
    with pytest.raises(ValueError, match="normal"):
        random.start_normal(0, "a", 1, math.inf, 1.0)
    with pytest.raises(ValueError, match="normal"):
        random.start_normal(0, "a", 1, 0.0, -1.0)


def test_dropout_is_a_threshold_and_a_scale() -> None:
    assert [random.dropout_threshold(p) for p in (0.0, 0.5, 1.0, -1.0, 2.0)] == [0, 2**31, 2**32, 0, 2**32]
    assert [random.dropout_threshold(p) for p in (math.nan, math.inf, -math.inf)] == [0, 2**32, 0]
    assert random.dropout_threshold(2.0**-33) == 0 and random.dropout_threshold(3 * 2.0**-33) == 2
    assert random.dropout_threshold(0.1) == 429496730
    assert [random.dropout_scale(p) for p in (0.0, 0.5, 1.0)] == [1.0, 2.0, 0.0]
    assert random.dropout_scale(0.1) == float(np.float32(1 / 0.9))
    kept = random.stream_words(0, Domain.DRAW, 0, 0, 100_000) >= random.dropout_threshold(0.1)
    assert abs(kept.mean() - 0.9) < 0.004


@pytest.mark.parametrize("n", [*range(201), 4096, 4097, 100_003])
def test_orders_are_permutations(n: int) -> None:
    found = random.order(n, seed=2, k=n)
    assert found.dtype == np.int64
    assert (np.sort(found) == np.arange(n)).all()


def test_any_part_of_an_order_can_be_had_alone() -> None:
    whole = random.order(1437, 0, 6)
    assert random.order(1437, 0, 6, 1000, 64).tolist() == whole[1000:1064].tolist()
    assert random.order(1437, 0, 6, 1437, 0).tolist() == []
    for start, count in ((-1, 2), (1400, 38), (0, -1)):
        with pytest.raises(ValueError, match="positions"):
            random.order(1437, 0, 6, start, count)


def test_the_greatest_dataset() -> None:
    far = random.order(GREATEST_COUNT, 1, 1, GREATEST_COUNT - 100, 100)
    assert len(set(far.tolist())) == 100 and (far >= 0).all()
    with pytest.raises(ValueError, match="positions"):
        random.order(GREATEST_COUNT + 1, 0, 0, 0, 1)


@pytest.mark.parametrize(("n", "limit"), [(2, 10.8), (3, 20.5), (4, 49.7), (5, 173.0), (6, 841.9)])
def test_small_orders_are_all_equally_likely(n: int, limit: float) -> None:
    count = 50_000
    keys = random.round_keys(5, np.arange(count, dtype=np.uint64))
    orders = random.places(np.arange(n, dtype=np.uint64)[:, None], n, keys[:, None, :])
    assert orders[:, 77].tolist() == random.order(n, 5, 77).tolist()
    kinds, counts = np.unique(orders, axis=1, return_counts=True)
    assert kinds.shape[1] == math.factorial(n)
    expected = count / math.factorial(n)
    assert ((counts - expected) ** 2 / expected).sum() < limit  # chi-square, 1 in 1000


def test_consecutive_orders_have_nothing_in_common() -> None:
    n = 5000
    places = [random.order(n, 0, k).astype(np.float64) for k in range(6)]
    for first, second in itertools.pairwise(places):
        assert abs(np.corrcoef(first, second)[0, 1]) < 4 / math.sqrt(n)
        assert (first == second).sum() < 8
    assert abs(np.corrcoef(places[0][:-1], places[0][1:])[0, 1]) < 4 / math.sqrt(n)


# Golden values: a change here changes every start, mask and order, so it is a breaking change of the language.
def test_golden_values() -> None:
    assert random.stream_words(0, Domain.DRAW, 0, 0, 4).tolist() == [3719548962, 1803305796, 746974981, 1694543941]
    assert random.order(10, 0, 0).tolist() == [2, 4, 9, 3, 1, 0, 7, 8, 6, 5]
    assert random.order(1437, 0, 99, 0, 5).tolist() == [262, 1348, 1015, 565, 701]
    uniform = random.start_uniform(1234, "hidden.weight", 3, -0.125, 0.125)
    assert uniform.tolist() == [-0.10785460472106934, -0.05269896984100342, -0.06410366296768188]
    normal = random.start_normal(1234, "hidden.weight", 3, 0.0, 0.02)
    assert normal.tolist() == [-0.029728766530752182, -0.011114225722849369, -0.013896317221224308]
