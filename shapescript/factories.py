"""What a program's models and records are from Python: what makes models, datasets and batches."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Union

from shapescript.compiler.check.element_parameters import BY_NAME
from shapescript.compiler.check.program import ElementParameter, ModelDeclaration, ModelParameter
from shapescript.compiler.check.types import Record
from shapescript.compiler.ir.sizes import LARGEST, InexactDivision, Size, Symbol, dim, of
from shapescript.compiler.ir.types import Element, ModelType, replace_models, substitute_model
from shapescript.layouts import Layouts
from shapescript.runtime.data_files import load_file, load_files
from shapescript.runtime.dataset import Dataset
from shapescript.runtime.errors import ArgumentError, did_you_mean
from shapescript.runtime.host_numbers import checked_int, checked_seed
from shapescript.runtime.model import Model, initialise
from shapescript.runtime.record import Batch
from shapescript.signatures import bracketed

Given = Union[int, Element, "ModelFactory"]


class ModelFactory:
    """A model of a program: calling it makes one at its start. One with parameters takes them in brackets, in order, or by name:
    `program.Block[48](seed=1)`, `program.Block(seed=1, D=48)`, `program.Conv[1, 16, 3](seed=1, Padding=1)`,
    `program.Pair[program.Mlp](seed=1)`, `program.Linear[4, 3](seed=1, F="f64")`. Parameters that aren't given have their defaults."""

    def __init__(self, declaration: ModelDeclaration, layouts: Layouts, given: Mapping[str, Given] | None = None) -> None:
        self._declaration, self._layouts, self._given = declaration, layouts, given

    def __getitem__(self, arguments: Any) -> ModelFactory:
        """Raises ArgumentError R1005 for another number of parameters, R1004 or R1006 for what is no size, no model or no
        type of elements."""
        values = arguments if isinstance(arguments, tuple) else (arguments,)
        names = [parameter.name for parameter in self._declaration.parameters]
        if self._given is not None or len(values) > len(names):
            expected = f"takes {len(names)} in brackets: {self}" if names else "has no parameters"
            raise ArgumentError("R1005", f"{self._declaration.name} {expected}; got {len(values)}")
        return self._with(dict(zip(names, values, strict=False)))

    def _with(self, values: Mapping[str, object]) -> ModelFactory:
        """The model with these parameters too; all without a default must be there."""
        name, parameters = self._declaration.name, self._declaration.parameters
        known = {parameter.name: parameter for parameter in parameters}
        found: dict[str, Given] = dict(self._given or {})
        for key, value in values.items():
            if key not in known:
                raise ArgumentError("R1005", f"{name} has no parameter {key!r}{did_you_mean(key, known)}; it is {self}")
            if key in found:
                raise ArgumentError("R1005", f"{name}: {key} is given twice")
            found[key] = self._checked(known[key], value)
        missing = [key for key in known if key not in found and key not in self._declaration.optional]
        if missing:
            raise ArgumentError("R1005", f"{name}: nothing is given for {', '.join(missing)}; it is {self}")
        return ModelFactory(self._declaration, self._layouts, found)

    def _checked(self, parameter: ModelParameter, value: object) -> Given:
        name = f"{self._declaration.name}: {parameter.name}"
        if isinstance(parameter, Symbol):
            return checked_int(name, value, 0, LARGEST)
        if isinstance(parameter, ElementParameter):
            if not isinstance(value, str) or value not in BY_NAME:
                raise ArgumentError("R1004", f"{name}: expected one of {', '.join(map(repr, BY_NAME))}, got {value!r}")
            return BY_NAME[value]
        if not isinstance(value, ModelFactory):
            raise ArgumentError("R1004", f"{name}: expected a model of the program, got {type(value).__name__}")
        value.type()
        return value

    def type(self) -> ModelType:
        """The model's type. Raises ArgumentError R1005 where parameters are missing, R1003 for a size that is no whole number."""
        if self._given is None and len(self._declaration.parameters) > len(self._declaration.optional):
            raise ArgumentError("R1005", f"{self}: its parameters are needed: program.{self}(seed=…)")
        given, sizes, models = self._given or {}, dict[Symbol, Size](), dict[ModelType, ModelType]()
        elements: dict[str, Element] = {}
        try:
            for parameter in self._declaration.parameters:
                value = given.get(parameter.name)
                if isinstance(value, ModelFactory) and isinstance(parameter, ModelType):
                    models[parameter] = value.type()
                elif isinstance(parameter, ElementParameter):
                    element = value or parameter.default
                    assert isinstance(element, Element)
                    elements[parameter.name] = element
                elif isinstance(parameter, Symbol):
                    default = self._declaration.defaults.get(parameter)
                    size = default.substitute(sizes).constant() if value is None and default is not None else value
                    assert isinstance(size, int)
                    if size < 0:
                        raise ArgumentError("R1003", f"{self}: {parameter.name} would be {size} by its default {default}")
                    sizes[parameter] = of(dim(parameter.name, size))
            return replace_models(substitute_model(self._declaration.made_of(elements), sizes), models)
        except (InexactDivision, ZeroDivisionError) as error:
            raise ArgumentError("R1003", f"{self}: a size is no whole number: {error}") from None

    def __call__(self, seed: int, **named: Any) -> Model:
        """A model whose parameters depend on the seed and on their names alone.

        Raises ArgumentError R1004 or R1006 unless seed is an int from 0 to 2**63-1, R1005 for missing or unexpected parameters, R1003
        for dims that leave a size which is no whole number.
        """
        model = (self._with(named) if named else self).type()
        return initialise(self._layouts.layout(model), checked_seed("seed", seed))

    def __repr__(self) -> str:
        return f"<model {self}>"

    def __str__(self) -> str:
        parameters = self._declaration.parameters
        if self._given is None:
            return self._declaration.name + (bracketed(parameters, self._declaration.defaults) if parameters else "")
        in_order = [name for name, one in zip(self._given, parameters, strict=False) if name == one.name]
        texts = {name: value.value if isinstance(value, Element) else str(value) for name, value in self._given.items()}
        shown = [texts[name] for name in in_order]
        shown += [f"{name}={text}" for name, text in texts.items() if name not in in_order]
        return f"{self._declaration.name}[{', '.join(shown)}]"


class RecordFactory:
    """A record of a program: makes datasets and batches from arrays, one for each field."""

    def __init__(self, record: Record, layouts: Layouts) -> None:
        self._record, self._layouts = record, layouts

    def dataset(self, /, **arrays: object) -> Dataset:
        """A dataset of copies of the arrays; each has an axis of examples, then its field's. Raises ArgumentError R1001 to R1006."""
        return Dataset(self._layouts.declared_record(self._record), arrays)

    def load(self, path: str | os.PathLike[str] | None = None, /, **files: str | os.PathLike[str]) -> Dataset:
        """The dataset in a file, `.npz`, `.csv`, `.parquet`, `.arrow` or `.feather`, or `.npy` for a record of one field; or by name the
        `.npy` file of each field. An `.npz` is loaded, of others the rows are read when they are needed.

        Raises DataFileMissing R1201; DataError R1202 for a file that is damaged or doesn't fit; DataRowError R1204 for the first row of a
        CSV file; PackageMissing R1502; ArgumentError R1004 and R1005 for arguments that are no paths or no fields.
        """
        record = self._layouts.declared_record(self._record)
        if (path is None) == (not files):
            raise ArgumentError("R1005", f"{record.name}.load takes one file, or by name a file for each field")
        for name, value in {**({"path": path} if path is not None else {}), **files}.items():
            if not isinstance(value, str | os.PathLike):
                raise ArgumentError("R1004", f"{record.name}.load: {name}: expected a path, got {type(value).__name__}")
        if path is not None:
            return load_file(record, Path(path))
        return load_files(record, {name: Path(file) for name, file in files.items()})

    def windows(self, values: object) -> Dataset:
        """A dataset of all windows of an array of one axis: example i of this record's one field begins at value i. The values are copied
        once, not for each window. Raises ArgumentError R1001 to R1006."""
        return Dataset.of_windows(self._layouts.declared_record(self._record), values)

    def batch(self, /, **arrays: object) -> Batch:
        """A batch of copies of the arrays. Raises ArgumentError R1001 to R1006."""
        return Batch(self._layouts.declared_record(self._record), arrays)

    def __repr__(self) -> str:
        return f"<record {self._record.name}({', '.join(f'{name}: {kind}' for name, kind in self._record.fields)})>"
