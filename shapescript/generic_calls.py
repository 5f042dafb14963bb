"""Generic functions from Python: the types of a call's arguments choose the instance, which is then called like any function."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shapescript.argument_names import ArgumentNames
from shapescript.compiler.check import types as check
from shapescript.compiler.check.generics import infer, takes
from shapescript.compiler.check.program import ModelDeclaration, Program, Signature, SignatureParameter
from shapescript.compiler.check.report import Report, Reported
from shapescript.compiler.diagnostics.model import Span
from shapescript.compiler.ir.sizes import dim, fresh, of
from shapescript.compiler.ir.types import ModelType, replace_models, substitute_model
from shapescript.layouts import Layouts
from shapescript.model_sizes import ModelRule
from shapescript.runtime.dataset import Dataset
from shapescript.runtime.errors import ArgumentError
from shapescript.runtime.layout import Layout
from shapescript.runtime.model import Model
from shapescript.runtime.optimiser import Optimiser
from shapescript.runtime.record import Batch

ROWS = check.Axis("rows", of(fresh("rows")))


class GenericSignatures:
    """The instances of a program's generic functions that calls from Python have needed. Safe to share between threads."""

    def __init__(self, program: Program, layouts: Layouts) -> None:
        self._program, self._layouts = program, layouts
        self._lock = threading.Lock()

    def instance(self, signature: Signature, positional: Sequence[Any], named: Mapping[str, Any]) -> Signature:
        """The signature with the types that the arguments have. Raises ArgumentError R1004 where they don't say them, R1005 for their
        names, CompileError (E2311 and the like) where a requirement isn't met."""
        arguments: list[tuple[SignatureParameter, check.Type, Span]] = []
        for parameter, value in zip(signature.parameters, ArgumentNames(signature).in_order(positional, named), strict=True):
            found = self._type_of(parameter.name, value)
            if takes(signature.types, parameter.type, found) is False:
                got = type(value).__name__ if found == check.NOTHING else found
                raise ArgumentError("R1004", f"{parameter.name}: expected {parameter.type}, got {got}")
            arguments.append((parameter, found, parameter.span))
        report = Report()
        try:
            given = infer(signature, arguments, signature.span, report)
        except Reported:
            raise ArgumentError("R1004", report.diagnostics[0].message) from None
        with self._lock:
            return self._program.generics.instantiate(signature, given)

    def _type_of(self, name: str, value: object) -> check.Type:
        """The type of what may say a type parameter; for anything else one that says none."""
        match value:
            case Model():
                return check.Model(self._model(name, value.layout))
            case Optimiser():
                return check.Optimiser(value.kind.name, self._model(name, value.layout))
            case Dataset():
                return check.Dataset(self._record(name, value.record.name), ROWS)
            case Batch():
                return check.Batch(self._record(name, value.record_type.name), ROWS)
        return check.NOTHING

    def _record(self, name: str, declared: str) -> check.Record:
        record = self._program.records.get(declared)
        if record is None:
            raise ArgumentError("R1004", f"{name}: the program declares no record {declared}")
        return record

    def _model(self, name: str, layout: Layout) -> ModelType:
        """The model that was made with this layout, else the declared one whose dims and models the layout shows."""
        made_here = self._layouts.model(layout)
        if made_here is not None:
            return made_here
        declared = self._program.models.get(layout.model_name)
        if declared is None:
            raise ArgumentError("R1004", f"{name}: the program declares no model {layout.model_name}")
        for made in self._made_for_models(declared):
            try:
                shown = ModelRule(name, made, self._layouts).shown(layout)
            except ArgumentError:
                continue
            return substitute_model(made, {symbol: of(dim(symbol.name, size)) for symbol, size in shown.items()})
        raise ArgumentError("R1004", f"{name}: this is not the program's model {declared.name}")

    def _made_for_models(self, declared: ModelDeclaration) -> Iterator[ModelType]:
        """The declaration with each choice of elements, and of the program's models for its type parameters; dims stay open."""
        plain = [made for one in self._program.models.values() if not (one.dims or one.models) for made in one.variants()]
        for kind in declared.variants():
            for chosen in itertools.product(plain, repeat=len(declared.models)):
                yield replace_models(kind, dict(zip(declared.models, chosen, strict=True)))
