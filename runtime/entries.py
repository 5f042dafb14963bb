"""What a checkpoint holds for each kind of value, and the facts beside it that PyTorch has no place for.

A model is a flat dict of dotted names and tensors, so that PyTorch can load it. Anything else that isn't a number, a string or
a tensor is a dict of plain values with a "kind". The name "shapescript" holds the facts: the format's version, the step and the hash of the
program where they are known and, for each entry, its kind and the names of its axes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from shapescript.compiler.records.dataclass import dataclass
from shapescript.runtime.arrays import Array, dtype_name, usable_array
from shapescript.runtime.dataset import Dataset
from shapescript.runtime.errors import ArgumentError, ArgumentValueError
from shapescript.runtime.host_numbers import checked_int
from shapescript.runtime.mode import EvalMode, Mode, Train
from shapescript.runtime.model import Model
from shapescript.runtime.optimiser import Optimiser
from shapescript.runtime.pickle_writer import STORAGE_CLASSES
from shapescript.runtime.sinks import LogSink
from shapescript.runtime.vocabulary import Vocabulary

FACTS = "shapescript"
VERSION = 1


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor to save or to compare, with the names of its axes."""

    array: Array
    axes: tuple[str, ...]


def encode(values: Mapping[str, object], step: int | None = None, program: str | None = None) -> dict[str, Any]:
    """The tree to write for named values; `step` and the hash of the program that saves are facts of it, where they are known.

    Raises ArgumentError R1001, R1004, R1005 or R1006 for what can't be saved.
    """
    if FACTS in values:
        raise ArgumentError("R1005", f"save: the name {FACTS!r} is kept for what the checkpoint says of itself; choose another")
    entries = {_checked_name("save", name): encode_entry(name, value) for name, value in values.items()}
    tree: dict[str, Any] = {name: saved for name, (saved, _) in entries.items()}
    known = {name: fact for name, fact in (("step", step), ("program", program)) if fact is not None}
    tree[FACTS] = {"version": VERSION, **known, "entries": {name: facts for name, (_, facts) in entries.items()}}
    return tree


def encode_entry(name: str, value: object) -> tuple[Any, dict[str, Any]]:
    """What is saved for one value, and the facts about it."""
    match value:
        case Model():
            arrays = {leaf.name: value.layout.view(value.buffer, leaf.name) for leaf in value.layout}
            axes = {leaf.name: leaf.axes for leaf in value.layout}
            return arrays, {"kind": "model", "model": value.layout.model_name, "axes": axes}
        case Optimiser():
            return _encode_optimiser(value)
        case Mode():
            return encode_mode(value), {"kind": "mode"}
        case LogSink():
            return value.position(), {"kind": "sink"}
        case Dataset():
            return encode_dataset(value), {"kind": "dataset"}
        case Vocabulary():
            return {"kind": "Vocabulary", "characters": host_scalar(name, value.characters)}, {"kind": "vocabulary"}
        case Tensor():
            return _checked_array(name, value.array), {"kind": "tensor", "axes": value.axes}
        case Mapping():
            return {_checked_name(name, key): _checked_array(f"{name}.{key}", item) for key, item in value.items()}, {"kind": "model"}
    scalar = host_scalar(name, value)
    if scalar is not None:
        return scalar, {"kind": type(scalar).__name__}
    return _checked_array(name, value), {"kind": "tensor"}


def host_scalar(name: str, value: object) -> bool | int | float | str | None:
    """`value` as a host scalar of Python's own type, or None where it is none."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return checked_int(name, value)
    if isinstance(value, float):
        return float(value)
    if not isinstance(value, str):
        return None
    return _encodable(name, value)


def _checked_name(where: str, name: object) -> str:
    if not isinstance(name, str):
        raise ArgumentError("R1004", f"{where}: names in a checkpoint are strings, not {type(name).__name__}")
    return _encodable(where, name)


def _encodable(where: str, text: str) -> str:
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ArgumentValueError("R1004", f"{where}: a string with half of a surrogate pair can't be saved")
    return str(text)


def encode_mode(mode: Mode) -> dict[str, Any]:
    if isinstance(mode, Train):
        return {"kind": "Train", "seed": mode.seed, "draws": mode.draws}
    assert isinstance(mode, EvalMode)
    return {"kind": "Eval"}


def encode_dataset(dataset: Dataset) -> dict[str, Any]:
    return {"kind": "Dataset", "examples": len(dataset), "fingerprint": dataset.fingerprint()}


def _encode_optimiser(state: Optimiser) -> tuple[dict[str, Any], dict[str, Any]]:
    moved, kind = [leaf for leaf in state.layout if leaf.differentiable], state.kind.name
    slots = {slot: {leaf.name: state.moment(slot, leaf.name) for leaf in moved} for slot in state.slot_names}
    saved = {"kind": kind, "step": state.step, **state.options, **slots}
    return saved, {"kind": kind, "model": state.layout.model_name, "axes": {leaf.name: leaf.axes for leaf in moved}}


def _checked_array(name: str, value: object) -> Array:
    if not isinstance(value, np.ndarray | np.generic) and not hasattr(type(value), "__array__"):
        raise ArgumentError("R1004", f"{name}: a checkpoint can't hold {type(value).__name__}")
    array = usable_array(name, value)
    if dtype_name(array.dtype) not in STORAGE_CLASSES:
        raise ArgumentError("R1001", f"{name}: a checkpoint can't hold an array of {dtype_name(array.dtype)}")
    return array
