"""Checkpoints: named values in one file, written whole or not at all, in PyTorch's `.pt` format."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as short_repr  # a damaged file may nest lists deeper than a message can hold
from typing import Any, TypeGuard

import numpy as np

from shapescript.runtime.arrays import BF16, Array, widened
from shapescript.runtime.entries import FACTS, VERSION, encode
from shapescript.runtime.errors import ArgumentError, CheckpointError, CheckpointMissing, CheckpointUnwritable, cause_of
from shapescript.runtime.files import regular_file, replace_file
from shapescript.runtime.pickle_reader import RefusedPickleError
from shapescript.runtime.sinks import LogSink
from shapescript.runtime.torch_format import read_torch, write_torch
from shapescript.runtime.zip_reader import DamagedArchiveError, TruncatedArchiveError

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Checkpoint:
    """A file that has been read and checked: its named entries, and the facts about them; none in a file of PyTorch's."""

    path: Path
    entries: Mapping[str, Any]
    facts: Mapping[str, Any]

    def axes(self, name: str) -> Mapping[str, tuple[str, ...]]:
        """The axis names that the file records for the parameters of an entry."""
        recorded = self._fact(name, "axes")
        return {key: axes for key, axes in recorded.items() if _is_axes(axes)} if isinstance(recorded, dict) else {}

    def tensor_axes(self, name: str) -> tuple[str, ...] | None:
        recorded = self._fact(name, "axes")
        return recorded if _is_axes(recorded) else None

    def _fact(self, name: str, fact: str) -> Any:
        entries = self.facts.get("entries")
        entry = entries.get(name) if isinstance(entries, dict) else None
        return entry.get(fact) if isinstance(entry, dict) else None


def _is_axes(recorded: object) -> TypeGuard[tuple[str, ...]]:
    return isinstance(recorded, tuple) and all(isinstance(axis, str) for axis in recorded)


def save_checkpoint(path: PathLike, /, **values: object) -> None:
    """Save named values: models, optimisers' states, modes, sinks, datasets, ints, floats, bools, strings, arrays, state dicts.

    The file is written beside `path`, made durable and renamed over it, so that `path` always holds a whole checkpoint. Sinks
    are flushed first: what the checkpoint says of them is on the disk. `torch.load(path, weights_only=True)` opens the file, and
    a model in it is what `torch.nn.Module.load_state_dict` takes.

    Raises ArgumentError R1001, R1004, R1005 or R1006 for a value that can't be saved; LogError R1401; CheckpointUnwritable R1304,
    and then the file that was at `path` is still there.
    """
    if not values:
        raise ArgumentError("R1005", "save_checkpoint: nothing to save: it takes values by name, for instance m=m")
    for value in values.values():
        if isinstance(value, LogSink):
            value.flush()
    tree = encode(values)
    shown = os.fspath(path) or "''"
    try:
        replace_file(Path(path), lambda file: write_torch(file, tree))
    except OSError as error:
        message = f"{shown}: the checkpoint can't be written: {cause_of(error)}; a file that was there is unchanged"
        raise CheckpointUnwritable("R1304", message, number=error.errno, filename=shown) from error


def load_checkpoint(path: PathLike) -> dict[str, Any]:
    """The named values in a checkpoint, or in a file that `torch.save` wrote.

    A model, or a `state_dict`, comes as a dict of dotted names and read-only arrays, an optimiser's state, a mode, a sink and a dataset
    as a dict with a "kind". Raises CheckpointMissing R1301; CheckpointError R1302 of kind "truncated", "corrupt" or "version",
    R1303 of kind "dtype" for element types that aren't supported.
    """
    entries = dict(read_checkpoint(path).entries)
    _widen(entries)
    return entries


def _widen(entries: dict[Any, Any]) -> None:
    """Tensors of bf16 become float32, in nested dicts too: a damaged file may nest them deeper than calls can, or in a circle."""
    waiting, known = [entries], {id(entries)}
    storages: dict[int, Array] = {}
    while waiting:
        entry = waiting.pop()
        for name, part in entry.items():
            if isinstance(part, np.ndarray):
                entry[name] = _widened(part, storages)
            elif isinstance(part, dict) and id(part) not in known:
                known.add(id(part))
                waiting.append(part)


def _widened(array: Array, storages: dict[int, Array]) -> Array:
    """The tensor as a view of its storage, of which those before left theirs: a small file may hold many large views of one."""
    if array.dtype != BF16 or not array.size:
        return widened(array)
    base: Any = array.base
    storage, wide = np.frombuffer(base, BF16), storages.get(id(base))
    if wide is None:
        wide = storages[id(base)] = widened(storage)
        wide.flags.writeable = False
    growth = wide.itemsize // storage.itemsize
    offset = (array.ctypes.data - storage.ctypes.data) * growth
    return np.ndarray(array.shape, wide.dtype, wide, offset, [stride * growth for stride in array.strides])


def read_checkpoint(path: PathLike) -> Checkpoint:
    """As `load_checkpoint`, with the facts that the file records about its entries."""
    shown = os.fspath(path) or "''"
    try:
        with regular_file(path).open("rb") as file:
            tree = read_torch(file)
    except FileNotFoundError:
        raise CheckpointMissing("R1301", f"{shown}: no such checkpoint", filename=shown) from None
    except OSError as error:
        raise CheckpointError("R1302", f"{shown}: the checkpoint can't be read: {cause_of(error)}", kind="corrupt") from error
    except TruncatedArchiveError as error:
        raise CheckpointError("R1302", f"{shown}: the checkpoint is truncated: {error}", kind="truncated") from error
    except DamagedArchiveError as error:
        raise CheckpointError("R1302", f"{shown}: the checkpoint is damaged, or no checkpoint: {error}", kind="corrupt") from error
    except RefusedPickleError as error:
        code = "R1303" if error.kind == "dtype" else "R1302"
        raise CheckpointError(code, f"{shown}: the checkpoint can't be used: {error}", kind=error.kind) from error
    return _checked_tree(shown, tree)


def _checked_tree(shown: str, tree: object) -> Checkpoint:
    if not isinstance(tree, dict) or not all(isinstance(name, str) for name in tree):
        message = f"{shown}: the checkpoint can't be used: it holds a {type(tree).__name__}, not values with names"
        raise CheckpointError("R1302", message, kind="corrupt")
    facts = tree.pop(FACTS, {})
    if not isinstance(facts, dict):
        raise CheckpointError("R1302", f"{shown}: the checkpoint is damaged: its {FACTS!r} entry isn't a dict", kind="corrupt")
    version = facts.get("version", VERSION)
    if not isinstance(version, int) or version != VERSION:
        message = f"{shown}: the checkpoint has version {short_repr(version)} of the format, this release reads {VERSION}"
        raise CheckpointError("R1302", message, kind="version", expected=VERSION, found=version)
    return Checkpoint(Path(shown), tree, facts)
