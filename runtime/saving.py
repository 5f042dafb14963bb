"""A save in two parts: what is saved is taken at once, the file is written then or later, beside whatever goes on."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

from shapescript.compiler.records.dataclass import dataclass
from shapescript.runtime.entries import encode
from shapescript.runtime.errors import ArgumentError, CheckpointUnwritable, ShapeScriptError, cause_of
from shapescript.runtime.files import UnsyncedError, replace_file
from shapescript.runtime.formats import writer_of
from shapescript.runtime.notices import tell
from shapescript.runtime.sinks import LogSink
from shapescript.runtime.steps import Rotation, placed, step_of

LOOK_SECONDS = 0.1  # between two looks for a signal that came just before a wait began, which Python would see only at its end
OPTIONS = ("rename", "partial", "force", "keep")  # what a load or a save takes beside names


@dataclass(frozen=True)
class PreparedSave:
    """All that is needed to write a checkpoint; nobody else changes it."""

    path: str
    write: Callable[[BinaryIO], None]
    rotation: Rotation | None

    def finish(self) -> list[str]:
        """Write the file, then remove what it makes superfluous; gives notices. Raises CheckpointUnwritable R1304, also where the new file
        isn't durable, and then nothing has been removed."""
        shown = self.path or "''"
        try:
            replace_file(Path(self.path), self.write)
        except OSError as error:
            message = f"{shown}: the checkpoint can't be written: {cause_of(error)}; a file that was there is unchanged"
            if isinstance(error, UnsyncedError):
                message = f"{shown}: the checkpoint is written, but a power cut may bring back what was there: {cause_of(error)}"
            raise CheckpointUnwritable("R1304", message, number=error.errno, filename=shown) from error
        return self.rotation.remove_older() if self.rotation else []


def prepared(path: str | os.PathLike[str], values: Mapping[str, object], keep: object = None, program: str | None = None) -> PreparedSave:
    """The save of these values: sinks are flushed, and their positions taken. Models and arrays must not change before it is written.

    Raises what `save_checkpoint` does for values that can't be saved.
    """
    if not values:
        raise ArgumentError("R1005", "save_checkpoint: nothing to save: it takes values by name, for instance m=m")
    for name in OPTIONS:
        if name in values:
            raise ArgumentError("R1005", f"save: `{name}` is an option of saving or loading, and no name for an entry; choose another")
    step = step_of(values)
    place, rotation = placed(os.fspath(path), step, keep)
    for value in values.values():
        if isinstance(value, LogSink):
            value.flush()
    return PreparedSave(place, writer_of(place, encode(values, step, program)), rotation)


class _Writing(threading.Thread):
    """Python waits at its end for threads of this kind, so that nothing is lost. Whoever calls `run` first writes the file."""

    def __init__(self, save: PreparedSave, span: object | None) -> None:
        super().__init__(name="shapescript save", daemon=False)
        self._save, self._span = save, span
        self._begun = threading.Lock()
        self.notices: list[str] = []
        self.error: BaseException | None = None
        self.done = threading.Event()  # unlike `join`, waiting for it is right after a Ctrl-C has ended a wait before

    def run(self) -> None:
        if not self._begun.acquire(blocking=False):
            return
        try:
            self.notices = self._save.finish()
        except BaseException as error:
            if isinstance(error, ShapeScriptError) and error.span is None:
                error.span = self._span
            self.error = error
        finally:
            self.done.set()


class Saves(threading.local):
    """The save that is being written beside the calls of each thread: one at a time."""

    _writing: _Writing | None = None

    def begin(self, save: PreparedSave, span: object | None = None) -> None:
        """Write it beside what goes on; `wait` has been called before."""
        self._writing = writing = _Writing(save, span)
        try:
            writing.start()
        except RuntimeError:  # no thread can be had, or Python is about to end
            writing.run()
        except BaseException:  # a Ctrl-C: nobody knows whether the thread will come to it
            writing.run()
            raise

    def wait(self) -> None:
        """Until what is being written is safe. Raises what went wrong with it, with the place of its `save`."""
        writing = self._writing
        if writing is None:
            return
        while not writing.done.wait(LOOK_SECONDS):  # where a Ctrl-C ends this, the next wait goes on
            pass
        self._writing = None
        for notice in writing.notices:
            tell(notice)
        if writing.error is not None:
            raise writing.error

    def settle(self) -> None:
        """The same behind another error: what went wrong with the save is told."""
        try:
            self.wait()
        except ShapeScriptError as error:
            tell(error.message)
        except Exception as error:  # the error of the call is the one that is raised
            tell(f"a checkpoint isn't written: {cause_of(error)}")
