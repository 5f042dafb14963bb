"""From a file to a checked program: modules, declarations, bodies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from shapescript.compiler.check.declarations import Declarations
from shapescript.compiler.check.functions import check_function
from shapescript.compiler.check.generics import Instances
from shapescript.compiler.check.modules import Modules, declare
from shapescript.compiler.check.program import Program, Signature, TypeParameter
from shapescript.compiler.check.report import Report, Reported, did_you_mean
from shapescript.compiler.check.requirements import Resolver
from shapescript.compiler.check.scope import (
    BrokenEntity,
    ConstEntity,
    DimEntity,
    FunctionEntity,
    FunctionInfo,
    ModelEntity,
    ModuleEntity,
    ModuleScope,
    RecordEntity,
)
from shapescript.compiler.diagnostics.model import CompileError, Label, Source, Span
from shapescript.compiler.ir.nodes import Function, Module
from shapescript.compiler.syntax import tree


def check_file(path: str | Path, dims: Mapping[str, int] | None = None) -> Program:
    """Check a file and what it imports. `dims` override the file's own `dim` declarations before anything is checked."""
    modules = Modules(Report())
    scope = modules.read(Path(path))
    return _program(str(path), scope, modules, dims or {})


def check_source(text: str, path: str = "<text>", dims: Mapping[str, int] | None = None) -> Program:
    """Check a text; what it imports is looked for beside `path`."""
    modules = Modules(Report())
    scope = modules.read_source(Source(path, text), Path(path).absolute())
    return _program(path, scope, modules, dims or {})


def _program(path: str, main: ModuleScope | None, modules: Modules, dims: Mapping[str, int]) -> Program:
    report = modules.report
    infos: list[FunctionInfo] = []
    for scope in modules.in_order:
        scope.data_folder = Path(path).absolute().parent
        for importer, target, name in modules.names:
            if importer is scope:
                _bind_import(importer, target, name, report)
        infos += Declarations(scope, report, dims if scope is main else {}).read()
    checked = CheckedFunctions(report, Instances({scope.name: scope for scope in modules.in_order}), infos, main)
    return _collect(path, main, checked, modules, None if report.has_errors else Module(checked.functions))


class CheckedFunctions:
    """The bodies of all functions, and of the instances of generic ones as they are called for.

    An imported function for several types of elements is checked for the first, f32, and for another where something calls it. One of the
    standard library is checked only where something calls it: its own tests say that it is sound.
    """

    def __init__(self, report: Report, instances: Instances, infos: list[FunctionInfo], main: ModuleScope | None) -> None:
        self.report, self.instances, self._main = report, instances, main
        self.functions: dict[str, Function] = {}
        self._infos = {info.signature.key: info for info in infos}
        self._calls: dict[str, list[tuple[str, Span]]] = {}
        self._wanted: list[str] = []
        for info in infos:
            if info.scope is main or (info.choice == 0 and not info.scope.is_standard):
                self._check(info)
        self._check_wanted()
        check_recursion(self._infos, self._calls, report, "E0309")
        if not report.has_errors:
            self._check_instances()

    def _check(self, info: FunctionInfo) -> None:
        function, called = check_function(info, self.instances, self.report)
        self._calls[info.signature.key] = called
        self._wanted += (key for key, _ in called)
        if function is not None and not info.signature.types:
            self.functions[info.signature.key] = function

    def _check_wanted(self) -> None:
        """What calls want and isn't checked yet."""
        while self._wanted:
            key = self._wanted.pop()
            if key in self._infos and key not in self._calls:
                self._check(self._infos[key])

    def _check_instances(self) -> None:
        while self.instances.waiting:
            info = self.instances.waiting.pop()
            self._infos[info.signature.key] = info
            self._check(info)
            self._check_wanted()
        check_recursion(self._infos, self._calls, self.report, "E2314")

    def instantiate(self, signature: Signature, given: Mapping[TypeParameter, TypeParameter]) -> Signature:
        """See program.Generics."""
        info = self._infos[signature.key]
        caller = replace(info, scope=self._main or info.scope, required=())
        try:
            required = Resolver(self.instances, caller, signature.span, self.report).resolve(info, given)
            made = self.instances.instance(info, given, required)
            self._check_instances()
        except Reported:
            pass
        self._raise_errors()
        return made.signature

    def complete(self, key: str) -> None:
        """See program.Generics."""
        if key in self._infos and key not in self._calls:
            self._wanted.append(key)
            self._check_wanted()
            self._check_instances()
            self._raise_errors()

    def _raise_errors(self) -> None:
        if self.report.has_errors:
            found, self.report = self.report, Report()
            raise CompileError(diagnostic for diagnostic in found.diagnostics if diagnostic.is_error)


def _bind_import(importer: ModuleScope, target: ModuleScope, name: tree.Identifier, report: Report) -> None:
    found = target.exported(name.text)
    if found is None:
        own = [known for known in target.entities if known not in target.imported]
        report.error("E0205", f"the module `{Path(target.name).stem}` declares no `{name}`", name.span, help=did_you_mean(name.text, own))
        found = BrokenEntity(name.span)
    if declare(importer, name, found, report):
        importer.imported[name.text] = name.span


def check_recursion(by_key: Mapping[str, FunctionInfo], calls: Mapping[str, list[tuple[str, Span]]], report: Report, code: str) -> None:
    """A function that reaches itself by calls, each overload and instance for itself: once for each cycle."""
    done: set[str] = set()
    for start in by_key:
        if start in done:
            continue
        path: list[str] = [start]
        pending = [iter(calls.get(start, ()))]
        while pending:
            found = next(pending[-1], None)
            if found is None:
                pending.pop()
                done.add(path.pop())
                continue
            key, span = found
            if key in path:
                cycle = [by_key[k].signature.name for k in [*path[path.index(key) :], key]]
                report.error(
                    code,
                    f"functions don't call themselves: {' -> '.join(cycle)}",
                    span,
                    [Label(by_key[key].signature.span, "declared here")],
                )
            elif key not in done and key in by_key:
                path.append(key)
                pending.append(iter(calls.get(key, ())))


def _collect(path: str, main: ModuleScope | None, checked: CheckedFunctions, modules: Modules, module: Module | None) -> Program:
    entities = main.entities if main else {}
    own = {name: entity for name, entity in entities.items() if main and name not in main.imported}
    return Program(
        path=path,
        diagnostics=modules.report.diagnostics,
        dims={name: e.symbol.value for name, e in own.items() if isinstance(e, DimEntity) and e.symbol.value is not None},
        constants={name: e.value for name, e in own.items() if isinstance(e, ConstEntity)},
        models={name: e.declaration for name, e in own.items() if isinstance(e, ModelEntity)},
        records={name: e.record for name, e in own.items() if isinstance(e, RecordEntity)},
        functions={name: tuple(info.signature for info in e.overloads) for name, e in own.items() if isinstance(e, FunctionEntity)},
        module=module,
        sources=tuple(str(found) for found, scope in modules.by_path.items() if scope is not None),
        texts=tuple(scope.source.text for scope in modules.in_order),
        generics=checked,
        imports={
            name: {
                own: tuple(info.signature for info in e.overloads)
                for own, e in entity.scope.entities.items()
                if isinstance(e, FunctionEntity) and own not in entity.scope.imported
            }
            for name, entity in entities.items()
            if isinstance(entity, ModuleEntity)
        },
    )
