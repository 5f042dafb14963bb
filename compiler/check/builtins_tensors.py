"""Elementwise functions, conversions and reductions."""

from __future__ import annotations

from shapescript.compiler.check import types
from shapescript.compiler.check.operators import tensor_pair
from shapescript.compiler.check.site import Handler, Site
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.check.types import Tensor
from shapescript.compiler.ir.types import Element


def _unary(op: str, host: bool = False) -> Handler:
    """An elementwise function; some are for host floats too."""

    def handler(site: Site) -> Typed:
        argument = site.arguments(("x",))["x"]
        typed = site.evaluate(argument)
        if host and typed.type in (types.INT, types.FLOAT):
            if op == "abs" and typed.type == types.INT:
                site.body.report.not_built("abs of a host int", site.span)
            number_ = site.body.convert(typed, types.FLOAT, site.span, lambda: f"`{site.name}`")
            return Typed(types.FLOAT, (site.body.builder.op(op, number_.value),))
        if not isinstance(typed.type, Tensor) or not typed.type.element.is_float:
            site.fail(
                "E0310" if isinstance(typed.type, Tensor) else "E0301",
                f"`{site.name}` takes a tensor of floats, found {typed.type}",
                argument.value.span,
            )
        return Typed(typed.type, (site.body.builder.op(op, typed.value),))

    return handler


def _binary(op: str) -> Handler:
    def handler(site: Site) -> Typed:
        found = site.arguments(("x", "y"))
        left, right = (site.evaluate(found[name]) for name in ("x", "y"))
        spans = (found["x"].value.span, found["y"].value.span)
        if not isinstance(left.type, Tensor) and not isinstance(right.type, Tensor):
            site.fail("E0301", f"`{site.name}` takes a tensor, found {left.type} and {right.type}")
        values, kind = tensor_pair(site.body, site.name, left, right, site.span, spans)
        if kind.element is Element.BOOL:
            site.fail("E0310", f"`{site.name}` is not for bools")
        return Typed(kind, (site.body.builder.op(op, *values),))

    return handler


def _conversion(element: Element, host: types.Scalar) -> Handler:
    """`f32(x)`, `f64(x)`, `int(x)`, `float(x)`: of a tensor, or of a host number."""

    def handler(site: Site) -> Typed:
        argument = site.arguments(("x",))["x"]
        typed = site.evaluate(argument)
        if not isinstance(typed.type, Tensor | types.Scalar) or typed.type == types.STR:
            site.fail("E0301", f"`{site.name}` converts numbers, found {typed.type}", argument.value.span)
        value = site.body.builder.convert(typed.value, element)
        if isinstance(typed.type, Tensor) and (typed.type.axes or site.name not in ("int", "float")):
            return Typed(Tensor(element, typed.type.axes), (value,))
        return Typed(Tensor(element) if site.name == "f32" else host, (value,))

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


HANDLERS: dict[str, Handler] = {
    **{name: _unary(name) for name in ("relu", "tanh", "sigmoid")},
    **{name: _unary(name, host=True) for name in ("exp", "log", "sqrt", "abs")},
    **{name: _binary(name) for name in ("minimum", "maximum")},
    **{name: _reduction(name) for name in ("sum", "mean", "max", "min", "argmax", "argmin")},
    "f32": _conversion(Element.F32, types.FLOAT),
    "f64": _conversion(Element.F64, types.FLOAT),
    "float": _conversion(Element.F64, types.FLOAT),
    "int": _conversion(Element.I64, types.INT),
}
