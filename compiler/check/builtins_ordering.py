"""Order along an axis: running sums, sorting, and elements and rows by their positions."""

from __future__ import annotations

from collections.abc import Sequence

from shapescript.compiler.check import types
from shapescript.compiler.check.axes import agree, shown
from shapescript.compiler.check.positions import PositionReader, is_decided_by_run, is_never_negative
from shapescript.compiler.check.site import Handler, Site
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.check.types import Axis, Tensor, single
from shapescript.compiler.check.wording import ELEMENT_NAMES
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.sizes import ONE, Size
from shapescript.compiler.ir.types import Element
from shapescript.compiler.ops.shapes import inverse
from shapescript.compiler.syntax import tree


def _over(site: Site, argument: tree.Argument | None, kind: Tensor) -> int:
    """The place of the one axis that `over=` names."""
    places = site.axes_over(argument, kind)
    if len(places) != 1:
        site.fail("E0407", f"`{site.name}` is over one axis")
    if kind.axes[places[0]].leading:
        assert argument is not None
        site.fail("E0402", f"{kind.axes[places[0]]} stands for any number of axes, which have no order together", argument.value.span)
    return places[0]


def _without(axes: Sequence[Axis], place: int) -> tuple[Axis, ...]:
    return (*axes[:place], *axes[place + 1 :])


# ---- running sums and sorting


def _cumsum(site: Site) -> Typed:
    found = site.arguments(("x",), ("over",))
    x, kind = site.tensor(found["x"], floats=False)
    position = _over(site, found.get("over"), kind)
    return Typed(kind, (site.body.builder.op("cumsum", x.value, position=position, reverse=False),))


def _sort(site: Site) -> Typed:
    """`sort(x, over=n, descending=true)` and `argsort`."""
    found = site.arguments(("x",), ("over", "descending"))
    x, kind = site.tensor(found["x"], floats=False)
    position = _over(site, found.get("over"), kind)
    descending = site.value(found["descending"], types.BOOL) if "descending" in found else site.body.constant(False)
    order = site.body.builder.op("argsort", x.value, descending.value, position=position)
    if site.name == "argsort":
        return Typed(Tensor(Element.I64, kind.axes), (order,))
    return Typed(kind, (site.body.builder.op("take_along", x.value, order, position=position),))


def _topk(site: Site) -> Typed:
    """`topk(x, over=n, count=K)`: the K greatest, the greatest first, and their positions."""
    found = site.arguments(("x", "count"), ("over",))
    x, kind = site.tensor(found["x"], floats=False)
    position = _over(site, found.get("over"), kind)
    count, builder = _count(site, found["count"], kind.axes[position]), site.body.builder
    order = builder.op("argsort", x.value, builder.constant(True, Element.BOOL), position=position)
    first = builder.op("slice", order, builder.constant(0, Element.I64), position=position, length=count)
    values = builder.op("take_along", x.value, first, position=position)
    axes = (*kind.axes[:position], single(count), *kind.axes[position + 1 :])
    return Typed(types.Tuple((Tensor(kind.element, axes), Tensor(Element.I64, axes))), (values, first))


def _count(site: Site, argument: tree.Argument, axis: Axis) -> Size:
    """How many are wanted of an axis; where that it has as many isn't certain, a run checks it (R1107)."""
    span = argument.value.span
    count = PositionReader(site.body, "`count` of `topk`").read(argument.value)
    if is_decided_by_run(site.body, count.size):
        site.fail("E0502", "`count` becomes the size of an axis, and a run decides it", span, "a number, a dim or an axis says it")
    distances = (count.size, axis.size - count.size)
    if any(is_never_negative(site.body, -distance - ONE) for distance in distances):
        known = axis.size.constant()
        site.fail("E0503", f"`topk` takes {span.text} of the axis {axis}, which has {axis.size if known is None else known} places", span)
    if not all(is_never_negative(site.body, distance) for distance in distances):
        site.body.builder.emit("check_slice", site.body.constant(0).value, count.value, size=axis.size, axis=axis.name)
    return count.size


# ---- by position


def _index(site: Site, argument: tree.Argument) -> Typed:
    index = site.evaluate(argument)
    if index.type == types.INT:
        return Typed(Tensor(Element.I64), index.values)
    if not isinstance(index.type, Tensor) or index.type.element is not Element.I64:
        site.fail("E0301", f"`{site.name}` takes an index of type int[...], found {index.type}", argument.value.span)
    return index


def _any_tensor(site: Site, argument: tree.Argument) -> tuple[Typed, Tensor]:
    x = site.evaluate(argument)
    if not isinstance(x.type, Tensor):
        site.fail("E0301", f"`{site.name}` takes a tensor, found {x.type}", argument.value.span)
    return x, x.type


def _check_axes(
    site: Site, what: str, argument: tree.Argument, found: tuple[Axis, ...], wanted: tuple[Axis, ...], free: int | None = None
) -> None:
    """`free` is a place at which any axis may stand."""
    text = f"{what} has the axes {shown(found)}, and `{site.name}` wants {shown(wanted)}"
    text += f", or another axis in the place of {wanted[free]}" if free is not None else ""
    if len(found) != len(wanted):
        site.fail("E0405", text, argument.value.span)
    if not all(place == free or agree(*pair) for place, pair in enumerate(zip(found, wanted, strict=True))):
        site.fail("E0401", text, argument.value.span)


def _take_along(site: Site) -> Typed:
    """The index has x's axes, but another one may stand in the place of that over which is taken."""
    found = site.arguments(("x", "index"), ("over",))
    (x, kind), index = _any_tensor(site, found["x"]), _index(site, found["index"])
    position = _over(site, found.get("over"), kind)
    assert isinstance(index.type, Tensor)
    _check_axes(site, "the index", found["index"], index.type.axes, kind.axes, free=position)
    axes = (*kind.axes[:position], index.type.axes[position], *kind.axes[position + 1 :])
    return Typed(Tensor(kind.element, axes), (site.body.builder.op("take_along", x.value, index.value, position=position),))


def _pick(site: Site) -> Typed:
    """`pick(x, index, over=n)`: of each row along n one element; the index has x's other axes."""
    found = site.arguments(("x", "index"), ("over",))
    (x, kind), index = _any_tensor(site, found["x"]), _index(site, found["index"])
    position = _over(site, found.get("over"), kind)
    axes, builder = _without(kind.axes, position), site.body.builder
    assert isinstance(index.type, Tensor)
    _check_axes(site, "the index", found["index"], index.type.axes, axes)
    builder.emit("check_index", index.value, size=kind.axes[position].size, called="pick")
    return Typed(Tensor(kind.element, axes), (builder.op("pick", x.value, index.value, position=position),))


def _scatter_add(site: Site) -> Typed:
    """`scatter_add(x, rows, index, over=V)`: x with the rows added at the places of V that the index says."""
    found = site.arguments(("x", "rows", "index"), ("over",))
    (x, kind), (rows, given), index = site.tensor(found["x"], floats=False), _any_tensor(site, found["rows"]), _index(site, found["index"])
    position = _over(site, found.get("over"), kind)
    assert isinstance(index.type, Tensor)
    if given.element is not kind.element:
        wanted, other = ELEMENT_NAMES[kind.element], ELEMENT_NAMES[given.element]
        text = f"rows of type {other} are added to elements of type {wanted}: nothing widens or narrows by itself"
        site.fail("E0310", text, found["rows"].value.span, f"convert them: {wanted}(...)")
    _check_axes(site, "what is added", found["rows"], given.axes, (*index.type.axes, *_without(kind.axes, position)))
    order = (position, *(place for place in range(len(kind.axes)) if place != position))
    added = site.body.builder.op("add_rows", _transposed(site, x.value, order), rows.value, index.value, called="scatter_add")
    return Typed(kind, (_transposed(site, added, inverse(order)),))


def _transposed(site: Site, value: Value, order: Sequence[int]) -> Value:
    return value if list(order) == sorted(order) else site.body.builder.op("transpose", value, permutation=tuple(order))


HANDLERS: dict[str, Handler] = {
    "cumsum": _cumsum,
    "sort": _sort,
    "argsort": _sort,
    "topk": _topk,
    "take_along": _take_along,
    "pick": _pick,
    "scatter_add": _scatter_add,
}
