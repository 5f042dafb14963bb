"""Elements by their numbers along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from shapescript.compiler.check.axes import agree, shown
from shapescript.compiler.check.site import Handler, Site
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.check.types import Axis, Tensor
from shapescript.compiler.ir.types import Element
from shapescript.compiler.syntax import tree


def _gather(site: Site) -> Typed:
    """The index's axes, then those of x but the one gathered over, which the operation has first."""
    found = site.arguments(("x", "index"), ("over",))
    x, index = (site.evaluate(found[name]) for name in ("x", "index"))
    if not isinstance(x.type, Tensor):
        site.fail("E0301", f"`gather` takes a tensor, found {x.type}", found["x"].value.span)
    if not isinstance(index.type, Tensor) or index.type.element is not Element.I64:
        site.fail("E0301", f"`gather` takes an index of type int[...], found {index.type}", found["index"].value.span)
    places = site.axes_over(found.get("over"), x.type)
    if len(places) != 1:
        site.fail("E0407", "`gather` is over one axis")
    kept = [place for place in range(len(x.type.axes)) if place not in places]
    rest = tuple(x.type.axes[place] for place in kept)
    for place, axis in enumerate(index.type.axes):
        if any(agree(axis, other) for other in rest):
            site.fail(
                "E0403",
                f"axis {axis} of the index {index.type} would stand twice in the result: of {x.type}, {shown(rest)} stays",
                found["index"].value.span,
                f"give it another name: `{_renamed(found['index'].value, index.type.axes, place, x.type.axes)}`",
            )
    value = x.value
    if places != (0,):
        value = site.body.builder.op("transpose", value, permutation=(*places, *kept))
    return Typed(Tensor(x.type.element, (*index.type.axes, *rest)), (site.body.builder.op("gather", value, index.value),))


def _renamed(node: tree.Expression, axes: Sequence[Axis], place: int, others: Sequence[Axis]) -> str:
    """A pattern that gives the axis at the place a name that none of the axes has."""
    taken = {axis.name for axis in (*axes, *others)}
    new = next(name for number in count() if (name := f"i{number or ''}") not in taken)
    names = " ".join(new if at == place else axis.name for at, axis in enumerate(axes))
    return f"rearrange({node.name if isinstance(node, tree.Name) else 'index'}: {names} -> {names})"


HANDLERS: dict[str, Handler] = {"gather": _gather}
