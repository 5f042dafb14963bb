"""Elementwise operations. Operands have the same axes (broadcasting is an operation of its own); most have one element type throughout."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shapescript.compiler.ir.nodes import Op, Value
from shapescript.compiler.ir.types import FLOAT, INT, Element, TensorType, Type
from shapescript.compiler.numerics import elementary
from shapescript.compiler.numerics.bfloat16 import bits_of_number, from_bfloat16, to_bfloat16
from shapescript.compiler.numerics.scalar import BOOL as BOOL_KIND
from shapescript.compiler.numerics.scalar import F32, F64, I64, U16, Constant, Expr, Kind, int_to_float, narrow, select, sqrt, widen
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.ops.table import Indexed, Kernel, NoDerivative, OpEntry, Rule, Scalar, View, attribute, register, require

KINDS: dict[Element, Kind] = {Element.F32: F32, Element.F64: F64, Element.BF16: U16, Element.I64: I64, Element.BOOL: BOOL_KIND}
FLOATS = (Element.F32, Element.F64, Element.BF16)  # of bf16 passes/widen.py makes f32
NUMBERS = (*FLOATS, Element.I64)

Gradients = Sequence[Value | None]


def tensors(op: Op, count: int) -> list[TensorType]:
    """The operands' types, all tensors with the same axes."""
    require(len(op.operands) == count, op, f"takes {count} operands")
    found = []
    for operand in op.operands:
        require(isinstance(operand.type, TensorType), op, "takes tensors")
        assert isinstance(operand.type, TensorType)
        require(operand.type.axes == op.operands[0].type.axes, op, "operands' axes differ")  # type: ignore[union-attr]
        found.append(operand.type)
    return found


def uniform(count: int, allowed: Sequence[Element], result: Element | None = None) -> Callable[[Op], tuple[Type, ...]]:
    """All operands of one of the allowed element types; the result of the same, or of the one given."""

    def rule(op: Op) -> tuple[Type, ...]:
        kinds = tensors(op, count)
        require(len({kind.element for kind in kinds}) == 1 and kinds[0].element in allowed, op, f"element types must be one of {allowed}")
        return (TensorType(result or kinds[0].element, kinds[0].axes),)

    return rule


def like(builder: Builder, value: float, other: Value) -> Value:
    return builder.full(value, result_type(other))


# ---- derivatives: the formulas, with the order of their operations ----------------------------------------------------------------------


def of_one_result(rule: Callable[[Builder, Op, Value], Gradients]) -> Rule:
    """A rule for an operation with one result, called only where a gradient flows."""

    def whole(builder: Builder, op: Op, gradients: Gradients) -> Gradients:
        gradient = gradients[0]
        return [None] * len(op.operands) if gradient is None else rule(builder, op, gradient)

    return whole


def _div(b: Builder, op: Op, g: Value) -> Gradients:
    return [b.op("div", g, op.operands[1]), b.op("neg", b.op("mul", g, b.op("div", op.result, op.operands[1])))]


def _sqrt(b: Builder, op: Op, g: Value) -> Gradients:
    return [b.op("div", g, b.op("mul", like(b, 2.0, g), op.result))]


def _tanh(b: Builder, op: Op, g: Value) -> Gradients:
    return [b.op("mul", g, b.op("sub", like(b, 1.0, g), b.op("mul", op.result, op.result)))]


def _sigmoid(b: Builder, op: Op, g: Value) -> Gradients:
    return [b.op("mul", b.op("mul", g, b.op("sub", like(b, 1.0, g), op.result)), op.result)]


def _relu(b: Builder, op: Op, g: Value) -> Gradients:
    zero = like(b, 0.0, g)
    return [b.op("select", b.op("gt", op.result, zero), g, zero)]


def _abs(b: Builder, op: Op, g: Value) -> Gradients:
    zero, x = like(b, 0.0, g), op.operands[0]
    return [b.op("select", b.op("gt", x, zero), g, b.op("select", b.op("lt", x, zero), b.op("neg", g), zero))]


def _extreme(b: Builder, op: Op, g: Value) -> Gradients:
    """To the operand that is the result; to the first where they are equal."""
    first = b.op("eq", op.operands[0], op.result)
    zero = like(b, 0.0, g)
    return [b.op("select", first, g, zero), b.op("select", first, zero, g)]


def _select(b: Builder, op: Op, g: Value) -> Gradients:
    zero = like(b, 0.0, g)
    return [None, b.op("select", op.operands[0], g, zero), b.op("select", op.operands[0], zero, g)]


def _convert(b: Builder, op: Op, g: Value) -> Gradients:
    element = result_type(op.operands[0]).element
    return [b.convert(g, element) if element.is_float and result_type(g).element.is_float else None]


def _dropout(b: Builder, op: Op, g: Value) -> Gradients:
    return [b.op("dropout", g, *op.operands[1:]), None, None, None]


# ---- entries ----------------------------------------------------------------------------------------------------------------------------


def _unary(
    name: str, build: Callable[[Expr], Expr], derivative: Callable[[Builder, Op, Value], Gradients], allowed: Sequence[Element] = FLOATS
) -> None:
    register(OpEntry(name, uniform(1, allowed), of_one_result(derivative), Scalar(lambda x: build(x[0]))))


def _binary(
    name: str,
    build: Callable[[Expr, Expr], Expr],
    derivative: Callable[[Builder, Op, Value], Gradients] | None,
    allowed: Sequence[Element] = NUMBERS,
) -> None:
    rule = NoDerivative.FORBIDDEN if derivative is None else of_one_result(derivative)
    register(OpEntry(name, uniform(2, allowed), rule, Scalar(lambda x: build(x[0], x[1]))))


def _comparison(name: str, build: Callable[[Expr, Expr], Expr], allowed: Sequence[Element] = NUMBERS) -> None:
    register(OpEntry(name, uniform(2, allowed, Element.BOOL), NoDerivative.ZERO, Scalar(lambda x: build(x[0], x[1]))))


_binary("add", lambda x, y: x + y, lambda b, op, g: [g, g])
_binary("sub", lambda x, y: x - y, lambda b, op, g: [g, b.op("neg", g)])
_binary("mul", lambda x, y: x * y, lambda b, op, g: [b.op("mul", g, op.operands[1]), b.op("mul", g, op.operands[0])])
_binary("div", lambda x, y: x / y, _div, FLOATS)
_binary("minimum", elementary.minimum, _extreme)
_binary("maximum", elementary.maximum, _extreme)

_unary("neg", lambda x: -x if x.kind in (F32, F64) else 0 - x, lambda b, op, g: [b.op("neg", g)], NUMBERS)
_unary("abs", elementary.absolute, _abs, NUMBERS)
_unary("sqrt", sqrt, _sqrt)
_unary("exp", elementary.exp, lambda b, op, g: [b.op("mul", g, op.result)])
_unary("log", elementary.log, lambda b, op, g: [b.op("div", g, op.operands[0])])
_unary("tanh", elementary.tanh, _tanh)
_unary("sigmoid", elementary.sigmoid, _sigmoid)
_unary("relu", elementary.relu, _relu)

_comparison("lt", lambda x, y: x < y)
_comparison("le", lambda x, y: x <= y)
_comparison("gt", lambda x, y: x > y)
_comparison("ge", lambda x, y: x >= y)
_comparison("eq", lambda x, y: x.eq(y))
_comparison("ne", lambda x, y: x.ne(y))

register(OpEntry("and", uniform(2, (Element.BOOL,)), NoDerivative.ZERO, Scalar(lambda x: x[0] & x[1])))
register(OpEntry("or", uniform(2, (Element.BOOL,)), NoDerivative.ZERO, Scalar(lambda x: x[0] | x[1])))
register(OpEntry("not", uniform(1, (Element.BOOL,)), NoDerivative.ZERO, Scalar(lambda x: ~x[0])))


def _infer_select(op: Op) -> tuple[Type, ...]:
    condition, left, right = tensors(op, 3)
    require(condition.element is Element.BOOL and left == right, op, "takes a bool tensor and two of one type")
    return (left,)


register(OpEntry("select", _infer_select, of_one_result(_select), Scalar(lambda x: select(x[0], x[1], x[2]))))


def conversion(value: Expr, element: Element) -> Expr:
    """Between element types: to integers saturating with NaN to 0, to floats rounded once, bool as 0 and 1."""
    kind = KINDS[element]
    if value.kind is kind:
        return value
    if value.kind is U16:
        return conversion(from_bfloat16(value), element)
    if element is Element.BF16:
        is_bool = value.kind is BOOL_KIND
        return select(value, Constant(bits_of_number(1.0), U16), Constant(0, U16)) if is_bool else to_bfloat16(value)
    if value.kind is BOOL_KIND:
        one, zero = (1.0, 0.0) if element.is_float else (1, 0)
        return select(value, Constant(one, kind), Constant(zero, kind))
    if element is Element.BOOL:
        return value.ne(0.0 if value.kind in (F32, F64) else 0)
    if element is Element.I64:
        return elementary.to_integer(value, I64)
    if value.kind is I64:
        return int_to_float(value, kind)
    return narrow(value) if kind is F32 else widen(value)


def _converts_to(element: Element) -> None:
    def rule(op: Op) -> tuple[Type, ...]:
        return (TensorType(element, tensors(op, 1)[0].axes),)

    derivative = of_one_result(_convert) if element.is_float else NoDerivative.ZERO
    register(OpEntry(f"to_{element.value}", rule, derivative, Scalar(lambda x: conversion(x[0], element))))


for _element in Element:
    _converts_to(_element)


def _infer_identity(op: Op) -> tuple[Type, ...]:
    require(len(op.operands) == 1 and isinstance(op.operands[0].type, TensorType), op, "takes a tensor")
    return (op.operands[0].type,)


# stop_gradient(x): x, through which no gradient flows.
register(OpEntry("stop_gradient", _infer_identity, NoDerivative.ZERO, View("identity")))


# ---- with the element's index -----------------------------------------------------------------------------------------------------------


def _infer_dropout(op: Op) -> tuple[Type, ...]:
    require(len(op.operands) == 4, op, "takes a tensor, the rate, the seed and the draw")
    kind = op.operands[0].type
    require(isinstance(kind, TensorType) and kind.element in FLOATS, op, "takes a float tensor")
    require([operand.type for operand in op.operands[1:]] == [FLOAT, INT, INT], op, "takes a float and two ints behind the tensor")
    return (kind,)


# dropout(x, rate, seed, draw): element i stays, times f32(1/(1-rate)), where word i of the stream is at least the threshold, else it is 0;
# a draw below 0 (Eval) leaves x as it is. Definitions in numerics/random.py.
register(OpEntry("dropout", _infer_dropout, of_one_result(_dropout), Indexed("dropout")))


def _infer_iota(op: Op) -> tuple[Type, ...]:
    axes, position = attribute(op, "axes"), attribute(op, "position")
    require(not axes or 0 <= position < len(axes), op, "the position is not one of the axes")
    return (TensorType(Element.I64, tuple(axes)),)


# iota {axes, position}: each element's index along one of its axes; without axes, in a fused region, along that axis of the space.
register(OpEntry("iota", _infer_iota, NoDerivative.ZERO, Indexed("iota")))


def _infer_by_leaf(op: Op) -> tuple[Type, ...]:
    axes, ends, choice = (attribute(op, name) for name in ("axes", "ends", "choice"))
    kinds = {operand.type for operand in op.operands}
    require(len(kinds) == 1 and list(ends) == sorted(set(ends)) and len(ends) == len(choice), op, "takes numbers of one type, by ends")
    require(all(0 <= place < len(op.operands) for place in choice) and ends[0] > 0, op, "chooses an operand for each part")
    (kind,) = kinds
    require(isinstance(kind, TensorType) and not kind.axes and kind.element in FLOATS, op, "takes floats without axes")
    assert isinstance(kind, TensorType)
    require(not axes or [axis.constant() for axis in axes] == [ends[-1]], op, "ends where the axis does")
    return (TensorType(kind.element, tuple(axes)),)


# by_leaf(numbers...) {axes, ends, choice}: along one axis the operand choice[i] up to element ends[i], from where the part before ended:
# numbers that differ from parameter to parameter in a model's buffer. Without axes, in a kernel's region, by the point's index. Kernels
# alone take it in.
register(OpEntry("by_leaf", _infer_by_leaf, NoDerivative.FORBIDDEN, Indexed("by_leaf")))


# ---- host numbers that can fail ---------------------------------------------------------------------------------------------------------


def _infer_integers(op: Op) -> tuple[Type, ...]:
    require([operand.type for operand in op.operands] == [INT, INT], op, "takes two host ints")
    return (INT,)


# As Python's // and %; a divisor of 0 and the one quotient that overflows are run-time errors (R1106).
register(OpEntry("floordiv", _infer_integers, NoDerivative.ZERO, Kernel("floordiv"), ordered=True))
register(OpEntry("mod", _infer_integers, NoDerivative.ZERO, Kernel("mod"), ordered=True))


def _infer_constant(op: Op) -> tuple[Type, ...]:
    return (TensorType(attribute(op, "element")),)


def _infer_size(op: Op) -> tuple[Type, ...]:
    attribute(op, "size")
    return (INT,)


register(OpEntry("constant", _infer_constant, NoDerivative.ZERO, Kernel("constant")))
register(OpEntry("size", _infer_size, NoDerivative.ZERO, Kernel("size")))
