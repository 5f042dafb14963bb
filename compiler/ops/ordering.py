"""Order along one axis: running sums, positions in order of size, and elements taken or added at positions along it."""

from __future__ import annotations

from shapescript.compiler.ir.nodes import Op, Value
from shapescript.compiler.ir.sizes import Size
from shapescript.compiler.ir.types import BOOL, Element, TensorType, Type
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.ops.elementwise import FLOATS, NUMBERS, Gradients
from shapescript.compiler.ops.shapes import kept, operand_type, without
from shapescript.compiler.ops.table import Kernel, NoDerivative, OpEntry, attribute, register, require


def _along(op: Op) -> tuple[TensorType, int]:
    """The first operand's type, and the axis at `position`."""
    kind, position = operand_type(op), attribute(op, "position")
    require(0 <= position < kind.rank, op, "the position is not one of the axes")
    return kind, position


def _resized(kind: TensorType, position: int, size: Size) -> TensorType:
    return TensorType(kind.element, (*kind.axes[:position], size, *kind.axes[position + 1 :]))


# ---- running sums


def _infer_cumsum(op: Op) -> tuple[Type, ...]:
    kind, _ = _along(op)
    attribute(op, "reverse")
    require(kind.element in NUMBERS, op, "takes numbers")
    return (kind,)


def _cumsum_derivative(b: Builder, op: Op, gradients: Gradients) -> Gradients:
    if gradients[0] is None:
        return [None]
    return [b.op("cumsum", gradients[0], position=op.attributes["position"], reverse=not op.attributes["reverse"])]


# cumsum(x) {position, reverse}: one chain of sums along one axis, s = x0, then s = s + xi with i ascending; in reverse, descending from the
# last. The result holds each s at its place.
register(OpEntry("cumsum", _infer_cumsum, _cumsum_derivative, Kernel("cumsum")))


# ---- order of size


def _infer_argsort(op: Op) -> tuple[Type, ...]:
    require(len(op.operands) == 2 and op.operands[1].type == BOOL, op, "takes a tensor and whether the order descends")
    kind, _ = _along(op)
    require(kind.element in NUMBERS, op, "takes numbers")
    return (TensorType(Element.I64, kind.axes),)


# argsort(x, descending) {position}: the positions along one axis in the order of the elements there. Equal elements (the two zeros are)
# stand in the order of their positions either way, and NaN is greater than every number.
register(OpEntry("argsort", _infer_argsort, NoDerivative.ZERO, Kernel("argsort")))


# ---- elements at positions along an axis


def _check_index(op: Op, kind: TensorType, position: int) -> TensorType:
    """The index's type; it has the tensor's axes but for one."""
    index = operand_type(op, 1)
    require(index.element is Element.I64, op, "takes an index of ints")
    require(index.rank == kind.rank, op, "the tensor and the index differ in more than one axis")
    require(_resized(kind, position, index.axes[position]).axes == index.axes, op, "the tensor and the index differ in more than one axis")
    return index


def _infer_take_along(op: Op) -> tuple[Type, ...]:
    require(len(op.operands) == 2, op, "takes a tensor and an index")
    kind, position = _along(op)
    return (TensorType(kind.element, _check_index(op, kind, position).axes),)


def _take_along_derivative(b: Builder, op: Op, gradients: Gradients) -> Gradients:
    if gradients[0] is None:
        return [None, None]
    position = op.attributes["position"]
    return [b.op("put_along", gradients[0], op.operands[1], position=position, size=operand_type(op).axes[position]), None]


# take_along(x, index) {position}: result[a..., j, c...] = x[a..., index[a..., j, c...], c...]. An index outside of the axis is R1101;
# `called` is the function of the language that the message names.
register(OpEntry("take_along", _infer_take_along, _take_along_derivative, Kernel("take_along"), ordered=True))


def _infer_put_along(op: Op) -> tuple[Type, ...]:
    require(len(op.operands) == 2, op, "takes elements to add and an index")
    kind, position = _along(op)
    require(kind.element in FLOATS, op, "takes floats")
    require(_check_index(op, kind, position).axes == kind.axes, op, "the elements and the index have the same axes")
    return (_resized(kind, position, attribute(op, "size")),)


def _put_along_derivative(b: Builder, op: Op, gradients: Gradients) -> Gradients:
    if gradients[0] is None:
        return [None, None]
    return [b.op("take_along", gradients[0], op.operands[1], position=op.attributes["position"]), None]


# put_along(x, index) {position, size}: +0.0 everywhere; then, with j ascending, x[a..., j, c...] is added to
# result[a..., index[a..., j, c...], c...]. Not ordered: it may come to stand before the take_along that it belongs to and that refuses an
# index outside, so here such an element is left out.
register(OpEntry("put_along", _infer_put_along, _put_along_derivative, Kernel("put_along")))


def _infer_check_index(op: Op) -> tuple[Type, ...]:
    require(operand_type(op).element is Element.I64, op, "takes an index of ints")
    attribute(op, "size"), attribute(op, "called")
    return ()


# check_index(index) {size, called}: R1101 unless all elements are in 0 to size - 1; `called` is the function that the message names.
register(OpEntry("check_index", _infer_check_index, NoDerivative.ZERO, Kernel("check_index"), ordered=True))


def _infer_pick(op: Op) -> tuple[Type, ...]:
    require(len(op.operands) == 2, op, "takes a tensor and an index")
    kind, position = _along(op)
    wanted = TensorType(Element.I64, without(kind.axes, (position,)))
    require(op.operands[1].type == wanted, op, "the index has the tensor's axes but one")
    return (TensorType(kind.element, wanted.axes),)


def is_picked(b: Builder, kind: TensorType, index: Value, position: int) -> Value:
    """Of a tensor of this type: where its element is the one that the index says."""
    return b.op("eq", b.op("iota", axes=kind.axes, position=position), b.broadcast(index, kind.axes, kept(kind.rank, (position,))))


def _pick_derivative(b: Builder, op: Op, gradients: Gradients) -> Gradients:
    """+0.0 + g at the element that was taken, else +0.0."""
    if gradients[0] is None:
        return [None, None]
    kind, position = operand_type(op), op.attributes["position"]
    added = b.op("add", b.full(0.0, result_type(gradients[0])), gradients[0])
    spread = b.broadcast(added, kind.axes, kept(kind.rank, (position,)))
    return [b.op("select", is_picked(b, kind, op.operands[1], position), spread, b.full(0.0, kind)), None]


# pick(x, index) {position}: result[a..., c...] = x[a..., index[a..., c...], c...]. The index has been checked by `check_index`, but not
# ordered behind it: it may stand before that, and for an index outside of the axis give anything.
register(OpEntry("pick", _infer_pick, _pick_derivative, Kernel("pick")))
