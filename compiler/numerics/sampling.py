"""Draws: examples with replacement, an index by its probability, tensors of random numbers. From words to numbers, as expressions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shapescript.compiler.numerics.evaluation import evaluate
from shapescript.compiler.numerics.philox import MASK_32, Domain, stream_words
from shapescript.compiler.numerics.random import standard_normal, unit_uniform
from shapescript.compiler.numerics.scalar import F64, U32, U64, Argument, Expr, int_to_float, narrow, widen

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
    if count > MOST_ROWS:
        raise MemoryError(f"the numbers of {count} examples")
    words = stream_words(seed, Domain.SAMPLE, k, WORDS_A_ROW * start, WORDS_A_ROW * count).reshape(count, WORDS_A_ROW)
    rows: Any = evaluate(ROW, [words[:, 0], words[:, 1], np.uint64(examples)])
    return np.asarray(rows).astype(np.int64)


def unit(word: Expr) -> Expr:
    """A random U32 to an F64 between 0 and 1, neither of them: (word + 0.5) / 2^32, exactly."""
    return (int_to_float(word, F64) + 0.5) * 2.0**-32


_WORD = Argument(0, U32)
UNIT = unit(_WORD)
NUMBERS: dict[str, Expr] = {"random_uniform": narrow(unit_uniform(_WORD)), "random_normal": narrow(standard_normal(_WORD))}  # of F32
