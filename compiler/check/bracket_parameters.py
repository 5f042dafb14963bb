"""What stands in brackets behind the name of a model or function: dims, types, elements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from shapescript.compiler.check import types
from shapescript.compiler.check.axes import AxisContext
from shapescript.compiler.check.element_parameters import KIND
from shapescript.compiler.check.program import Elements
from shapescript.compiler.check.report import Report, did_you_mean
from shapescript.compiler.ir import types as ir
from shapescript.compiler.ir.sizes import Size, Symbol, fresh, of
from shapescript.compiler.syntax import tree


def dim_parameters(
    generics: tuple[tree.Generic, ...], context: AxisContext, elements: Elements, report: Report, is_model: bool = False
) -> tuple[tuple[Symbol, ...], Mapping[Symbol, Size]]:
    """Enters dim parameters into the context's names, type parameters into its types. Gives the dims, and their defaults.

    `elements` are what element parameters stand for. Of a model they may have defaults (see element_parameters).
    """
    dims: list[Symbol] = []
    defaults: dict[Symbol, Size] = {}
    for generic in generics:
        name = generic.name.text
        if not name[:1].isupper():
            report.fail("E0502", f"a parameter in brackets begins with an upper-case letter, `{name}` doesn't", generic.span)
        if name in context.names or name in context.types:
            report.fail("E0202", f"`{name}` is declared twice", generic.span)
        if generic.kind is not None:
            if generic.default is not None and not (is_model and generic.kind.text == KIND):
                text = "a dim parameter may have a default, and a model's `F: float`; another type parameter has none"
                report.fail("E2302", text, generic.default.span)
            element = elements.get(name)
            context.types[name] = types.Tensor(element) if element else _type_parameter(name, generic.kind, report)
            continue
        symbol = fresh(name)
        if generic.default is not None:
            defaults[symbol] = replace(context, binding=False).axis(generic.default).size
        context.names[name] = types.single(of(symbol))
        dims.append(symbol)
    return tuple(dims), defaults


def _type_parameter(name: str, kind: tree.Identifier, report: Report) -> types.Model | types.Record:
    origin = f"type parameter {fresh(name).number}"  # tells it apart from every other of the name
    match kind.text:
        case "model":
            return types.Model(ir.ModelType(name, origin, (), (), is_parameter=True))
        case "data":
            return types.Record(name, origin, (), is_parameter=True)
    known = ("model", "data", KIND)
    text = f"a type parameter is a `model`, `data` or `{KIND}`, not `{kind}`"
    report.fail("E2302", text, kind.span, help=did_you_mean(kind.text, known))


def type_parameters(context: AxisContext) -> tuple[types.Model | types.Record, ...]:
    return tuple(kind for kind in context.types.values() if isinstance(kind, types.Model | types.Record))
