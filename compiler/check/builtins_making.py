"""Tensors made of nothing but axes, `zeros[b n]`, `causal[n m]`, and of labels, `one_hot(label, over=K)`."""

from __future__ import annotations

from shapescript.compiler.check import types
from shapescript.compiler.check.axes import agree
from shapescript.compiler.check.body import Body
from shapescript.compiler.check.builtins_joining import axis_node
from shapescript.compiler.check.site import Handler, Site
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.check.types import Axis, Tensor
from shapescript.compiler.ir.types import Element, TensorType
from shapescript.compiler.syntax import tree

COUNTS = {"arange": (1, 1), "eye": (1, 2), "causal": (2, 2)}  # of axes; zeros and ones take any number


def bracket_value(body: Body, name: str, node: tree.Bracket) -> Typed | None:
    """A tensor by its axes alone; None for a name that isn't built in this way."""
    if name not in ("zeros", "ones", *COUNTS):
        return None
    match node.items:
        case (tree.AxisList(_, nodes),):
            axes = body.context.axes(nodes)
        case ():
            axes = ()
        case _:
            body.report.fail("E0301", "axes are separated by spaces", node.span)
    least, most = COUNTS.get(name, (0, len(axes)))
    if not least <= len(axes) <= most:
        wanted = f"{least} or {most} axes" if least != most else f"{least} ax{'i' if least == 1 else 'e'}s"
        body.report.fail("E0405", f"`{name}` takes {wanted}, found {len(axes)}", node.span)
    with body.builder.at(node.span):
        match name:
            case "arange":
                value = body.builder.op("iota", axes=(axes[0].size,), position=0)
                return Typed(Tensor(Element.I64, axes), (value,))
            case "eye":
                return _eye(body, axes[0], axes[-1])
            case "causal":
                return _causal(body, *axes)
        kind = Tensor(Element.F32, axes)
        (lowered,) = types.lower(kind)
        assert isinstance(lowered, TensorType)
        return Typed(kind, (body.builder.full(1.0 if name == "ones" else 0.0, lowered),))


def _eye(body: Body, rows: Axis, columns: Axis) -> Typed:
    """1 where both places are the same."""
    axes, builder = (rows.size, columns.size), body.builder
    one, other = (builder.op("iota", axes=axes, position=place) for place in (0, 1))
    kind = TensorType(Element.F32, axes)
    value = builder.op("select", builder.op("eq", one, other), builder.full(1.0, kind), builder.full(0.0, kind))
    return Typed(Tensor(Element.F32, (rows, columns)), (value,))


def _causal(body: Body, seeing: Axis, seen: Axis) -> Typed:
    """Where place j of the second axis may be seen from place i of the first: the last sees all, the one before one less."""
    axes, builder = (seeing.size, seen.size), body.builder
    last, place = (builder.op("iota", axes=axes, position=position) for position in (0, 1))
    if seeing.size != seen.size:
        more = builder.op("sub", builder.size(seen.size), builder.size(seeing.size))
        last = builder.op("add", last, builder.spread(more, TensorType(Element.I64, axes)))
    return Typed(Tensor(Element.BOOL, (seeing, seen)), (builder.op("le", place, last),))


def _one_hot(site: Site) -> Typed:
    """The label's axes and behind them the classes: 1 at the label, else 0."""
    found = site.arguments(("label",), ("over",))
    label = site.evaluate(found["label"])
    kind = Tensor(Element.I64) if label.type == types.INT else label.type
    if not isinstance(kind, Tensor) or kind.element is not Element.I64:
        site.fail("E0301", f"`one_hot` takes labels of type int[...], found {label.type}", found["label"].value.span)
    if "over" not in found:
        site.fail("E0406", "`one_hot` needs the axis of the classes", help="over=Classes")
    classes = site.body.context.axis(axis_node(site, found["over"].value))
    if any(agree(classes, axis) for axis in kind.axes):
        site.fail("E0403", f"axis {classes} would stand twice in the result: {kind} has it", found["over"].value.span)
    builder = site.body.builder
    axes = tuple(axis.size for axis in (*kind.axes, classes))
    numbers = builder.op("iota", axes=(classes.size,), position=0)
    checked = builder.op("gather", numbers, label.value)  # each label as it is; one that is no class is R1101
    hot = TensorType(Element.F32, axes)
    places = builder.op("iota", axes=axes, position=len(axes) - 1)
    here = builder.op("eq", places, builder.broadcast(checked, axes, tuple(range(len(axes) - 1))))
    value = builder.op("select", here, builder.full(1.0, hot), builder.full(0.0, hot))
    return Typed(Tensor(Element.F32, (*kind.axes, classes)), (value,))


HANDLERS: dict[str, Handler] = {"one_hot": _one_hot}
