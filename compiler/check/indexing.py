"""Places of a tensor by its axes' names: `x[n=i]`, `x[n=a..b]`, taken and, before `=`, put."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shapescript.compiler.check import types
from shapescript.compiler.check.axes import places_called
from shapescript.compiler.check.body import Body
from shapescript.compiler.check.operators import lie_along
from shapescript.compiler.check.parts import assign_part
from shapescript.compiler.check.places import changed_variable
from shapescript.compiler.check.positions import Position, PositionReader, is_decided_by_run, is_never_negative
from shapescript.compiler.check.report import did_you_mean
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.check.types import Axis, Tensor, single
from shapescript.compiler.check.wording import ELEMENT_NAMES, order_hint
from shapescript.compiler.diagnostics.model import Span
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.sizes import ONE, ZERO, Size, fresh, of
from shapescript.compiler.ir.types import Element, TensorType
from shapescript.compiler.records.dataclass import dataclass
from shapescript.compiler.syntax import tree

LONGEST_NAME = 40


@dataclass(frozen=True)
class Interval:
    """Places of one axis of a tensor: `length` of them from `start` on. `axis` is the axis that they are, None for one place, whose axis is
    dropped."""

    position: int
    start: Value
    length: Size
    axis: Axis | None


def taken(body: Body, base: Typed, kind: Tensor, node: tree.Bracket) -> Typed:
    """`x[n=i, m=a..b]`."""
    with body.builder.at(node.span):
        intervals = _intervals(body, kind, node)
        value = base.value
        for interval in intervals:
            if interval.length != kind.axes[interval.position].size:
                value = body.builder.op("slice", value, interval.start, position=interval.position, length=interval.length)
        axes = _axes(kind, intervals)
        if len(axes) != len(kind.axes):
            value = body.builder.op("reshape", value, axes=tuple(axis.size for axis in axes))
        return Typed(Tensor(kind.element, axes), (value,))


def _axes(kind: Tensor, intervals: Sequence[Interval]) -> tuple[Axis, ...]:
    """The tensor's axes, with those of the intervals in their stead."""
    changed = {interval.position: interval.axis for interval in intervals}
    found = (changed.get(place, axis) for place, axis in enumerate(kind.axes))
    return tuple(axis for axis in found if axis is not None)


# ---- what stands in the brackets --------------------------------------------------------------------------------------------------------


def _intervals(body: Body, kind: Tensor, node: tree.Bracket) -> list[Interval]:
    found: list[Interval] = []
    for item in node.items:
        if not isinstance(item, tree.At):
            axis = kind.axes[0].name if kind.axes else "n"
            body.report.fail("E0406", f"an index names its axis, and {kind} is indexed without", node.span, help=f"`[{axis}=...]`")
        interval = _interval(body, kind, item)
        if any(interval.position == other.position for other in found):
            body.report.fail("E0407", f"{item.axis.span.text} is indexed twice", item.span)
        found.append(interval)
    return found


def _interval(body: Body, kind: Tensor, item: tree.At) -> Interval:
    place = _place(body, kind, item)
    axis, builder = kind.axes[place], body.builder
    reader = PositionReader(body, f"a place on the axis {axis}")
    if isinstance(item.position, tree.Range):
        first, last = item.position.start, item.position.stop
        start = reader.read(first) if first else Position(ZERO, builder.constant(0, Element.I64))
        stop = reader.read(last) if last else Position(axis.size, builder.size(axis.size))
        _check_inside(body, axis, item, start, stop)
        return Interval(place, start.value, *_length(body, axis, item, start, stop))
    start = reader.read(item.position)
    _check_inside(body, axis, item, start, Position(start.size + ONE, builder.op("add", start.value, builder.constant(1, Element.I64))))
    return Interval(place, start.value, ONE, None)


def _place(body: Body, kind: Tensor, item: tree.At) -> int:
    name = item.axis.name if isinstance(item.axis, tree.AxisName) else body.context.axis(item.axis).name
    places = places_called(kind.axes, name)
    if len(places) > 1:
        text = f"axis {name} stands {len(places)} times in {kind}: which one is open"
        body.report.fail("E0403", text, item.axis.span, help="give one of the two another name with a pattern")
    if not places:
        names = [axis.name for axis in kind.axes]
        listed = f"its axes are {', '.join(names) or 'none'}"
        body.report.fail("E0402", f"axis {name} is not in {kind}", item.axis.span, help=did_you_mean(name, names) or listed)
    if kind.axes[places[0]].leading:
        text = f"{kind.axes[places[0]]} stands for any number of axes, which have no places together"
        body.report.fail("E0402", text, item.axis.span)
    return places[0]


def _check_inside(body: Body, axis: Axis, item: tree.At, start: Position, stop: Position) -> None:
    """E0503 where the places are surely outside of the axis; where they aren't surely inside, a run checks it (R1107)."""
    distances = (start.size, stop.size - start.size, axis.size - stop.size)
    for distance in distances:
        if is_never_negative(body, -distance - ONE):
            count = axis.size.constant()
            has = f"has the places 0 to {axis.size - ONE if count is None else count - 1}" if count != 0 else "has no places"
            text = f"`{item.span.text}` is outside: axis {axis} {has}"
            body.report.fail("E0503", text, item.span, help=_instead(axis, item, distances))
    if not all(is_never_negative(body, distance) for distance in distances):
        body.builder.emit("check_slice", start.value, stop.value, size=axis.size, axis=axis.name)


def _instead(axis: Axis, item: tree.At, distances: Sequence[Size]) -> str | None:
    ends = (item.position.start, item.position.stop) if isinstance(item.position, tree.Range) else (item.position,)
    for end in ends:
        if isinstance(end, tree.Unary) and end.operator == "-":
            return f"nothing is counted from the end: write `{axis.size}-{end.operand.span.text}`"
    if (distances[1].constant() or 0) < 0:
        return "a range ends where it begins or later; it takes the places from its start to its end - 1"
    return None


def _length(body: Body, axis: Axis, item: tree.At, start: Position, stop: Position) -> tuple[Size, Axis]:
    """How many places a range takes, and their axis: a size where the difference of the ends is one, else what a run finds."""
    length = stop.size - start.size
    if length == axis.size:
        return length, axis
    if not is_decided_by_run(body, length):
        return length, single(length)
    key = axis.name, length
    if key not in body.environment.lengths:
        text = item.position.span.text.replace(" ", "")
        symbol = fresh(f"{axis}[{text if len(text) <= LONGEST_NAME else '..'}]")
        body.made.add(symbol)
        body.builder.emit("bind_size", body.builder.op("sub", stop.value, start.value), size=of(symbol))
        body.environment.lengths[key] = single(of(symbol))
    found = body.environment.lengths[key]
    return found.size, found


# ---- before `=` -------------------------------------------------------------------------------------------------------------------------


def assign_places(body: Body, node: tree.Bracket, given: Typed, span: Span) -> None:
    """`x[n=t] = v`: what is assigned holds the tensor with these places new. `span` is that of the value."""
    if isinstance(node.base, tree.Bracket):
        body.report.fail("E0605", "all axes are named in one bracket: `x[b=0, n=1] = ...`", node.span)
    variable = changed_variable(body, _root(node), node.span, "its places can't be assigned")
    base = body.evaluate(node.base)
    if isinstance(base.type, types.ModelList):
        assign_part(body, node, given)
        return
    if not isinstance(base.type, Tensor):
        body.report.fail("E0301", f"places are assigned of a tensor, and `{node.base.span.text}` is {base.type}", node.base.span)
    kind = base.type
    with body.builder.at(node.span):
        intervals = _intervals(body, kind, node)
        base = body.evaluate(node.base)  # what a place says may have changed it
        part = _fitted(body, Tensor(kind.element, _axes(kind, intervals)), given, node, span)
        lengths = {interval.position: interval.length for interval in intervals}
        if any(interval.axis is None for interval in intervals):
            part = body.builder.op("reshape", part, axes=tuple(lengths.get(place, axis.size) for place, axis in enumerate(kind.axes)))
        whole = Typed(kind, (_put(body, base.value, part, intervals),))
    if isinstance(node.base, tree.Attribute):
        assign_part(body, node.base, whole)
    else:
        body.environment[variable.name] = replace(variable, typed=whole)


def _root(node: tree.Expression) -> tree.Expression:
    while isinstance(node, tree.Attribute | tree.Bracket):
        node = node.base
    return node


def _fitted(body: Body, wanted: Tensor, given: Typed, node: tree.Bracket, span: Span) -> Value:
    """The value at every one of the places: a number, or a tensor whose axes are among theirs, in their order."""
    target = node.span.text
    match given.type:
        case Tensor(element, axes) if element is wanted.element:
            along, positions = lie_along(body, axes, wanted.axes, node.span, (node.span, span))
            if any(wanted.axes[place].parts and not axis.parts for axis, place in zip(axes, positions, strict=True)):
                text = f"{wanted} is wanted for `{target}`, found {given.type}"
                body.report.fail("E0401", text, span, help=order_hint([wanted.axes[place] for place in positions], axes))
            return body.builder.broadcast(given.value, tuple(axis.size for axis in along), positions)
        case types.Scalar("int" | "float" as host) if wanted.element.is_float or (host == "int" and wanted.element is Element.I64):
            number = body.host_number(given, wanted.element)
        case types.Scalar("bool") if wanted.element is Element.BOOL:
            number = given.value
        case Tensor() | types.Scalar("int" | "float" | "bool"):
            name = ELEMENT_NAMES[wanted.element]
            text = f"`{target}` has elements of type {name}, found {given.type}"
            body.report.fail("E0310", text, span, help=None if wanted.element is Element.BOOL else f"convert it: {name}(...)")
        case _:
            body.report.fail("E0301", f"a number or a tensor stands for `{target}`, found {given.type}", span)
    (kind,) = types.lower(wanted)
    assert isinstance(kind, TensorType)
    return body.builder.spread(number, kind)


def _put(body: Body, whole: Value, part: Value, intervals: Sequence[Interval]) -> Value:
    """The whole with the part at the intervals; of several axes, into what the first interval takes."""
    first, *more = intervals
    if more:
        inside = body.builder.op("slice", whole, first.start, position=first.position, length=first.length)
        part = _put(body, inside, part, more)
    return body.builder.op("put", whole, part, first.start, position=first.position, hint=whole.hint)
