"""Tensors in the pickle of a `.pt` file: storages beside it, and views of them.

A view shares its storage's bytes, so a file can't ask for more memory than its size, however often it refers to one storage.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from shapescript.compiler.records.dataclass import dataclass
from shapescript.runtime.arrays import BF16, widened
from shapescript.runtime.file_errors import UnusableFileError
from shapescript.runtime.pickle_writer import STORAGE_CLASSES

STORAGE_DTYPES = {f"torch.{storage}": BF16 if name == "bfloat16" else np.dtype(name) for name, storage in STORAGE_CLASSES.items()}
UNTYPED_STORAGE = "torch.storage.UntypedStorage"  # of tensors whose element type the pickle names beside it
NAMED_DTYPES: dict[str, np.dtype[Any]] = {f"torch.{name}": np.dtype(name) for name in ("uint16", "uint32", "uint64")}

_BYTES = np.dtype(np.uint8)
_OTHER_ELEMENTS = re.compile(r"torch\.(\w*Storage|(float|int|uint|bits|qint|quint|complex)\w+)")


@dataclass(frozen=True)
class LostTensor:
    """A tensor whose storage can't be read: what is known of it."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Storage:
    """A piece of memory, `data`, that tensors are views of; None where it can't be read."""

    data: Any
    dtype: np.dtype[Any]
    count: int


class Storages:
    """The storages of one file. `read(key)` gives one's bytes, or None where tensors are to be told without them.

    With `widen` tensors of bf16 come as the float32 numbers that they hold.
    """

    def __init__(self, read: Callable[[str], bytes | None], widen: bool) -> None:
        self._read, self._widen = read, widen
        self._bytes: dict[str, bytes | None] = {}
        self._known: dict[tuple[str, np.dtype[Any]], Storage] = {}

    def storage(self, kind: str | None, key: Any, count: Any) -> Storage:
        """Raises UnusableFileError for what is no reference to a storage."""
        dtype = _BYTES if kind == UNTYPED_STORAGE else STORAGE_DTYPES.get(kind or "")
        if dtype is None or type(key) is not str or type(count) is not int or count < 0:
            raise UnusableFileError("its pickle refers to what is no storage")
        found = self._known.get((key, dtype))
        if found is None:
            found = self._known[key, dtype] = self._new(key, dtype, count)
        if found.count != count:
            raise UnusableFileError(f"storage {key} has {found.count} elements of {dtype}, not {count}")
        return found

    def _new(self, key: str, dtype: np.dtype[Any], count: int) -> Storage:
        if key not in self._bytes:
            self._bytes[key] = self._read(key)
        data = self._bytes[key]
        if data is not None and count * dtype.itemsize != len(data):
            raise UnusableFileError(f"storage {key} has {len(data)} bytes, not {count} elements of {dtype}")
        if data is not None and dtype == np.bool_ and np.frombuffer(data, np.uint8).max(initial=0) > 1:
            raise UnusableFileError(f"storage {key} holds bools that are neither 0 nor 1")
        if dtype != BF16 or not self._widen:
            return Storage(data, dtype, count)
        wide = None if data is None else widened(np.frombuffer(data, BF16))
        if wide is not None:
            wide.flags.writeable = False
        return Storage(wide, np.dtype(np.float32), count)


def tensor(storage: Any, offset: Any, shape: Any, strides: Any, state: Sequence[Any] = (), dtype: np.dtype[Any] | None = None) -> Any:
    """A view of the storage, of its own element type or of `dtype`; a LostTensor where the storage can't be read.

    `state` is what PyTorch does to the numbers when they are read. Raises UnusableFileError for a tensor that can't be, ValueError
    for one that would reach outside of its storage.
    """
    numbers_fit = isinstance(shape, tuple) and isinstance(strides, tuple) and len(shape) == len(strides)
    if not isinstance(storage, Storage) or not numbers_fit or any(type(n) is not int or n < 0 for n in (offset, *shape, *strides)):
        raise UnusableFileError("its pickle describes a tensor that can't be")
    if any(state):
        message = "it holds a tensor that PyTorch negates or conjugates when it is read; save tensor.resolve_neg().resolve_conj()"
        raise UnusableFileError(message, "dtype")
    dtype = dtype or storage.dtype
    size = dtype.itemsize
    if storage.data is None:
        last = offset + sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True))
        if 0 not in shape and last * size >= storage.count * storage.dtype.itemsize:
            raise UnusableFileError("its pickle describes a tensor that reaches outside of its storage")
        return LostTensor(dtype, shape)
    if 0 in shape:
        return np.ndarray(shape, dtype)
    return np.ndarray(shape, dtype, storage.data, offset * size, [stride * size for stride in strides])


def is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | LostTensor)


def refuse_other_elements(name: str) -> None:
    """Raise UnusableFileError of kind "dtype" for the name of a storage or an element type that isn't supported."""
    if _OTHER_ELEMENTS.fullmatch(name):
        raise UnusableFileError(f"it holds a tensor of {name}, whose element type isn't supported", "dtype")
