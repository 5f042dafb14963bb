"""What engines leave to Python: starts of models, handles, data files, logs, checkpoints, prints. The same for both engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from shapescript.compiler.diagnostics.model import Span
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.types import DatasetType, Element, ModelType, TensorType, Type
from shapescript.compiler.ops.protocol import ExecutionError
from shapescript.handles import DatasetHandle
from shapescript.host_data import DataHost, placed
from shapescript.host_logs import LogHost, LogWatcher
from shapescript.host_saves import LoadWatcher, SaveHost
from shapescript.host_texts import TextHost
from shapescript.layouts import Layouts
from shapescript.runtime.data_files import load_file, load_files
from shapescript.runtime.errors import ArgumentError, DataError, OutOfMemoryError, ShapeScriptError
from shapescript.runtime.mode import Eval, Train
from shapescript.runtime.model import initialise
from shapescript.runtime.npz import find_data_file
from shapescript.signals import raise_pending

ERRORS: dict[str, type[ShapeScriptError]] = {
    "R1003": ArgumentError,
    "R1004": ArgumentError,
    **dict.fromkeys(("R1101", "R1102", "R1107"), DataError),
}


class Watcher(LogWatcher, LoadWatcher, Protocol):
    """Who is told what a running program does: the command line's progress line."""

    def printing(self) -> None: ...
    def polled(self) -> None: ...


class ProgramHost:
    """The host of one program; `folder` is where its file lies, `texts` are those of the file and of what it imports."""

    def __init__(self, layouts: Layouts, folder: Path, texts: Sequence[str], watcher: Watcher | None = None) -> None:
        self.layouts, self.folder, self.watcher = layouts, folder, watcher
        data, self.logs, self.saves = DataHost(), LogHost(watcher), SaveHost(layouts, texts, watcher)
        self.feed, self.gather, self.columns = data.feed, data.gather, data.columns
        self._handlers: dict[str, Callable[[Op, Sequence[Any]], Sequence[Any]]] = {
            "string": lambda op, operands: (op.attributes["value"],),
            "mode_eval": lambda op, operands: (Eval,),
            "mode_train": lambda op, operands: (Train(operands[0]),),
            "model_start": self._model_start,
            "load_data": self._load_data,
            "print": self._print,
            **data.handlers,
            **self.logs.handlers,
            **self.saves.handlers,
            **TextHost(layouts, folder).handlers,
            "groups": lambda op, operands: (str(self._layout_of(op.operands[0].type).groups),),
        }

    def perform(self, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
        with placed(op):
            return self._handlers[op.name](op, operands)

    def end_call(self) -> None:
        """What a call saves is safe, and what its logs hold is let go of, however it ends."""
        try:
            self.saves.settle()
        finally:
            self.logs.end()

    def poll(self) -> None:
        """Being in Python is enough for a pending Ctrl-C to be raised; one that was dropped is raised again."""
        raise_pending()
        if self.watcher:
            self.watcher.polled()

    # ---- models and data

    def _model_start(self, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
        return (initialise(self._layout_of(op.result.type), operands[0]).buffer,)

    def _load_data(self, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
        kind = op.result.type
        assert isinstance(kind, DatasetType)
        record = self.layouts.dataset(kind)
        paths = [find_data_file(path, (self.folder, Path.cwd())) for path in operands]
        fields = op.attributes.get("fields")
        data = load_file(record, paths[0]) if fields is None else load_files(record, dict(zip(fields, paths, strict=True)))
        return (DatasetHandle(data),)

    def _layout_of(self, kind: Type) -> Any:
        assert isinstance(kind, ModelType)
        return self.layouts.layout(kind)

    # ---- prints

    def _print(self, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
        if self.watcher:
            self.watcher.printing()
        print(*(_printed(operand.type, value) for operand, value in zip(op.operands, operands, strict=True)), flush=True)
        return ()


def _printed(kind: Type, value: Any) -> str:
    """Numbers with the digits that their own type needs; bools as programs write them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(kind, TensorType) and kind.element is Element.F32 and not kind.axes:
        return str(np.float32(value))
    return str(value)


def as_error(error: ExecutionError) -> ShapeScriptError:
    """What an engine found wrong, as the exception that users catch."""
    return ERRORS.get(error.code, ShapeScriptError)(error.code, error.message, span=error.span, step=error.step)


def out_of_memory(error: MemoryError, function: str, span: Span | None) -> OutOfMemoryError:
    """What a call could not allocate, as the exception that users catch; NumPy says how much."""
    return OutOfMemoryError("R1111", f"`{function}` needs more memory than there is: {str(error) or 'an allocation failed'}", span=span)
