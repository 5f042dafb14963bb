"""The newest checkpoint of several: the one with the largest step in it, if it is whole."""

from __future__ import annotations

import glob
import os

from shapescript.runtime.checkpoint import read_checkpoint
from shapescript.runtime.errors import CheckpointError, CheckpointMissing
from shapescript.runtime.file_errors import UnusableFileError
from shapescript.runtime.files import is_unfinished
from shapescript.runtime.notices import tell
from shapescript.runtime.outline import outlined_step
from shapescript.runtime.steps import mark_hint


def latest_checkpoint(pattern: str | os.PathLike[str]) -> str:
    """The path of the checkpoint with the largest step among the files that the pattern of Python's `glob` names.

    The step is the one stored in the file, and the whole file is checked; those that can't be read, or say no step, are told and passed
    over. Of files with one step it is the last by name. A file that is still being written is never offered. Raises CheckpointMissing
    R1301 where there is none.
    """
    shown = os.fspath(pattern)
    paths = [] if "\0" in shown else [path for path in glob.glob(shown, recursive=True) if not is_unfinished(path)]
    passed = 0
    for path in _newest_first(paths):
        try:
            step = read_checkpoint(path).step
        except CheckpointError as error:
            tell(f"{error.message}; passed over ({error.kind})")
        else:
            if step is not None:
                return path
            tell(f"{path}: passed over: it says no step")
        passed += 1
    count = f"; {passed} {'file was' if passed == 1 else 'files were'} passed over" if passed else ""
    raise CheckpointMissing("R1301", f"{shown or repr(shown)}: no checkpoint is called so{count}{mark_hint(shown)}", filename=shown)


def _newest_first(paths: list[str]) -> list[str]:
    """By the steps that the files tell at a look; damaged ones, whose step can't be known, come first, so that they are told."""
    steps: dict[str, tuple[int, int]] = {}
    for path in paths:
        try:
            step = outlined_step(path)
        except (OSError, UnusableFileError):
            steps[path] = (1, 0)
        else:
            steps[path] = (0, -1 if step is None else step)
    return sorted(paths, key=lambda path: (steps[path], path), reverse=True)
