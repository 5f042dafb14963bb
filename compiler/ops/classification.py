"""Softmax and cross entropy: built in, since their well-behaved gradients are formulas of their own."""

from __future__ import annotations

from shapescript.compiler.ir.nodes import Op, Value
from shapescript.compiler.ir.sizes import product
from shapescript.compiler.ir.types import Element, TensorType, Type
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.ops.elementwise import FLOATS, Gradients
from shapescript.compiler.ops.ordering import is_picked
from shapescript.compiler.ops.shapes import operand_type, spread_back
from shapescript.compiler.ops.table import Composite, OpEntry, attribute, register, require


def _infer_softmax(op: Op) -> tuple[Type, ...]:
    kind, positions = operand_type(op), attribute(op, "positions")
    require(kind.element in FLOATS and len(positions) == 1 and 0 <= positions[0] < kind.rank, op, "takes one axis of a float tensor")
    return (kind,)


def softmax_gradient(b: Builder, op: Op, probabilities: Value, gradient: Value) -> Value:
    """p * (g - sum(g * p)), the sum over the softmax's axis."""
    total = b.op("sum", b.op("mul", gradient, probabilities), positions=op.attributes["positions"])
    return b.op("mul", probabilities, b.op("sub", gradient, spread_back(b, total, op)))


def _softmax_derivative(b: Builder, op: Op, gradients: Gradients) -> Gradients:
    return [None if gradients[0] is None else softmax_gradient(b, op, op.result, gradients[0])]


def _softmax(b: Builder, op: Op) -> tuple[Value, ...]:
    """exp(x - max) / sum: a row of -inf alone becomes a row of 0, since its exponentials and their sum's stand-in are pinned."""
    (x,), positions = op.operands, op.attributes["positions"]
    top = b.op("max", x, positions=positions)
    finite = b.op("select", b.op("eq", top, b.full(float("-inf"), result_type(top))), b.full(0.0, result_type(top)), top)
    powers = b.op("exp", b.op("sub", x, spread_back(b, finite, op)))
    total = b.op("sum", powers, positions=positions)
    divisor = b.op("select", b.op("eq", total, b.full(0.0, result_type(total))), b.full(1.0, result_type(total)), total)
    return (b.op("div", powers, spread_back(b, divisor, op)),)


# softmax {positions}: along one axis.
register(OpEntry("softmax", _infer_softmax, _softmax_derivative, Composite(_softmax)))


def _infer_cross_entropy(op: Op) -> tuple[Type, ...]:
    require(len(op.operands) == 2, op, "takes logits and labels")
    logits, labels = operand_type(op), operand_type(op, 1)
    require(logits.element in FLOATS and logits.rank >= 1, op, "logits must be floats with a class axis")
    require(labels == TensorType(Element.I64, logits.axes[:-1]), op, "labels must be ints with the logits' axes but the last")
    return TensorType(logits.element), logits


def _cross_entropy_derivative(b: Builder, op: Op, gradients: Gradients) -> Gradients:
    """(p - onehot) * (g / count); where a gradient reaches the probabilities too, softmax's is added."""
    _, probabilities = op.results
    kind, labels = result_type(probabilities), op.operands[1]
    found: Value | None = None
    if gradients[0] is not None:
        count = b.size(product(operand_type(op, 1).axes), kind.element)
        weight = b.spread(b.op("div", gradients[0], count), kind)
        hot = b.op("select", is_picked(b, kind, labels, kind.rank - 1), b.full(1.0, kind), b.full(0.0, kind))
        found = b.op("mul", b.op("sub", probabilities, hot), weight)
    if gradients[1] is not None:
        over = Op("softmax", (op.operands[0],), {"positions": (kind.rank - 1,)}, (probabilities,))
        second = softmax_gradient(b, over, probabilities, gradients[1])
        found = second if found is None else b.op("add", found, second)
    return [found, None]


def _cross_entropy(b: Builder, op: Op) -> tuple[Value, ...]:
    (logits, labels), last = op.operands, operand_type(op).rank - 1
    b.emit("check_index", labels, size=operand_type(op).axes[last], called="cross_entropy")
    along = Op("sum", (logits,), {"positions": (last,)}, ())
    gaps = b.op("sub", logits, spread_back(b, b.op("max", logits, positions=(last,)), along))
    powers = b.op("exp", gaps)
    total = b.op("sum", powers, positions=(last,))
    losses = b.op("sub", b.op("log", total), b.op("pick", gaps, labels, position=last))
    loss = b.op("mean", losses, positions=tuple(range(last))) if last else losses
    return loss, b.op("div", powers, spread_back(b, total, along))


# cross_entropy(logits, labels) -> loss, probabilities: the class axis is the last. For each row, with top the largest logit:
#   e = exp(z - top), total = sum e (rule 2), probabilities = e / total, row loss = log(total) - (z[label] - top);
# loss = (sum of row losses in the labels' row-major order) / count. A label outside 0..classes-1 is R1101, no rows are R1103.
register(OpEntry("cross_entropy", _infer_cross_entropy, _cross_entropy_derivative, Composite(_cross_entropy), ordered=True))
