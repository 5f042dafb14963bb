"""Generic functions from Python: the types of a call's arguments choose the instance, which is then called like any function."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from shapescript.compiler.check import types as check
from shapescript.compiler.check.program import ModelDeclaration, Program, Signature, TypeParameter
from shapescript.compiler.ir.sizes import dim, of
from shapescript.compiler.ir.types import ModelType, substitute_model
from shapescript.runtime.dataset import Dataset
from shapescript.runtime.errors import ArgumentError
from shapescript.runtime.model import Model
from shapescript.runtime.optimiser import AdamW
from shapescript.runtime.record import Batch


class GenericSignatures:
    """The instances of a program's generic functions that calls from Python have needed. Safe to share between threads."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._lock = threading.Lock()

    def instance(self, signature: Signature, positional: Sequence[Any], named: Mapping[str, Any]) -> Signature:
        """The signature with the types that the arguments have. Raises ArgumentError R1004 where they don't say them, CompileError
        (E2311 and the like) where a requirement isn't met."""
        names = [parameter.name for parameter in signature.parameters]
        values = {**dict(zip(names, positional, strict=False)), **named}
        given: dict[TypeParameter, TypeParameter] = {}
        for parameter in signature.parameters:
            variable = _variable(parameter.type)
            if variable in signature.types and parameter.name in values and variable not in given:
                given[variable] = self._type_of(variable, parameter.name, values[parameter.name])
        missing = [variable.name for variable in signature.types if variable not in given]
        if missing:
            raise ArgumentError("R1004", f"{signature.name}: no argument says what {missing[0]} is")
        with self._lock:
            return self._program.generics.instantiate(signature, given)

    def _type_of(self, variable: TypeParameter, name: str, value: object) -> TypeParameter:
        if isinstance(variable, ModelType):
            if isinstance(value, Model | AdamW):
                return self._model(name, value.layout.model_name)
            raise ArgumentError("R1004", f"{name}: expected a model, got {type(value).__name__}")
        if isinstance(value, Dataset | Batch):
            record = self._program.records.get(value.record.name)
            if record is not None:
                return record
            raise ArgumentError("R1004", f"{name}: the program declares no record {value.record.name}")
        raise ArgumentError("R1004", f"{name}: expected data of a record, got {type(value).__name__}")

    def _model(self, name: str, shown: str) -> ModelType:
        """The declared model that a layout is named after: `Mlp`, `Block[48]`."""
        declared, _, sizes = shown.partition("[")
        declaration: ModelDeclaration | None = self._program.models.get(declared)
        if declaration is None:
            raise ArgumentError("R1004", f"{name}: the program declares no model {declared}")
        numbers = [int(part) for part in sizes.removesuffix("]").split(",")] if sizes else []
        if not numbers:
            return declaration.type
        values = zip(declaration.dims, numbers, strict=True)
        return substitute_model(declaration.type, {symbol: of(dim(symbol.name, number)) for symbol, number in values})


def _variable(kind: check.Type) -> TypeParameter | None:
    match kind:
        case check.Model(model) | check.Optimiser(_, model):
            return model
        case check.Record():
            return kind
        case check.Batch(record) | check.Dataset(record):
            return record
    return None
