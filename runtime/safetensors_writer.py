"""Writes checkpoints as `.safetensors` files: which tensors a file has under which names, and what is told of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np

from shapescript.compiler.records.dataclass import dataclass
from shapescript.runtime.arrays import Array, canonical_nan, dtype_name
from shapescript.runtime.errors import ArgumentError
from shapescript.runtime.safetensors_format import (
    ALIGNMENT,
    DTYPES,
    KEY,
    LONGEST_HEADER,
    METADATA,
    NO_HASH,
    SUFFIX,
    hash_of,
    needed_package,
)
from shapescript.runtime.tree_texts import to_text

_BARE_METADATA = b'{"__metadata__":{"format":"pt"}'  # what the package makes of the key that Hugging Face's loaders look for


@dataclass(frozen=True)
class Content:
    """A tree as the file holds it: its tensors by name, and the rest as JSON."""

    tensors: Mapping[str, Array]
    text: str


def content_of(tree: Mapping[str, Any]) -> Content:
    """Raises ArgumentError R1001 for an element type that the format lacks, R1004 for more plain values than its header holds."""
    tensors: dict[str, Array] = {}
    bare = _only_model(tree)

    def named(path: tuple[str, ...], array: Array) -> str:
        shown = ".".join(path)
        if array.dtype not in DTYPES.values():
            raise ArgumentError("R1001", f"{shown}: a {SUFFIX} file can't hold an array of {dtype_name(array.dtype)}")
        name = ".".join(path[1:]) if path[0] == bare else shown
        while name in tensors or name == METADATA:
            name += "'"
        tensors[name] = array
        return name

    text = to_text(tree, named)
    if len(text) > LONGEST_HEADER // 4:  # it is escaped once more, and the tensors are told beside it
        raise ArgumentError("R1004", f"what a {SUFFIX} file holds beside tensors can't be longer than {LONGEST_HEADER // 4} bytes as JSON")
    return Content(tensors, text)


def _only_model(tree: Mapping[str, Any]) -> str | None:
    """The entry that is a dict of tensors where no other holds one: the tree's own facts hold none, handles neither."""
    models = [name for name, entry in tree.items() if _is_model(entry)]
    others = [name for name, entry in tree.items() if not _is_model(entry) and _holds_tensor(entry)]
    return models[0] if len(models) == 1 and not others else None


def _is_model(entry: Any) -> bool:
    return isinstance(entry, Mapping) and bool(entry) and all(isinstance(part, np.ndarray) for part in entry.values())


def _holds_tensor(entry: Any) -> bool:
    if isinstance(entry, Mapping):
        entry = list(entry.values())
    return isinstance(entry, np.ndarray) or (isinstance(entry, list | tuple) and any(map(_holds_tensor, entry)))


def write_safetensors(file: BinaryIO, content: Content) -> None:
    package = needed_package()
    arrays = {name: np.ascontiguousarray(canonical_nan(array)).reshape(array.shape) for name, array in content.tensors.items()}
    specs = {
        name: package.TensorSpec(dtype=dtype_name(array.dtype), shape=array.shape, data_ptr=array.ctypes.data, data_len=array.nbytes)
        for name, array in arrays.items()
    }
    whole = memoryview(package.serialize(specs, metadata={"format": "pt"}))
    start = 8 + int.from_bytes(whole[:8], "little")
    told, data = bytes(whole[8:start]).rstrip(b" "), whole[start:]
    assert told.startswith(_BARE_METADATA)
    # The package writes several keys of metadata in an order of chance, so the second one is put here.
    before = _BARE_METADATA[:-1] + f',"{KEY}":'.encode()
    value = json.dumps(f"blake2b:{NO_HASH} {content.text}").encode()
    header = before + value + told[len(_BARE_METADATA) - 1 :]
    header += b" " * (-len(header) % ALIGNMENT)
    length = len(header).to_bytes(8, "little")
    checksum = hash_of(length, header, data)
    for part in (length, header.replace(NO_HASH.encode(), checksum.encode(), 1), data):
        file.write(part)
