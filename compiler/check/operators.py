"""Operators: arithmetic and comparison of host values and tensors, with broadcasting by name."""

from __future__ import annotations

from shapescript.compiler.check import types
from shapescript.compiler.check.axes import agree, shown
from shapescript.compiler.check.body import Body
from shapescript.compiler.check.typed import Constant, Typed
from shapescript.compiler.check.types import Axis, Tensor
from shapescript.compiler.check.wording import ELEMENT_NAMES, size_note
from shapescript.compiler.diagnostics.model import Label, Span
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.types import Element, TensorType
from shapescript.compiler.syntax import tree

ARITHMETIC = {"+": "add", "-": "sub", "*": "mul", "/": "div"}
INTEGER_ONLY = {"//": "floordiv", "%": "mod"}
COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


def spread_by_name(body: Body, left: Typed, right: Typed, span: Span, parts: tuple[Span, Span]) -> tuple[Value, Value, tuple[Axis, ...]]:
    """Both operands with the axes of the one that has more: the other's must be a subsequence of them, by name."""
    assert isinstance(left.type, Tensor) and isinstance(right.type, Tensor)
    if len(left.type.axes) >= len(right.type.axes):
        axes, positions = lie_along(body, right.type.axes, left.type.axes, span, parts)
        return left.value, body.builder.broadcast(right.value, tuple(a.size for a in axes), positions), axes
    axes, positions = lie_along(body, left.type.axes, right.type.axes, span, parts)
    return body.builder.broadcast(left.value, tuple(a.size for a in axes), positions), right.value, axes


def lie_along(
    body: Body, few: tuple[Axis, ...], many: tuple[Axis, ...], span: Span, parts: tuple[Span, Span]
) -> tuple[tuple[Axis, ...], tuple[int, ...]]:
    """The axes of both together, and the places of the few among the many."""
    positions = _positions(body, few, many, span, parts)
    return _with_groups(many, few, positions), positions


def _with_groups(axes: tuple[Axis, ...], few: tuple[Axis, ...], positions: tuple[int, ...]) -> tuple[Axis, ...]:
    """A group and its plain product meet as the group: the order of its parts stays known."""
    groups = {place: axis for axis, place in zip(few, positions, strict=True) if axis.parts}
    return tuple(groups.get(place, axis) for place, axis in enumerate(axes))


def _positions(body: Body, few: tuple[Axis, ...], many: tuple[Axis, ...], span: Span, parts: tuple[Span, Span]) -> tuple[int, ...]:
    positions: list[int] = []
    for axis in few:
        start = positions[-1] + 1 if positions else 0
        found = [place for place, other in enumerate(many) if agree(axis, other)]
        if len(found) > 1 and len(few) < len(many):
            body.report.fail(
                "E0403",
                f"axis {axis} stands {len(found)} times in {shown(many)}: which one {shown(few)} lies along is open",
                span,
                _sides(parts),
                help="give one of the two axes another name with a pattern",
            )
        later = [place for place in found if place >= start]
        if not later:
            _no_place(body, axis, few, many, bool(found), span, parts)
        positions.append(later[0])
    return tuple(positions)


def _no_place(
    body: Body, axis: Axis, few: tuple[Axis, ...], many: tuple[Axis, ...], elsewhere: bool, span: Span, parts: tuple[Span, Span]
) -> None:
    if elsewhere:
        body.report.fail(
            "E0401",
            f"{shown(few)} and {shown(many)} have the same axes in another order; broadcasting by name keeps the order",
            span,
            _sides(parts),
            help="bring one into the other's order with `rearrange`",
        )
    note = next((text for other in many if (text := size_note(axis, other))), "")
    body.report.fail(
        "E0401",
        f"axis {axis} of {shown(few)} is not in {shown(many)}{note}: nothing is stretched, and there is no outer product by accident",
        span,
        _sides(parts),
        help=_named_by_dim(axis, many) or _removal(axis),
    )


def _named_by_dim(axis: Axis, many: tuple[Axis, ...]) -> str | None:
    """The mend for a bare number beside a dim of that size: small tensors that are written out have such axes."""
    same = [other for other in many if not list(axis.size.symbols()) and other.size.constant() == axis.size.constant()]
    return f"if {axis} is the dim, a pattern says so: `rearrange(x: {same[0]} -> {same[0]})`" if same else None


def _removal(axis: Axis) -> str:
    if axis.size.constant() == 1:
        return f"remove {axis} with a pattern, for instance `rearrange(x: b {axis} -> b)`"
    return f"reduce {axis}, with sum, mean or max, or say the product of axes with `einsum`"


def _sides(parts: tuple[Span, Span]) -> tuple[Label, ...]:
    return Label(parts[0], "the left operand"), Label(parts[1], "the right operand")


def arithmetic(body: Body, node: tree.Binary, left: Typed, right: Typed) -> Typed:
    """`+ - * / // %` by what the operands are; `@`, `**`, `&` and `|` have functions of their own."""
    with body.builder.at(node.span):
        if isinstance(left.type, Tensor) or isinstance(right.type, Tensor):
            value, kind = tensor_pair(body, node.operator, left, right, node.span, (node.left.span, node.right.span))
            if node.operator in INTEGER_ONLY and kind.element.is_float:
                body.report.fail("E0902", f"`{node.operator}` on floats is not built yet", node.span, help="`floor(x / y)` rounds down")
            if kind.element is Element.BOOL or (node.operator == "/" and not kind.element.is_float):
                text = f"`{node.operator}` is not for elements of type {ELEMENT_NAMES[kind.element]}"
                mend = "`f32(x) / y` divides as floats, `x // y` rounds down" if kind.element is Element.I64 else None
                body.report.fail("E0310", text, node.span, help=mend)
            if node.operator in INTEGER_ONLY:
                is_safe = isinstance(right.constant, int) and right.constant not in (0, -1)
                return Typed(kind, (_whole_quotient(body, node.operator, *value, is_safe),))
            return Typed(kind, (body.builder.op(ARITHMETIC[node.operator], *value),))
        return _host_arithmetic(body, node, left, right)


def _whole_quotient(body: Body, operator: str, left: Value, right: Value, is_safe: bool) -> Value:
    """`//` and `%` of tensors of ints: R1106 where one of the quotients doesn't exist."""
    b, kind = body.builder, left.type
    assert isinstance(kind, TensorType)
    if not is_safe:
        least = b.op("eq", left, b.full(-(1 << 63), kind))
        fails = b.op("or", b.op("eq", right, b.full(0, kind)), b.op("and", least, b.op("eq", right, b.full(-1, kind))))
        b.emit("check", b.op("not", b.op("any", fails, positions=tuple(range(kind.rank)))), failure=operator)
    return b.op({"//": "floor_quotient", "%": "floor_remainder"}[operator], left, right)


def _host_arithmetic(body: Body, node: tree.Binary, left: Typed, right: Typed) -> Typed:
    for side, part in ((left, node.left), (right, node.right)):
        if side.type not in (types.INT, types.FLOAT):
            hint = "strings aren't joined; `print` takes several values" if side.type == types.STR else None
            body.report.fail("E0301", f"`{node.operator}` takes numbers and tensors, found {side.type}", part.span, help=hint)
    both_int = left.type == right.type == types.INT
    if node.operator in INTEGER_ONLY:
        if not both_int:
            body.report.fail("E0902", f"`{node.operator}` on floats is not built yet", node.span)
        return Typed(types.INT, (body.builder.op(INTEGER_ONLY[node.operator], left.value, right.value),))
    if both_int and node.operator != "/":
        return Typed(types.INT, (body.builder.op(ARITHMETIC[node.operator], left.value, right.value),))
    values = [body.convert(side, types.FLOAT, node.span, lambda: "a number").value for side in (left, right)]
    return Typed(types.FLOAT, (body.builder.op(ARITHMETIC[node.operator], *values),))


def tensor_pair(
    body: Body, sign: str, left: Typed, right: Typed, span: Span, parts: tuple[Span, Span]
) -> tuple[tuple[Value, Value], Tensor]:
    """Operands of one element type with the same axes; a host number adapts to the tensor."""
    for side, part in ((left, parts[0]), (right, parts[1])):
        if not isinstance(side.type, Tensor) and side.type not in (types.INT, types.FLOAT):
            body.report.fail("E0301", f"`{sign}` takes numbers and tensors, found {side.type}", part)
    element = next(side.type.element for side in (left, right) if isinstance(side.type, Tensor))
    adapted = []
    for side, part in ((left, parts[0]), (right, parts[1])):
        if isinstance(side.type, Tensor):
            adapted.append(side)
        elif side.type == types.FLOAT and not element.is_float:
            body.report.fail(
                "E0310", f"a float doesn't adapt to a tensor of {ELEMENT_NAMES[element]}", part, help="convert the tensor with f32(...)"
            )
        else:
            adapted.append(Typed(Tensor(element), (body.host_number(side, element),)))
    first, second = (side.type.element for side in adapted if isinstance(side.type, Tensor))
    if first != second:
        body.report.fail(
            "E0310",
            f"`{sign}` of elements {ELEMENT_NAMES[first]} and {ELEMENT_NAMES[second]}: nothing widens or narrows by itself",
            span,
            _sides(parts),
            help=f"convert one side, for instance with {ELEMENT_NAMES[first if first.is_float else second]}(...)",
        )
    one, other, axes = spread_by_name(body, adapted[0], adapted[1], span, parts)
    return (one, other), Tensor(element, axes)


def comparison(body: Body, node: tree.Comparison, left: Typed, right: Typed) -> Typed:
    name = COMPARISONS[node.operator]
    with body.builder.at(node.span):
        if isinstance(left.type, Tensor) or isinstance(right.type, Tensor):
            values, kind = tensor_pair(body, node.operator, left, right, node.span, (node.left.span, node.right.span))
            if kind.element is Element.BOOL:
                return Typed(Tensor(Element.BOOL, kind.axes), (_equality(body, node, *values),))
            return Typed(Tensor(Element.BOOL, kind.axes), (body.builder.op(name, *values),))
        if left.type == right.type == types.BOOL:
            return Typed(types.BOOL, (_equality(body, node, left.value, right.value),))
        if left.type == right.type == types.STR:
            body.report.not_built("comparing two strings", node.span)
        for side, part in ((left, node.left), (right, node.right)):
            if side.type not in (types.INT, types.FLOAT):
                body.report.fail("E0301", f"`{node.operator}` compares numbers, found {side.type}", part.span)
        sides = [left, right]
        if left.type != right.type:
            sides = [body.convert(side, types.FLOAT, node.span, lambda: "a number") for side in sides]
        return Typed(types.BOOL, (body.builder.op(name, *(side.value for side in sides)),))


def _equality(body: Body, node: tree.Comparison, left: Value, right: Value) -> Value:
    """Of truth values: they differ where one of them is true and not both are."""
    if node.operator not in ("==", "!="):
        body.report.fail("E0310", f"truth values have no order: `{node.operator}` is not for elements of type bool", node.span)
    builder = body.builder
    differ = builder.op("and", builder.op("or", left, right), builder.op("not", builder.op("and", left, right)))
    return differ if node.operator == "!=" else builder.op("not", differ)


def matrix_product(body: Body, node: tree.Binary, left: Typed, right: Typed) -> Typed:
    """`@`: the last axis of the left with the second last, or only, axis of the right; leading axes by name."""
    for side, part in ((left, node.left), (right, node.right)):
        if not isinstance(side.type, Tensor) or not side.type.axes:
            body.report.fail("E0301", f"`@` takes tensors with axes, found {side.type}", part.span)
    assert isinstance(left.type, Tensor) and isinstance(right.type, Tensor)
    if left.type.element != right.type.element or not left.type.element.is_float:
        body.report.fail("E0310", f"`@` is for floats of one type, found {left.type} and {right.type}", node.span)
    ours, theirs = left.type.axes, right.type.axes
    summed = len(theirs) - 2 if len(theirs) > 1 else 0
    if not agree(ours[-1], theirs[summed]):
        body.report.fail(
            "E0401",
            f"`@` sums the last axis of {shown(ours)}, {ours[-1]}, with {theirs[summed]} of {shown(theirs)}",
            node.span,
            _sides((node.left.span, node.right.span)),
            help="say which axes meet with `einsum`",
        )
    letters: list[int] = []
    for place, axis in enumerate(theirs):
        if place == summed:
            letters.append(len(ours) - 1)
        elif place == len(theirs) - 1:
            letters.append(len(ours) + place)
        else:
            shared = [at for at, other in enumerate(ours[:-1]) if agree(axis, other)]
            if len(shared) > 1 or any(place in letters for place in shared):
                body.report.fail("E0403", f"axis {axis} stands twice in {shown(ours if len(shared) > 1 else theirs)}", node.span)
            letters.append(shared[0] if shared else len(ours) + place)
    leading = [letter for place, letter in enumerate(letters) if place < summed and letter >= len(ours)]
    last = [letters[-1]] if len(theirs) > 1 else []
    out = [*leading, *range(len(ours) - 1), *last]
    axes = {**dict(enumerate(ours)), **{letter: axis for letter, axis in zip(letters, theirs, strict=True) if letter >= len(ours)}}
    with body.builder.at(node.span):
        value = body.builder.op("contraction", left.value, right.value, left=tuple(range(len(ours))), right=tuple(letters), out=tuple(out))
    return Typed(Tensor(left.type.element, tuple(axes[letter] for letter in out)), (value,))


def masks(body: Body, node: tree.Binary, left: Typed, right: Typed) -> Typed:
    """`&` and `|` on bool tensors."""
    for side, part in ((left, node.left), (right, node.right)):
        if not isinstance(side.type, Tensor) or side.type.element is not Element.BOOL:
            body.report.fail(
                "E0310",
                f"`{node.operator}` is for bool tensors, found {side.type}",
                part.span,
                help="host conditions are combined with `and` and `or`" if side.type == types.BOOL else None,
            )
    with body.builder.at(node.span):
        one, other, axes = spread_by_name(body, left, right, node.span, (node.left.span, node.right.span))
        return Typed(Tensor(Element.BOOL, axes), (body.builder.op("and" if node.operator == "&" else "or", one, other),))


def negative(body: Body, node: tree.Unary, operand: Typed) -> Typed:
    match operand.type:
        case types.Scalar("int" | "float"):
            constant: Constant | None = operand.constant
            value = body.builder.op("neg", operand.value)
            return Typed(operand.type, (value,), -constant if isinstance(constant, int | float) else None)
        case Tensor(element) if element is not Element.BOOL:
            with body.builder.at(node.span):
                return Typed(operand.type, (body.builder.op("neg", operand.value),))
    body.report.fail("E0301", f"`-` takes a number or a tensor, found {operand.type}", node.operand.span)


def mask_not(body: Body, node: tree.Unary, operand: Typed) -> Typed:
    if not isinstance(operand.type, Tensor) or operand.type.element is not Element.BOOL:
        body.report.fail(
            "E0310",
            f"`!` is for bool tensors, found {operand.type}",
            node.operand.span,
            help="a host condition is negated with `not`" if operand.type == types.BOOL else None,
        )
    with body.builder.at(node.span):
        return Typed(operand.type, (body.builder.op("not", operand.value),))
