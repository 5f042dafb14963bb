"""What a file of numbers holds, told without loading it into a program: checkpoints, `.npz` and `.npy` files, damaged ones too."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from shapescript.runtime.array_files import ARRAY_SUFFIXES, arrays_in
from shapescript.runtime.arrays import BF16, Array, dtype_name, widened
from shapescript.runtime.checkpoint import Checkpoint, PathLike, read_checkpoint
from shapescript.runtime.entries import FACTS
from shapescript.runtime.errors import CheckpointError, CheckpointMissing, DataError, DataFileMissing, ShapeScriptError
from shapescript.runtime.file_errors import UnusableFileError
from shapescript.runtime.files import regular_file
from shapescript.runtime.formats import is_safetensors
from shapescript.runtime.pickle_tensors import LostTensor
from shapescript.runtime.salvage import salvaged_safetensors, salvaged_torch
from shapescript.runtime.trees import kind_of

_DEEPEST = 20  # levels of dicts and lists that are told
_LEAST_BUDGET = 1 << 20


@dataclass(frozen=True)
class TensorFacts:
    """A tensor: `axes` where the file names them. `not_finite` counts NaNs and infinities; it is None for a tensor that is lost, and
    for one of a file whose tensors share storage so often that counting would take more time than its size warrants."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    axes: tuple[str, ...] | None
    not_finite: int | None
    lost: bool = False

    @property
    def count(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class EntryFacts:
    """A named value of a file: its kind ("model", "AdamW", "Train", "tensor", "int", …), its tensors and its plain values by name."""

    name: str
    kind: str
    model: str | None
    tensors: tuple[TensorFacts, ...]
    values: Mapping[str, Any]
    nbytes: int

    @property
    def count(self) -> int:
        return sum(tensor.count for tensor in self.tensors)


@dataclass(frozen=True)
class Inspection:
    """A file: `error` says what is wrong with it, and then the entries are what could still be read."""

    path: str
    format: str
    nbytes: int
    ours: bool
    facts: Mapping[str, Any]
    entries: tuple[EntryFacts, ...]
    error: ShapeScriptError | None = field(default=None, compare=False)


def inspect(path: PathLike) -> Inspection:
    """What a file holds; its name's ending says in which format.

    Raises CheckpointMissing R1301 or DataFileMissing R1201 for a file that isn't there, PackageMissing R1502.
    """
    suffix = Path(os.fspath(path)).suffix.lower()
    if suffix in ARRAY_SUFFIXES:
        return _array_file(path, suffix)
    kind = "safetensors" if is_safetensors(path) else "PyTorch"
    try:
        found, error = read_checkpoint(path), None
    except CheckpointMissing:
        raise
    except CheckpointError as failed:
        found, error = _salvaged(path), failed
    size = _size(path)
    facts = {name: value for name, value in found.facts.items() if name != "entries"}
    teller = _Teller(size)
    entries = tuple(teller.entry(name, value, found) for name, value in found.entries.items())
    return Inspection(os.fspath(path), kind, size, bool(found.facts), facts, entries, error)


def _array_file(path: PathLike, suffix: str) -> Inspection:
    entries: list[EntryFacts] = []
    error: ShapeScriptError | None = None
    try:
        for found in arrays_in(path, suffix):
            facts = TensorFacts(found.name, str(found.dtype), found.shape, None, found.not_finite)
            entries.append(EntryFacts(found.name, "tensor", None, (facts,), {}, facts.count * found.dtype.itemsize))
    except DataFileMissing:
        raise
    except DataError as failed:
        error = failed
    return Inspection(os.fspath(path), f"NumPy {suffix}", _size(path), False, {}, tuple(entries), error)


def _size(path: PathLike) -> int:
    try:
        return regular_file(path).stat().st_size
    except OSError:
        return 0


def _salvaged(path: PathLike) -> Checkpoint:
    shown = Path(os.fspath(path))
    try:
        with regular_file(path).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            tree = salvaged_safetensors(file, size) if is_safetensors(path) else salvaged_torch(file, size)
    except (OSError, UnusableFileError):
        return Checkpoint(shown, {}, {})
    entries = {str(name): value for name, value in tree.items() if name != FACTS}
    facts = tree.get(FACTS)
    return Checkpoint(shown, entries, facts if isinstance(facts, dict) else {})


class _Teller:
    """Tells entries; what it looks at is bounded by the file's size, whatever the file says of itself."""

    def __init__(self, size: int) -> None:
        self._budget = 2 * max(size, _LEAST_BUDGET)

    def entry(self, name: str, value: Any, checkpoint: Checkpoint) -> EntryFacts:
        told = checkpoint.facts.get("entries")
        facts = told.get(name) if isinstance(told, dict) else None
        facts = facts if isinstance(facts, dict) else {}
        model = facts.get("model")
        kind = facts.get("kind") if isinstance(value, Mapping) and kind_of(value) == "dict" else None
        tensors: list[TensorFacts] = []
        values: dict[str, Any] = {}
        nbytes, recorded = 0, checkpoint.axes(name)
        for path, leaf in _leaves(value):
            shown = ".".join(path)
            if isinstance(leaf, np.ndarray | LostTensor):
                # A slot of an optimiser has the axes of the parameter: "first.hidden.weight" those of "hidden.weight".
                axes = recorded.get(shown, recorded.get(".".join(path[1:]))) if path else checkpoint.tensor_axes(name)
                tensors.append(self._tensor(shown or name, leaf, axes))
                nbytes += tensors[-1].count * leaf.dtype.itemsize
            else:
                values[shown] = leaf
        plain = kind if isinstance(kind, str) else "tensor" if isinstance(value, LostTensor) else kind_of(value)
        return EntryFacts(name, plain, model if isinstance(model, str) else None, tuple(tensors), values, nbytes)

    def _tensor(self, name: str, value: Array | LostTensor, axes: tuple[str, ...] | None) -> TensorFacts:
        fitting = axes if axes is not None and len(axes) == len(value.shape) else None
        lost = isinstance(value, LostTensor)
        count = None if isinstance(value, LostTensor) else self._not_finite(value)
        return TensorFacts(name, dtype_name(value.dtype), tuple(value.shape), fitting, count, lost)

    def _not_finite(self, array: Array) -> int | None:
        if array.dtype != BF16 and array.dtype.kind not in "fc":
            return 0
        if array.size > self._budget:
            return None
        self._budget -= array.size
        return int(array.size - np.count_nonzero(np.isfinite(widened(array))))


def _leaves(value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Tensors and plain values by their paths. A list or dict that is met again, or lies deep, is a leaf; so is a list of plain values."""
    waiting: list[tuple[tuple[str, ...], Any]] = [((), value)]
    known: set[int] = set()
    while waiting:
        path, part = waiting.pop()
        if not _is_branch(part):
            yield path, part
        elif len(path) >= _DEEPEST or id(part) in known:
            yield path, f"a {type(part).__name__}"
        else:
            known.add(id(part))
            pairs = list(part.items() if isinstance(part, dict) else enumerate(part))
            if path == () and isinstance(part, dict) and kind_of(part) == part.get("kind"):
                pairs = [pair for pair in pairs if pair[0] != "kind"]
            waiting.extend(((*path, str(name)), item) for name, item in reversed(pairs))


def _is_branch(value: Any) -> bool:
    if isinstance(value, dict):
        return bool(value)
    return isinstance(value, list | tuple) and any(isinstance(item, list | tuple | dict | np.ndarray | LostTensor) for item in value)
