"""Trees of plain values and arrays as JSON text with the arrays beside it, so that a text format can hold a checkpoint's tree.

A dict is an object; what JSON lacks is an object of one key: {"$tensor": name}, {"$tuple": […]}, {"$float": "nan"}, and {"$dict":
[[key, value], …]} for a dict with keys that aren't strings, or that begin with "$". Numbers come back exactly, with their types.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from shapescript.runtime.arrays import Array

_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}

Path = tuple[str, ...]


def to_text(tree: Any, named: Callable[[Path, Array], str]) -> str:
    """JSON in ASCII; `named(path, array)` keeps an array and gives its name. Raises TypeError for what is no plain value."""
    return json.dumps(_plain(tree, (), named), separators=(",", ":"), allow_nan=False)


def _plain(value: Any, path: Path, named: Callable[[Path, Array], str]) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else {"$float": "nan" if math.isnan(value) else str(value)}
        case np.ndarray():
            return {"$tensor": named(path, value)}
        case list():
            return list(_items(value, path, named))
        case tuple():
            return {"$tuple": list(_items(value, path, named))}
        case Mapping():
            pairs = [(key, _plain(item, (*path, str(key)), named)) for key, item in value.items()]
            if all(isinstance(key, str) and not key.startswith("$") for key, _ in pairs):
                return dict(pairs)
            return {"$dict": [[_plain(key, path, named), item] for key, item in pairs]}
    raise TypeError(f"a checkpoint can't hold {type(value).__name__}")


def _items(items: list[Any] | tuple[Any, ...], path: Path, named: Callable[[Path, Array], str]) -> Iterator[Any]:
    return (_plain(item, (*path, str(place)), named) for place, item in enumerate(items))


def of_text(text: str, array: Callable[[str], Any]) -> Any:
    """The tree of a text; `array(name)` gives what was kept under a name.

    Raises ValueError, KeyError, TypeError or RecursionError for a text that `to_text` doesn't write.
    """
    return _value(json.loads(text, object_pairs_hook=without_doubles, parse_constant=_refuse), array)


def without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object as a dict. Raises ValueError where a key stands twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has one key twice")
    return found


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def _value(value: Any, array: Callable[[str], Any]) -> Any:
    if isinstance(value, list):
        return [_value(item, array) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1 or not next(iter(value)).startswith("$"):
        return {key: _value(item, array) for key, item in value.items()}
    ((tag, held),) = value.items()
    match tag, held:
        case "$tensor", str():
            return array(held)
        case "$float", str():
            return _FLOATS[held]
        case "$tuple", list():
            return tuple(_value(item, array) for item in held)
        case "$dict", list():
            return {_value(key, array): _value(item, array) for key, item in held}
    raise ValueError(f"{tag} marks what it doesn't stand for")
