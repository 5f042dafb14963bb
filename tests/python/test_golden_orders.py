"""Orders, samples and splits: their definition by whole numbers, and golden values that nothing may change."""

from __future__ import annotations

import numpy as np
import pytest
from runtime_samples import digits
from source_samples import same_rows_in_memory

from shapescript.compiler.numerics.permutation import order, places, split_keys
from shapescript.compiler.numerics.philox import Domain, stream_words

# ---- golden values: a change here changes runs of users, so it is a breaking change of the language

LAST_SEED = 2**63 - 1
ORDERS: dict[tuple[int, int], list[list[int]]] = {
    (1, 0): [[0], [0], [0], [0]],
    (1, LAST_SEED): [[0], [0], [0], [0]],
    (2, 0): [[1, 0], [1, 0], [0, 1], [0, 1]],
    (2, LAST_SEED): [[1, 0], [0, 1], [1, 0], [1, 0]],
    (10, 0): [
        [2, 4, 9, 3, 1, 0, 7, 8, 6, 5],
        [8, 6, 1, 9, 2, 4, 3, 5, 0, 7],
        [0, 7, 2, 3, 4, 8, 5, 6, 9, 1],
        [6, 5, 3, 7, 2, 9, 0, 1, 8, 4],
    ],
    (10, LAST_SEED): [
        [9, 6, 3, 7, 8, 2, 4, 0, 1, 5],
        [6, 0, 3, 4, 2, 8, 1, 9, 7, 5],
        [2, 9, 7, 1, 8, 4, 3, 0, 5, 6],
        [4, 6, 7, 1, 8, 3, 9, 5, 2, 0],
    ],
}
LONG_ORDERS: dict[tuple[int, int], list[int]] = {
    (0, 0): [188, 257, 910, 545, 79, 455, 38, 565],
    (0, 1): [755, 879, 299, 314, 355, 941, 222, 308],
    (0, 2): [508, 472, 575, 454, 18, 513, 297, 93],
    (0, 3): [274, 624, 813, 896, 189, 982, 535, 124],
    (LAST_SEED, 0): [571, 787, 824, 76, 687, 769, 976, 17],
    (LAST_SEED, 1): [864, 586, 660, 510, 365, 683, 317, 635],
    (LAST_SEED, 2): [169, 632, 229, 751, 899, 126, 410, 254],
    (LAST_SEED, 3): [458, 375, 972, 821, 628, 901, 370, 927],
}
SAMPLES: dict[tuple[int, int], list[int]] = {
    (0, 0): [399, 19, 934, 713, 249, 841, 645, 32],
    (0, 1): [516, 773, 820, 55, 741, 568, 388, 985],
    (LAST_SEED, 0): [198, 583, 678, 221, 947, 31, 336, 379],
    (LAST_SEED, 1): [37, 80, 600, 178, 195, 640, 791, 264],
}
WEIGHTED: dict[tuple[int, int], list[int]] = {
    (0, 0): [1, 0, 8, 4, 0, 6, 3, 0, 6, 0, 3, 5],
    (0, 1): [2, 4, 5, 0, 4, 2, 1, 9, 8, 4, 0, 0],
    (LAST_SEED, 0): [0, 2, 3, 0, 8, 0, 0, 1, 2, 3, 2, 9],
    (LAST_SEED, 1): [0, 0, 2, 0, 0, 3, 5, 0, 1, 7, 6, 5],
}
SPLITS: dict[int, tuple[list[int], list[int]]] = {
    0: ([8, 0, 4, 5, 7, 1, 3], [9, 6, 2]),
    LAST_SEED: ([0, 6, 7, 2, 3, 8, 1], [5, 9, 4]),
}


def python_order(n: int, keys: list[int], place: int) -> int:
    """A place of an order by whole numbers alone, as docs/exactness.md says."""
    half = max(1, ((n - 1).bit_length() + 1) // 2)
    mask = (1 << half) - 1

    def mix(y: int) -> int:
        y = ((y ^ y >> 16) * 0x85EBCA6B) % 2**32
        y = ((y ^ y >> 13) * 0xC2B2AE35) % 2**32
        return y ^ y >> 16

    x = place
    while True:
        left, right = x >> half, x & mask
        for key in keys[:11]:
            left, right = right, left ^ (mix(right ^ key) & mask)
        x = left << half | right
        if x < 2 and keys[11] % 2:
            x = 1 - x
        if x < n:
            return x


def stream_groups(seed: int, domain: int, stream: int, groups: range) -> list[int]:
    """The four words of each group: element 16 j + g of the run that a group is in is word j of its group g."""
    words: list[int] = []
    for group in groups:
        run, place = divmod(group, 16)
        whole = stream_words(seed, Domain(domain), stream, 64 * run, 64)
        words += [int(whole[16 * word + place]) for word in range(4)]
    return words


@pytest.mark.parametrize("n", [1, 2, 3, 16, 17, 1000, 10**7, 2**40 + 5])
def test_orders_and_splits_are_their_definition(n: int) -> None:
    places_ = sorted({0, n // 3, n // 2, n - 1})
    for seed, k in ((0, 0), (7, 3), (2**63 - 1, 2**61)):
        keys = stream_groups(seed, 3, k, range(3))
        assert [int(order(n, seed, k, place, 1)[0]) for place in places_] == [python_order(n, keys, place) for place in places_]
        split = stream_groups(seed, 3, 0, range(3, 6))
        assert split_keys(seed).tolist() == split
        assert places(np.array(places_, np.uint64), n, split_keys(seed)).tolist() == [python_order(n, split, place) for place in places_]


def test_golden_orders() -> None:
    for (n, seed), found in ORDERS.items():
        assert [digits(n).shuffle(k, seed=seed).rows(0, n).tolist() for k in range(4)] == found
    for (seed, k), found in LONG_ORDERS.items():
        ordered = digits(1000).shuffle(k, seed=seed)
        assert [*ordered.rows(0, 4).tolist(), *ordered.rows(996, 4).tolist()] == found


def test_golden_samples() -> None:
    for (seed, k), found in SAMPLES.items():
        assert digits(1000).sample(8, k, seed=seed).rows(0, 8).tolist() == found
    weights = 1.0 / np.arange(1, 11)
    for (seed, k), found in WEIGHTED.items():
        assert digits(10).sample(12, k, seed=seed, weights=weights).rows(0, 12).tolist() == found


def test_golden_splits() -> None:
    for seed, (first, second) in SPLITS.items():
        parts = same_rows_in_memory(10).random_split(0.7, seed=seed)
        assert (parts[0].all.label.tolist(), parts[1].all.label.tolist()) == (first, second)
