"""From the grammar's rules of axes, types and patterns to the tree's nodes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from shapescript.compiler.diagnostics.model import Span
from shapescript.compiler.syntax.rules import Parts, Rule, int_value
from shapescript.compiler.syntax.tree import (
    Applied,
    At,
    Axis,
    AxisArithmetic,
    AxisGroup,
    AxisInt,
    AxisList,
    AxisName,
    LeadingAxes,
    Pattern,
    QualifiedName,
    Range,
    TensorType,
    TupleType,
)


def qualified(parts: Parts) -> QualifiedName:
    return QualifiedName(parts.span, tuple(parts.identifier(token) for token in parts.children))


def applied(parts: Parts) -> Applied:
    name, items = parts.children
    return Applied(parts.span, name, items)


def bracket_items(parts: Parts) -> tuple[Any, ...]:
    return tuple(parts.present)


def at(parts: Parts) -> At:
    axis, position = parts.children
    return At(parts.span, axis, position)


def range_from(parts: Parts) -> Range:
    return Range(parts.span, parts.children[0], None)


def range_to(parts: Parts) -> Range:
    return Range(parts.span, None, parts.children[0])


def range_between(parts: Parts) -> Range:
    return Range(parts.span, *parts.children)


def tensor_type(parts: Parts) -> TensorType:
    return TensorType(parts.span, parts.children[0].axes if parts.children else ())


def tuple_type(parts: Parts) -> TupleType:
    return TupleType(parts.span, tuple(parts.children))


def axis_applied(parts: Parts) -> Axis:
    name: Applied = parts.children[0]
    if name.items is None and len(name.name.parts) == 1:
        return AxisName(parts.span, str(name.name))
    return name


def axis_int(parts: Parts) -> AxisInt:
    return AxisInt(parts.span, int_value(parts, parts.children[0]))


def axis_bracketed(parts: Parts) -> Any:
    return parts.children[0]


def axis_arithmetic(parts: Parts) -> AxisArithmetic:
    """Spaces separate axes, so none stands inside one. The grammar ignores spaces: `[n -1]` arrives here as n-1."""
    left, operator, right = parts.children
    if any(gaps(parts)):
        text = parts.span.text
        help = f"write `{''.join(text.split())}`" if "#" not in text else None
        parts.report("E0119", "spaces separate axes: inside one there are none", parts.span, help)
    return AxisArithmetic(parts.span, str(operator), left, right)  # type: ignore[arg-type]


def group(parts: Parts) -> AxisGroup:
    refuse_touching_axes(parts)
    return AxisGroup(parts.span, tuple(parts.children))


def axes(parts: Parts) -> AxisList:
    refuse_touching_axes(parts)
    return AxisList(parts.span, tuple(parts.children))


def leading_axes(parts: Parts) -> LeadingAxes:
    name = parts.identifier(parts.children[0])
    if name.span.start != parts.start + 2:
        parts.report("E0119", "`..` and the name of the leading axes stand together", parts.span, f"write `..{name}`")
    return LeadingAxes(parts.span, name)


def gaps(parts: Parts) -> list[int]:
    """How many characters stand between each child and the next."""
    places = [place for place in parts.places if place is not None]
    return [right[0] - left[1] for left, right in pairwise(places)]


def refuse_touching_axes(parts: Parts) -> None:
    """`[g(i)]` arrives as two axes, g and (i), and `[2n]` as 2 and n."""
    for index, gap in enumerate(gaps(parts)):
        if gap:
            continue
        left, right = parts.children[index : index + 2]
        first, second = parts.places[index], parts.places[index + 1]
        assert first is not None and second is not None
        span = Span(parts.source, first[0], second[1])
        if isinstance(right, LeadingAxes):
            help = "an index names its axis: `x[n=0]`, `x[n=1..3]`, `x[n=1..]`"
            parts.report("E0120", "a range in an index stands after its axis and `=`", span, help)
        elif isinstance(left, AxisInt):
            text = span.text
            help = f"a product is written `{text[: first[1] - first[0]]}*{text[first[1] - first[0] :]}`"
            parts.report("E0119", "two axes need a space between them", span, help)
        elif isinstance(left, (AxisName, Applied)):
            help = "bind what it gives to a name first; two axes need a space between them"
            parts.report("E0120", "a call can't stand among axes", span, help)
        else:
            parts.report("E0119", "two axes need a space between them", span)
        return


def pattern(parts: Parts) -> Pattern:
    *inputs, output = parts.children
    if output is None:
        output = AxisList(Span(parts.source, parts.end, parts.end), ())
    return Pattern(parts.span, tuple(inputs), output)


AXIS_RULES: dict[str, Rule] = {
    "qualified": qualified,
    "applied": applied,
    "items": bracket_items,
    "at": at,
    "range_from": range_from,
    "range_to": range_to,
    "range": range_between,
    "tensor_type": tensor_type,
    "tuple_type": tuple_type,
    "axis_applied": axis_applied,
    "axis_int": axis_int,
    "axis_bracketed": axis_bracketed,
    "axis_arithmetic": axis_arithmetic,
    "group": group,
    "axes": axes,
    "leading_axes": leading_axes,
    "pattern": pattern,
}
