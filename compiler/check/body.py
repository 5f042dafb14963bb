"""What is in force while a function's body is checked, and the conversions that every part of it shares."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import field, replace

from shapescript.compiler.check import types
from shapescript.compiler.check.axes import AxisContext, accepts
from shapescript.compiler.check.generics import Instances
from shapescript.compiler.check.report import Report, Reported, did_you_mean
from shapescript.compiler.check.scope import (
    BrokenEntity,
    ConstEntity,
    DimEntity,
    Entity,
    FunctionEntity,
    FunctionInfo,
    ModuleEntity,
    ModuleScope,
)
from shapescript.compiler.check.typed import Environment, Typed, Variable
from shapescript.compiler.check.types import Tensor, Type
from shapescript.compiler.check.wording import mend, mismatch, size_note, wanted_and_found
from shapescript.compiler.diagnostics.model import Label, Span
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.sizes import Size, Symbol, of
from shapescript.compiler.ir.types import Element, TensorType
from shapescript.compiler.ir.types import Type as IRType
from shapescript.compiler.ops.build import Builder
from shapescript.compiler.records.dataclass import dataclass
from shapescript.compiler.syntax import tree

Constant = int | float | bool | str
MOST_NESTED = 100
MOST_PATHS = 256
CONSTANT_TYPES = {bool: types.BOOL, int: types.INT, float: types.FLOAT, str: types.STR}


def _unset(node: tree.Expression) -> Typed:
    raise AssertionError("expressions.attach gives a body its evaluation")


@dataclass(eq=False)
class Body:
    """The state of one function's check. `paths` counts the ways to its end, each of which is code of its own.

    `numbers` are host ints that a run decides, and the symbols that stand for them where places are compared (positions.py); `ranges` says
    between which sizes a loop's variable lies, and has None for every other number. `made` are the symbols of sizes that the innermost
    block binds.
    """

    report: Report
    scope: ModuleScope
    info: FunctionInfo
    instances: Instances
    context: AxisContext
    builder: Builder
    environment: Environment = field(default_factory=Environment)
    depth: int = 0
    paths: int = 0
    calls: list[tuple[str, Span]] = field(default_factory=list)
    numbers: dict[object, Symbol] = field(default_factory=dict)
    ranges: dict[Symbol, tuple[Size, Size] | None] = field(default_factory=dict)
    made: set[Symbol] = field(default_factory=set)
    built_in: Collection[str] = ()
    evaluate: Callable[[tree.Expression], Typed] = field(default=_unset)

    @contextmanager
    def region(self) -> Iterator[Builder]:
        """Collect operations of a nested block; bindings made inside end with it, and so do new names of axes that have a size in it
        alone. E0112 where it is nested too deeply."""
        if self.depth == MOST_NESTED:
            span = self.builder.span or self.info.declaration.span
            self.report.fail("E0112", f"loops and conditions are nested more than {MOST_NESTED} levels deep here", span)
        builder, environment, made = self.builder, self.environment, self.made
        self.builder, self.environment, self.made = Builder(builder.span), environment.inner(), set()
        self.depth += 1
        try:
            yield self.builder
        finally:
            for name in [name for name, axis in self.context.aliases.items() if not self.made.isdisjoint(axis.size.symbols())]:
                del self.context.aliases[name]
            self.builder, self.environment, self.made = builder, environment, made
            self.depth -= 1

    # ---- values

    def constant(self, value: Constant) -> Typed:
        kind = CONSTANT_TYPES[type(value)]
        if isinstance(value, str):
            return Typed(kind, self.builder.emit("string", value=value), value)
        return Typed(kind, (self.builder.constant(value, types.HOST_ELEMENTS[kind.name]),), value)

    def variable(self, name: str) -> Variable | None:
        """The variable, None where the name is none; a broken one stops without a word."""
        found = self.environment.get(name)
        if found is not None and found.broken:
            raise Reported
        return found

    def entity(self, node: tree.Expression) -> Entity | None:
        """The declaration that a name, or a module's name, stands for; None for anything else and for variables."""
        match node:
            case tree.Name(_, name) if name not in self.environment:
                return self._with_required(name, self.scope.entities.get(name))
            case tree.Attribute(_, base, name):
                module = self.entity(base)
                if isinstance(module, BrokenEntity):
                    return module
                if isinstance(module, ModuleEntity):
                    found = module.scope.exported(name.text)
                    if found is None:
                        own = [n for n in module.scope.entities if n not in module.scope.imported]
                        hint = f"`{name}` is built in: write it alone" if name.text in self.built_in else did_you_mean(name.text, own)
                        self.report.fail("E0205", f"the module `{base.span.text}` declares no `{name}`", name.span, help=hint)
                    return found
        return None

    def _with_required(self, name: str, entity: Entity | None) -> Entity | None:
        """A requirement of the function declares its name, beside the module's own functions of that name."""
        required = tuple(info for info in self.info.required if info.signature.name == name)
        if not required:
            return entity
        named = [info.signature.key for info in required]
        keys = [key.rpartition("<")[0] if key.endswith(">") else key for key in named]  # an instance's is the function's, and a number
        own = [info for info in entity.overloads if info.signature.key not in keys] if isinstance(entity, FunctionEntity) else []
        return FunctionEntity((*required, *own), required[0].signature.span)

    def entity_value(self, entity: Entity, span: Span) -> Typed:
        match entity:
            case DimEntity(symbol):
                return Typed(types.INT, (self.builder.size(of(symbol)),), symbol.value)
            case ConstEntity(value):
                return self.constant(value)
            case BrokenEntity():
                raise Reported
        self.report.fail("E0301", f"`{span.text}` is no value", span, [Label(entity.span, "declared here")])

    # ---- conversions that the language makes by itself

    def convert(self, typed: Typed, wanted: Type, span: Span, why: Callable[[], str], labels: tuple[Label, ...] = ()) -> Typed:
        """The value where `wanted` stands: an int as a float, a `[]` as a host value, a host number as a `[]`; else E0301."""
        match wanted, typed.type:
            case types.Scalar("float"), types.Scalar("int"):
                constant = typed.constant if isinstance(typed.constant, int) else None
                return Typed(wanted, (self.builder.convert(typed.value, Element.F64),), None if constant is None else float(constant))
            case types.Scalar("float"), Tensor(element, ()) if element.is_float:
                return Typed(wanted, (self.builder.convert(typed.value, Element.F64),))
            case types.Scalar("bool"), Tensor(Element.BOOL, ()):
                return Typed(wanted, typed.values)
            case Tensor(element, ()), types.Scalar("int" | "float") if element.is_float:
                return Typed(wanted, (self.host_number(typed, element),))
            case (Tensor(Element.I64, ()), types.Scalar("int")) | (Tensor(Element.BOOL, ()), types.Scalar("bool")):
                return Typed(wanted, typed.values)
            case Tensor(element, axes), Tensor(found, others) if element == found and len(axes) == len(others):
                for one, other in zip(axes, others, strict=True):
                    if not accepts(one, other):
                        text = f"{why()}: {wanted} is wanted, found {typed.type}{size_note(one, other)}"
                        self.report.fail("E0401", text, span, labels, mend(wanted, typed.type))
                return Typed(wanted, typed.values, typed.constant)
        if wanted != typed.type:
            code = mismatch(wanted, typed.type)
            self.report.fail(code, f"{why()}: {wanted_and_found(wanted, typed.type)}", span, labels, mend(wanted, typed.type))
        return typed

    def host_number(self, typed: Typed, element: Element) -> Value:
        """A host int or float as a number of a tensor's element type, rounded once."""
        if isinstance(typed.constant, int | float) and element.is_float and not isinstance(typed.constant, bool):
            return self.builder.constant(float(typed.constant), element)
        return self.builder.convert(typed.value, element)

    def reshaped(self, value: Value, wanted: IRType) -> Value:
        """The value with the axes that a signature has for it: leading axes are one there."""
        if isinstance(wanted, TensorType) and isinstance(value.type, TensorType) and value.type.axes != wanted.axes:
            return self.builder.op("reshape", value, axes=wanted.axes)
        return value

    # ---- variables

    def bind(self, name: tree.Identifier, typed: Typed, is_mut: bool) -> None:
        """`name = value`: anew in the same block; an outer `mut` variable, or a `mut` parameter, takes a new value of its type."""
        known = self.environment.get(name.text)
        if isinstance(typed.type, types.ModelList | types.Batches) and (is_mut or (known is not None and known.mutable)):
            self.report.not_built(f"a `mut` variable that holds {typed.type}", name.span)
        is_outer = known is not None and known.depth < self.depth
        if known is not None and not known.broken and (is_outer or self._is_mut_parameter(known)):
            if is_mut and is_outer:
                self.report.fail(
                    "E0202",
                    f"`{name}` is already bound in an outer block",
                    name.span,
                    [Label(known.span, "bound here")],
                    help=f"to give it a new value, write `{name} = ...` without `mut`",
                )
            if not known.mutable:
                self.report.fail(
                    "E0603",
                    f"`{name}` belongs to an outer block and isn't `mut`",
                    name.span,
                    [Label(known.span, "bound here")],
                    help=f"bind it with `mut {name} = ...`, or choose another name here",
                )
            typed = self.convert(typed, known.typed.type, name.span, lambda: f"`{name}` keeps its type", (Label(known.span, "bound here"),))
            self.environment[name.text] = replace(known, typed=Typed(known.typed.type, typed.values))
            return
        stays_mut = known is not None and known.mutable and not known.broken
        self.environment[name.text] = Variable(name.text, self._named(typed, name.text), is_mut or stays_mut, self.depth, name.span)

    def _is_mut_parameter(self, variable: Variable) -> bool:
        return any(parameter.mutable and parameter.span == variable.span for parameter in self.info.signature.parameters)

    def bind_broken(self, name: tree.Identifier) -> None:
        known = self.environment.get(name.text)
        if known is None or known.depth == self.depth:
            self.environment[name.text] = Variable(name.text, Typed(types.NOTHING), True, self.depth, name.span, broken=True)

    def _named(self, typed: Typed, hint: str) -> Typed:
        """Give the program's name to a value that has none yet, for printing. One that a variable holds already stays as it is."""
        is_last = len(typed.values) == 1 and self.builder.ops and self.builder.ops[-1].results == typed.values
        if is_last and not typed.value.hint and typed.value not in self.environment.held:
            return replace(typed, values=self.builder.rename_last(hint))
        return typed
