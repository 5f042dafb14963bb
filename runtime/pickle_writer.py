"""Writes the pickle inside a `.pt` file: protocol 2, plain values, and tensors as PyTorch writes them.

`torch.load(path, weights_only=True)` reads it. Each tensor has a storage of its own, numbered in the order of the tensors.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from shapescript.runtime.arrays import Array, dtype_name

STORAGE_CLASSES = {
    "float32": "FloatStorage",
    "float64": "DoubleStorage",
    "float16": "HalfStorage",
    "bfloat16": "BFloat16Storage",
    "int64": "LongStorage",
    "int32": "IntStorage",
    "int16": "ShortStorage",
    "int8": "CharStorage",
    "uint8": "ByteStorage",
    "bool": "BoolStorage",
    "complex64": "ComplexFloatStorage",
    "complex128": "ComplexDoubleStorage",
}


def pickled(tree: Any) -> tuple[bytes, list[Array]]:
    """The pickle of a tree of dicts, lists, tuples, host values and arrays, and the arrays by their storages' numbers.

    Raises TypeError for any other value.
    """
    arrays: list[Array] = []
    body = bytearray()
    _value(body, tree, arrays)
    return b"\x80\x02" + bytes(body) + b".", arrays


def _value(out: bytearray, value: Any, arrays: list[Array]) -> None:
    if value is None:
        out += b"N"
    elif isinstance(value, bool):
        out += b"\x88" if value else b"\x89"
    elif isinstance(value, int):
        out += _integer(value)
    elif isinstance(value, float):
        out += b"G" + struct.pack(">d", math.nan if math.isnan(value) else value)
    elif isinstance(value, str):
        out += _text(value)
    elif isinstance(value, np.ndarray):
        _tensor(out, value, arrays)
    elif isinstance(value, tuple | list):
        _sequence(out, value, arrays)
    elif isinstance(value, Mapping):
        out += b"}("
        for key, item in value.items():
            _value(out, key, arrays)
            _value(out, item, arrays)
        out += b"u"
    else:
        raise TypeError(f"a checkpoint can't hold {type(value).__name__}")


def _sequence(out: bytearray, items: tuple[Any, ...] | list[Any], arrays: list[Array]) -> None:
    out += b"(" if isinstance(items, tuple) else b"]("
    for item in items:
        _value(out, item, arrays)
    out += b"t" if isinstance(items, tuple) else b"e"


def _tensor(out: bytearray, array: Array, arrays: list[Array]) -> None:
    key = str(len(arrays))
    arrays.append(array)
    strides = tuple(math.prod(max(size, 1) for size in array.shape[axis + 1 :]) for axis in range(array.ndim))
    out += b"ctorch._utils\n_rebuild_tensor_v2\n(("
    out += _text("storage") + f"ctorch\n{STORAGE_CLASSES[dtype_name(array.dtype)]}\n".encode() + _text(key) + _text("cpu")
    out += _integer(array.size) + b"tQ" + _integer(0)
    _sequence(out, array.shape, arrays)
    _sequence(out, strides, arrays)
    out += b"\x89ccollections\nOrderedDict\n)RtR"


def _integer(value: int) -> bytes:
    if 0 <= value < 256:
        return b"K" + bytes([value])
    if -(2**31) <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    return b"\x8a\x08" + struct.pack("<q", value)


def _text(value: str) -> bytes:
    encoded = value.encode()
    return b"X" + struct.pack("<I", len(encoded)) + encoded
