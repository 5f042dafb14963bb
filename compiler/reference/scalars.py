"""Elementwise functions and contractions of the reference evaluator, by operations that IEEE fixes to the bit."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shapescript.compiler.numerics.evaluation import evaluate, evaluate_all
from shapescript.compiler.numerics.fma import fma, fma_of_widened
from shapescript.compiler.numerics.summation import BLOCK, block_tree

__all__ = ["contraction", "evaluate", "evaluate_all"]

Array = NDArray[Any]


def contraction(left: Array, right: Array) -> Array:
    """[batch, m, k] and [batch, k, n] to [batch, m, n], of one element type: float32, float64 or an integer type.

    Each element of the result is one chain of fused multiply-adds over ascending k from +0.0 within each block of 4096 k; the blocks'
    results are added in the block tree. k = 0 gives +0.0. Integers wrap. A batch of 1 broadcasts. Raises `ValueError` where the sizes
    of k or of the batch differ, `TypeError` where the element types do.
    """
    if left.dtype != right.dtype:
        raise TypeError(f"a contraction of {left.dtype} and {right.dtype}")
    if left.shape[2] != right.shape[1]:
        raise ValueError(f"a contraction over {left.shape[2]} and {right.shape[1]} elements")
    depth = left.shape[2] if left.shape[1] and right.shape[2] else 0  # a result of no elements takes no steps, however many there are
    blocks = [_chain(left[:, :, k : k + BLOCK], right[:, k : k + BLOCK]) for k in range(0, max(depth, 1), BLOCK)]
    with np.errstate(all="ignore"):
        return block_tree(blocks)


def _chain(left: Array, right: Array) -> Array:
    batch = np.broadcast_shapes(left.shape[:1], right.shape[:1])
    sums = np.zeros((*batch, left.shape[1], right.shape[2]), left.dtype)
    step = {"f4": _step_f32, "f8": fma}.get(left.dtype.str[1:], _step_integer)
    wide = np.float64 if left.dtype == np.float32 else left.dtype
    columns, rows = left.astype(wide), right.astype(wide)
    with np.errstate(all="ignore"):
        for k in range(left.shape[2]):
            sums = step(columns[:, :, k, None], rows[:, k, None, :], sums)
    return sums


def _step_f32(left: Array, right: Array, sums: Array) -> Array:
    return fma_of_widened(left, right, sums.astype(np.float64))


def _step_integer(left: Array, right: Array, sums: Array) -> Array:
    result: Array = left * right + sums
    return result
