"""What works along axes: reductions, softmax, sums so far, order."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from random_source.expression import FLOATS, Axis, Expression

if TYPE_CHECKING:
    from random_source.writer import Writer

NUMBERS = (*FLOATS, "int")


def over(axes: tuple[Axis, ...]) -> str:
    return axes[0].text if len(axes) == 1 else f"({', '.join(axis.text for axis in axes)})"


def places(x: Expression, axes: tuple[Axis, ...]) -> str:
    own = [axis.text for axis in x.axes]
    return f"({', '.join(str(own.index(axis.text)) for axis in axes)},)"


def without(x: Expression, axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    gone = {axis.text for axis in axes}
    return tuple(axis for axis in x.axes if axis.text not in gone)


def reduction(w: Writer) -> Expression | None:
    name = w.rng.choice(("sum", "sum", "sum", "mean", "max", "min", "variance", "logsumexp", "any", "all", "argmax", "argmin"))
    of_floats = name in ("mean", "variance", "logsumexp")
    elements = ("bool",) if name in ("any", "all") else FLOATS if of_floats else NUMBERS
    x = w.with_axes(w.value(elements))
    axes = w.some_axes(x, least=0 if name in ("sum", "any", "all") else 1)
    if not axes or (name.startswith("arg") and not w.steps and x.is_float):
        return None
    return reduced(w, x, axes[:1] if name.startswith("arg") else axes, name)


def reduced(w: Writer, x: Expression, axes: tuple[Axis, ...], name: str) -> Expression | None:
    if name in ("max", "min", "argmax", "argmin") and w.smooth:
        axes = axes[:1]
        if (apart := w.apart(x, axes[0])) is None:
            return None
        x = apart
    count = math.prod(axis.most for axis in axes)
    theirs = f"{name}_({x.theirs}, {places(x, axes)})"
    found = replace(x, ours=f"{name}({x.ours}, over={over(axes)})", theirs=theirs, axes=without(x, axes))
    match name:
        case "sum":
            found = replace(found, bound=x.bound * count)
            return w.small(replace(found, error=found.rounded(x.error * count, count + 1)), 1e12)
        case "mean":
            return replace(found, error=found.rounded(x.error, count + 2))
        case "variance":
            found = replace(found, bound=4 * x.bound**2)
            return replace(found, error=found.rounded(8 * x.bound * x.error + x.error**2, count + 8))
        case "logsumexp":
            found = replace(found, bound=x.bound + math.log(max(count, 1)) + 1)
            return replace(found, error=found.rounded(x.error, count + 8 + x.bound))
        case "argmax" | "argmin":
            return replace(found, element="int", bound=float(axes[0].most), error=0.0)
    return found


def normalised(w: Writer) -> Expression | None:
    x = w.with_axes(w.value(FLOATS))
    axes = w.some_axes(x, least=1)
    if not axes:
        return None
    name, x = w.rng.choice(("softmax", "log_softmax")), w.small(x, 100)
    count, place = axes[0].most, places(x, axes[:1])[1:-2]
    bound = 1.0 if name == "softmax" else 2 * x.bound + math.log(count) + 1
    found = replace(x, ours=f"{name}({x.ours}, over={axes[0].text})", theirs=f"torch.{name}({x.theirs}, {place})", bound=bound)
    return replace(found, error=found.rounded(2 * x.error, count + 8 + 4 * x.bound))


def sums_so_far(w: Writer) -> Expression | None:
    x = w.with_axes(w.value(NUMBERS))
    axes = w.some_axes(x, least=0)
    if not axes:
        return None
    count = axes[0].most
    found = replace(
        x,
        bound=max(x.bound * count, x.bound),
        ours=f"cumsum({x.ours}, over={axes[0].text})",
        theirs=f"torch.cumsum({x.theirs}, {places(x, axes[:1])[1:-2]})",
    )
    return w.small(replace(found, error=found.rounded(x.error * count, count + 1)), 1e12)


def ordered(w: Writer) -> Expression | None:
    """sort and argsort keep the order of equals in both; topk's places only where no equals are."""
    x = w.with_axes(w.value(NUMBERS))
    axes = w.some_axes(x, least=0)
    if not axes:
        return None
    if w.smooth:
        if (apart := w.apart(x, axes[0])) is None:
            return None
        x = apart
    axis, place, down = axes[0], places(x, axes[:1])[1:-2], w.chance(0.5)
    name = w.rng.choice(("sort", "argsort", "topk")) if w.steps or x.element == "int" else w.rng.choice(("sort", "topk"))
    if name == "topk":
        count = min(axis.least, 2)
        if not count:
            return None
        small = tuple(Axis(str(count), (count,) * len(axis.sizes)) if own == axis else own for own in x.axes)
        if w.has_twice(small):
            return None
        values = w.fresh()
        w.line(
            f"{values}, {values}_places = topk({x.ours}, over={axis.text}, count={count})",
            f"{values} = topk_({x.theirs}, {place}, {count})",
        )
        return replace(x.named(values), axes=small)
    ours = f"{name}({x.ours}, over={axis.text}{', descending=true' if down else ''})"
    theirs = f"torch.{name}({x.theirs}, dim={place}, descending={down}, stable=True)"
    if name == "sort":
        return replace(x, ours=ours, theirs=f"{theirs}[0]")
    return replace(x, ours=ours, theirs=theirs, element="int", bound=float(axis.most), error=0.0)


TABLE = ((reduction, 6), (normalised, 2), (sums_so_far, 1), (ordered, 2))
