"""An inspection as text for people and as JSON for programs. Whatever a file calls things, the text stays what a terminal can show."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from reprlib import repr as short_repr  # a damaged file may nest lists deeper than a message can hold
from typing import Any

from shapescript.runtime.arrays import axes_text, sizes
from shapescript.runtime.inspection import EntryFacts, Inspection, TensorFacts

_LONGEST = 120  # characters of a name or value
_MOST_VALUES = 12  # on a line


def as_text(found: Inspection) -> str:
    """Several lines, without one's end at the end."""
    is_unread = found.error is not None and not found.entries and not found.ours
    maker = " of ShapeScript" if found.ours else "" if is_unread else " of another program"
    kind = f"{found.format} checkpoint{maker}" if not found.format.startswith("NumPy") else f"{found.format} file"
    lines = [f"{shown(found.path)}: {kind}, {_bytes(found.nbytes)}"]
    left = "what can still be read" if found.entries else "nothing can be read"
    lines[0] += ", valid" if found.error is None else f", not valid: {left}"
    lines += [f"  {_pair(name, value)}" for name, value in _flat(found.facts)]
    for entry in found.entries:
        lines += _entry_lines(entry)
    return "\n".join(lines)


def _entry_lines(entry: EntryFacts) -> list[str]:
    name = shown(entry.name)
    if entry.kind == "tensor":
        *about, remark = _cells(entry.tensors[0])[1:]
        return [f"{name}: tensor {' '.join(about)}" + (f", {remark}" if remark else "")]
    if set(entry.values) == {""} and not entry.tensors:
        return [f"{name}: {entry.kind} {_value(entry.values[''])}"]
    kind = f"model {shown(entry.model)}" if entry.kind == "model" and entry.model else entry.kind
    listed = [_pair(key, value) for key, value in list(entry.values.items())[:_MOST_VALUES]]
    if len(entry.values) > _MOST_VALUES:
        listed.append(f"and {len(entry.values) - _MOST_VALUES} more")
    if not entry.tensors:
        return [f"{name}: {', '.join([kind, *listed])}"]
    counts = f"{_plural(len(entry.tensors), 'tensor')}, {_plural(entry.count, 'number')}, {_bytes(entry.nbytes)}"
    first = [f"{name}: {kind}, {counts}"]
    return first + ([f"  {', '.join(listed)}"] if listed else []) + _table([_cells(tensor) for tensor in entry.tensors])


def _cells(tensor: TensorFacts) -> tuple[str, ...]:
    remark = "lost" if tensor.lost else "not counted" if tensor.not_finite is None else ""
    if tensor.not_finite:
        remark = f"not finite: {tensor.not_finite}"
    axes = "" if tensor.axes is None else shown(axes_text(tensor.axes))
    return shown(tensor.name), tensor.dtype, *([axes] if axes else []), sizes(tensor.shape), remark


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    """Cells under each other; a row without axes has an empty cell for them where another has some."""
    wide = max(map(len, rows))
    full = [row if len(row) == wide else (*row[:2], "", *row[2:]) for row in rows]
    widths = [max(len(row[column]) for row in full) for column in range(wide)]
    return ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True) if width).rstrip() for row in full]


def _pair(name: str, value: Any) -> str:
    return f"{shown(name)} {_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, str) and _is_word(value):
        return value
    return shown(repr(value) if isinstance(value, int | float | str) else short_repr(value))


def _is_word(value: str) -> bool:
    return 0 < len(value) <= _LONGEST and value.isprintable() and " " not in value and value.isascii()


def shown(text: str) -> str:
    """A name of a file's, in one line, of bounded length and without what a terminal would obey."""
    plain = text if text.isprintable() and text else repr(text)
    return plain if len(plain) <= _LONGEST else plain[:_LONGEST] + "…"


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _bytes(count: int) -> str:
    return _plural(count, "byte")


def _flat(facts: Mapping[str, Any], before: str = "", depth: int = 3) -> Iterable[tuple[str, Any]]:
    for name, value in facts.items():
        if isinstance(value, dict) and depth:
            yield from _flat(value, f"{before}{name}.", depth - 1)
        else:
            yield f"{before}{name}", value


def as_json(found: Inspection) -> str:
    """One line; a number that JSON lacks is a string, as in logs."""
    error = (
        None
        if found.error is None
        else {"code": found.error.code, "kind": getattr(found.error, "kind", None), "message": found.error.message}
    )
    tree = {
        "path": found.path,
        "format": found.format,
        "bytes": found.nbytes,
        "valid": found.error is None,
        "error": error,
        "ours": found.ours,
        "facts": dict(_flat(found.facts)),
        "entries": [_entry_tree(entry) for entry in found.entries],
    }
    return json.dumps(_plain(tree), allow_nan=False)


def _entry_tree(entry: EntryFacts) -> dict[str, Any]:
    return {
        "name": entry.name,
        "kind": entry.kind,
        "model": entry.model,
        "numbers": entry.count,
        "bytes": entry.nbytes,
        "value": entry.values.get("") if set(entry.values) == {""} else None,
        "values": {name: value for name, value in entry.values.items() if name},
        "tensors": [
            {
                "name": tensor.name,
                "dtype": tensor.dtype,
                "axes": tensor.axes,
                "shape": tensor.shape,
                "not_finite": tensor.not_finite,
                "lost": tensor.lost,
            }
            for tensor in entry.tensors
        ],
    }


def _plain(value: Any, depth: int = 8) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if not depth:
        return f"a {type(value).__name__}"
    if isinstance(value, Mapping):
        return {str(name): _plain(item, depth - 1) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, depth - 1) for item in value]
    return f"a {type(value).__name__}"
