"""A module's declarations, before any body is looked at: dims, consts, records, models, signatures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from shapescript.compiler.check import types
from shapescript.compiler.check.axes import AxisContext
from shapescript.compiler.check.bracket_parameters import dim_parameters, type_parameters
from shapescript.compiler.check.constants import ConstantEvaluator
from shapescript.compiler.check.element_parameters import element_parameters
from shapescript.compiler.check.groups import GroupReader
from shapescript.compiler.check.members import MemberReader
from shapescript.compiler.check.modules import declare
from shapescript.compiler.check.program import DefaultValue, Elements, ModelDeclaration, ModelParameter
from shapescript.compiler.check.report import Report, Reported, did_you_mean
from shapescript.compiler.check.scope import (
    BrokenEntity,
    ConstEntity,
    DimEntity,
    Entity,
    FunctionInfo,
    ModelEntity,
    ModuleScope,
    RecordEntity,
)
from shapescript.compiler.check.signatures import Signatures
from shapescript.compiler.check.type_names import MOST_NESTED_MODELS, TypeReader, check_extent
from shapescript.compiler.diagnostics.model import Label
from shapescript.compiler.ir import types as ir
from shapescript.compiler.ir.sizes import LARGEST, dim, of
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
        functions = [d for d in declarations if isinstance(d, tree.FunctionDeclaration)]
        return Signatures(self.scope, self.report, self).read(functions)

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
        dims, defaults = dim_parameters(declaration.generics, context, usual, self.report, is_model=True)
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
