"""Windows along axes of an operand, as a call writes them: `over=(h, w), stride=2, padding=(1, 0)`.

Their numbers are sizes, since they decide shapes: one for all axes that windows move along, or a tuple with one for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from shapescript.compiler.check.axes import check_range
from shapescript.compiler.check.site import Site
from shapescript.compiler.check.types import Axis, Tensor, single
from shapescript.compiler.check.written_sizes import as_axis
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.sizes import ONE, ZERO, Size, fresh, number, of
from shapescript.compiler.ops.build import Builder
from shapescript.compiler.records.dataclass import dataclass
from shapescript.compiler.syntax import tree

TWO = number(2)
LEAST = {"size": 1, "stride": 1, "dilation": 1, "groups": 1, "padding": 0, "output_padding": 0}


@dataclass(frozen=True)
class Window:
    """Windows along one axis of an operand, at its place there."""

    place: int
    axis: Axis
    length: Size
    stride: Size
    dilation: Size
    padding: Size

    @property
    def extent(self) -> Size:
        """The places from a window's first to its last, those between included."""
        return self.dilation * (self.length - ONE) + ONE

    @property
    def room(self) -> Size:
        """How far a window can move along the padded axis."""
        return self.axis.size + TWO * self.padding - self.extent

    @property
    def count(self) -> Size:
        return self._count(self.axis.size)

    @property
    def numbers(self) -> Axis:
        """The axis of the windows."""
        return _moved(self.axis, self._count)

    def spread(self, more: Size) -> Axis:
        """The axis that is left where there was a window for each place of this one, and so many places are added at its end."""
        return _moved(self.axis, lambda size: (size - ONE) * self.stride - TWO * self.padding + self.extent + more)

    def _count(self, size: Size) -> Size:
        return (size + TWO * self.padding - self.extent) // self.stride + ONE


def _moved(axis: Axis, change: Callable[[Size], Size]) -> Axis:
    """An axis of another size. It stays itself where its size does by the arithmetic alone, whatever it is."""
    symbol = of(fresh(axis.name))
    return axis if change(symbol) == symbol else single(change(axis.size))


def in_order(windows: Sequence[Window]) -> list[Window]:
    """Windows in the order of the operand's axes."""
    return sorted(windows, key=lambda window: window.place)


def steps(windows: Sequence[Window], shift: Callable[[int], int] = lambda place: place) -> dict[str, Any]:
    """What the operations `windows` and `fold` share; `shift` gives the place of an axis where the operand has been opened."""
    ordered = in_order(windows)
    return {
        "positions": tuple(shift(window.place) for window in ordered),
        "strides": tuple(window.stride for window in ordered),
        "dilations": tuple(window.dilation for window in ordered),
        "before": tuple(window.padding for window in ordered),
    }


def taken(b: Builder, value: Value, windows: Sequence[Window], fill: float, shift: Callable[[int], int] = lambda place: place) -> Value:
    """The operation `windows`: the windows' places stand where the axes stood, their numbers follow at the end."""
    ordered = in_order(windows)
    lengths, counts = tuple(window.length for window in ordered), tuple(window.count for window in ordered)
    room = tuple(window.room for window in ordered)
    return b.op("windows", value, lengths=lengths, counts=counts, fill=fill, room=room, **steps(windows, shift))


# ---- reading a call


def windows_over(site: Site, found: Mapping[str, tree.Argument], kind: Tensor, lengths: Sequence[Size] | None = None) -> list[Window]:
    """The windows of a call in the order of `over=`: of these lengths, or of those that `size=` gives, which are the strides then too
    unless `stride=` says others."""
    argument = found.get("over")
    site.axes_over(argument, kind)
    assert argument is not None
    nodes = argument.value.elements if isinstance(argument.value, tree.Tuple) else (argument.value,)
    places = [site.axes_over(replace(argument, value=node), kind)[0] for node in nodes]
    for place, node in zip(places, nodes, strict=True):
        if kind.axes[place].leading:
            site.fail("E0407", f"`{site.name}`: windows move along single axes, and {kind.axes[place]} stands for any number", node.span)
    own = lengths if lengths is not None else sizes_given(site, found, "size", len(places), ())
    strides = sizes_given(site, found, "stride", len(places), own if lengths is None and site.name != "windows" else [ONE] * len(places))
    dilations = sizes_given(site, found, "dilation", len(places), [ONE] * len(places))
    paddings = sizes_given(site, found, "padding", len(places), [ZERO] * len(places))
    per_axis = zip(places, own, strides, dilations, paddings, strict=True)
    return [Window(place, kind.axes[place], *rest) for place, *rest in per_axis]


def must_fit(site: Site, windows: Sequence[Window]) -> None:
    """E0503 for a window that is known to be longer than its axis with the padding."""
    for window in windows:
        room = window.room.constant()
        if room is not None and room < 0:
            held = window.axis.size + TWO * window.padding
            number_held = held.constant()
            site.fail(
                "E0503",
                f"`{site.name}`: a window of {window.extent} places doesn't fit into axis {window.axis}, which has "
                f"{held if number_held is None else number_held}, padding included",
            )


def sizes_given(site: Site, found: Mapping[str, tree.Argument], name: str, count: int, default: Sequence[Size]) -> tuple[Size, ...]:
    """One size for each axis: a tuple of them, or the same for all. E0302 for another number of them."""
    argument = found.get(name)
    if argument is None:
        return tuple(default)
    if not isinstance(argument.value, tree.Tuple):
        return (size_given(site, argument.value, name),) * count
    elements = argument.value.elements
    if len(elements) != count:
        text = f"`{name}` of `{site.name}` is one size for all axes in `over`, or {count} in their order; found {len(elements)}"
        site.fail("E0302", text, argument.span)
    return tuple(size_given(site, element, name) for element in elements)


def size_given(site: Site, node: tree.Expression, name: str) -> Size:
    """E0502 for what only a run knows, E0503 for a number out of its range."""
    for inner in _names(node):
        if inner.name in site.body.environment:
            text = f"`{name}` of `{site.name}` decides a shape, and `{inner.name}` is a number that only a run knows"
            site.fail("E0502", text, inner.span, "give a number, a dim or the size of an axis")
    axis = as_axis(node)
    if axis is None:
        text = f"`{name}` of `{site.name}` is a size: a whole number, a dim, or arithmetic of these with `+ - * / //`"
        site.fail("E0502", text, node.span)
    size = site.body.context.axis(axis).size
    check_range(size, node.span, site.body.report)
    value = size.constant()
    if value is not None and value < LEAST[name]:
        site.fail("E0503", f"`{name}` of `{site.name}` is at least {LEAST[name]}, not {value}", node.span)
    return size


def _names(node: tree.Expression) -> list[tree.Name]:
    match node:
        case tree.Name():
            return [node]
        case tree.Binary(_, _, left, right):
            return _names(left) + _names(right)
    return []
