"""Type parameters that stand for the elements of tensors: a function with `[F: float]` is one for each type of floats, a model with
`[F: float = f32]` is made for one of them where it is named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from shapescript.compiler.check import types
from shapescript.compiler.check.program import FLOATS, ElementParameter, Elements
from shapescript.compiler.check.report import Report, did_you_mean
from shapescript.compiler.check.site import Site
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.check.types import Tensor
from shapescript.compiler.ir.types import Element
from shapescript.compiler.syntax import tree

KIND = "float"
BY_NAME = {element.value: element for element in FLOATS}


def element_choices(generics: Sequence[tree.Generic]) -> Iterator[Elements]:
    """What the element parameters may be together: once nothing where there are none."""
    names = [generic.name.text for generic in generics if generic.kind is not None and generic.kind.text == KIND]
    for chosen in product(FLOATS, repeat=len(names)):
        yield dict(zip(names, chosen, strict=True))


def element_parameters(generics: Sequence[tree.Generic], report: Report) -> tuple[ElementParameter, ...]:
    """A model's, with their defaults."""
    found = []
    for generic in generics:
        if generic.kind is not None and generic.kind.text == KIND:
            default = None if generic.default is None else element_named(generic.default, {}, f"`{generic.name}`", report)
            found.append(ElementParameter(generic.name.text, default))
    return tuple(found)


def element_named(node: tree.Axis, known: dict[str, types.Type], what: str, report: Report) -> Element:
    """`f64`, or an element parameter among the `known` types, where elements are to be named. E2305 for anything else."""
    name = node.name if isinstance(node, tree.AxisName) else None
    parameter = known.get(name) if name is not None else None
    if isinstance(parameter, Tensor):
        return parameter.element
    if name in BY_NAME:
        return BY_NAME[name]
    hint = None if name is None else did_you_mean(name, (*BY_NAME, *(own for own, kind in known.items() if isinstance(kind, Tensor))))
    report.fail(
        "E2305", f"{what} is a type of elements, {', '.join(BY_NAME)} or a parameter `F: float`, not {node.span.text}", node.span, help=hint
    )


def converted(site: Site, element: Element) -> Typed:
    """`F(x)`: a tensor or a host number as a tensor of these elements."""
    argument = site.arguments(("x",))["x"]
    typed = site.evaluate(argument)
    if not isinstance(typed.type, Tensor | types.Scalar) or typed.type == types.STR:
        site.fail("E0301", f"`{site.name}` converts numbers, found {typed.type}", argument.value.span)
    axes = typed.type.axes if isinstance(typed.type, Tensor) else ()
    return Typed(Tensor(element, axes), (site.body.builder.convert(typed.value, element),))
