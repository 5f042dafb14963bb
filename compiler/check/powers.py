"""Powers: a repeated product for an exponent that is an integer literal, `pow` for every other one."""

from __future__ import annotations

from shapescript.compiler.check import types
from shapescript.compiler.check.body import Body
from shapescript.compiler.check.operators import tensor_pair
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.check.types import Tensor
from shapescript.compiler.check.wording import ELEMENT_NAMES
from shapescript.compiler.diagnostics.model import Span
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.types import Element, TensorType
from shapescript.compiler.syntax import tree

LARGEST_POWER = 64


def power(body: Body, node: tree.Binary, base: Typed, exponent: Typed) -> Typed:
    """`x ** y`."""
    count = _literal(node.right)
    if count is None:
        with body.builder.at(node.span):
            return real_power(body, "**", base, exponent, node.span, (node.left.span, node.right.span))
    if abs(count) > LARGEST_POWER:
        text = f"a repeated product takes an exponent from -{LARGEST_POWER} to {LARGEST_POWER}"
        body.report.fail("E0503", text, node.right.span, help=f"as a float it is a power: `** {count}.0`")
    if not isinstance(base.type, Tensor) and base.type not in (types.INT, types.FLOAT):
        body.report.fail("E0301", f"`**` takes a number or a tensor, found {base.type}", node.left.span)
    if count < 0 and base.type == types.INT:
        base = body.convert(base, types.FLOAT, node.span, lambda: "a number")
    kind = base.value.type
    assert isinstance(kind, TensorType)
    if kind.element is Element.BOOL or (count < 0 and not kind.element.is_float):
        body.report.fail("E0310", f"this power is not for elements of type {ELEMENT_NAMES[kind.element]}", node.span)
    with body.builder.at(node.span):
        one = 1.0 if kind.element.is_float else 1
        value = _repeated(body, base.value, abs(count)) if count else body.builder.full(one, kind)
        if count < 0:
            value = body.builder.op("div", body.builder.full(1.0, kind), value)
    return Typed(base.type, (value,))


def _literal(node: tree.Expression) -> int | None:
    """The number that an integer literal, with its sign, is."""
    match node:
        case tree.IntLiteral(_, value):
            return value
        case tree.Unary(_, "-", tree.IntLiteral(_, value)):
            return -value
    return None


def _repeated(body: Body, base: Value, count: int) -> Value:
    """x**n, halving n: x**(2m) = (x**m)**2, x**(2m+1) = x**(2m) * x."""
    if count == 1:
        return base
    if count % 2:
        return body.builder.op("mul", _repeated(body, base, count - 1), base)
    half = _repeated(body, base, count // 2)
    return body.builder.op("mul", half, half)


def real_power(body: Body, sign: str, base: Typed, exponent: Typed, span: Span, parts: tuple[Span, Span]) -> Typed:
    """e^(y log x) of floats: tensors meet by name, a host number adapts, and of two host numbers it is a float."""
    if isinstance(base.type, Tensor) or isinstance(exponent.type, Tensor):
        values, kind = tensor_pair(body, sign, base, exponent, span, parts)
        if not kind.element.is_float:
            text = f"`{sign}` of elements of type {ELEMENT_NAMES[kind.element]} takes an integer literal as its exponent"
            body.report.fail("E0310", text, span, help="convert with f32(...)")
        return Typed(kind, (body.builder.op("pow", *values),))
    for side, part in ((base, parts[0]), (exponent, parts[1])):
        if side.type not in (types.INT, types.FLOAT):
            body.report.fail("E0301", f"`{sign}` takes numbers and tensors, found {side.type}", part)
    numbers = [body.convert(side, types.FLOAT, span, lambda: "a number").value for side in (base, exponent)]
    return Typed(types.FLOAT, (body.builder.op("pow", *numbers),))
