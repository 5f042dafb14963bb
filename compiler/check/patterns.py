"""Patterns: from opened operands to the result that the pattern's right side describes. `einsum` has a file of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from shapescript.compiler.check.axes import agree, is_dim_name
from shapescript.compiler.check.body import Body
from shapescript.compiler.check.opening import DIAGONAL, Opened, named_part, open_operand
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.check.types import Axis, Tensor, group
from shapescript.compiler.check.types import Tuple as TupleType
from shapescript.compiler.diagnostics.model import Span
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.sizes import ONE, Size, number
from shapescript.compiler.ir.types import Element, TensorType
from shapescript.compiler.ops.build import result_type
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


def result_order(
    body: Body, pattern: tree.AxisList, known: Mapping[str, Axis], help: str | None = None, operand: Sequence[str] = ()
) -> list[str]:
    """The single axes of the pattern's right side in order; each must be known, none twice that doesn't stand twice in the operand."""
    most = Counter(operand)
    order: list[str] = []
    for part in single_axes(pattern):
        key = _key(body, part)
        if key not in known:
            text = f"axis {key} of the result is in no operand's pattern, which has {', '.join(known)}"
            body.report.fail("E0402", text, part.span, help=help)
        if order.count(key) >= max(most[key], 1):
            body.report.fail("E0407", f"axis {key} stands {'twice' if order.count(key) == 1 else 'too often'} in the result", part.span)
        order.append(key)
    return order


def single_axes(pattern: tree.AxisList) -> Iterator[tree.Axis]:
    for node in pattern.axes:
        yield from node.axes if isinstance(node, tree.AxisGroup) else (node,)


def _only_operand(
    body: Body, name: str, operand: Typed, pattern: tree.Pattern, given: Mapping[str, Size], span: Span, may_repeat: bool = False
) -> Opened:
    if len(pattern.inputs) != 1:
        body.report.fail("E0302", f"{name} takes one operand, the pattern has {len(pattern.inputs)}", pattern.span)
    return open_operand(body, operand, pattern.inputs[0], given, span, may_repeat)


def _numbered(names: Sequence[str]) -> list[tuple[str, int]]:
    """Of axes with one name, the first on the left of a pattern is the first on its right."""
    return [(name, names[:place].count(name)) for place, name in enumerate(names)]


def rearrange(body: Body, operand: Typed, pattern: tree.Pattern, given: Mapping[str, Size], span: Span) -> Typed:
    assert isinstance(operand.type, Tensor)
    opened = _only_operand(body, "rearrange", operand, pattern, given, span, may_repeat=True)
    known = dict(zip(opened.names, opened.axes, strict=True))
    hint = "`repeat` makes an axis that the operand lacks, also one of size 1"
    order = result_order(body, pattern.output, known, hint, opened.names)
    here, there = _numbered(opened.names), _numbered(order)
    kept = [name for name in here if name in there]
    missing = [name for name, number in here if (name, number) not in there and known[name].size.constant() != 1]  # size 1 may be squeezed
    if missing and missing[0] in order:
        nodes = [node for node in single_axes(pattern.inputs[0]) if _key(body, node) == missing[0]]
        text = f"axis {missing[0]} stands {len(nodes)} times in the operand's pattern, and {order.count(missing[0])} in the result"
        body.report.fail("E0407", text, nodes[order.count(missing[0])].span, help=DIAGONAL)
    if missing:
        body.report.fail(
            "E0406",
            f"rearrange keeps every axis, and the right side lacks {', '.join(missing)}",
            pattern.output.span,
            help="reduce an axis with sum, mean or max, naming it in over=",
        )
    value = opened.value
    if len(kept) < len(here):
        value = body.builder.op("reshape", value, axes=tuple(known[name].size for name, _ in kept))
    permutation = tuple(kept.index(name) for name in there)
    if permutation != tuple(range(len(order))):
        value = body.builder.op("transpose", value, permutation=permutation)
    return close(body, known, order, value, pattern.output, operand.type)


MOST_PARTS = 4096  # of a split: each is a value with a name


def split(body: Body, operand: Typed, pattern: tree.Pattern, given: Mapping[str, Size], span: Span) -> Typed:
    """A value for each place of the one factor that the right side lacks."""
    assert isinstance(operand.type, Tensor)
    opened = _only_operand(body, "split", operand, pattern, given, span)
    known = dict(zip(opened.names, opened.axes, strict=True))
    order = result_order(body, pattern.output, known)
    lacking = [name for name in opened.names if name not in order]
    if len(lacking) != 1:
        text = f"split gives a value for each place of the one axis that the right side lacks; it lacks {', '.join(lacking) or 'none'}"
        body.report.fail("E0407", text, pattern.output.span)
    count = known[lacking[0]].size.constant()
    if count is None:
        text = f"split gives as many values as {lacking[0]} has places, and how many these are isn't known here"
        body.report.fail("E0409", text, pattern.span, help="write a number for the factor: `(3 H)`")
    if not 1 <= count <= MOST_PARTS:
        body.report.fail("E0503", f"split gives from 1 to {MOST_PARTS} values, not {count}", pattern.span)
    place = opened.names.index(lacking[0])
    kept = [name for name in opened.names if name in order]
    permutation = tuple(kept.index(name) for name in order)
    parts = [_part(body, opened, place, index, permutation) for index in range(count)]
    closed = [close(body, known, order, part, pattern.output, operand.type) for part in parts]
    return closed[0] if count == 1 else Typed(TupleType(tuple(part.type for part in closed)), tuple(part.value for part in closed))


def _part(body: Body, opened: Opened, place: int, index: int, permutation: tuple[int, ...]) -> Value:
    """What lies at one place of an axis, without that axis, and the others in order."""
    start = body.builder.constant(index, Element.I64)
    value = body.builder.op("slice", opened.value, start, position=place, length=ONE)
    value = body.builder.op("reshape", value, axes=tuple(axis.size for at, axis in enumerate(opened.axes) if at != place))
    return value if list(permutation) == sorted(permutation) else body.builder.op("transpose", value, permutation=permutation)


def repeat(body: Body, operand: Typed, pattern: tree.Pattern, given: Mapping[str, Size], span: Span) -> Typed:
    """The operand at every place of the axes that the right side has new."""
    assert isinstance(operand.type, Tensor)
    opened = _only_operand(body, "repeat", operand, pattern, given, span)
    known = dict(zip(opened.names, opened.axes, strict=True))
    for node in single_axes(pattern.output):
        if (key := _key(body, node)) not in known:
            known[key] = _repeated(body, node, given)
    order = result_order(body, pattern.output, known)
    missing = [name for name in opened.names if name not in order]
    if missing:
        body.report.fail("E0406", f"repeat keeps every axis, and the right side lacks {', '.join(missing)}", pattern.output.span)
    kept = [name for name in order if name in opened.names]
    value, permutation = opened.value, tuple(opened.names.index(name) for name in kept)
    if list(permutation) != sorted(permutation):
        value = body.builder.op("transpose", value, permutation=permutation)
    sizes = tuple(known[name].size for name in order)
    value = body.builder.broadcast(value, sizes, tuple(order.index(name) for name in kept))
    return close(body, known, order, value, pattern.output, operand.type)


def _repeated(body: Body, node: tree.Axis, given: Mapping[str, Size]) -> Axis:
    """An axis that only the right side has: one of a size that is given, or one that is known."""
    if not isinstance(node, tree.AxisName):
        return body.context.axis(node)
    if node.name in given:
        return named_part(body, node, given[node.name])
    if not is_dim_name(node.name) and body.context.known(node.name) is None:
        text = f"how often is the operand repeated along {node.name}: its size isn't known"
        body.report.fail("E0409", text, node.span, help=f"give it: `{node.name}=3`")
    return body.context.named(node.name, node.span)


def stack(body: Body, operands: list[Typed], pattern: tree.Pattern, spans: list[Span]) -> Typed:
    """The operands side by side along the one axis that the right side has new."""
    if len(pattern.inputs) != len(operands):
        body.report.fail("E0302", f"stack has {len(operands)} operands and {len(pattern.inputs)} patterns", pattern.span)
    opened = [open_operand(body, operand, part, {}, span) for operand, part, span in zip(operands, pattern.inputs, spans, strict=True)]
    known = dict(zip(opened[0].names, opened[0].axes, strict=True))
    for one, part in zip(opened[1:], pattern.inputs[1:], strict=True):
        found = dict(zip(one.names, one.axes, strict=True))
        if found.keys() != known.keys() or any(not agree(found[name], axis) for name, axis in known.items()):
            text = f"the parts of a stack have the same axes: [{' '.join(known)}] and [{' '.join(found)}]"
            body.report.fail("E0401", text, part.span)
    new = [node for node in single_axes(pattern.output) if _key(body, node) not in known]
    if len(new) != 1:
        listed = ", ".join(_key(body, node) for node in new) or "none"
        body.report.fail("E0407", f"the right side of a stack has one axis more than the parts; new here: {listed}", pattern.output.span)
    axis = counted_axis(body, new[0], len(operands))
    place = _key(body, new[0])
    known[place] = axis
    order = result_order(body, pattern.output, known)
    missing = [name for name in opened[0].names if name not in order]
    if missing:
        body.report.fail("E0406", f"stack keeps every axis, and the right side lacks {', '.join(missing)}", pattern.output.span)
    element = operands[0].type
    assert isinstance(element, Tensor)
    kept = [name for name in order if name != place]
    values = [_in_order(body, one, kept) for one in opened]
    return close(body, known, order, side_by_side(body, values, order.index(place), axis), pattern.output, element)


def _in_order(body: Body, opened: Opened, order: list[str]) -> Value:
    permutation = tuple(opened.names.index(name) for name in order)
    return opened.value if list(permutation) == sorted(permutation) else body.builder.op("transpose", opened.value, permutation=permutation)


def counted_axis(body: Body, node: tree.Axis, count: int) -> Axis:
    """A new axis of as many places as there are values: a number, a dim of that size, or a name."""
    if isinstance(node, tree.AxisName) and not is_dim_name(node.name) and body.context.known(node.name) is None:
        body.context.aliases[node.name] = Axis(node.name, number(count))
    axis = body.context.axis(node)
    if axis.size.constant() != count:
        body.report.fail("E0401", f"there are {count} values, and axis {axis} has {axis.size} places", node.span)
    return axis


def side_by_side(body: Body, values: list[Value], place: int, axis: Axis) -> Value:
    """The values along a new axis at a place."""
    axes = result_type(values[0]).axes
    parts = [body.builder.op("reshape", value, axes=(*axes[:place], ONE, *axes[place:])) for value in values]
    whole = body.builder.op("concat", *parts, position=place)
    return body.reshaped(whole, TensorType(result_type(whole).element, (*axes[:place], axis.size, *axes[place:])))
