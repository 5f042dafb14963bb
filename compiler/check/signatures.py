"""Signatures of a module's functions, before any body is looked at."""

from __future__ import annotations

from dataclasses import replace

from shapescript.compiler.check import types
from shapescript.compiler.check.axes import AxisContext
from shapescript.compiler.check.bracket_parameters import dim_parameters, type_parameters
from shapescript.compiler.check.constants import ConstantEvaluator
from shapescript.compiler.check.element_parameters import element_choices
from shapescript.compiler.check.modules import declare
from shapescript.compiler.check.program import DefaultValue, Elements, Signature, SignatureParameter
from shapescript.compiler.check.report import Report, Reported
from shapescript.compiler.check.scope import BrokenEntity, FunctionEntity, FunctionInfo, ModuleScope
from shapescript.compiler.check.type_names import Models, TypeReader
from shapescript.compiler.syntax import tree


class Signatures:
    """Fills a module's scope with its functions. `models` declare those that a type names."""

    def __init__(self, scope: ModuleScope, report: Report, models: Models) -> None:
        self.scope, self.report, self._models = scope, report, models

    def read(self, declarations: list[tree.FunctionDeclaration]) -> list[FunctionInfo]:
        """Declares all functions; gives those whose signatures are sound."""
        by_name: dict[str, list[FunctionInfo]] = {}
        broken: dict[str, tree.Identifier] = {}
        first: dict[str, tree.Identifier] = {}
        for number, declaration in enumerate(declarations):
            name = declaration.name.text
            first.setdefault(name, declaration.name)
            try:
                usual, *others = element_choices(declaration.generics)
                read = self._function(declaration, f"{number}.0" if usual else str(number), usual)
                more = [self._for_elements(read, f"{number}.{choice}", choice, elements) for choice, elements in enumerate(others, 1)]
                by_name.setdefault(name, []).extend((read, *more))
            except Reported:
                broken.setdefault(name, declaration.name)
        for name, place in first.items():
            if name in broken:  # a call can't be judged while one of the overloads is unknown
                declare(self.scope, place, BrokenEntity(place.span), self.report)
            else:
                declare(self.scope, place, FunctionEntity(tuple(by_name[name]), place.span), self.report)
        return [info for infos in by_name.values() for info in infos]

    def _function(self, declaration: tree.FunctionDeclaration, number: str, elements: Elements) -> FunctionInfo:
        context = AxisContext(self.scope, self.report, binding=True)
        dims, defaults = dim_parameters(declaration.generics, context, elements, self.report)
        parameters, result = self._signature(declaration.parameters, declaration.result, context)
        variables = tuple(context.variables)
        required = tuple(self._requirement(requirement, context, declaration) for requirement in declaration.requirements)
        signature = Signature(
            declaration.name.text,
            self._key(declaration, number),
            dims,
            variables,
            parameters,
            result,
            declaration.header,
            tuple(kind.model if isinstance(kind, types.Model) else kind for kind in type_parameters(context)),
            tuple(info.signature for info in required),
            defaults,
        )
        if required and not signature.types:
            self.report.fail(
                "E2302", "`requires` is for generic functions: this one has no type parameter", declaration.requirements[0].span
            )
        return FunctionInfo(signature, declaration, self.scope, dict(context.names), dict(context.types), required)

    def _for_elements(self, read: FunctionInfo, number: str, choice: int, elements: Elements) -> FunctionInfo:
        """A function that was read for the first choice of its elements, for another one: with the same dims and axis variables."""
        declaration = read.declaration
        kinds = {**read.types, **{name: types.Tensor(element) for name, element in elements.items()}}
        context = AxisContext(self.scope, self.report, read.axes, types=kinds)
        reader = TypeReader(context, self.report, self._models)
        parameters = tuple(
            replace(known, type=reader.for_elements(parameter.type, known.type))
            for parameter, known in zip(declaration.parameters, read.signature.parameters, strict=True)
        )
        result = read.signature.result if declaration.result is None else reader.for_elements(declaration.result, read.signature.result)
        required = tuple(self._requirement(requirement, context, declaration) for requirement in declaration.requirements)
        signature = replace(
            read.signature,
            key=self._key(declaration, number),
            parameters=parameters,
            result=result,
            requirements=tuple(info.signature for info in required),
        )
        return replace(read, signature=signature, types=kinds, required=required, choice=choice)

    def _key(self, declaration: tree.FunctionDeclaration, number: str) -> str:
        return f"{self.scope.name}:{declaration.name.text}#{number}"

    def _signature(
        self, declared: tuple[tree.Parameter, ...], result: tree.Type | None, context: AxisContext
    ) -> tuple[tuple[SignatureParameter, ...], types.Type]:
        reader = TypeReader(context, self.report, self._models)
        parameters: list[SignatureParameter] = []
        for parameter in declared:
            if any(parameter.name.text == known.name for known in parameters):
                self.report.fail("E0202", f"two parameters are called `{parameter.name}`", parameter.name.span)
            parameters.append(self._parameter(parameter, reader))
        bound = set(context.variables)
        kind: types.Type = types.NOTHING if result is None else reader.read(result)
        unbound = [symbol for symbol in context.variables if symbol not in bound]
        if unbound and result is not None:
            self.report.fail("E0203", f"no parameter binds the axis `{unbound[0]}` of the result", result.span)
        return tuple(parameters), kind

    def _requirement(self, requirement: tree.Requirement, outer: AxisContext, function: tree.FunctionDeclaration) -> FunctionInfo:
        """What a function requires, as a function without a body; its axis variables are its own."""
        dims = {name: axis for name, axis in outer.names.items() if name[:1].isupper()}
        context = AxisContext(self.scope, self.report, dims, binding=True, types=outer.types)
        parameters, result = self._signature(requirement.parameters, requirement.result, context)
        key = f"{self.scope.name}:requires {requirement.name}@{requirement.span.start}"
        signature = Signature(requirement.name.text, key, (), tuple(context.variables), parameters, result, requirement.span)
        return FunctionInfo(signature, function, self.scope, dict(context.names), dict(context.types))

    def _parameter(self, parameter: tree.Parameter, reader: TypeReader) -> SignatureParameter:
        kind = reader.read(parameter.type)
        if parameter.is_mut and not isinstance(kind, types.Model | types.Optimiser | types.Tensor | types.Batch | types.Scalar):
            self.report.fail("E0605", f"{kind} can't be `mut`: it is a handle, and what it stands for moves without", parameter.span)
        if parameter.is_mut and not isinstance(kind, types.Model | types.Optimiser | types.Tensor):
            self.report.not_built(f"a `mut` parameter of type {kind}", parameter.span)
        default = None
        if parameter.default is not None:
            default = self._default(parameter, kind)
        return SignatureParameter(parameter.name.text, kind, parameter.is_mut, default, parameter.name.span)

    def _default(self, parameter: tree.Parameter, kind: types.Type) -> DefaultValue:
        assert parameter.default is not None
        value = ConstantEvaluator(self.scope, self.report).value(parameter.default)
        found = (
            types.BOOL
            if isinstance(value, bool)
            else types.INT
            if isinstance(value, int)
            else types.FLOAT
            if isinstance(value, float)
            else types.STR
        )
        if found == types.INT and kind == types.FLOAT:
            return float(value)
        if found != kind:
            self.report.fail("E0301", f"the default of `{parameter.name}: {kind}` is a {found}", parameter.default.span)
        return value
