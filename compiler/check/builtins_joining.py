"""Tensors put together along an axis: `concat`, `stack`, `pad`."""

from __future__ import annotations

from collections.abc import Sequence

from shapescript.compiler.check import patterns, types
from shapescript.compiler.check.axes import agree, places_called
from shapescript.compiler.check.builtins_data import concat_datasets
from shapescript.compiler.check.positions import PositionReader, is_decided_by_run, is_never_negative
from shapescript.compiler.check.report import did_you_mean
from shapescript.compiler.check.site import Handler, Site, name_of_axis
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.check.types import Axis, Tensor, single
from shapescript.compiler.check.wording import size_note
from shapescript.compiler.check.written_sizes import as_axis
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.sizes import ONE, Size
from shapescript.compiler.ir.types import Element, TensorType
from shapescript.compiler.syntax import tree


def _parts(site: Site, example: str) -> tuple[list[tree.Argument], list[tuple[Value, Tensor]], tree.Argument | None]:
    """The operands, all tensors of one element type, and `over=`."""
    if site.items is not None:
        site.fail("E0306", f"`{site.name}` takes no brackets")
    over = next((argument for argument in site.node.arguments if argument.name is not None), None)
    operands = [argument for argument in site.node.arguments if argument.name is None]
    for argument in site.node.arguments:
        if argument.name is not None and (argument.name.text != "over" or argument is not over):
            site.fail("E0311", f"`{site.name}` has no parameter `{argument.name}`", argument.name.span, f"it is called as `{example}`")
        if argument.is_mut:
            site.fail("E0604", f"`{site.name}` changes nothing: `mut` doesn't stand here", argument.span)
    if not operands:
        site.fail("E0302", f"`{site.name}` takes a tensor or more: `{example}`")
    found: list[tuple[Value, Tensor]] = []
    for argument in operands:
        typed = site.evaluate(argument)
        if not isinstance(typed.type, Tensor):
            if site.name == "concat" and isinstance(typed.type, types.Dataset):
                text = f"`concat` is of tensors or of datasets, not of both: found {found[0][1]} and {typed.type}"
                site.fail("E0301", text, argument.value.span)
            hint = "numbers are put together as `[a, b]`" if isinstance(typed.type, types.Scalar) else None
            site.fail("E0301", f"`{site.name}` takes tensors, found {typed.type}", argument.value.span, hint)
        if found and typed.type.element is not found[0][1].element:
            text = f"`{site.name}` is of elements of one type, found {found[0][1]} and {typed.type}"
            site.fail("E0310", text, argument.value.span, "convert one, for instance with f32(...)")
        found.append((typed.value, typed.type))
    return operands, found, over


def _common(site: Site, operands: Sequence[tree.Argument], kinds: Sequence[Tensor], joined: int | None = None) -> list[Axis]:
    """The axes that all operands have, which agree but for the joined one; a group and its plain product meet as the group."""
    axes = list(kinds[0].axes)
    for argument, kind in zip(operands, kinds, strict=True):
        if len(kind.axes) != len(axes):
            text = f"the parts have the same axes, found {kinds[0]} and {kind}"
            site.fail("E0405", text, argument.value.span)
        for place, axis in enumerate(kind.axes):
            if place == joined:
                continue
            if not agree(axis, axes[place]):
                but = "" if joined is None else " but for the joined one"
                text = f"the parts have the same axes{but}, found {kinds[0]} and {kind}: {axes[place]} is not {axis}"
                site.fail("E0401", text + size_note(axes[place], axis), argument.value.span)
            axes[place] = axis if axis.parts else axes[place]
    return axes


# ---- concat -----------------------------------------------------------------------------------------------------------------------------


def _concat(site: Site) -> Typed:
    """The joined axis is the one that `over` names in any of the parts; it has the same place in all, and any name and size."""
    if site.node.pattern is not None:
        site.fail("E0407", "`concat` takes no pattern: `concat(x, y, over=n)`")
    if site.items is None and _begins_with_dataset(site):
        return concat_datasets(site)
    operands, found, over = _parts(site, "concat(x, y, over=n)")
    kinds = [kind for _, kind in found]
    place = _joined(site, kinds, over)
    axes = _common(site, operands, kinds, place)
    if any(kind.axes[place].leading for kind in kinds):
        site.fail("E0402", f"{axes[place]} stands for any number of axes, and parts are joined along one")
    if len(kinds) > 1:
        axes[place] = single(sum((kind.axes[place].size for kind in kinds), Size()))
    return Typed(Tensor(kinds[0].element, tuple(axes)), (site.body.builder.op("concat", *(value for value, _ in found), position=place),))


def _begins_with_dataset(site: Site) -> bool:
    first = next(iter(site.node.arguments), None)
    return first is not None and first.name is None and isinstance(site.evaluate(first).type, types.Dataset)


def _joined(site: Site, kinds: Sequence[Tensor], over: tree.Argument | None) -> int:
    listed = ", ".join(dict.fromkeys(axis.name for kind in kinds for axis in kind.axes))
    if over is None:
        hint = f"over={kinds[0].axes[-1].name}" if kinds[0].axes else None
        site.fail("E0406", f"`concat` needs to know along which axis the parts are joined: they have {listed or 'none'}", help=hint)
    if isinstance(over.value, tree.Tuple):
        if len(over.value.elements) != len(kinds):
            text = f"one axis for all parts, or one for each: {len(over.value.elements)} for {len(kinds)} parts"
            site.fail("E0302", text, over.value.span)
        places = [_place(site, node, [kind]) for node, kind in zip(over.value.elements, kinds, strict=True)]
        if any(place != places[0] for place in places):
            hint = "bring the axes into one order by a pattern"
            site.fail("E0401", "the joined axis has the same place in all parts", over.value.span, hint)
        return places[0]
    return _place(site, over.value, kinds)


def _place(site: Site, node: tree.Expression, kinds: Sequence[Tensor]) -> int:
    """Of the first that has it."""
    text = name_of_axis(site.body, node)
    for kind in kinds:
        places = places_called(kind.axes, text)
        if len(places) > 1:
            site.fail("E0403", f"axis {text} stands {len(places)} times in {kind}: which one is open", node.span)
        if places:
            return places[0]
    names = list(dict.fromkeys(axis.name for kind in kinds for axis in kind.axes))
    where = kinds[0] if len(kinds) == 1 else "any of the parts"
    site.fail("E0402", f"axis {text} is not in {where}", node.span, did_you_mean(text, names) or f"there is {', '.join(names) or 'none'}")


# ---- stack ------------------------------------------------------------------------------------------------------------------------------


def _stack(site: Site) -> Typed:
    """Along a new axis: the first, or by a pattern where it says."""
    operands, found, over = _parts(site, "stack(x, y, over=2)")
    if site.node.pattern is not None:
        if over is not None:
            site.fail("E0302", "the pattern says where the new axis is: `over` doesn't stand beside it", over.span)
        parts = [Typed(kind, (value,)) for value, kind in found]
        return patterns.stack(site.body, parts, site.node.pattern, [argument.value.span for argument in operands])
    axes = _common(site, operands, [kind for _, kind in found])
    if over is None:
        site.fail("E0406", "`stack` needs a name for the new axis", help=f"over={len(found)}")
    new = patterns.counted_axis(site.body, axis_node(site, over.value), len(found))
    _refuse_twice(site, new, axes, over.value)
    value = patterns.side_by_side(site.body, [value for value, _ in found], 0, new)
    return Typed(Tensor(found[0][1].element, (new, *axes)), (value,))


def _refuse_twice(site: Site, new: Axis, axes: Sequence[Axis], node: tree.Expression) -> None:
    if any(agree(new, axis) for axis in axes):
        shown = " ".join(axis.name for axis in axes)
        site.fail("E0403", f"axis {new} would stand twice in the result: [{shown}] has it", node.span, "give one of the two another name")


def axis_node(site: Site, node: tree.Expression) -> tree.Axis:
    """An axis that stands where an expression does."""
    return as_axis(node) or site.fail("E0203", "an axis is a name, a number, or arithmetic of these", node.span)


# ---- pad --------------------------------------------------------------------------------------------------------------------------------


def _pad(site: Site) -> Typed:
    """`pad(x, n=(1, 2), value=0.0)`: so many places before and behind, along axes by name."""
    if site.node.pattern is not None or site.items is not None:
        site.fail("E0306", "`pad` takes neither a pattern nor brackets")
    if not site.node.arguments or site.node.arguments[0].name is not None or any(argument.is_mut for argument in site.node.arguments):
        site.fail("E0302", "`pad` takes a tensor, then axes: `pad(x, n=(1, 2), value=0.0)`")
    first, *others = site.node.arguments
    typed = site.evaluate(first)
    if not isinstance(typed.type, Tensor):
        site.fail("E0301", f"`pad` takes a tensor, found {typed.type}", first.value.span)
    value, kind = typed.value, typed.type
    fill = _fill(site, kind, next((argument for argument in others if argument.name and argument.name.text == "value"), None))
    axes, is_padded = list(kind.axes), False
    for argument in others:
        if argument.name is None:
            site.fail("E0302", "`pad` names the axes: `pad(x, n=(1, 2))`", argument.span)
        if argument.name.text == "value":
            continue
        place = _place(site, tree.Name(argument.name.span, argument.name.text), [kind])
        if axes[place].leading:
            site.fail("E0402", f"{axes[place]} stands for any number of axes, and one is padded", argument.name.span)
        is_padded = True
        before, behind = _widths(site, argument)
        value = _padded(site, value, place, before, behind, fill)
        if before + behind != Size():
            axes[place] = single(kind.axes[place].size + before + behind)
    if not is_padded:
        site.fail("E0406", f"`pad` needs an axis of {kind}: `pad(x, n=(1, 2))`")
    return Typed(Tensor(kind.element, tuple(axes)), (value,))


def _fill(site: Site, kind: Tensor, argument: tree.Argument | None) -> Value:
    """What stands in the new places, a number of the tensor's type; 0 or false where nothing is said."""
    builder = site.body.builder
    if argument is None:
        return builder.constant(False if kind.element is Element.BOOL else 0.0 if kind.element.is_float else 0, kind.element)
    wanted = {Element.BOOL: types.BOOL, Element.I64: types.INT}.get(kind.element, types.FLOAT)
    return site.body.host_number(site.value(argument, wanted), kind.element) if wanted != types.BOOL else site.value(argument, wanted).value


def _widths(site: Site, argument: tree.Argument) -> tuple[Size, Size]:
    if not isinstance(argument.value, tree.Tuple) or len(argument.value.elements) != 2:
        site.fail("E0302", "an axis is padded before and behind: two numbers", argument.value.span, f"{argument.name}=(1, 2)")
    found: list[Size] = []
    for node in argument.value.elements:
        size = PositionReader(site.body, "a number of places").read(node).size
        if is_decided_by_run(site.body, size):
            site.fail("E0502", "how many places are added is a size: made of numbers, dims and axes", node.span)
        if is_never_negative(site.body, -size - ONE):
            site.fail("E0503", f"{node.span.text} places can't be added", node.span, "a range takes less: `x[n=1..]`")
        found.append(size)
    return found[0], found[1]


def _padded(site: Site, value: Value, place: int, before: Size, behind: Size, fill: Value) -> Value:
    kind = value.type
    assert isinstance(kind, TensorType)
    parts = [value]
    for number, size in enumerate((before, behind)):
        if size != Size():
            axes = (*kind.axes[:place], size, *kind.axes[place + 1 :])
            parts.insert(len(parts) if number else 0, site.body.builder.spread(fill, TensorType(kind.element, axes)))
    return value if len(parts) == 1 else site.body.builder.op("concat", *parts, position=place)


HANDLERS: dict[str, Handler] = {"concat": _concat, "stack": _stack, "pad": _pad}
