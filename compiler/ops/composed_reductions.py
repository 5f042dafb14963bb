"""Reductions made of others: any and all, variance, logsumexp and log_softmax, the last three with derivatives of their own."""

from __future__ import annotations

import math

from shapescript.compiler.ir.nodes import Op, Value
from shapescript.compiler.ir.sizes import product
from shapescript.compiler.ir.types import INT, Element, TensorType, Type
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.ops.elementwise import FLOATS, Gradients
from shapescript.compiler.ops.shapes import operand_type, reduced_type, spread_back
from shapescript.compiler.ops.table import Composite, NoDerivative, OpEntry, attribute, register, require

# ---- of truth values


def _infer_quantifier(op: Op) -> tuple[Type, ...]:
    return (reduced_type(op, (Element.BOOL,)),)


def _count(b: Builder, op: Op, value: Value) -> Value:
    return b.op("sum", b.convert(value, Element.I64), positions=op.attributes["positions"])


def _any(b: Builder, op: Op) -> tuple[Value, ...]:
    hits = _count(b, op, op.operands[0])
    return (b.op("ne", hits, b.full(0, result_type(hits))),)


def _all(b: Builder, op: Op) -> tuple[Value, ...]:
    misses = _count(b, op, b.op("not", op.operands[0]))
    return (b.op("eq", misses, b.full(0, result_type(misses))),)


# any, all {positions}: whether one element, or each, is true; of nothing false and true.
register(OpEntry("any", _infer_quantifier, NoDerivative.ZERO, Composite(_any)))
register(OpEntry("all", _infer_quantifier, NoDerivative.ZERO, Composite(_all)))


# ---- logarithms of sums of exponentials


def _top(b: Builder, op: Op, finite: bool) -> Value:
    """The largest element, 0 in the place of -inf, so that a row of -inf alone gives no NaN; with `finite`, of inf too."""
    top = b.op("max", op.operands[0], positions=op.attributes["positions"])
    is_replaced = b.op("eq", b.op("abs" if finite else "neg", top), b.full(math.inf, result_type(top)))
    return b.op("select", is_replaced, b.full(0.0, result_type(top)), top)


def _infer_logsumexp(op: Op) -> tuple[Type, ...]:
    return (reduced_type(op, FLOATS),)


def _logsumexp(b: Builder, op: Op) -> tuple[Value, ...]:
    top = _top(b, op, finite=True)
    powers = b.op("exp", b.op("sub", op.operands[0], spread_back(b, top, op)))
    return (b.op("add", b.op("log", b.op("sum", powers, positions=op.attributes["positions"])), top),)


def _logsumexp_derivative(b: Builder, op: Op, gradients: Gradients) -> Gradients:
    """g exp(x - result): the softmax, and 0 in a row of -inf alone."""
    if gradients[0] is None:
        return [None]
    kind = result_type(op.result)
    is_nothing = b.op("eq", op.result, b.full(-math.inf, kind))
    result = b.op("select", is_nothing, b.full(0.0, kind), op.result)
    share = b.op("exp", b.op("sub", op.operands[0], spread_back(b, result, op)))
    return [b.op("mul", spread_back(b, gradients[0], op), share)]


# logsumexp {positions}: log(sum(exp(x - top))) + top; of nothing it is an error (R1103).
register(OpEntry("logsumexp", _infer_logsumexp, _logsumexp_derivative, Composite(_logsumexp)))


def _infer_log_softmax(op: Op) -> tuple[Type, ...]:
    kind = operand_type(op)
    require(kind.element in FLOATS and len(attribute(op, "positions")) == 1, op, "takes one axis of a float tensor")
    reduced_type(op, FLOATS)
    return (kind,)


def _log_softmax(b: Builder, op: Op) -> tuple[Value, ...]:
    x, positions = op.operands[0], op.attributes["positions"]
    gaps = b.op("sub", x, spread_back(b, _top(b, op, finite=False), op))
    total = b.op("sum", b.op("exp", gaps), positions=positions)
    kind = result_type(total)
    divisor = b.op("select", b.op("eq", total, b.full(0.0, kind)), b.full(1.0, kind), total)
    return (b.op("sub", gaps, spread_back(b, b.op("log", divisor), op)),)


def _log_softmax_derivative(b: Builder, op: Op, gradients: Gradients) -> Gradients:
    """g - p sum(g), with p = exp(result)."""
    if gradients[0] is None:
        return [None]
    total = b.op("sum", gradients[0], positions=op.attributes["positions"])
    return [b.op("sub", gradients[0], b.op("mul", b.op("exp", op.result), spread_back(b, total, op)))]


# log_softmax {positions}: (x - top) - log(sum(exp(x - top))) along one axis; a row of -inf alone stays one.
register(OpEntry("log_softmax", _infer_log_softmax, _log_softmax_derivative, Composite(_log_softmax)))


# ---- variance


def _infer_variance(op: Op) -> tuple[Type, ...]:
    require(len(op.operands) == 2 and op.operands[1].type == INT, op, "takes a tensor and the correction, a host int")
    kind = reduced_type(op, FLOATS)
    return kind, kind


def _divisor(b: Builder, op: Op) -> Value:
    """The number of elements less the correction, as a host int."""
    kind = operand_type(op)
    return b.op("sub", b.size(product(kind.axes[place] for place in op.attributes["positions"])), op.operands[1])


def _spread_divisor(b: Builder, op: Op, kind: TensorType) -> Value:
    return b.spread(b.convert(_divisor(b, op), kind.element), kind)


def _variance(b: Builder, op: Op) -> tuple[Value, ...]:
    x, positions = op.operands[0], op.attributes["positions"]
    b.emit("check", b.op("gt", _divisor(b, op), b.constant(0, Element.I64)), failure="variance")
    centre = b.op("mean", x, positions=positions)
    gaps = b.op("sub", x, spread_back(b, centre, op))
    total = b.op("sum", b.op("mul", gaps, gaps), positions=positions)
    return b.op("div", total, _spread_divisor(b, op, result_type(total))), centre


def _variance_derivative(b: Builder, op: Op, gradients: Gradients) -> Gradients:
    """(x - mean) (2 g / divisor), and what the mean's gradient adds."""
    _, centre = op.results
    kind = result_type(centre)
    found: Value | None = None
    if gradients[0] is not None:
        factor = b.op("div", b.op("mul", gradients[0], b.full(2.0, kind)), _spread_divisor(b, op, kind))
        gaps = b.op("sub", op.operands[0], spread_back(b, centre, op))
        found = b.op("mul", gaps, spread_back(b, factor, op))
    if gradients[1] is not None:
        count = b.size(product(operand_type(op).axes[place] for place in op.attributes["positions"]), kind.element)
        share = spread_back(b, b.op("div", gradients[1], b.spread(count, kind)), op)
        found = share if found is None else b.op("add", found, share)
    return [found, None]


# variance(x, correction) {positions} -> variance, mean: the sum of the squared differences from the mean, divided by the number of elements
# less the correction, which is rounded to the element type; where that is 0 or below it is an error (R1103).
register(OpEntry("variance", _infer_variance, _variance_derivative, Composite(_variance)))
