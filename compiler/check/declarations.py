"""A module's declarations, before any body is looked at: dims, consts, records, models, signatures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from shapescript.compiler.check import types
from shapescript.compiler.check.axes import AxisContext
from shapescript.compiler.check.constants import ConstantEvaluator
from shapescript.compiler.check.element_parameters import KIND, element_choices, element_parameters
from shapescript.compiler.check.groups import GroupReader
from shapescript.compiler.check.members import MemberReader
from shapescript.compiler.check.modules import declare
from shapescript.compiler.check.program import DefaultValue, Elements, ModelDeclaration, ModelParameter, Signature, SignatureParameter
from shapescript.compiler.check.report import Report, Reported, did_you_mean
from shapescript.compiler.check.scope import (
    BrokenEntity,
    ConstEntity,
    DimEntity,
    Entity,
    FunctionEntity,
    FunctionInfo,
    ModelEntity,
    ModuleScope,
    RecordEntity,
)
from shapescript.compiler.check.type_names import MOST_NESTED_MODELS, TypeReader, check_extent
from shapescript.compiler.diagnostics.model import Label
from shapescript.compiler.ir import types as ir
from shapescript.compiler.ir.sizes import LARGEST, Size, Symbol, dim, fresh, of
from shapescript.compiler.ir.types import Element
from shapescript.compiler.syntax import tree

NAMED = tree.DimDeclaration | tree.ConstDeclaration | tree.ModelDeclaration


class Declarations:
    """Fills a module's scope. `overrides` are dims that the host gives, for the main module alone."""

    def __init__(self, scope: ModuleScope, report: Report, overrides: Mapping[str, int]) -> None:
        self.scope, self.report, self.overrides = scope, report, overrides
        self._models: dict[str, tree.ModelDeclaration] = {}
        self._open_models: list[str] = []

    def read(self) -> list[FunctionInfo]:
        """Declares everything; gives the functions whose signatures are sound."""
        declarations = self.scope.module.declarations
        self._dims_and_consts(declarations)
        for model in declarations:
            if isinstance(model, tree.ModelDeclaration) and self._is_new(model.name, self._models):
                self._models[model.name.text] = model
        for record in declarations:
            if isinstance(record, tree.RecordDeclaration):
                self._attempt(record.name, partial(self._record, record))
        for name in self._models:
            self.model(name)
        return self._functions([d for d in declarations if isinstance(d, tree.FunctionDeclaration)])

    # ---- dims and consts: in any order, each evaluated once what it uses is

    def _dims_and_consts(self, declarations: tuple[tree.Declaration, ...]) -> None:
        waiting: dict[str, tree.DimDeclaration | tree.ConstDeclaration] = {}
        for declaration in declarations:
            if isinstance(declaration, tree.DimDeclaration | tree.ConstDeclaration) and self._is_new(declaration.name, waiting):
                waiting[declaration.name.text] = declaration
        for name in waiting:
            self._constant(name, waiting)
        for name in self.overrides:
            if not isinstance(self.scope.entities.get(name), DimEntity):
                dims = [n for n, _ in self.scope.dims()]
                self.report.error(
                    "E0504",
                    f"no dim `{name}` to override: the program declares {', '.join(dims) or 'none'}",
                    self.scope.module.span,
                    help=did_you_mean(name, dims),
                )

    def _is_new(self, name: tree.Identifier, seen: Mapping[str, tree.Declaration]) -> bool:
        """Whether neither an import nor a declaration before has the name; if one has, that is reported."""
        earlier = seen.get(name.text)
        known = self.scope.entities.get(name.text)
        place = earlier.name.span if isinstance(earlier, NAMED) else known.span if known else None
        if place is None:
            return True
        self.report.error("E0202", f"`{name}` is declared twice in this module", name.span, [Label(place, "first declared here")])
        return False

    def _constant(self, first: str, waiting: Mapping[str, tree.DimDeclaration | tree.ConstDeclaration]) -> None:
        """Evaluate a dim or const, those that it uses first."""
        path, used = [first], [iter(_names_in(waiting[first].value))]
        while path:
            name = next((name for name in used[-1] if name in waiting and name not in self.scope.entities), None)
            if name is None:
                used.pop()
                declaration = waiting[path.pop()]
                if declaration.name.text not in self.scope.entities:
                    self._attempt(declaration.name, partial(self._evaluated, declaration))
            elif name in path:
                cycle = " -> ".join([*path[path.index(name) :], name])
                self.report.error("E0505", f"`{name}` is defined by itself: {cycle}", waiting[name].name.span)
                self.scope.entities[name] = BrokenEntity(waiting[name].name.span)
            else:
                path.append(name)
                used.append(iter(_names_in(waiting[name].value)))

    def _evaluated(self, declaration: tree.DimDeclaration | tree.ConstDeclaration) -> DimEntity | ConstEntity:
        span, is_dim = declaration.name.span, isinstance(declaration, tree.DimDeclaration)
        if is_dim and declaration.name.text in self.overrides:
            value: DefaultValue = self.overrides[declaration.name.text]
        else:
            value = ConstantEvaluator(self.scope, self.report, exact=is_dim).value(declaration.value)
        if not is_dim:
            return ConstEntity(value, span)
        if not declaration.name.text[:1].isupper():
            self.report.fail(
                "E0502", f"a dim's name begins with an upper-case letter: `{declaration.name}` would read as an axis variable", span
            )
        if isinstance(value, bool) or not isinstance(value, int):
            self.report.fail("E0502", f"a dim is a whole number, not {value!r}", declaration.value.span)
        if not 0 <= value <= LARGEST:
            self.report.fail("E0503", f"`{declaration.name}` is {value}: a size is from 0 to 2**48", declaration.value.span)
        return DimEntity(dim(declaration.name.text, value), span)

    def _attempt(self, name: tree.Identifier, make: Callable[[], Entity]) -> None:
        try:
            entity: Entity = make()
        except Reported:
            entity = BrokenEntity(name.span)
        declare(self.scope, name, entity, self.report)

    # ---- records and models

    def _record(self, declaration: tree.RecordDeclaration) -> RecordEntity:
        reader = TypeReader(AxisContext(self.scope, self.report), self.report, self)
        fields: dict[str, types.Tensor | types.Scalar] = {}
        records = [d.name.text for d in self.scope.module.declarations if isinstance(d, tree.RecordDeclaration)]
        for field in declaration.fields:
            if isinstance(field.type, tree.Applied) and str(field.type.name) in records:
                self.report.fail(
                    "E0301", f"a record's field is a tensor or a host value, not the record {field.type.name}", field.type.span
                )
            kind = reader.read(field.type)
            if not isinstance(kind, types.Tensor | types.Scalar):
                self.report.fail("E0301", f"a record's field is a tensor or a host value, not {kind}", field.type.span)
            if field.name.text in fields:
                self.report.fail("E0202", f"the record has two fields `{field.name}`", field.name.span)
            fields[field.name.text] = kind
        return RecordEntity(types.Record(declaration.name.text, self.scope.name, tuple(fields.items())), declaration.name.span)

    def model(self, name: str) -> None:
        """Declare a model of this module, those that it is made of first."""
        declaration = self._models.get(name)
        if declaration is None or name in self.scope.entities:
            return
        if name in self._open_models:
            self.report.error("E0309", f"the model `{name}` contains itself", declaration.name.span)
            self.scope.entities[name] = BrokenEntity(declaration.name.span)
            return
        if len(self._open_models) == MOST_NESTED_MODELS:
            self.report.fail("E0112", f"models are nested more than {MOST_NESTED_MODELS} levels deep here", declaration.name.span)
        self._open_models.append(name)
        try:
            found: ModelEntity | BrokenEntity = ModelEntity(self._model(declaration), declaration.name.span)
        except Reported:
            found = BrokenEntity(declaration.name.span)
        self._open_models.pop()
        self.scope.entities.setdefault(name, found)

    def _model(self, declaration: tree.ModelDeclaration) -> ModelDeclaration:
        context = AxisContext(self.scope, self.report)
        elements = element_parameters(declaration.generics, self.report)
        usual = {parameter.name: parameter.default or Element.F32 for parameter in elements}
        dims, defaults = self._dim_parameters(declaration.generics, context, usual, is_model=True)
        models = tuple(kind.model for kind in type_parameters(context) if isinstance(kind, types.Model))
        if any(isinstance(kind, types.Record) for kind in context.types.values()):
            self.report.fail("E2305", "a model is made for dims and models, not for data", declaration.generics[0].span)
        arguments = tuple(of(symbol) for symbol in dims)
        kind = ir.ModelType(declaration.name.text, self.scope.name, arguments, self._members(declaration, context), models=models)
        check_extent(kind, declaration.name.span, self.report)
        if declaration.treatments:
            groups = GroupReader(self.scope, self.report, kind)
            kind = replace(kind, groups=tuple(groups.read(treatment) for treatment in declaration.treatments))
        named: dict[str, ModelParameter] = {symbol.name: symbol for symbol in dims}
        named.update((model.name, model) for model in models)
        named.update((parameter.name, parameter) for parameter in elements)
        parameters = tuple(named[generic.name.text] for generic in declaration.generics)

        def with_elements(chosen: Elements) -> ir.ModelType:
            """The members are read anew, the other parameters being the same."""
            own = {**context.types, **{name: types.Tensor(element) for name, element in chosen.items()}}
            members = self._members(declaration, replace(context, types=own))
            special = tuple((one.name, chosen[one.name]) for one in elements if chosen[one.name] is not one.default)
            return replace(kind, members=members, elements=special)

        if elements:
            return ModelDeclaration(declaration.name.text, with_elements(usual), parameters, declaration.name.span, defaults, with_elements)
        return ModelDeclaration(declaration.name.text, kind, parameters, declaration.name.span, defaults)

    def _members(self, declaration: tree.ModelDeclaration, context: AxisContext) -> tuple[ir.Member, ...]:
        reader = MemberReader(self.scope, self.report, TypeReader(context, self.report, self), context)
        members: dict[str, ir.Member] = {}
        for member in declaration.members:
            if member.name.text in members:
                self.report.fail("E0202", f"the model has two members `{member.name}`", member.name.span)
            members[member.name.text] = reader.read(member)
        return tuple(members.values())

    def _dim_parameters(
        self, generics: tuple[tree.Generic, ...], context: AxisContext, elements: Elements, is_model: bool = False
    ) -> tuple[tuple[Symbol, ...], Mapping[Symbol, Size]]:
        """Enters dim parameters into the context's names, type parameters into its types. Gives the dims, and their defaults.

        `elements` are what element parameters stand for. Of a model they may have defaults (see element_parameters).
        """
        dims: list[Symbol] = []
        defaults: dict[Symbol, Size] = {}
        for generic in generics:
            name = generic.name.text
            if not name[:1].isupper():
                self.report.fail("E0502", f"a parameter in brackets begins with an upper-case letter, `{name}` doesn't", generic.span)
            if name in context.names or name in context.types:
                self.report.fail("E0202", f"`{name}` is declared twice", generic.span)
            if generic.kind is not None:
                if generic.default is not None and not (is_model and generic.kind.text == KIND):
                    text = "a dim parameter may have a default, and a model's `F: float`; another type parameter has none"
                    self.report.fail("E2302", text, generic.default.span)
                element = elements.get(name)
                context.types[name] = types.Tensor(element) if element else self._type_parameter(name, generic.kind)
                continue
            symbol = fresh(name)
            if generic.default is not None:
                defaults[symbol] = replace(context, binding=False).axis(generic.default).size
            context.names[name] = types.single(of(symbol))
            dims.append(symbol)
        return tuple(dims), defaults

    def _type_parameter(self, name: str, kind: tree.Identifier) -> types.Model | types.Record:
        origin = f"type parameter {fresh(name).number}"  # tells it apart from every other of the name
        match kind.text:
            case "model":
                return types.Model(ir.ModelType(name, origin, (), (), is_parameter=True))
            case "data":
                return types.Record(name, origin, (), is_parameter=True)
        known = ("model", "data", KIND)
        text = f"a type parameter is a `model`, `data` or `{KIND}`, not `{kind}`"
        self.report.fail("E2302", text, kind.span, help=did_you_mean(kind.text, known))

    # ---- functions

    def _functions(self, declarations: list[tree.FunctionDeclaration]) -> list[FunctionInfo]:
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
        dims, defaults = self._dim_parameters(declaration.generics, context, elements)
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
        reader = TypeReader(context, self.report, self)
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
        reader = TypeReader(context, self.report, self)
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


def type_parameters(context: AxisContext) -> tuple[types.Model | types.Record, ...]:
    return tuple(kind for kind in context.types.values() if isinstance(kind, types.Model | types.Record))


def _names_in(node: object) -> list[str]:
    """Names that a constant's expression uses."""
    match node:
        case tree.Name(_, name):
            return [name]
        case tree.Unary(_, _, operand):
            return _names_in(operand)
        case tree.Binary(_, _, left, right):
            return _names_in(left) + _names_in(right)
        case tree.Call(_, _, arguments, _):
            return [name for argument in arguments for name in _names_in(argument.value)]
    return []
