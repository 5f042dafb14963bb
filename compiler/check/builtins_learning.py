"""Softmax, dropout, constants to every gradient."""

from __future__ import annotations

from shapescript.compiler.check import types
from shapescript.compiler.check.site import Handler, Site
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.check.types import Tensor


def _along_axis(op: str) -> Handler:
    """`softmax(x, over=n)`, `log_softmax(x, over=n)`: along one axis."""

    def handler(site: Site) -> Typed:
        found = site.arguments(("x",), ("over",))
        operand, kind = site.tensor(found["x"])
        places = site.axes_over(found.get("over"), kind)
        if len(places) != 1:
            site.fail("E0407", f"`{op}` is over one axis")
        return Typed(kind, (site.body.builder.op(op, operand.value, positions=places),))

    return handler


def _dropout(site: Site) -> Typed:
    found = site.arguments(("x", "rate", "mode"))
    operand, kind = site.tensor(found["x"])
    rate = site.value(found["rate"], types.FLOAT)
    if isinstance(rate.constant, float) and not 0.0 <= rate.constant < 1.0:
        site.fail("E0503", f"a dropout rate is at least 0 and below 1, not {rate.constant}", found["rate"].value.span)
    mode = site.value(found["mode"], types.MODE)
    seed, draw = site.body.builder.emit("mode_draw", mode.value, hints=("seed", "draw"))
    return Typed(kind, (site.body.builder.op("dropout", operand.value, rate.value, seed, draw),))


def _stop_gradient(site: Site) -> Typed:
    argument = site.arguments(("x",))["x"]
    operand = site.evaluate(argument)
    if not isinstance(operand.type, Tensor):
        site.fail("E0301", f"`{site.name}` takes a tensor, found {operand.type}", argument.value.span)
    return Typed(operand.type, (site.body.builder.op("stop_gradient", operand.value),))


HANDLERS: dict[str, Handler] = {
    "softmax": _along_axis("softmax"),
    "log_softmax": _along_axis("log_softmax"),
    "dropout": _dropout,
    "stop_gradient": _stop_gradient,
}
