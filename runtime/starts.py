"""What parameters start with: initialisers as arrays of random numbers that depend on seed and name alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shapescript.compiler.numerics.random import start_normal, start_uniform
from shapescript.compiler.numerics.scalar import F32, F64
from shapescript.runtime.arrays import NUMPY_DTYPES, Array, rounded
from shapescript.runtime.layout import Leaf

_KINDS = {"f32": F32, "f64": F64}


def start_array(leaf: Leaf, seed: int) -> Array:
    """The leaf's start, with its shape and dtype; that of bf16 is that of f32, rounded.

    Raises ValueError for bounds or a deviation that can't be.
    """
    if leaf.dtype == "bf16":
        return rounded(start_array(replace(leaf, dtype="f32"), seed))
    start = leaf.start
    match start.kind:
        case "uniform":
            return start_uniform(seed, leaf.name, leaf.count, start.a, start.b, kind=_KINDS[leaf.dtype]).reshape(leaf.shape)
        case "normal":
            return start_normal(seed, leaf.name, leaf.count, start.a, start.b, kind=_KINDS[leaf.dtype]).reshape(leaf.shape)
        case "ones":
            return np.ones(leaf.shape, NUMPY_DTYPES[leaf.dtype])
        case "zeros":
            return np.zeros(leaf.shape, NUMPY_DTYPES[leaf.dtype])
        case "constant":
            return np.full(leaf.shape, start.a, NUMPY_DTYPES[leaf.dtype])
