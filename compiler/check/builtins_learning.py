"""Softmax, cross entropy, accuracy, dropout."""

from __future__ import annotations

from shapescript.compiler.check import types
from shapescript.compiler.check.axes import agree
from shapescript.compiler.check.site import Handler, Site
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.check.types import Tensor
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.types import Element


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


def _with_labels(site: Site) -> tuple[Value, Value, tuple[types.Axis, ...]]:
    """Logits with the class axis last and the other axes in the labels' order; the class axis is the one that the labels lack."""
    found = site.arguments(("logits", "label"))
    logits, kind = site.tensor(found["logits"])
    labels = site.evaluate(found["label"])
    if not isinstance(labels.type, Tensor) or labels.type.element is not Element.I64:
        site.fail("E0301", f"`{site.name}` takes labels of type int[...], found {labels.type}", found["label"].value.span)
    places: list[int] = []
    for axis in labels.type.axes:
        at = [place for place, other in enumerate(kind.axes) if agree(axis, other) and place not in places]
        if len(at) != 1:
            site.fail(
                "E0402" if not at else "E0403",
                f"axis {axis} of the labels {labels.type} is {'not' if not at else 'twice'} in the logits {kind}",
                found["label"].value.span,
            )
        places.append(at[0])
    missing = [place for place in range(len(kind.axes)) if place not in places]
    if len(missing) != 1:
        listed = ", ".join(kind.axes[place].name for place in missing) or "none"
        site.fail("E0406", f"the class axis is the one of the logits {kind} that the labels {labels.type} lack; they lack {listed}")
    permutation = (*places, missing[0])
    value = logits.value
    if permutation != tuple(range(len(permutation))):
        value = site.body.builder.op("transpose", value, permutation=permutation)
    return value, labels.value, labels.type.axes


def _cross_entropy(site: Site) -> Typed:
    logits, labels, _ = _with_labels(site)
    loss, _ = site.body.builder.emit("cross_entropy", logits, labels, hints=("loss", "probabilities"))
    kind = loss.type
    return Typed(types.Tensor(kind.element), (loss,))  # type: ignore[union-attr]


def _accuracy(site: Site) -> Typed:
    """The share of rows whose largest logit (the first, where several are) is at the label: a host float."""
    logits, labels, axes = _with_labels(site)
    builder = site.body.builder
    chosen = builder.op("argmax", logits, positions=(len(axes),))
    hits = builder.convert(builder.op("eq", chosen, labels), Element.F64)
    return Typed(types.FLOAT, (builder.op("mean", hits, positions=tuple(range(len(axes)))) if axes else hits,))


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
    "cross_entropy": _cross_entropy,
    "accuracy": _accuracy,
    "dropout": _dropout,
    "stop_gradient": _stop_gradient,
}
