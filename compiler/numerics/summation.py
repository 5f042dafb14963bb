"""The one order in which numbers are added: lanes, the lane tree, and the block tree (docs/exactness.md, reductions and contractions).

Each function works on the first axis of an array and adds whole slices, so the other axes come for nothing. Floats are never added in any
other order; integers wrap.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

LANES = 16  # element i of a block belongs to lane i mod LANES
BLOCK = 4096  # elements of a reduction's block, and steps of a contraction's block
LANE_START = -0.0  # adding it changes no number, not even -0.0


def lane_tree(lanes: Array) -> Array:
    """[LANES, ...] to [...]: adds (l, l+8), (l, l+4), (l, l+2), (l, l+1)."""
    half = LANES // 2
    while half:
        lanes = lanes[:half] + lanes[half : 2 * half]
        half //= 2
    total: Array = lanes[0]
    return total


def block_tree(blocks: Sequence[Array] | Array) -> Array:
    """Adds adjacent pairs, again and again, until one is left; an odd last one goes up unchanged. There must be at least one block."""
    level = list(blocks)
    while len(level) > 1:
        pairs = [level[i] + level[i + 1] for i in range(0, len(level) - 1, 2)]
        level = pairs + level[2 * len(pairs) :]
    total: Array = level[0]
    return total


def block_sum(values: Array) -> Array:
    """[n, ...] to [...] for 1 <= n <= BLOCK: element i is added to lane i mod LANES in ascending i, then the lane tree."""
    lanes = np.full((LANES, *values.shape[1:]), LANE_START, values.dtype)
    for start in range(0, len(values), LANES):
        row = values[start : start + LANES]
        lanes[: len(row)] += row
    return lane_tree(lanes)


def reduce_sum(values: Array) -> Array:
    """[..., n] to [...]: the sum over the last axis, n elements in row-major order of the reduced axes. A sum of nothing is +0.0.

    The result has the operand's element type; overflow to infinity is silent, as everywhere.
    """
    count = values.shape[-1]
    if values.size == 0:
        return np.zeros(values.shape[:-1], values.dtype)
    first = np.ascontiguousarray(np.moveaxis(values, -1, 0))
    with np.errstate(all="ignore"):
        return np.asarray(block_tree([block_sum(first[start : start + BLOCK]) for start in range(0, count, BLOCK)]))
