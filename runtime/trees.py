"""What stands in a checkpoint, as trees of plain values: whether two are equal, and what they are called in messages."""

from __future__ import annotations

import math
import struct
from reprlib import repr as short_repr  # a damaged file may nest lists deeper than a message can hold
from typing import Any

import numpy as np

from shapescript.runtime.arrays import canonical_nan


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


def kind_of(entry: object) -> str:
    """What a file's entry is: its "kind" where it has one, else "tensor", "int", "dict" and so on."""
    if isinstance(entry, np.ndarray):
        return "tensor"
    kind = entry.get("kind") if isinstance(entry, dict) else None
    return kind if isinstance(kind, str) else type(entry).__name__


def shown(value: object) -> str:
    """A part of an entry that is a number or text, unless the file is damaged."""
    return str(value) if isinstance(value, int | str) else short_repr(value)


def article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def mode_text(entry: Any) -> str:
    return f"Train(seed={shown(entry.get('seed'))})" if kind_of(entry) == "Train" else kind_of(entry)


def value_text(entry: Any) -> str:
    if isinstance(entry, bool | int | float | str):
        return repr(entry) if len(repr(entry)) <= 80 else f"{repr(entry)[:80]}…"
    if kind_of(entry) == "Dataset":
        return f"{shown(entry.get('examples'))} examples with fingerprint {shown(entry.get('fingerprint'))}"
    return article(kind_of(entry))
