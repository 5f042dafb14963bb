"""Conversions and reductions."""

from __future__ import annotations

from shapescript.compiler.check import types
from shapescript.compiler.check.site import Handler, Site
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.check.types import Tensor
from shapescript.compiler.ir.types import Element


def _conversion(element: Element, host: types.Scalar) -> Handler:
    """`f32(x)`, `f64(x)`, `bf16(x)`, `int(x)`, `float(x)`: of a tensor, or of a host number."""

    def handler(site: Site) -> Typed:
        argument = site.arguments(("x",))["x"]
        typed = site.evaluate(argument)
        if not isinstance(typed.type, Tensor | types.Scalar) or typed.type == types.STR:
            site.fail("E0301", f"`{site.name}` converts numbers, found {typed.type}", argument.value.span)
        value = site.body.builder.convert(typed.value, element)
        if isinstance(typed.type, Tensor) and (typed.type.axes or site.name not in ("int", "float")):
            return Typed(Tensor(element, typed.type.axes), (value,))
        return Typed(Tensor(element) if site.name in ("f32", "bf16") else host, (value,))

    return handler


def _reduction(op: str) -> Handler:
    def handler(site: Site) -> Typed:
        found = site.arguments(("x",), ("over",))
        operand, kind = site.tensor(found["x"], floats=op == "mean")
        places = site.axes_over(found.get("over"), kind)
        axes = tuple(axis for place, axis in enumerate(kind.axes) if place not in places)
        value, element = operand.value, kind.element
        if op.startswith("arg"):
            if len(places) != 1:
                site.fail("E0407", f"`{op}` is over one axis")
            element = Element.I64
        if op in ("max", "min"):  # one axis after another: the same value, and a derivative for each
            for place in reversed(places):
                value = site.body.builder.op(op, value, positions=(place,))
        else:
            value = site.body.builder.op(op, value, positions=places)
        return Typed(Tensor(element, axes), (value,))

    return handler


def _logsumexp(site: Site) -> Typed:
    """`logsumexp(x, over=n)`, over one axis or several."""
    found = site.arguments(("x",), ("over",))
    operand, kind = site.tensor(found["x"])
    places = site.axes_over(found.get("over"), kind)
    axes = tuple(axis for place, axis in enumerate(kind.axes) if place not in places)
    return Typed(Tensor(kind.element, axes), (site.body.builder.op("logsumexp", operand.value, positions=places),))


def _variance(site: Site) -> Typed:
    """`variance(x, over=n, correction=0)`: the mean of the squared differences from the mean, the correction taken off the count."""
    found = site.arguments(("x",), ("over", "correction"))
    operand, kind = site.tensor(found["x"])
    places = site.axes_over(found.get("over"), kind)
    correction = site.body.constant(0)
    if "correction" in found:
        correction = site.value(found["correction"], types.INT)
        if isinstance(correction.constant, int) and correction.constant < 0:
            site.fail("E0503", f"a correction is at least 0, not {correction.constant}", found["correction"].value.span)
    axes = tuple(axis for place, axis in enumerate(kind.axes) if place not in places)
    value, _ = site.body.builder.emit("variance", operand.value, correction.value, positions=places, hints=("variance", "mean"))
    return Typed(Tensor(kind.element, axes), (value,))


HANDLERS: dict[str, Handler] = {
    **{name: _reduction(name) for name in ("sum", "mean", "max", "min", "argmax", "argmin")},
    "logsumexp": _logsumexp,
    "variance": _variance,
    "f32": _conversion(Element.F32, types.FLOAT),
    "f64": _conversion(Element.F64, types.FLOAT),
    "bf16": _conversion(Element.BF16, types.FLOAT),
    "float": _conversion(Element.F64, types.FLOAT),
    "int": _conversion(Element.I64, types.INT),
}
