"""Random numbers by a mode's stream: an index by its probability, tensors of random numbers."""

from __future__ import annotations

from shapescript.compiler.check import types
from shapescript.compiler.check.site import Handler, Site
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.check.types import Tensor
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.types import Element
from shapescript.compiler.syntax import tree


def _drawn(site: Site, argument: tree.Argument) -> tuple[Value, Value]:
    """The seed and the number of the mode's next draw."""
    mode = site.value(argument, types.MODE)
    seed, draw = site.body.builder.emit("mode_draw", mode.value, hints=("seed", "draw"))
    return seed, draw


def _categorical(site: Site) -> Typed:
    found = site.arguments(("logits", "mode"), ("over",))
    logits, kind = site.tensor(found["logits"])
    places = site.axes_over(found.get("over"), kind)
    if len(places) != 1:
        site.fail("E0407", "`categorical` is over one axis")
    kept = tuple(place for place in range(len(kind.axes)) if place not in places)
    value = logits.value
    if (*kept, *places) != tuple(range(len(kind.axes))):
        value = site.body.builder.op("transpose", value, permutation=(*kept, *places))
    drawn = site.body.builder.op("categorical", value, *_drawn(site, found["mode"]))
    return Typed(Tensor(Element.I64, tuple(kind.axes[place] for place in kept)), (drawn,))


def _random(site: Site) -> Typed:
    """`random_normal[b n](mode)`."""
    match site.items:
        case (tree.AxisList(_, nodes),):
            axes = site.body.context.axes(nodes)
        case ():
            axes = ()
        case None:
            site.fail("E0301", f"`{site.name}` is told its axes: `{site.name}[b n](mode)`")
        case _:
            site.fail("E0301", "axes are separated by spaces")
    found = site.without_brackets().arguments(("mode",))
    kind = Tensor(Element.F32, axes)
    sizes = tuple(axis.size for axis in axes)
    return Typed(kind, (site.body.builder.op(site.name, *_drawn(site, found["mode"]), axes=sizes),))


HANDLERS: dict[str, Handler] = {"categorical": _categorical, "random_uniform": _random, "random_normal": _random}
