"""The step of a checkpoint: which it is, how a path has it, and which older files a save removes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from shapescript.compiler.records.dataclass import dataclass
from shapescript.runtime.errors import ArgumentError, ArgumentValueError, cause_of
from shapescript.runtime.files import sync_folder
from shapescript.runtime.host_numbers import checked_int
from shapescript.runtime.optimiser import Optimiser

MARK = "{step}"
NAMES = ("step", "epochs", "epoch")
_DIGITS = "(?P<step>0|[1-9][0-9]*)"


def step_of(values: Mapping[str, object]) -> int | None:
    """The largest step of the optimisers among the values; where there is none, the int that is called `step`, `epochs` or `epoch`."""
    steps = [value.step for value in values.values() if isinstance(value, Optimiser)]
    if steps:
        return max(steps)
    named = [value for value in map(values.get, NAMES) if isinstance(value, int | np.integer) and not isinstance(value, bool)]
    return int(named[0]) if named and named[0] >= 0 else None


def mark_hint(path: str) -> str:
    """What is said beside a path that isn't found, where it has the mark of a save in it."""
    if MARK not in path:
        return ""
    return f'; `{MARK}` stands for a step in a save alone: latest("{path.replace(MARK, "*")}") finds the newest'


@dataclass(frozen=True)
class Rotation:
    """The checkpoints in a folder whose names differ in the step alone."""

    folder: str
    pattern: re.Pattern[str]
    step: int
    keep: int

    def remove_older(self) -> list[str]:
        """Of those with a smaller step than this one, remove all but the `keep - 1` with the largest; gives what couldn't be removed.

        Only regular files whose whole name fits, with the step as this package writes it, are looked at.
        """
        notices: list[str] = []
        try:
            with os.scandir(self.folder) as entries:
                files = [entry for entry in entries if entry.is_file(follow_symlinks=False)]
            found = [(int(match["step"]), entry.path) for entry in files if (match := self.pattern.fullmatch(entry.name))]
            older = sorted((step, path) for step, path in found if step < self.step)
            leaving = older[: max(len(older) - (self.keep - 1), 0)]
            notices += _removed(path for _, path in leaving)
            if leaving:
                sync_folder(Path(self.folder))
        except OSError as error:
            notices.append(f"{self.folder}: older checkpoints can't be looked for: {cause_of(error)}")
        return notices


def _removed(paths: Iterable[str]) -> list[str]:
    notices = []
    for path in paths:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass  # another process has removed it
        except OSError as error:
            notices.append(f"{path}: the older checkpoint can't be removed: {cause_of(error)}")
    return notices


def placed(path: str, step: int | None, keep: object = None) -> tuple[str, Rotation | None]:
    """The path with the step in the place of `{step}`, and, where `keep` is given, what is removed behind the save.

    Raises ArgumentError: R1109 for a `keep` below 1; R1004 for one that is no int, for a path that can't have a step, R1005 for values
    that say none.
    """
    kept = None if keep is None else checked_int("keep", keep)
    if kept is not None and kept < 1:
        raise ArgumentValueError("R1109", f"at least 1 checkpoint is kept, not {kept}; nothing was saved")
    folder, name = os.path.split(path)
    if MARK in folder:
        raise ArgumentValueError("R1004", f"{path}: `{MARK}` stands in the file's name, not in its folder's")
    if MARK not in name:
        if kept is None:
            return path, None
        raise ArgumentValueError("R1004", f'{path}: with `keep` the path says where the step stands: "run.{MARK}.pt"')
    if step is None:
        text = f"{path}: nothing that is saved says the step: save an optimiser, or an int as `step`, `epochs` or `epoch`"
        raise ArgumentError("R1005", text)
    whole = os.path.join(folder, name.replace(MARK, str(step)))
    if kept is None:
        return whole, None
    first, *others = (re.escape(part) for part in name.split(MARK))
    pattern = first + _DIGITS + "(?P=step)".join(others)
    return whole, Rotation(folder or os.curdir, re.compile(pattern, re.DOTALL), step, kept)
