"""Selections by a mask: where, masked_fill; any and all over axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from shapescript.compiler.check import types
from shapescript.compiler.check.axes import shown
from shapescript.compiler.check.operators import lie_along
from shapescript.compiler.check.site import Handler, Site
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.check.types import Axis, Tensor
from shapescript.compiler.check.wording import ELEMENT_NAMES
from shapescript.compiler.diagnostics.model import Span
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.types import Element
from shapescript.compiler.syntax import tree

HOST_NUMBERS = (types.INT, types.FLOAT, types.BOOL)


def _mask(site: Site, argument: tree.Argument) -> Typed:
    mask = site.evaluate(argument)
    is_mask = isinstance(mask.type, Tensor) and mask.type.element is Element.BOOL
    if not is_mask and mask.type != types.BOOL:
        _no_mask(site, mask, argument, "a mask of bools")
    return Typed(Tensor(Element.BOOL), mask.values) if mask.type == types.BOOL else mask


def _no_mask(site: Site, found: Typed, argument: tree.Argument, wanted: str) -> NoReturn:
    code = "E0310" if isinstance(found.type, Tensor) else "E0301"
    site.fail(code, f"`{site.name}` takes {wanted}, found {found.type}", argument.value.span, "compare it, for instance with `> 0`")


def _element(site: Site, sides: Sequence[tuple[Typed, Span]]) -> Element:
    """The element type of what is chosen from; of two host numbers that of a tensor made of them."""
    for side, span in sides:
        if not isinstance(side.type, Tensor) and side.type not in HOST_NUMBERS:
            site.fail("E0301", f"`{site.name}` takes tensors and host numbers, found {side.type}", span)
    found = list(dict.fromkeys(side.type.element for side, _ in sides if isinstance(side.type, Tensor)))
    if len(found) > 1:
        one, other = (ELEMENT_NAMES[element] for element in found)
        site.fail("E0310", f"`{site.name}` of elements {one} and {other}: nothing widens or narrows by itself", help="convert one side")
    if found:
        return found[0]
    kinds = {side.type for side, _ in sides}
    if kinds == {types.BOOL}:
        return Element.BOOL
    return Element.I64 if kinds == {types.INT} else Element.F32


def _adapted(site: Site, side: Typed, element: Element, span: Span) -> Typed:
    """A host number as one of the element type."""
    if isinstance(side.type, Tensor):
        return side
    fits = {types.BOOL: element is Element.BOOL, types.INT: element is not Element.BOOL, types.FLOAT: element.is_float}
    if not fits[side.type]:  # type: ignore[index]
        help_ = "convert the tensor with f32(...)" if element is Element.I64 else None
        site.fail("E0310", f"a host {side.type} doesn't adapt to elements of type {ELEMENT_NAMES[element]}", span, help_)
    return Typed(Tensor(element), (side.value if element is Element.BOOL else site.body.host_number(side, element),))


def _spread(site: Site, sides: Sequence[tuple[Typed, Span]]) -> tuple[list[Value], tuple[Axis, ...]]:
    """All with the axes of the one that has most: those of each other are a subsequence of them, by name."""
    longest, where = max(sides, key=lambda side: len(side[0].type.axes))  # type: ignore[union-attr]
    assert isinstance(longest.type, Tensor)
    axes, values = longest.type.axes, []
    for side, span in sides:
        assert isinstance(side.type, Tensor)
        axes, positions = lie_along(site.body, side.type.axes, axes, site.span, (span, where))
        values.append(site.body.builder.broadcast(side.value, tuple(axis.size for axis in axes), positions))
    return values, axes


def _where(site: Site) -> Typed:
    """`where(mask, x, y)`: x where the mask holds, else y. No gradient flows to what isn't chosen."""
    found = site.arguments(("mask", "x", "y"))
    mask = _mask(site, found["mask"])
    sides = [(site.evaluate(found[name]), found[name].value.span) for name in ("x", "y")]
    element = _element(site, sides)
    adapted = [(_adapted(site, side, element, span), span) for side, span in sides]
    values, axes = _spread(site, [(mask, found["mask"].value.span), *adapted])
    return Typed(Tensor(element, axes), (site.body.builder.op("select", *values),))


def _masked_fill(site: Site) -> Typed:
    """`masked_fill(x, mask, value)`: the value where the mask holds, else x; the result has x's axes."""
    found = site.arguments(("x", "mask", "value"))
    x, mask, value = site.evaluate(found["x"]), _mask(site, found["mask"]), site.evaluate(found["value"])
    spans = {name: argument.value.span for name, argument in found.items()}
    if not isinstance(x.type, Tensor):
        site.fail("E0301", f"`masked_fill` takes a tensor, found {x.type}", spans["x"])
    if isinstance(value.type, Tensor) and value.type.axes:
        site.fail("E0405", f"`masked_fill` takes one value, found {value.type}", spans["value"], "`where(mask, value, x)` takes tensors")
    element = _element(site, [(x, spans["x"]), (value, spans["value"])])
    filling = _adapted(site, value, element, spans["value"])
    assert isinstance(mask.type, Tensor)
    if len(mask.type.axes) > len(x.type.axes):
        text = f"the mask has more axes than what is filled: {shown(mask.type.axes)} and {shown(x.type.axes)}"
        site.fail("E0405", text, spans["mask"], "`where(mask, value, x)` spreads x along the mask")
    values, axes = _spread(site, [(x, spans["x"]), (mask, spans["mask"]), (filling, spans["value"])])
    return Typed(Tensor(element, axes), (site.body.builder.op("select", values[1], values[2], values[0]),))


def _quantifier(op: str) -> Handler:
    """`any(mask, over=n)`, `all(mask, over=n)`."""

    def handler(site: Site) -> Typed:
        found = site.arguments(("mask",), ("over",))
        mask = site.evaluate(found["mask"])
        if not isinstance(mask.type, Tensor) or mask.type.element is not Element.BOOL:
            _no_mask(site, mask, found["mask"], "a tensor of bools")
        places = site.axes_over(found.get("over"), mask.type)
        axes = tuple(axis for place, axis in enumerate(mask.type.axes) if place not in places)
        return Typed(Tensor(Element.BOOL, axes), (site.body.builder.op(op, mask.value, positions=places),))

    return handler


HANDLERS: dict[str, Handler] = {
    "where": _where,
    "masked_fill": _masked_fill,
    "any": _quantifier("any"),
    "all": _quantifier("all"),
}
