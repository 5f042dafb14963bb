"""Convolutions, pooling, and the windows that they are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from shapescript.compiler.check.axes import agree, combine
from shapescript.compiler.check.site import Handler, Site
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.check.types import Axis, Tensor, single
from shapescript.compiler.check.windows import Window, in_order, must_fit, size_given, sizes_given, steps, taken, windows_over
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.sizes import ONE, ZERO, Size, product
from shapescript.compiler.ir.types import Element
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.records.dataclass import dataclass
from shapescript.compiler.syntax import tree

Found = Mapping[str, tree.Argument]


# ---- convolutions


@dataclass(frozen=True)
class _Operands:
    """A convolution's call. The weight's axes are its channels, two of them, then the kernel's in the order of `over=`."""

    site: Site
    found: Found
    x: Typed
    kind: Tensor
    weight: Typed
    channels: tuple[Axis, Axis]
    windows: list[Window]
    groups: Size

    @classmethod
    def of(cls, site: Site, *more: str) -> _Operands:
        found = site.arguments(("x", "weight"), ("over", "stride", "padding", "dilation", "groups", *more))
        x, kind = site.tensor(found["x"])
        weight, other = site.tensor(found["weight"])
        span = found["weight"].value.span
        if other.element is not kind.element:
            site.fail("E0310", f"`{site.name}` takes operands of one element type, found {kind} and {other}", span)
        over = site.axes_over(found.get("over"), kind)
        if len(other.axes) != 2 + len(over):
            text = (
                f"the weight of `{site.name}` over {len(over)} ax{'is' if len(over) == 1 else 'es'} has {2 + len(over)} axes, found {other}"
            )
            site.fail("E0405", text, span, "two of channels, then those of the kernel in the order of `over`")
        windows = windows_over(site, found, kind, [axis.size for axis in other.axes[2:]])
        for window in windows:
            if window.length.constant() == 0:
                site.fail("E0503", f"the kernel of `{site.name}` has at least one place along each axis, found {other}", span)
        groups = size_given(site, found["groups"].value, "groups") if "groups" in found else ONE
        return cls(site, found, x, kind, weight, (other.axes[0], other.axes[1]), windows, groups)

    def channel(self, wanted: Axis) -> int:
        """The place of x's axis that is the weight's channels."""
        site, span = self.site, self.found["x"].value.span
        windowed = [window.place for window in self.windows]
        places = [place for place, axis in enumerate(self.kind.axes) if place not in windowed and agree(axis, wanted)]
        if len(places) == 1:
            return places[0]
        if places:
            text = f"axis {wanted} stands {len(places)} times in {self.kind}: which one `{site.name}` takes for the channels is open"
            site.fail("E0403", text, span, "a pattern gives one of them another name")
        groups = "" if self.groups == ONE else f" in {self.groups} groups"
        text = f"`{site.name}` with a weight {self.weight.type}{groups} takes channels {wanted}, and {self.kind} has no such axis to take"
        site.fail("E0401", text, span)

    def share(self) -> Size:
        """The weight's first channels in one group."""
        return combine("/", self.channels[0].size, self.groups, self.found["weight"].value.span, self.site.body.report)


@dataclass(frozen=True)
class _Groups:
    """x's channels at their place as groups of channels, the products of which are apart. One group leaves everything as it is."""

    b: Builder
    groups: Size
    place: int

    @property
    def are_several(self) -> bool:
        return self.groups != ONE

    def shifted(self, place: int) -> int:
        """Where an axis of x stands once the channels are opened."""
        return place + (self.are_several and place >= self.place)

    def opened(self, value: Value, place: int, channels: Size) -> Value:
        """A tensor whose axis at the place is groups of so many channels."""
        axes = result_type(value).axes
        return self._reshaped(value, (*axes[:place], self.groups, channels, *axes[place + 1 :]))

    def closed(self, value: Value, channels: Size) -> Value:
        """With so many channels again in the place of groups of them."""
        axes = result_type(value).axes
        return self._reshaped(value, (*axes[: self.place], channels, *axes[self.place + 2 :]))

    def _reshaped(self, value: Value, axes: Sequence[Size]) -> Value:
        return self.b.op("reshape", value, axes=tuple(axes)) if self.are_several else value

    def letter(self) -> tuple[int, ...]:
        """The groups' letter in a contraction whose left operand has its axes' places for letters."""
        return (self.place,) if self.are_several else ()


def _convolve(site: Site) -> Typed:
    call, b = _Operands.of(site), site.body.builder
    must_fit(site, call.windows)
    made, inner = call.channels
    place = call.channel(inner if call.groups == ONE else single(inner.size * call.groups))
    groups = _Groups(b, call.groups, place)
    windows = taken(b, groups.opened(call.x.value, place, inner.size), call.windows, 0.0, groups.shifted)
    weight = groups.opened(call.weight.value, 0, call.share())
    count, channel = len(call.windows), groups.shifted(place)
    rank = result_type(windows).rank - count
    numbers = {groups.shifted(window.place): rank + at for at, window in enumerate(in_order(call.windows))}
    new = rank + count
    value = b.op(
        "contraction",
        windows,
        weight,
        left=tuple(range(rank + count)),
        right=(*groups.letter(), new, channel, *(groups.shifted(window.place) for window in call.windows)),
        out=tuple(new if axis == channel else numbers.get(axis, axis) for axis in range(rank)),
    )
    axes = {place: made, **{window.place: window.numbers for window in call.windows}}
    return _with_axes(call.kind, axes, groups.closed(value, made.size))


def _convolve_transposed(site: Site) -> Typed:
    """The adjoint of a convolution by its x: what that takes together is spread out again."""
    call, b = _Operands.of(site, "output_padding"), site.body.builder
    inner, share = call.channels
    place = call.channel(inner)
    groups = _Groups(b, call.groups, place)
    x, weight = groups.opened(call.x.value, place, call.share()), groups.opened(call.weight.value, 0, call.share())
    made = share if call.groups == ONE else single(share.size * call.groups)
    rank, channel, ordered = result_type(x).rank, groups.shifted(place), in_order(call.windows)
    lengths = {groups.shifted(window.place): rank + at for at, window in enumerate(ordered)}
    new = rank + len(ordered)
    within = tuple(new if axis == channel else lengths.get(axis, axis) for axis in range(rank))
    value = b.op(
        "contraction",
        x,
        weight,
        left=tuple(range(rank)),
        right=(*groups.letter(), channel, new, *(lengths[groups.shifted(window.place)] for window in call.windows)),
        out=(*within, *(groups.shifted(window.place) for window in ordered)),
    )
    axes = {place: made, **{window.place: window.spread(more) for window, more in zip(call.windows, _output_padding(call), strict=True)}}
    value = b.op(
        "fold",
        groups.closed(value, made.size),
        sizes=tuple(axes[window.place].size for window in ordered),
        room=tuple(window.stride - ONE for window in ordered),
        **steps(ordered),
    )
    return _with_axes(call.kind, axes, value)


def _output_padding(call: _Operands) -> Sequence[Size]:
    found = sizes_given(call.site, call.found, "output_padding", len(call.windows), [ZERO] * len(call.windows))
    for more, window in zip(found, call.windows, strict=True):
        known = [size.constant() for size in (more, window.stride, window.dilation)]
        if None not in known and known[0] and known[0] >= max(known[1:]):  # type: ignore[type-var, operator]
            text = f"an output padding of {more} is more than a stride of {window.stride} or a dilation of {window.dilation} leaves open"
            call.site.fail("E0503", text, call.found["output_padding"].value.span)
    return found


def _with_axes(kind: Tensor, changed: Mapping[int, Axis], value: Value) -> Typed:
    """A value whose axes are the operand's but for some, by their places."""
    return Typed(Tensor(kind.element, tuple(changed.get(place, axis) for place, axis in enumerate(kind.axes))), (value,))


# ---- pooling


def _pool(pooled: Callable[[Builder, Value, Sequence[Window]], Value], fill: float) -> Handler:
    def handler(site: Site) -> Typed:
        found = site.arguments(("x",), ("over", "size", "stride", "padding", "dilation"))
        x, kind = site.tensor(found["x"])
        windows = _sized(site, found, kind)
        for window in windows:
            _check_padding(site, found, window)
        value = pooled(site.body.builder, taken(site.body.builder, x.value, windows, fill), windows)
        return _with_axes(kind, {window.place: window.numbers for window in windows}, _numbers_in_place(site, value, kind, windows))

    return handler


def _sized(site: Site, found: Found, kind: Tensor) -> list[Window]:
    if "size" not in found:
        site.fail("E0302", f"`{site.name}` needs the size of its windows: `size=2`, or `size=(2, 3)` for those of two axes")
    windows = windows_over(site, found, kind)
    must_fit(site, windows)
    return windows


def _check_padding(site: Site, found: Found, window: Window) -> None:
    padding, length = window.padding.constant(), window.length.constant()
    if padding and length is not None and 2 * padding > length:
        text = f"a padding of {window.padding} is more than half of a window of {window.length}: there would be windows of nothing else"
        site.fail("E0503", text, found["padding"].value.span)


def _largest(b: Builder, value: Value, windows: Sequence[Window]) -> Value:
    """Over the places of a window as one axis, so that the gradient goes to one of them."""
    places = [window.place for window in in_order(windows)]
    axes = result_type(value).axes
    rest = [place for place in range(len(axes)) if place not in places]
    first = next((at for at, place in enumerate(rest) if place > places[0]), len(rest))
    order = (*rest[:first], *places, *rest[first:])
    if order != tuple(range(len(axes))):
        value = b.op("transpose", value, permutation=order)
    if len(places) > 1:
        merged = product(axes[place] for place in places)
        value = b.op("reshape", value, axes=(*(axes[place] for place in rest[:first]), merged, *(axes[place] for place in rest[first:])))
    return b.op("max", value, positions=(first,))


def _average(b: Builder, value: Value, windows: Sequence[Window]) -> Value:
    return b.op("mean", value, positions=tuple(window.place for window in in_order(windows)))


def _numbers_in_place(site: Site, value: Value, kind: Tensor, windows: Sequence[Window]) -> Value:
    """The windows' numbers, which stand last, where their axes stood."""
    places = [window.place for window in in_order(windows)]
    rest = [place for place in range(len(kind.axes)) if place not in places]
    order = tuple((*rest, *places).index(place) for place in range(len(kind.axes)))
    return value if order == tuple(range(len(order))) else site.body.builder.op("transpose", value, permutation=order)


# ---- windows


def _windows(site: Site) -> Typed:
    """The windows' numbers in the place of the axes, the places in a window behind all, in the order of `over=`."""
    found = site.arguments(("x",), ("over", "size", "stride", "padding", "dilation"))
    x = site.evaluate(found["x"])
    if not isinstance(x.type, Tensor):
        site.fail("E0301", f"`windows` takes a tensor, found {x.type}", found["x"].value.span)
    windows, kind = _sized(site, found, x.type), x.type
    ordered, rank = in_order(windows), len(x.type.axes)
    fill = False if kind.element is Element.BOOL else 0 if kind.element is Element.I64 else 0.0
    value = taken(site.body.builder, x.value, windows, fill)
    numbers = {window.place: rank + at for at, window in enumerate(ordered)}
    order = (*(numbers.get(place, place) for place in range(rank)), *(window.place for window in windows))
    within = _with_axes(kind, {window.place: window.numbers for window in windows}, x.value).type
    assert isinstance(within, Tensor)
    axes = (*within.axes, *(single(window.length) for window in windows))
    return Typed(Tensor(kind.element, axes), (site.body.builder.op("transpose", value, permutation=order),))


HANDLERS: dict[str, Handler] = {
    "convolve": _convolve,
    "convolve_transposed": _convolve_transposed,
    "max_pool": _pool(_largest, -math.inf),
    "average_pool": _pool(_average, 0.0),
    "windows": _windows,
}
