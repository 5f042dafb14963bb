"""Patterns: `rearrange` and `einsum`, from opened operands to the result that the pattern's right side describes."""

from __future__ import annotations

from collections.abc import Mapping

from shapescript.compiler.check.body import Body
from shapescript.compiler.check.opening import open_operand
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.check.types import Axis, Tensor, group
from shapescript.compiler.diagnostics.model import Span
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.sizes import Size
from shapescript.compiler.syntax import tree


def close(body: Body, opened: Mapping[str, Axis], order: list[str], value: Value, pattern: tree.AxisList, element: Tensor) -> Typed:
    """The result: single axes in `order`, put together into the groups that the pattern's right side has."""
    axes: list[Axis] = []
    for node in pattern.axes:
        if isinstance(node, tree.AxisGroup):
            axes.append(group(tuple(opened[_key(body, part)] for part in node.axes)))
        else:
            axes.append(opened[_key(body, node)])
    if len(axes) != len(order):
        value = body.builder.op("reshape", value, axes=tuple(axis.size for axis in axes))
    return Typed(Tensor(element.element, tuple(axes)), (value,))


def _key(body: Body, node: tree.Axis) -> str:
    match node:
        case tree.AxisName(_, name):
            return name
        case tree.LeadingAxes(_, name):
            return f"..{name}"
    return body.context.axis(node).name


def result_order(body: Body, pattern: tree.AxisList, known: Mapping[str, Axis]) -> list[str]:
    """The single axes of the pattern's right side in order; each must be known, none twice."""
    order: list[str] = []
    for node in pattern.axes:
        for part in node.axes if isinstance(node, tree.AxisGroup) else (node,):
            key = _key(body, part)
            if key not in known:
                body.report.fail("E0402", f"axis {key} of the result is in no operand's pattern, which has {', '.join(known)}", part.span)
            if key in order:
                body.report.fail("E0407", f"axis {key} stands twice in the result", part.span)
            order.append(key)
    return order


def rearrange(body: Body, operand: Typed, pattern: tree.Pattern, given: Mapping[str, Size], span: Span) -> Typed:
    assert isinstance(operand.type, Tensor)
    if len(pattern.inputs) != 1:
        body.report.fail("E0302", f"rearrange takes one operand, the pattern has {len(pattern.inputs)}", pattern.span)
    opened = open_operand(body, operand, pattern.inputs[0], given, span)
    known = dict(zip(opened.names, opened.axes, strict=True))
    order = result_order(body, pattern.output, known)
    dropped = [name for name in opened.names if name not in order]
    missing = [name for name in dropped if known[name].size.constant() != 1]  # an axis of size 1 may be squeezed
    if missing:
        body.report.fail(
            "E0406",
            f"rearrange keeps every axis, and the right side lacks {', '.join(missing)}",
            pattern.output.span,
            help="reduce an axis with sum, mean or max, naming it in over=",
        )
    value, names = opened.value, [name for name in opened.names if name in order]
    if dropped:
        value = body.builder.op("reshape", value, axes=tuple(known[name].size for name in names))
    permutation = tuple(names.index(name) for name in order)
    if permutation != tuple(range(len(order))):
        value = body.builder.op("transpose", value, permutation=permutation)
    return close(body, known, order, value, pattern.output, operand.type)


def einsum(body: Body, operands: list[Typed], pattern: tree.Pattern, given: Mapping[str, Size], spans: list[Span]) -> Typed:
    if len(pattern.inputs) != len(operands):
        body.report.fail("E0302", f"einsum has {len(operands)} operands and {len(pattern.inputs)} patterns", pattern.span)
    if len(operands) != 2:
        body.report.fail("E0902", f"einsum of {len(operands)} operands is not built yet", pattern.span)
    first, second = (operand.type for operand in operands)
    assert isinstance(first, Tensor) and isinstance(second, Tensor)
    if first.element != second.element or not first.element.is_float:
        body.report.fail("E0310", f"einsum is for floats of one type, found {first} and {second}", pattern.span)
    opened = [open_operand(body, operand, part, given, span) for operand, part, span in zip(operands, pattern.inputs, spans, strict=True)]
    known: dict[str, Axis] = {}
    for one, part in zip(opened, pattern.inputs, strict=True):
        for name, axis in zip(one.names, one.axes, strict=True):
            if known.setdefault(name, axis).size != axis.size:
                body.report.fail("E0401", f"axis {name} is {known[name].size} in one operand and {axis.size} in the other", part.span)
    order = result_order(body, pattern.output, known)
    letters = {name: number for number, name in enumerate(known)}
    for name in known:
        if name not in order and not all(name in one.names for one in opened):
            body.report.fail(
                "E0902",
                f"axis {name} is summed and in one operand only: that is not built yet",
                pattern.span,
                help=f"sum it first: sum(over={name})",
            )
    value = body.builder.op(
        "contraction",
        opened[0].value,
        opened[1].value,
        left=tuple(letters[n] for n in opened[0].names),
        right=tuple(letters[n] for n in opened[1].names),
        out=tuple(letters[n] for n in order),
    )
    return close(body, known, order, value, pattern.output, first)
