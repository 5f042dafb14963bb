"""What engines leave to Python: starts of models, handles, data files, logs, checkpoints, prints. The same for both engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from shapescript.compiler.diagnostics.model import InternalError, Span
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.types import DatasetType, Element, ModelType, OptimiserType, OrderedType, TensorType, Type
from shapescript.compiler.numerics.bfloat16 import bits_of_number, number_of_bits
from shapescript.compiler.ops.protocol import ExecutionError
from shapescript.handles import DatasetHandle, optimiser_copy, optimiser_state
from shapescript.host_texts import TextHost
from shapescript.layouts import Layouts, known_size
from shapescript.runtime import restore
from shapescript.runtime.arrays import BF16, engine_array
from shapescript.runtime.checkpoint import save_checkpoint
from shapescript.runtime.entries import Tensor
from shapescript.runtime.errors import ArgumentError, DataError, OutOfMemoryError, ShapeScriptError
from shapescript.runtime.jsonl import JsonLinesSink
from shapescript.runtime.mode import Eval, Train
from shapescript.runtime.model import Model, initialise
from shapescript.runtime.npz import find_data_file, load_npz
from shapescript.runtime.optimiser import OPTIMISERS, Optimiser
from shapescript.runtime.sinks import LogSink

ScalarName = Literal["int", "float", "bool", "str"]
SCALAR_NAMES: dict[Element, ScalarName] = {
    Element.I64: "int",
    Element.F32: "float",
    Element.F64: "float",
    Element.BF16: "float",
    Element.BOOL: "bool",
}
ERRORS: dict[str, type[ShapeScriptError]] = {
    "R1003": ArgumentError,
    "R1004": ArgumentError,
    **dict.fromkeys(("R1101", "R1102", "R1107"), DataError),
}


class Watcher(Protocol):
    """Who is told what a running program does: the command line's progress line."""

    def opened(self, sink: LogSink) -> None: ...
    def wrote(self, fields: Mapping[str, Any]) -> None: ...
    def flushed(self) -> None: ...
    def loaded(self, path: str, requests: Mapping[str, Any], results: Mapping[str, Any]) -> None: ...
    def printing(self) -> None: ...
    def polled(self) -> None: ...


class ProgramHost:
    """The host of one program; `folder` is where its file lies."""

    def __init__(self, layouts: Layouts, folder: Path, watcher: Watcher | None = None) -> None:
        self.layouts, self.folder, self.watcher = layouts, folder, watcher
        self._handlers: dict[str, Callable[[Op, Sequence[Any]], Sequence[Any]]] = {
            "string": lambda op, operands: (op.attributes["value"],),
            "mode_eval": lambda op, operands: (Eval,),
            "mode_train": lambda op, operands: (Train(operands[0]),),
            "model_start": self._model_start,
            "load_data": self._load_data,
            "sink_open": self._sink_open,
            "write": self._write,
            "flush": self._flush,
            "save": self._save,
            "load": self._load,
            "print": self._print,
            **TextHost(layouts, folder).handlers,
            "groups": lambda op, operands: (str(self._layout_of(op.operands[0].type).groups),),
        }

    def perform(self, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
        try:
            return self._handlers[op.name](op, operands)
        except ShapeScriptError as error:
            if error.span is None:
                error.span = op.span
            raise

    def poll(self) -> None:
        """Being in Python is enough for a pending Ctrl-C to be raised."""
        if self.watcher:
            self.watcher.polled()

    # ---- models and data

    def _model_start(self, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
        return (initialise(self._layout_of(op.result.type), operands[0]).buffer,)

    def _load_data(self, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
        kind = op.result.type
        assert isinstance(kind, DatasetType)
        path = find_data_file(operands[0], (self.folder, Path.cwd()))
        return (DatasetHandle(load_npz(self.layouts.dataset(kind), path)),)

    def _layout_of(self, kind: Type) -> Any:
        assert isinstance(kind, ModelType)
        return self.layouts.layout(kind)

    # ---- logs

    def _sink_open(self, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
        if op.attributes["kind"] != JsonLinesSink.kind:
            raise InternalError("host", f"no sink of kind {op.attributes['kind']}", op.span)
        sink = JsonLinesSink(operands[0])
        if self.watcher:
            self.watcher.opened(sink)
        return (sink,)

    def _write(self, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
        fields = dict(zip(op.attributes["fields"], operands[1:], strict=True))
        operands[0].write(str(op.attributes["record"]), fields)
        if self.watcher:
            self.watcher.wrote(fields)
        return ()

    def _flush(self, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
        operands[0].flush()
        if self.watcher:
            self.watcher.flushed()
        return ()

    def _print(self, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
        if self.watcher:
            self.watcher.printing()
        print(*(_printed(operand.type, value) for operand, value in zip(op.operands, operands, strict=True)), flush=True)
        return ()

    # ---- checkpoints

    def _save(self, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
        path, *values = operands
        kinds = [operand.type for operand in op.operands[1:]]
        named = {name: self._saved(kind, value) for name, kind, value in zip(op.attributes["names"], kinds, values, strict=True)}
        save_checkpoint(path, **named)
        return ()

    def _load(self, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
        path, *given = operands
        asked: list[tuple[str, Type | None]] = list(zip(op.attributes["names"], op.attributes["asked"], strict=True))
        here = iter([self._saved(operand.type, value) for operand, value in zip(op.operands[1:], given, strict=True)])
        requests = {name: next(here) if kind is None else self._request(kind) for name, kind in asked}
        found = restore.restore(path, requests)
        if self.watcher:
            wanted = [name for name, kind in asked if kind is not None]
            self.watcher.loaded(str(path), requests, dict(zip(wanted, found, strict=True)))
        return [_to_engine(value.type, result) for value, result in zip(op.results, found, strict=True)]

    def _saved(self, kind: Type, value: Any) -> Any:
        """An engine's value as the runtime knows it."""
        match kind:
            case ModelType():
                return Model(self.layouts.layout(kind), value)
            case OptimiserType(name, model):
                return optimiser_copy(name, self.layouts.layout(model), value)
            case DatasetType() | OrderedType():
                return value.dataset
            case TensorType(_, axes) if axes:
                array = value.view(BF16) if kind.element is Element.BF16 else value
                return Tensor(array, tuple(str(size) for size in axes))
        return value

    def _request(self, kind: Type) -> Any:
        match kind:
            case ModelType():
                return restore.ModelType(self.layouts.layout(kind))
            case OptimiserType(name, model):
                return restore.OptimiserType(OPTIMISERS[name], self.layouts.layout(model))
            case TensorType(element, axes) if axes:
                return restore.TensorType(element.value, tuple(str(size) for size in axes), tuple(known_size(size) for size in axes))
            case TensorType(element, _):
                return restore.ScalarType(SCALAR_NAMES[element])
        return restore.ScalarType("str")


def _to_engine(kind: Type, value: Any) -> Any:
    if isinstance(value, Model):
        return value.buffer
    if isinstance(value, Optimiser):
        return optimiser_state(value)
    if kind == TensorType(Element.F32):
        return float(np.float32(value))
    if kind == TensorType(Element.BF16):
        return number_of_bits(bits_of_number(value))
    if isinstance(value, np.ndarray):
        return engine_array(value)
    return value


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
    return OutOfMemoryError("R1111", f"`{function}` needs more memory than there is: {error or 'an allocation failed'}", span=span)
