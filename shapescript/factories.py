"""What a program's models and records are from Python: what makes models, datasets and batches."""

from __future__ import annotations

from typing import Any

from shapescript.compiler.check.program import ModelDeclaration
from shapescript.compiler.check.types import Record
from shapescript.compiler.ir.sizes import LARGEST, InexactDivision, Symbol, dim, of
from shapescript.compiler.ir.types import ModelType, replace_models, substitute_model
from shapescript.layouts import Layouts
from shapescript.runtime.dataset import Dataset
from shapescript.runtime.errors import ArgumentError, did_you_mean
from shapescript.runtime.host_numbers import checked_int, checked_seed
from shapescript.runtime.model import Model, initialise
from shapescript.runtime.record import Batch


class ModelFactory:
    """A model of a program: calling it makes one at its start. One with parameters takes them in brackets or by name:
    `program.Block[48](seed=1)`, `program.Block(seed=1, D=48)`, `program.Pair[program.Mlp](seed=1)`."""

    def __init__(self, declaration: ModelDeclaration, layouts: Layouts, given: tuple[int | ModelFactory, ...] | None = None) -> None:
        self._declaration, self._layouts, self._given = declaration, layouts, given

    def __getitem__(self, arguments: Any) -> ModelFactory:
        """Raises ArgumentError R1005 for another number of parameters, R1004 or R1006 for what is no size or no model."""
        given = arguments if isinstance(arguments, tuple) else (arguments,)
        parameters = self._declaration.parameters
        if self._given is not None or len(given) != len(parameters):
            expected = f"takes {len(parameters)} in brackets: {self}" if parameters else "has no parameters"
            raise ArgumentError("R1005", f"{self._declaration.name} {expected}; got {len(given)}")
        checked = tuple(self._checked(parameter, value) for parameter, value in zip(parameters, given, strict=True))
        return ModelFactory(self._declaration, self._layouts, checked)

    def _checked(self, parameter: Symbol | ModelType, value: object) -> int | ModelFactory:
        name = f"{self._declaration.name}: {parameter.name}"
        if isinstance(parameter, Symbol):
            return checked_int(name, value, 0, LARGEST)
        if not isinstance(value, ModelFactory):
            raise ArgumentError("R1004", f"{name}: expected a model of the program, got {type(value).__name__}")
        value.type()
        return value

    def type(self) -> ModelType:
        """The model's type. Raises ArgumentError R1005 where parameters are missing, R1003 for a size that is no whole number."""
        parameters = self._declaration.parameters
        if parameters and self._given is None:
            raise ArgumentError("R1005", f"{self}: its parameters are needed: program.{self}(seed=…)")
        pairs = list(zip(parameters, self._given or (), strict=True))
        sizes = {one: of(dim(one.name, value)) for one, value in pairs if isinstance(one, Symbol) and isinstance(value, int)}
        models = {one: value.type() for one, value in pairs if isinstance(one, ModelType) and isinstance(value, ModelFactory)}
        try:
            return replace_models(substitute_model(self._declaration.type, sizes), models)
        except (InexactDivision, ZeroDivisionError) as error:
            raise ArgumentError("R1003", f"{self}: a size is no whole number: {error}") from None

    def __call__(self, seed: int, **named: Any) -> Model:
        """A model whose parameters depend on the seed and on their names alone.

        Raises ArgumentError R1004 or R1006 unless seed is an int from 0 to 2**63-1, R1005 for missing or unexpected parameters, R1003
        for dims that leave a size which is no whole number.
        """
        if named:
            wanted = [parameter.name for parameter in self._declaration.parameters]
            unknown = [name for name in named if name not in wanted]
            if unknown:
                hint = did_you_mean(unknown[0], wanted)
                raise ArgumentError("R1005", f"{self._declaration.name} has no parameter {unknown[0]!r}{hint}; it is {self}")
            missing = [name for name in wanted if name not in named]
            if missing:
                raise ArgumentError("R1005", f"{self._declaration.name}: nothing is given for {', '.join(missing)}; it is {self}")
            return self[tuple(named[name] for name in wanted)](seed)
        model = self.type()
        return initialise(self._layouts.layout(model), checked_seed("seed", seed))

    def __repr__(self) -> str:
        return f"<model {self}>"

    def __str__(self) -> str:
        shown: tuple[object, ...] = self._given or tuple(parameter.name for parameter in self._declaration.parameters)
        return self._declaration.name + (f"[{', '.join(map(str, shown))}]" if shown else "")


class RecordFactory:
    """A record of a program: makes datasets and batches from arrays, one for each field."""

    def __init__(self, record: Record, layouts: Layouts) -> None:
        self._record, self._layouts = record, layouts

    def dataset(self, /, **arrays: object) -> Dataset:
        """A dataset of copies of the arrays; each has an axis of examples, then its field's. Raises ArgumentError R1001 to R1006."""
        return Dataset(self._layouts.declared_record(self._record), arrays)

    def batch(self, /, **arrays: object) -> Batch:
        """A batch of copies of the arrays. Raises ArgumentError R1001 to R1006."""
        return Batch(self._layouts.declared_record(self._record), arrays)

    def __repr__(self) -> str:
        return f"<record {self._record.name}({', '.join(f'{name}: {kind}' for name, kind in self._record.fields)})>"
