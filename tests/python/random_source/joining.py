"""Tensors side by side, places of axes, windows, convolutions and pooling."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from random_source.expression import FLOATS, Axis, Expression, pattern, same

if TYPE_CHECKING:
    from random_source.writer import Writer


def _resized(x: Expression, at: int, axis: Axis) -> tuple[Axis, ...]:
    return (*x.axes[:at], axis, *x.axes[at + 1 :])


def _longer(axis: Axis, by: int) -> Axis:
    return Axis(f"{axis.text}{by:+d}", tuple(size + by for size in axis.sizes))


def _chosen(w: Writer, x: Expression, least: int = 0) -> int | None:
    """The place of an axis that is a variable."""
    found = [at for at, axis in enumerate(x.axes) if axis.is_variable and axis.least >= least]
    return w.rng.choice(found) if found else None


def concatenated(w: Writer) -> Expression | None:
    x = w.with_axes(w.value())
    at = _chosen(w, x)
    if at is None or x.count > 300:
        return None
    axis = x.axes[at]
    others = [v for v in w.variables if v.element == x.element and same(v.axes, x.axes)]
    y = w.rng.choice(others) if others else x
    axes = _resized(x, at, Axis(f"2*{axis.text}", tuple(2 * size for size in axis.sizes)))
    found = replace(x, ours=f"concat({x.ours}, {y.ours}, over={axis.text})", theirs=f"torch.cat(({x.theirs}, {y.theirs}), {at})", axes=axes)
    return replace(found, bound=max(x.bound, y.bound), error=max(x.error, y.error))


def stacked(w: Writer) -> Expression | None:
    x = w.value()
    others = [v for v in w.variables if v.element == x.element and same(v.axes, x.axes)]
    number = w.number(2)
    if not others or x.count > 300 or w.has_twice((number, *x.axes)) or len(x.axes) > 3:
        return None
    y = w.rng.choice(others)
    base = replace(x, bound=max(x.bound, y.bound), error=max(x.error, y.error))
    if not x.axes or w.chance(0.5):
        return replace(
            base, ours=f"stack({x.ours}, {y.ours}, over=2)", theirs=f"torch.stack(({x.theirs}, {y.theirs}))", axes=(number, *x.axes)
        )
    at = w.rng.randrange(len(x.axes) + 1)
    axes = (*x.axes[:at], number, *x.axes[at:])
    ours = f"stack({x.ours}, {y.ours}: {pattern(x.axes)}, {pattern(x.axes)} -> {pattern(axes)})"
    return replace(base, ours=ours, theirs=f"torch.stack(({x.theirs}, {y.theirs}), {at})", axes=axes)


def padded(w: Writer) -> Expression | None:
    x = w.with_axes(w.value())
    at = _chosen(w, x)
    if at is None:
        return None
    value, theirs = {"bool": ("", "False"), "int": (", value=3", "3")}.get(x.element, (", value=0.5", "0.5"))
    axis = x.axes[at]
    ours = f"pad({x.ours}, {axis.text}=(1, 2){value})"
    return replace(
        x, ours=ours, theirs=f"padded({x.theirs}, {at}, 1, 2, {theirs})", axes=_resized(x, at, _longer(axis, 3)), bound=max(x.bound, 3.0)
    )


def place(w: Writer) -> Expression | None:
    x = w.with_axes(w.value())
    at = _chosen(w, x, 1)
    if at is None:
        return None
    n = x.axes[at].text
    ours = w.rng.choice(("0", f"{n}-1", f"k % {n}", f"{n}//2", *(f"{i} % {n}" for i in w.indices)))
    theirs = f"{x.theirs}.select({at}, {ours})"
    return replace(x, ours=f"{x.ours}[{n}={ours}]", theirs=theirs, axes=(*x.axes[:at], *x.axes[at + 1 :]))


def range_of_places(w: Writer) -> Expression | None:
    x = w.with_axes(w.value())
    at = _chosen(w, x, 2)
    if at is None:
        return None
    n = x.axes[at].text
    match w.rng.randrange(3):
        case 0:
            text, start, stop, axis = "1..", "1", n, _longer(x.axes[at], -1)
        case 1:
            text, start, stop, axis = f"..{n}-1", "0", f"{n}-1", _longer(x.axes[at], -1)
        case _:
            text, start, stop, axis = f"k % ({n}-1)..k % ({n}-1)+2", f"k % ({n}-1)", f"k % ({n}-1)+2", w.number(2)
    axes = _resized(x, at, axis)
    if w.has_twice(axes):
        return None
    return replace(x, ours=f"{x.ours}[{n}={text}]", theirs=f"{x.theirs}.narrow({at}, {start}, ({stop}) - ({start}))", axes=axes)


def windowed(w: Writer) -> Expression | None:
    x = w.with_axes(w.value(FLOATS))
    at = _chosen(w, x, 3)
    if at is None or x.count > 300 or len(x.axes) > 3:
        return None
    axis, name = x.axes[at], w.rng.choice(("windows", "average_pool", "max_pool"))
    stride = w.rng.choice((1, 2))
    count = tuple((size - 2) // stride + 1 for size in axis.sizes)
    text = f"{axis.text}-1" if stride == 1 else f"{axis.text}//2"
    axes = _resized(x, at, Axis(text, count))
    if w.has_twice(axes):
        return None
    ours = f"{name}({x.ours}, over={axis.text}, size=2, stride={stride})"
    if name == "windows":
        axes = (*axes, w.number(2))
        return None if w.has_twice(axes) else replace(x, ours=ours, theirs=f"{x.theirs}.unfold({at}, 2, {stride})", axes=axes)
    if name == "max_pool":
        if w.smooth:
            if (apart := w.apart(x, axis)) is None:
                return None
            x = apart
            ours = f"{name}({x.ours}, over={axis.text}, size=2, stride={stride})"
        return replace(x, ours=ours, theirs=f"{x.theirs}.unfold({at}, 2, {stride}).amax(-1)", axes=axes)
    found = replace(x, ours=ours, theirs=f"{x.theirs}.unfold({at}, 2, {stride}).mean(-1)", axes=axes)
    return replace(found, error=found.rounded(x.error))


TABLE = ((concatenated, 2), (stacked, 2), (padded, 2), (place, 2), (range_of_places, 2), (windowed, 2))
