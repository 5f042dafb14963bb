"""Log records as lines of strict JSON, and the chain of hashes that says what a log held at a place.

A line is `{"step": 1, "loss": 2.31}`: the record's fields and nothing else. Floats are written so that reading them gives the
same bits; NaN and the infinities are the strings "NaN", "Infinity" and "-Infinity".
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, TypeGuard

import numpy as np

from shapescript.compiler.records.dataclass import dataclass
from shapescript.runtime.arrays import canonical_nan
from shapescript.runtime.errors import ArgumentError, CheckpointError

HASH_BYTES = 16


@dataclass(frozen=True)
class Position:
    """How much a log holds: its bytes, its records, and the chained hash of its lines, h(n) = blake2b(h(n-1), line n)."""

    size: int = 0
    records: int = 0
    hash: str = "00" * HASH_BYTES

    def after(self, line: bytes, records: int = 1) -> Position:
        """Where a log is behind one piece more: a line of it, or what it begins with, which is no record."""
        chained = hashlib.blake2b(bytes.fromhex(self.hash), digest_size=HASH_BYTES)
        chained.update(line)
        return Position(self.size + len(line), self.records + records, chained.hexdigest())

    def as_dict(self) -> dict[str, Any]:
        return {"bytes": self.size, "records": self.records, "hash": self.hash}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Position:
        """Raises CheckpointError R1302 of kind "corrupt" for a dict that `as_dict` can't have made."""
        size, records, digest = saved.get("bytes"), saved.get("records"), saved.get("hash")
        if not _is_count(size) or not _is_count(records) or not _is_digest(digest):
            raise CheckpointError("R1302", f"no position of a log: {sorted(map(str, saved))}", kind="corrupt", name="sink")
        return cls(size, records, digest)


def encode_line(record_name: str, fields: Mapping[str, Any]) -> bytes:
    """One line with its newline, in ASCII. Raises ArgumentError R1004 for a field that is no number, bool, string or array."""
    values = {name: _json_value(f"{record_name}.{name}", value) for name, value in plain_fields(record_name, fields).items()}
    return json.dumps(values, allow_nan=False).encode("ascii") + b"\n"


def plain_fields(record_name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """A record's fields as Python holds them. Raises ArgumentError R1004 for one that a log doesn't hold."""
    return {name: value if _is_plain(value) else plain_value(f"{record_name}.{name}", value) for name, value in fields.items()}


def _is_plain(value: Any) -> bool:
    """Whether `plain_value` would give the value itself: most are, and each record pays for asking."""
    kind = type(value)
    return kind is int or (kind is float and not math.isnan(value)) or kind is bool or kind is str


def plain_value(what: str, value: Any) -> Any:
    """A field's value as Python holds it: f32 as float, an array as a read-only copy, NaN with its canonical bits."""
    if isinstance(value, np.ndarray) and value.ndim:
        copy = canonical_nan(value).copy()
        copy.flags.writeable = False
        return copy
    if isinstance(value, np.generic | np.ndarray):
        value = value.item()
    if isinstance(value, float) and math.isnan(value):
        return math.nan
    if isinstance(value, bool | int | float | str):
        return value
    raise ArgumentError("R1004", f"{what}: a log holds numbers, bools and strings, got {type(value).__name__}")


SPELLINGS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def spelled(value: float) -> str:
    """How logs write a float that isn't finite."""
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def _json_value(what: str, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _json_value(what, value.tolist())
    if isinstance(value, list):
        return [_json_value(what, item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return spelled(value)
    if isinstance(value, bool | int | float | str):
        return value
    raise ArgumentError("R1004", f"{what}: a log holds numbers, bools and strings, got {type(value).__name__}")


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and value >= 0


def _is_digest(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and len(value) == 2 * HASH_BYTES and all(digit in "0123456789abcdef" for digit in value)
