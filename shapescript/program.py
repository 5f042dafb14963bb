"""`load`: a checked program whose models, records, functions, dims and consts are attributes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from shapescript.calls import Calls, Instances, Shared, python_function
from shapescript.checking import checked_file
from shapescript.compiler.check.program import Program as CheckedProgram
from shapescript.compiler.check.program import Signature
from shapescript.compiler.diagnostics.model import CompileError, Diagnostic
from shapescript.engines import ENGINES, EngineName
from shapescript.factories import ModelFactory, RecordFactory
from shapescript.generic_calls import GenericSignatures
from shapescript.host import ProgramHost, Watcher
from shapescript.layouts import Layouts
from shapescript.runtime.errors import did_you_mean

PathLike = str | os.PathLike[str]


class Program:
    """What a file declares, as attributes; `diagnostics` holds the warnings. Declared names come first."""

    diagnostics: tuple[Diagnostic, ...]

    def __init__(self, checked: CheckedProgram, path: Path, engine: EngineName, watcher: Watcher | None = None) -> None:
        if checked.module is None:
            raise CompileError(checked.diagnostics)
        layouts = Layouts()
        host = ProgramHost(layouts, path.absolute().parent, checked.texts, watcher)
        instances = Instances(checked.module, engine, checked.generics)
        shared = (instances, layouts, host, GenericSignatures(checked, layouts))
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
