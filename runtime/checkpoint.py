"""Checkpoints: named values in one file, written whole or not at all, as `.pt` or `.safetensors`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from reprlib import repr as short_repr  # a damaged file may nest lists deeper than a message can hold
from typing import Any, TypeGuard

from shapescript.compiler.records.dataclass import dataclass
from shapescript.runtime.entries import FACTS, VERSION
from shapescript.runtime.errors import CheckpointError, CheckpointMissing, cause_of
from shapescript.runtime.file_errors import UnusableFileError
from shapescript.runtime.files import regular_file
from shapescript.runtime.formats import read_tree
from shapescript.runtime.notices import tell
from shapescript.runtime.saving import prepared
from shapescript.runtime.steps import mark_hint
from shapescript.runtime.trees import article, kind_of

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Checkpoint:
    """A file that has been read and checked: its named entries, and the facts about them; none in a file of PyTorch's."""

    path: Path
    entries: Mapping[str, Any]
    facts: Mapping[str, Any]

    @property
    def step(self) -> int | None:
        """The step that was saved, None where the file records none."""
        step = self.facts.get("step")
        return step if type(step) is int and step >= 0 else None

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


def save_checkpoint(path: PathLike, /, *, keep: int | None = None, **values: object) -> None:
    """Save named values: models, optimisers' states, modes, sinks, datasets, ints, floats, bools, strings, arrays, state dicts.

    The file is written beside `path`, made durable and renamed over it, so that `path` always holds a whole checkpoint. Sinks
    are flushed first: what the checkpoint says of them is on the disk. `torch.load(path, weights_only=True)` opens the file, and
    a model in it is what `torch.nn.Module.load_state_dict` takes.

    `{step}` in the file's name stands for the step: the largest of the optimisers, else what is saved as `step`, `epochs` or `epoch`.
    keep: how many such files stay. When the new one is safe, of those with a smaller step only the `keep - 1` with the largest are left.

    Raises ArgumentError R1001, R1004, R1005 or R1006 for a value that can't be saved, R1109 for a `keep` below 1; LogError R1401;
    CheckpointUnwritable R1304. Then every file that was there still is.
    """
    for notice in prepared(path, values, keep).finish():
        tell(notice)


def load_checkpoint(path: PathLike) -> dict[str, Any]:
    """The named values in a checkpoint, or in a file that `torch.save` wrote.

    A model, or a `state_dict`, comes as a dict of dotted names and read-only arrays, an optimiser's state, a mode, a sink and a dataset
    as a dict with a "kind". Raises CheckpointMissing R1301; CheckpointError R1302 of kind "truncated", "corrupt" or "version",
    R1303 of kind "dtype" for element types that aren't supported.
    """
    return dict(read_checkpoint(path, widen=True).entries)


def read_checkpoint(path: PathLike, widen: bool = False) -> Checkpoint:
    """As `load_checkpoint`, with the facts that the file records about its entries; tensors of bf16 are as they are without `widen`."""
    shown = os.fspath(path) or "''"
    try:
        with regular_file(path).open("rb") as file:
            tree = read_tree(path, file, widen)
    except FileNotFoundError:
        raise CheckpointMissing("R1301", f"{shown}: no such checkpoint{mark_hint(shown)}", filename=shown) from None
    except OSError as error:
        raise CheckpointError("R1302", f"{shown}: the checkpoint can't be read: {cause_of(error)}", kind="corrupt") from error
    except UnusableFileError as error:
        code = "R1303" if error.kind == "dtype" else "R1302"
        raise CheckpointError(code, f"{shown}: the checkpoint {error.verdict}: {error}", kind=error.kind) from error
    return _checked_tree(shown, tree)


def _checked_tree(shown: str, tree: object) -> Checkpoint:
    if not isinstance(tree, dict) or not all(isinstance(name, str) for name in tree):
        held = "a dict with other keys than names" if isinstance(tree, dict) else f"{article(kind_of(tree))}, not values with names"
        message = f"{shown}: the checkpoint can't be used: it holds {held}"
        raise CheckpointError("R1302", message, kind="corrupt")
    facts = tree.pop(FACTS, {})
    if not isinstance(facts, dict):
        raise CheckpointError("R1302", f"{shown}: the checkpoint is damaged: its {FACTS!r} entry isn't a dict", kind="corrupt")
    version = facts.get("version", VERSION)
    if not isinstance(version, int) or version != VERSION:
        message = f"{shown}: the checkpoint has version {short_repr(version)} of the format, this release reads {VERSION}"
        raise CheckpointError("R1302", message, kind="version", expected=VERSION, found=version)
    return Checkpoint(Path(shown), tree, facts)
