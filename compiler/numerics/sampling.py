"""Draws: examples with replacement, an index by its probability, tensors of random numbers. From words to numbers, as expressions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shapescript.compiler.numerics.evaluation import evaluate
from shapescript.compiler.numerics.philox import MASK_32, Domain, stream_words, words_at
from shapescript.compiler.numerics.random import standard_normal, unit_uniform
from shapescript.compiler.numerics.scalar import F64, U32, U64, Argument, Expr, int_to_float, narrow, widen

Pair = tuple[NDArray[np.uint32], NDArray[np.uint32]]

WORDS_A_ROW = 2
MOST_ROWS = 1 << 48  # at once: more than any memory holds, and few enough for NumPy to say so
MEANS = {"random_uniform": 0.5, "random_normal": 0.0}  # what a mode that draws nothing gives


def sampled_row(high: Expr, low: Expr, examples: Expr) -> Expr:
    """The row that two random U32 say, of a U64 number of examples below 2^63: the upper half of (high 2^32 + low) examples."""
    many, few = examples >> 32, examples & MASK_32
    high, low = widen(high), widen(low)
    lower = ((low * few) >> 32) + high * few
    middle = (lower & MASK_32) + low * many
    return high * many + (lower >> 32) + (middle >> 32)


ROW = sampled_row(Argument(0, U32), Argument(1, U32), Argument(2, U64))


def sampled_rows(examples: int, seed: int, k: int, start: int, count: int) -> NDArray[np.int64]:
    """Places start to start + count - 1 of the k-th sample, drawn with replacement: int64 [count], each in 0..examples-1."""
    return _rows_of(sample_words(seed, k, start, count), examples)


def sampled_rows_at(examples: int, seed: int, k: int, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """These places of the k-th sample, in any order: int64 of their shape, each in 0..examples-1."""
    return _rows_of(sample_words_at(seed, k, places), examples)


def sample_words(seed: int, k: int, start: int, count: int) -> Pair:
    """The words of places start to start + count - 1 of the k-th sample: high and low, uint32 [count]."""
    if count > MOST_ROWS:
        raise MemoryError(f"the numbers of {count} examples")
    words = stream_words(seed, Domain.SAMPLE, k, WORDS_A_ROW * start, WORDS_A_ROW * count).reshape(count, WORDS_A_ROW)
    return words[:, 0], words[:, 1]


def sample_words_at(seed: int, k: int, places: NDArray[np.int64]) -> Pair:
    first = np.asarray(places, np.uint64) * np.uint64(WORDS_A_ROW)
    return words_at(seed, Domain.SAMPLE, k, first), words_at(seed, Domain.SAMPLE, k, first + np.uint64(1))


def _rows_of(words: Pair, examples: int) -> NDArray[np.int64]:
    rows: Any = evaluate(ROW, [*words, np.uint64(examples)])
    return np.asarray(rows).astype(np.int64)


# ---- by weight


def running_sums(weights: NDArray[Any]) -> NDArray[np.float64]:
    """One chain of f64 additions over the weights, [n]; each is finite and at least 0, the sums may be infinite."""
    with np.errstate(over="ignore"):
        return np.add.accumulate(np.asarray(weights, np.float64))


def weighted_rows(sums: NDArray[np.float64], words: Pair) -> NDArray[np.int64]:
    """The rows that pairs of random words say: the first whose running sum is above u times the last one, u = (bits >> 11) 2^-53.

    The product is at most the number just below the last sum: among subnormal numbers it would round up to the sum itself.
    """
    total = sums[-1]
    u = ((words[0].astype(np.uint64) << np.uint64(32) | words[1]) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    reached = np.minimum(u * total, np.nextafter(total, 0.0))
    return np.asarray(np.searchsorted(sums, reached, side="right"), np.int64)


def unit(word: Expr) -> Expr:
    """A random U32 to an F64 between 0 and 1, neither of them: (word + 0.5) / 2^32, exactly."""
    return (int_to_float(word, F64) + 0.5) * 2.0**-32


_WORD = Argument(0, U32)
UNIT = unit(_WORD)
NUMBERS: dict[str, Expr] = {"random_uniform": narrow(unit_uniform(_WORD)), "random_normal": narrow(standard_normal(_WORD))}  # of F32
