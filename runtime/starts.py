import numpy as np

from .arrays import NUMPY_DTYPES


def start_array(leaf, seed):
    return np.random.default_rng(seed).standard_normal(leaf.shape).astype(NUMPY_DTYPES[leaf.dtype])
