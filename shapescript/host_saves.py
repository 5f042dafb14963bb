"""Checkpoints of a running program: `save`, which writes beside what goes on, `load` and `latest`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.types import DatasetType, Element, ModelType, OptimiserType, OrderedType, TensorType, Type
from shapescript.compiler.numerics.bfloat16 import bits_of_number, number_of_bits
from shapescript.handles import optimiser_copy, optimiser_state
from shapescript.layouts import Layouts, known_size
from shapescript.runtime import restore
from shapescript.runtime.arrays import BF16, engine_array
from shapescript.runtime.entries import Tensor
from shapescript.runtime.latest import latest_checkpoint
from shapescript.runtime.model import Model
from shapescript.runtime.optimiser import OPTIMISERS, Optimiser
from shapescript.runtime.saving import Saves, prepared

ScalarName = Literal["int", "float", "bool", "str"]
SCALAR_NAMES: dict[Element, ScalarName] = {
    Element.I64: "int",
    Element.F32: "float",
    Element.F64: "float",
    Element.BF16: "float",
    Element.BOOL: "bool",
}


class LoadWatcher(Protocol):
    def loaded(self, path: str, requests: Mapping[str, Any], results: Mapping[str, Any]) -> None: ...


class SaveHost:
    """`texts` are those of the program's file and of all that it imports, in the order in which they are read."""

    def __init__(self, layouts: Layouts, texts: Sequence[str], watcher: LoadWatcher | None = None) -> None:
        self._layouts, self._texts, self._watcher = layouts, texts, watcher
        self._hash = ""
        self._saves = Saves()
        self.handlers: dict[str, Callable[[Op, Sequence[Any]], Sequence[Any]]] = {
            "save": self._save,
            "load": self._load,
            "latest": self._latest,
        }

    def wait(self) -> None:
        """The end of a call: what it has saved is safe, or the error of the save is raised."""
        self._saves.wait()

    def settle(self) -> None:
        """The same where the call has ended with another error; after `wait` there is nothing to do."""
        self._saves.settle()

    @property
    def program(self) -> str:
        """A hash of the program, which doesn't depend on where its files lie."""
        if not self._hash:
            digest = hashlib.blake2b(digest_size=16)
            for text in self._texts:
                encoded = text.encode("utf-8", "surrogatepass")
                digest.update(f"{len(encoded)}\n".encode())
                digest.update(encoded)
            self._hash = digest.hexdigest()
        return self._hash

    def _save(self, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
        """Copies what is saved; the file is written beside the steps that follow."""
        path, *values = operands
        keep = values.pop(0) if op.attributes.get("keep", False) else None
        names, kinds = op.attributes["names"], [operand.type for operand in op.operands[-len(values) :]]
        named = {name: _apart(self._known(kind, value)) for name, kind, value in zip(names, kinds, values, strict=True)}
        self._saves.wait()
        self._saves.begin(prepared(path, named, keep, self.program), op.span)
        return ()

    def _load(self, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
        self._saves.wait()
        path, *given = operands
        force = given.pop(0) if op.attributes.get("force", False) else False
        asked: list[tuple[str, Type | None]] = list(zip(op.attributes["names"], op.attributes["asked"], strict=True))
        starts = op.attributes.get("starts", ())
        kinds = [operand.type for operand in op.operands[len(op.operands) - len(given) :]]
        here = iter([self._known(kind, value) for kind, value in zip(kinds, given, strict=True)])
        requests: dict[str, Any] = {}
        for name, kind in asked:
            if name in starts:
                requests[name] = restore.Start(next(here))
            else:
                requests[name] = next(here) if kind is None else self._request(kind)
        rename = dict(op.attributes.get("rename", ()))
        found = restore.restore(path, requests, rename=rename, force=force, program=self.program)
        if self._watcher:
            wanted = [name for name, kind in asked if kind is not None]
            self._watcher.loaded(str(path), requests, dict(zip(wanted, found, strict=True)))
        return [_to_engine(value.type, result) for value, result in zip(op.results, found, strict=True)]

    def _latest(self, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
        self._saves.wait()
        return (latest_checkpoint(operands[0]),)

    def _known(self, kind: Type, value: Any) -> Any:
        """An engine's value as the runtime knows it."""
        match kind:
            case ModelType():
                return Model(self._layouts.layout(kind), value)
            case OptimiserType(name, model):
                return optimiser_copy(name, self._layouts.layout(model), value)
            case DatasetType():
                return value.dataset
            case OrderedType():
                return value.dataset.dataset
            case TensorType(_, axes) if axes:
                array = value.view(BF16) if kind.element is Element.BF16 else value
                return Tensor(array, tuple(str(size) for size in axes))
        return value

    def _request(self, kind: Type) -> Any:
        match kind:
            case ModelType():
                return restore.ModelType(self._layouts.layout(kind))
            case OptimiserType(name, model):
                return restore.OptimiserType(OPTIMISERS[name], self._layouts.layout(model))
            case TensorType(element, axes) if axes:
                return restore.TensorType(element.value, tuple(str(size) for size in axes), tuple(known_size(size) for size in axes))
            case TensorType(element, _):
                return restore.ScalarType(SCALAR_NAMES[element])
        return restore.ScalarType("str")


def _apart(value: Any) -> Any:
    """A value that the engine's further work doesn't change."""
    match value:
        case Model():
            return value.copy()
        case Tensor(array, axes):
            return Tensor(array.copy(), axes)
    return value


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
