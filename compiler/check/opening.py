"""A pattern's left side: it names every axis of an operand by place, and opens groups and products.

A lower-case name that the operand doesn't have names the axis at that place anew, the same for the whole function; a name that the
operand has elsewhere is E0408.
"""

from __future__ import annotations

from collections.abc import Mapping

from shapescript.compiler.check.axes import agree, is_dim_name, shown
from shapescript.compiler.check.body import Body
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.check.types import Axis, Tensor
from shapescript.compiler.diagnostics.model import Label, Span
from shapescript.compiler.ir import sizes
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.sizes import InexactDivision, Size, divide, product
from shapescript.compiler.records.dataclass import dataclass
from shapescript.compiler.syntax import tree

DIAGONAL = "give one of the two another name; `einsum(x: i i -> i)` takes the places where both are the same"


@dataclass(frozen=True)
class Opened:
    """An operand as the pattern sees it: every axis single, with the name that the pattern gives it."""

    value: Value
    names: tuple[str, ...]
    axes: tuple[Axis, ...]


def open_operand(
    body: Body, operand: Typed, pattern: tree.AxisList, given: Mapping[str, Size], span: Span, may_repeat: bool = False
) -> Opened:
    """Match the pattern against the operand's axes and open its groups. An axis stands twice only where it `may_repeat`."""
    assert isinstance(operand.type, Tensor)
    axes = operand.type.axes
    for node in pattern.axes:
        if isinstance(node, tree.LeadingAxes):
            body.context.axis(node)  # E0203 where the signature has none
    if len(pattern.axes) != len(axes):
        body.report.fail(
            "E0405",
            f"the pattern names {len(pattern.axes)} axes, the operand has {len(axes)}: {operand.type}",
            pattern.span,
            [Label(span, f"this is {operand.type}")],
        )
    names: list[str] = []
    found: list[Axis] = []
    for place, (node, axis) in enumerate(zip(pattern.axes, axes, strict=True)):
        for name, part in _open_axis(body, node, axis, place, operand.type, given, span, pattern if may_repeat else None):
            if name in names and not may_repeat:
                text = f"axis {name} stands twice in the operand's pattern"
                body.report.fail("E0407", text, node.span, help=DIAGONAL)
            names.append(name)
            found.append(part)
    sizes_here = tuple(axis.size for axis in found)
    value = operand.value
    if sizes_here != tuple(axis.size for axis in axes):
        if product(sizes_here).known() != product(axis.size for axis in axes).known():
            body.report.not_built("opening an axis by a factor that is a sum", pattern.span)
        value = body.builder.op("reshape", value, axes=sizes_here)
    return Opened(value, tuple(names), tuple(found))


def _open_axis(
    body: Body,
    node: tree.Axis,
    axis: Axis,
    place: int,
    operand: Tensor,
    given: Mapping[str, Size],
    span: Span,
    pattern: tree.AxisList | None,
) -> list[tuple[str, Axis]]:
    match node:
        case tree.AxisName(_, name):
            return [(name, _named(body, name, axis, place, operand, node.span, span, pattern))]
        case tree.LeadingAxes(_, name):
            if not axis.leading or axis.name != f"..{name}":
                body.report.fail("E0402", f"..{name} names leading axes of the signature; here stands {axis}", node.span)
            return [(axis.name, axis)]
        case tree.AxisGroup(_, parts):
            return _open_group(body, node, parts, axis, place, operand, given, span)
    wanted = body.context.axis(node)
    if not agree(wanted, axis):
        body.report.fail("E0401", f"the pattern says {wanted} at position {place + 1}, the operand {operand} has {axis} there", node.span)
    return [(wanted.name, wanted)]


def _named(
    body: Body, name: str, axis: Axis, place: int, operand: Tensor, at: Span, span: Span, pattern: tree.AxisList | None = None
) -> Axis:
    """The axis at a place under the pattern's name for it. `pattern`: where that may name two axes alike, and has the operand's own axis
    of the name at its place, another axis of its size may have the name too."""
    if name == axis.name:
        return axis
    for other_place, other in enumerate(operand.axes):
        if other.name == name and not (pattern is not None and _is_name(pattern.axes[other_place], name) and other.size == axis.size):
            body.report.fail(
                "E0408",
                f"the pattern has axis {name} at position {place + 1}, but in {operand} it is axis {other_place + 1}",
                at,
                [Label(span, f"this is {operand}")],
                help=f"write `{axis}` here; to exchange axes, change the pattern's right side",
            )
    if is_dim_name(name):
        wanted = body.context.named(name, at)
        if wanted.size == axis.size or _is_number_of(axis, wanted):
            return wanted
        body.report.fail(
            "E0401",
            f"the pattern says {name} at position {place + 1}, the operand {operand} has {axis} there",
            at,
            [Label(span, f"this is {operand}")],
            help=f"write `{axis}`, or a lower-case name, which then stands for {axis}",
        )
    known = body.context.known(name)
    if known is None:
        body.context.aliases[name] = known = Axis(name, axis.size)
    if known.size != axis.size:
        body.report.fail(
            "E0401",
            f"axis {name} is {_kind(known)}, and can't name {axis} of {operand}",
            at,
            [Label(span, f"this is {operand}")],
        )
    return known


def _is_name(node: tree.Axis, name: str) -> bool:
    return isinstance(node, tree.AxisName) and node.name == name


def _is_number_of(axis: Axis, wanted: Axis) -> bool:
    """Whether the axis is a bare number, the one that a dim is: the pattern then says which dim is meant."""
    return not any(True for _ in axis.size.symbols()) and axis.size.constant() == wanted.size.constant()


def _kind(axis: Axis) -> str:
    if str(axis.size) != axis.name:
        return f"of size {axis.size} in this function"
    value = axis.size.constant()
    return "bound by the function's signature" if value is None else f"of size {value}"


def _open_group(
    body: Body,
    node: tree.AxisGroup,
    parts: tuple[tree.Axis, ...],
    axis: Axis,
    place: int,
    operand: Tensor,
    given: Mapping[str, Size],
    span: Span,
) -> list[tuple[str, Axis]]:
    names = [part.name if isinstance(part, tree.AxisName) else "" for part in parts]
    if axis.parts:
        if len(axis.parts) != len(parts):
            body.report.fail("E0407", f"the group {axis} has {len(axis.parts)} parts, the pattern opens {len(parts)}", node.span)
        own = Tensor(operand.element, axis.parts)
        for part, found in zip(parts, axis.parts, strict=True):
            if isinstance(part, tree.AxisName) and given.get(part.name, found.size) != found.size:
                body.report.fail("E0401", f"{part.name} of the group {axis} has size {found.size}, not {given[part.name]}", node.span)
        return [
            (
                part.name if isinstance(part, tree.AxisName) else found.name,
                _named(body, part.name, found, at, own, part.span, span)
                if isinstance(part, tree.AxisName)
                else _same(body, part, found, own),
            )
            for at, (part, found) in enumerate(zip(parts, axis.parts, strict=True))
        ]
    known = [_factor(body, part, given) for part in parts]
    unknown = [at for at, size in enumerate(known) if size is None]
    if len(unknown) > 1:
        listed = " and ".join(names[at] for at in unknown)
        body.report.fail(
            "E0409",
            f"the sizes of {listed} in {node.span.text} are not known: {axis} can be opened in many ways",
            node.span,
            help=f"give all but one, for instance `{names[unknown[0]]}=8`",
        )
    rest = axis.size
    for size in known:
        if size is not None:
            rest = _quotient(body, rest, size, axis, node)
    if not unknown and rest.known() != sizes.ONE:
        whole = product(s for s in known if s is not None)
        body.report.fail(
            "E0401",
            f"{axis} can't be opened as {node.span.text}: {_counted(axis.size)} is not {_counted(whole)}",
            node.span,
            [Label(span, f"this is {operand}")],
        )
    opened: list[tuple[str, Axis]] = []
    for part, size in zip(parts, known, strict=True):
        whole = rest if size is None else size
        if isinstance(part, tree.AxisName):
            opened.append((part.name, named_part(body, part, whole)))
        else:
            found = body.context.axis(part)
            opened.append((found.name, found))
    return opened


def _counted(size: Size) -> str:
    """A size with its number where that is known: `H*W, which is 6`."""
    value = size.constant()
    return str(size) if value is None or str(value) == str(size) else f"{size}, which is {value},"


def _same(body: Body, node: tree.Axis, axis: Axis, operand: Tensor) -> Axis:
    wanted = body.context.axis(node)
    if not agree(wanted, axis):
        body.report.fail("E0401", f"the pattern says {wanted}, the group {shown(operand.axes)} has {axis} there", node.span)
    return wanted


def _factor(body: Body, part: tree.Axis, given: Mapping[str, Size]) -> Size | None:
    """The size of a group's part where it is known."""
    if isinstance(part, tree.AxisName):
        if part.name in given:
            return given[part.name]
        if is_dim_name(part.name):
            return body.context.named(part.name, part.span).size
        axis = body.context.known(part.name)
        return axis.size if axis else None
    if isinstance(part, tree.AxisGroup | tree.LeadingAxes):
        body.report.fail("E0407", "a group's parts are single axes", part.span)
    return body.context.axis(part).size


def _quotient(body: Body, whole: Size, part: Size, axis: Axis, node: tree.AxisGroup) -> Size:
    try:
        return divide(whole, part)
    except (InexactDivision, ZeroDivisionError):
        body.report.fail("E0501", f"{axis} can't be opened as {node.span.text}: {_counted(whole)} is not a multiple of {part}", node.span)


def named_part(body: Body, part: tree.AxisName, size: Size) -> Axis:
    """The axis of a name and a size; a lower-case name that isn't known yet is one from here on."""
    known = body.context.named(part.name, part.span) if is_dim_name(part.name) else body.context.known(part.name)
    if known is None:
        body.context.aliases[part.name] = known = Axis(part.name, size)
    if known.size != size:
        body.report.fail("E0401", f"axis {part.name} is {_kind(known)}, and here it would be of size {size}", part.span)
    return known
