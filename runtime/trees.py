"""What stands in a checkpoint, as trees of plain values: whether two are equal, and what they are called in messages."""

from __future__ import annotations

import hashlib
import math
import struct
from reprlib import repr as short_repr  # a damaged file may nest lists deeper than a message can hold
from typing import Any

import numpy as np

from shapescript.compiler.numerics.optimisers import KINDS
from shapescript.runtime.arrays import canonical_nan, dtype_name, sizes

OPTIMISER_KINDS = frozenset(KINDS)
LONGEST_KIND = 80  # characters


def same_tree(wanted: Any, found: Any) -> bool:
    """Whether two trees are equal bit for bit, in types too; any NaN equals any other of its type."""
    if isinstance(wanted, np.ndarray):
        if not isinstance(found, np.ndarray) or (wanted.dtype, wanted.shape) != (found.dtype, found.shape):
            return False
        return canonical_nan(wanted).tobytes() == canonical_nan(found).tobytes()
    if type(wanted) is not type(found):
        return False
    if isinstance(wanted, float):
        return struct.pack("<d", wanted) == struct.pack("<d", found) or (math.isnan(wanted) and math.isnan(found))
    if isinstance(wanted, dict):
        return wanted.keys() == found.keys() and all(same_tree(value, found[key]) for key, value in wanted.items())
    if isinstance(wanted, tuple | list):
        return len(wanted) == len(found) and all(map(same_tree, wanted, found))
    return bool(wanted == found)


def same_form(wanted: Any, found: Any) -> bool:
    """Whether two trees have the same names and types, and their arrays the same shapes: they differ in values at most."""
    if type(wanted) is not type(found):
        return False
    if isinstance(wanted, np.ndarray):
        return (wanted.dtype, wanted.shape) == (found.dtype, found.shape)
    if isinstance(wanted, dict):
        same_kind = not isinstance(wanted.get("kind"), str) or wanted["kind"] == found.get("kind")
        return same_kind and wanted.keys() == found.keys() and all(same_form(value, found[key]) for key, value in wanted.items())
    if isinstance(wanted, tuple | list):
        return len(wanted) == len(found) and all(map(same_form, wanted, found))
    return True


def kind_of(entry: object) -> str:
    """What a file's entry is: its "kind" where it has a word there, else "tensor", "int", "dict" and so on."""
    if isinstance(entry, np.ndarray):
        return "tensor"
    kind = entry.get("kind") if isinstance(entry, dict) else None
    return kind if isinstance(kind, str) and 0 < len(kind) <= LONGEST_KIND else type(entry).__name__


def shown(value: object) -> str:
    """A part of an entry that is a number or text, unless the file is damaged."""
    return str(value) if isinstance(value, int | str) else short_repr(value)


def article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def mode_text(entry: Any) -> str:
    return f"Train(seed={shown(entry.get('seed'))})" if kind_of(entry) == "Train" else kind_of(entry)


def value_text(entry: Any) -> str:
    """A value as messages name it; of tensors, and of trees that hold some, what tells two of a kind apart: a hash."""
    if isinstance(entry, bool | int | float | str):
        return repr(entry) if len(repr(entry)) <= 80 else f"{repr(entry)[:80]}…"
    if kind_of(entry) == "Dataset":
        return f"{shown(entry.get('examples'))} examples with fingerprint {shown(entry.get('fingerprint'))}"
    if isinstance(entry, np.ndarray):
        return f"a tensor of {dtype_name(entry.dtype)} {sizes(entry.shape)} with hash {_hash(entry)}"
    if isinstance(entry, dict) and all(isinstance(part, np.ndarray) for part in entry.values()):
        return f"{len(entry)} parameters with hash {_hash(entry)}"
    return article(kind_of(entry)) + (f" with hash {_hash(entry)}" if kind_of(entry) in OPTIMISER_KINDS else "")


def _hash(tree: Any) -> str:
    """Of a tree's values; two that `same_tree` takes for equal have the same."""
    digest, waiting, known = hashlib.blake2b(digest_size=8), [tree], set[int]()
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict | list | tuple):
            if id(part) in known:  # a damaged file may hold itself
                continue
            known.add(id(part))
            keys = sorted(part, key=repr) if isinstance(part, dict) else range(len(part))
            digest.update(f"{type(part).__name__} {len(part)}\n".encode())
            digest.update("".join(f"{key!r}\n" for key in keys).encode())
            waiting.extend(part[key] for key in keys)
        elif isinstance(part, np.ndarray):
            digest.update(f"{part.dtype} {part.shape}\n".encode())
            digest.update(np.ascontiguousarray(canonical_nan(part)).tobytes())
        else:
            digest.update(f"{type(part).__name__} {short_repr(part)}\n".encode())
    return digest.hexdigest()
