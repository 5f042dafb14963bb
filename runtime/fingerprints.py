"""Fingerprints: what two datasets that hold the same rows have in common, wherever these lie."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.lib.stride_tricks import as_strided

from shapescript.runtime.arrays import Array
from shapescript.runtime.sources import Arrays, Source

CHUNK_BYTES = 1 << 22  # of rows that are read at once


def fingerprint(source: Source) -> str:
    """A hash, as hexadecimal digits, of a source's fields by name, their dtypes, sizes and values. Raises what reading raises."""
    digest = hashlib.blake2b(digest_size=16)
    for field in sorted(source.record.fields, key=lambda field: field.name.encode()):
        array = source.arrays[field.name] if isinstance(source, Arrays) else None
        kind = "" if array is None or array.flags.c_contiguous else " windows"
        digest.update(f"{field.name} {field.dtype} {len(source)} {field.shape}{kind}\n".encode())
        if array is not None:
            digest.update(_bytes_of(_values_of(array)))
            continue
        step = max(1, CHUNK_BYTES // max(1, field.nbytes))
        for start in range(0, len(source), step):
            digest.update(_bytes_of(source.column(field.name, start, min(start + step, len(source)))))
    return digest.hexdigest()


def _bytes_of(array: Array) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _values_of(array: Array) -> Array:
    """The array, of windows the values that they are taken from."""
    if array.flags.c_contiguous:
        return array
    count, span = array.shape
    return as_strided(array, (count + span - 1,), (array.itemsize,), writeable=False)
