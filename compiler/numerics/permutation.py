"""The order of a shuffled dataset: a keyed permutation of 0..n-1 of which any position can be computed alone.

A balanced Feistel network permutes the numbers below 2^(2h), h the least such that they are at least n; a result that is not below n is
permuted again until it is (cycle walking), on average fewer than four times. Its keys are the first words of the stream
(seed, Domain.ORDER, k), so that orders for different k have nothing in common.

From h = 2 on, every round of such a network is an even permutation, which would make some orders of a few examples likelier than others;
so at its end 0 and 1 change places if the last key is odd. Eleven rounds then leave no order of 2 to 6 examples likelier by 1 in 1000.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shapescript.compiler.numerics.evaluation import evaluate
from shapescript.compiler.numerics.philox import GROUP_WORDS, STREAM_MASK, Domain, key_of, philox_words, stream_of
from shapescript.compiler.numerics.scalar import U32, U64, Argument, Constant, Expr, narrow, select, widen

ROUNDS = 11
KEYS = ROUNDS + 1
# The finaliser of MurmurHash3 (A. Appleby, public domain).
MIX_MULTIPLIERS = (0x85EBCA6B, 0xC2B2AE35)
MIX_SHIFTS = (16, 13, 16)
GREATEST_COUNT = 1 << 63


def half_bits(n: int) -> int:
    """h: the least number, at least 1, with n <= 2^(2h)."""
    return max(1, (max(n - 1, 0).bit_length() + 1) // 2)


def round_keys(seed: int, k: int | NDArray[np.uint64]) -> NDArray[np.uint32]:
    """The keys of the k-th order, uint32 [KEYS] or, for several k, [KEYS, ...]: words 0..3 of the stream's group 0, then of group 1, ..."""
    return _keys(seed, k, 0)


def split_keys(seed: int) -> NDArray[np.uint32]:
    """The keys of the permutation by which a dataset is split: the words behind those of order 0, groups 3 to 5, which no order has."""
    return _keys(seed, 0, KEYS // GROUP_WORDS)


def _keys(seed: int, k: int | NDArray[np.uint64], first_group: int) -> NDArray[np.uint32]:
    number = np.asarray(k & STREAM_MASK, np.uint64)
    groups = first_group + np.arange(KEYS // GROUP_WORDS, dtype=np.uint64).reshape(-1, *[1] * number.ndim)
    words = philox_words((groups, np.uint64(0), *stream_of(Domain.ORDER, number)), key_of(seed))
    return np.moveaxis(words, 0, 1).reshape(KEYS, *number.shape)


def mix(x: Expr) -> Expr:
    """A U32 to a U32 whose every bit depends on all of the operand's."""
    x = (x ^ (x >> MIX_SHIFTS[0])) * MIX_MULTIPLIERS[0]
    x = (x ^ (x >> MIX_SHIFTS[1])) * MIX_MULTIPLIERS[1]
    return x ^ (x >> MIX_SHIFTS[2])


def feistel(index: Expr, half: Expr, keys: Sequence[Expr]) -> Expr:
    """One pass of the network: a U64 below 2^(2h) to another; `half` is h as a U64 in 1..32, `keys` the KEYS keys as U32."""
    mask = half_mask(half)
    left, right = halves(index, half)
    for key in keys[:ROUNDS]:
        left, right = right, mixed(left, right, key, mask)
    return joined(left, right, half, keys[ROUNDS])


def half_mask(half: Expr) -> Expr:
    """The U32 with the low h bits."""
    return narrow((Constant(1, U64) << half) - 1)


def halves(index: Expr, half: Expr) -> tuple[Expr, Expr]:
    """The left and the right half that the rounds begin with, as U32."""
    return narrow(index >> half), narrow(index) & half_mask(half)


def mixed(left: Expr, right: Expr, key: Expr, mask: Expr) -> Expr:
    """A round turns (left, right) into (right, left xor the low h bits of mix(right xor key)): this is the latter."""
    return left ^ (mix(right ^ key) & mask)


def joined(left: Expr, right: Expr, half: Expr, last_key: Expr) -> Expr:
    """The number that the rounds' halves make, 0 and 1 with their places changed if the last key is odd."""
    result = (widen(left) << half) | widen(right)
    return result ^ select(result < 2, widen(last_key & 1), 0)


_PASS = feistel(Argument(0, U64), Argument(1, U64), [Argument(2 + i, U32) for i in range(KEYS)])


def places(index: NDArray[np.uint64], n: int, keys: NDArray[np.uint32]) -> NDArray[np.int64]:
    """The examples at positions `index` of an order of n examples with such round keys (broadcast)."""
    half: Any = np.uint64(half_bits(n))
    result = evaluate(_PASS, [index, half, *keys])
    every_key = [np.broadcast_to(key, result.shape) for key in keys]
    while (outside := result >= np.uint64(n)).any():
        result[outside] = evaluate(_PASS, [result[outside], half, *(key[outside] for key in every_key)])
    return result.astype(np.int64)


def order(n: int, seed: int, k: int, start: int = 0, count: int | None = None) -> NDArray[np.int64]:
    """Positions start to start + count - 1 (by default all) of the k-th order of n examples, as int64 [count]: a part of a permutation.

    Raises `ValueError` for positions outside 0..n-1 and for n above 2^63.
    """
    count = n - start if count is None else count
    if not (start >= 0 and count >= 0 and start + count <= n <= GREATEST_COUNT):
        raise ValueError(f"positions {start} to {start + count - 1} of an order of {n}")
    return places(np.uint64(start) + np.arange(count, dtype=np.uint64), n, round_keys(seed, k))
