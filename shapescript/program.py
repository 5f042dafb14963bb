"""`load`: a checked program whose models, records, functions, dims and consts are attributes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from shapescript.calls import Calls, Instances, Shared, python_function
from shapescript.checking import LARGEST_DIM, checked_file
from shapescript.compiler.check.program import ModelDeclaration, Signature
from shapescript.compiler.check.program import Program as CheckedProgram
from shapescript.compiler.check.types import Record
from shapescript.compiler.diagnostics.model import CompileError, Diagnostic
from shapescript.compiler.ir.sizes import InexactDivision, dim, of
from shapescript.compiler.ir.types import substitute_model
from shapescript.engines import ENGINES, EngineName
from shapescript.generic_calls import GenericSignatures
from shapescript.host import ProgramHost, Watcher
from shapescript.layouts import Layouts
from shapescript.runtime.dataset import Dataset
from shapescript.runtime.errors import ArgumentError, did_you_mean
from shapescript.runtime.host_numbers import checked_int, checked_seed
from shapescript.runtime.model import Model, initialise
from shapescript.runtime.record import Batch

PathLike = str | os.PathLike[str]


class ModelFactory:
    """A model of a program: calling it makes one at its start. One with dim parameters takes them in brackets or by name:
    `program.Block[48](seed=1)`, `program.Block(seed=1, D=48)`."""

    def __init__(self, declaration: ModelDeclaration, layouts: Layouts, dims: tuple[int, ...] | None = None) -> None:
        self._declaration, self._layouts, self._dims = declaration, layouts, dims

    def __getitem__(self, sizes: int | tuple[int, ...]) -> ModelFactory:
        """Raises ArgumentError R1005 for another number of dims, R1004 or R1006 for what is no size."""
        given = sizes if isinstance(sizes, tuple) else (sizes,)
        wanted = [symbol.name for symbol in self._declaration.dims]
        if self._dims is not None or len(given) != len(wanted):
            expected = f"takes {len(wanted)} in brackets: {self}" if wanted else "has no dim parameters"
            raise ArgumentError("R1005", f"{self._declaration.name} {expected}; got {len(given)}")
        named = zip(wanted, given, strict=True)
        checked = tuple(checked_int(f"{self._declaration.name}: {name}", size, 0, LARGEST_DIM) for name, size in named)
        return ModelFactory(self._declaration, self._layouts, checked)

    def __call__(self, seed: int, **dims: int) -> Model:
        """A model whose parameters depend on the seed and on their names alone.

        Raises ArgumentError R1004 or R1006 unless seed is an int from 0 to 2**63-1, R1005 for missing or unexpected dims, R1003
        for dims that leave a size which is no whole number.
        """
        if dims:
            wanted = [symbol.name for symbol in self._declaration.dims]
            unknown = [name for name in dims if name not in wanted]
            if unknown:
                hint = did_you_mean(unknown[0], wanted)
                raise ArgumentError("R1005", f"{self._declaration.name} has no dim parameter {unknown[0]!r}{hint}; it is {self}")
            missing = [name for name in wanted if name not in dims]
            if missing:
                raise ArgumentError("R1005", f"{self._declaration.name}: no size for {', '.join(missing)}; it is {self}")
            return self[tuple(dims[name] for name in wanted)](seed)
        if self._declaration.dims and self._dims is None:
            raise ArgumentError("R1005", f"{self}: its dims are needed: program.{self}(seed=…)")
        checked = checked_seed("seed", seed)
        named = {symbol: of(dim(symbol.name, size)) for symbol, size in zip(self._declaration.dims, self._dims or (), strict=True)}
        try:
            model = substitute_model(self._declaration.type, named)
        except (InexactDivision, ZeroDivisionError) as error:
            raise ArgumentError("R1003", f"{self}: a size is no whole number: {error}") from None
        return initialise(self._layouts.layout(model), checked)

    def __repr__(self) -> str:
        return f"<model {self}>"

    def __str__(self) -> str:
        shown: tuple[object, ...] = self._dims or tuple(symbol.name for symbol in self._declaration.dims)
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


class Program:
    """What a file declares, as attributes; `diagnostics` holds the warnings. Declared names come first."""

    diagnostics: tuple[Diagnostic, ...]

    def __init__(self, checked: CheckedProgram, path: Path, engine: EngineName, watcher: Watcher | None = None) -> None:
        if checked.module is None:
            raise CompileError(checked.diagnostics)
        layouts = Layouts()
        host = ProgramHost(layouts, path.absolute().parent, watcher)
        instances = Instances(checked.module, engine)
        shared = (instances, layouts, host, GenericSignatures(checked))
        names = vars(self)
        names.update(_path=path, _engine=engine, _checked=checked, _host=host, _instances=instances, diagnostics=checked.diagnostics)
        names.update(checked.dims)
        names.update(checked.constants)
        names.update({name: ModelFactory(declaration, layouts) for name, declaration in checked.models.items()})
        names.update({name: RecordFactory(record, layouts) for name, record in checked.records.items()})
        functions: dict[str, Callable[..., Any]] = {}
        for name, signatures in checked.functions.items():
            functions[name] = python_function(Calls(name, signatures, shared), path.stem)
        names.update({name: _imported(name, module, shared) for name, module in checked.imports.items()})
        names.update(functions)
        names["_declared"] = [*checked.dims, *checked.constants, *checked.models, *checked.records, *functions, *checked.imports]

    def __getattr__(self, name: str) -> Any:
        declared = vars(self).get("_declared", [])
        path = vars(self).get("_path", "the program")
        raise AttributeError(f"{path} declares no {name!r}{did_you_mean(name, declared)}", name=name, obj=self)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{name}: a program's names can't be set; dims are given to shapescript.load(…, dims={{{name!r}: …}})")

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *vars(self)["_declared"]]

    def __repr__(self) -> str:
        return f"<program {vars(self)['_path']}: {', '.join(vars(self)['_declared'])}>"


def _imported(name: str, functions: Mapping[str, tuple[Signature, ...]], shared: Shared) -> SimpleNamespace:
    """The functions of a module that the program imports, under the name that it has there."""
    return SimpleNamespace(**{own: python_function(Calls(own, signatures, shared), name) for own, signatures in functions.items()})


def declared(program: Program) -> dict[str, Any]:
    """What the program's file declares, by name, as its attributes give it."""
    names = vars(program)
    return {name: names[name] for name in names["_declared"]}


def load(path: PathLike, dims: Mapping[str, int] | None = None, engine: EngineName = "native") -> Program:
    """Check a program and make it callable; each function is compiled at its first call, once for all sizes of its axes.

    dims: values in the place of those that the file declares. engine: "native", or "numpy" for the reference evaluator, which
    gives the same bits slowly. Raises CompileError for a program with errors, FileNotFoundError for none, ValueError for an
    engine that doesn't exist.
    """
    if engine not in ENGINES:
        raise ValueError(f"engine: expected {' or '.join(map(repr, ENGINES))}, got {engine!r}")
    file = Path(path)
    if not file.exists():
        raise FileNotFoundError(2, "no such program", os.fspath(path))
    return Program(checked_file(file, dims), file, engine)
