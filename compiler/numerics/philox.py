"""Philox 4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011) and the streams made of it.

A stream is a seed, a domain and a number; each of its elements can be had alone. The key is the seed. The counter's four words, lowest
first, are the group's low and high half, the stream's low half, and its high half with the domain in the top two bits. Element i is word
(i // 16) mod 4 of group 16 * (i // 64) + i mod 16: sixteen neighbouring groups, computed side by side, give 64 consecutive elements as
four vectors of sixteen, without interleaving.
"""

from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shapescript.compiler.numerics.evaluation import evaluate_all
from shapescript.compiler.numerics.scalar import U32, Argument, Constant, Expr, narrow, umul_wide

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)  # added to the key between rounds: from the golden ratio and from sqrt(3) - 1

GROUP_WORDS = 4
VECTOR = 16  # neighbouring groups computed side by side
RUN = GROUP_WORDS * VECTOR  # consecutive elements that they give
STREAM_MASK = (1 << 62) - 1
MASK_32 = 0xFFFFFFFF

Words = tuple[Expr, Expr, Expr, Expr]
Array = NDArray[Any]


class Domain(IntEnum):
    """What a stream is for: equal seeds and stream numbers in different domains have nothing in common."""

    SAMPLE = 0
    PARAMETER = 1
    DRAW = 2
    ORDER = 3


def philox(counter: Words, key: tuple[Expr, Expr]) -> Words:
    """Four U32 counter words, lowest first, and two U32 key words to four random U32 words."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for turn in range(ROUNDS):
        if turn:
            k0, k1 = k0 + KEY_STEPS[0], k1 + KEY_STEPS[1]
        first = umul_wide(Constant(MULTIPLIERS[0], U32), c0)
        second = umul_wide(Constant(MULTIPLIERS[1], U32), c2)
        c0, c1, c2, c3 = narrow(second >> 32) ^ c1 ^ k0, narrow(second), narrow(first >> 32) ^ c3 ^ k1, narrow(first)
    return c0, c1, c2, c3


_ARGUMENTS = [Argument(i, U32) for i in range(6)]
_PHILOX = philox((_ARGUMENTS[0], _ARGUMENTS[1], _ARGUMENTS[2], _ARGUMENTS[3]), (_ARGUMENTS[4], _ARGUMENTS[5]))


def philox_words(counter: tuple[Any, Any, Any, Any], key: tuple[int, int]) -> Array:
    """`philox` on the host: counter words as uint32 arrays (broadcast) to uint32 [4, ...]."""
    words = [np.asarray(word, np.uint32) for word in (*counter, *key)]
    return np.stack(evaluate_all(_PHILOX, words))


def key_of(seed: int) -> tuple[int, int]:
    """The key's two words: the seed modulo 2^64, low half first."""
    return seed & MASK_32, (seed >> 32) & MASK_32


def stream_of(domain: Domain, number: Any) -> tuple[Any, Any]:
    """The counter's upper two words, the low one first: for an int, of which the lowest 62 bits count, or for a uint64 array of such."""
    number = number & STREAM_MASK
    return number & MASK_32, (number >> 32) | (int(domain) << 30)


def stream_words(seed: int, domain: Domain, number: int, start: int, count: int) -> NDArray[np.uint32]:
    """Elements start to start + count - 1 of a stream, as uint32 [count]."""
    first_run, runs = start // RUN, -(-(start + count) // RUN) - start // RUN
    groups = np.uint64(first_run * VECTOR) + np.arange(runs * VECTOR, dtype=np.uint64)
    counter = (groups & np.uint64(MASK_32), groups >> np.uint64(32), *stream_of(domain, number))
    words = philox_words(counter, key_of(seed)).reshape(GROUP_WORDS, runs, VECTOR)
    elements = words.transpose(1, 0, 2).reshape(-1)
    skipped = start - first_run * RUN
    return elements[skipped : skipped + count]


def words_at(seed: int, domain: Domain, number: int, elements: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """These elements of a stream, in any order, as uint32 of their shape."""
    run, place = elements // np.uint64(RUN), elements % np.uint64(RUN)
    groups = run * np.uint64(VECTOR) + place % np.uint64(VECTOR)
    words = philox_words((groups & np.uint64(MASK_32), groups >> np.uint64(32), *stream_of(domain, number)), key_of(seed))
    found: NDArray[np.uint32] = np.take_along_axis(words, (place // np.uint64(VECTOR)).astype(np.int64)[None], axis=0)[0]
    return found
