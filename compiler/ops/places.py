"""Places along one axis: slices, what is put in their stead, tensors side by side, and sizes that a run decides.

None of `slice`, `put` and `add_slice` can fail: a start outside is moved to the nearest one inside, and of a part that is longer than the
whole a slice is zeros and nothing is put. What a program writes is checked by `check_slice`; what a pass makes needs no check.
"""

from __future__ import annotations

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.sizes import number
from shapescript.compiler.ir.types import INT, TensorType, Type
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.ops.elementwise import NUMBERS, Gradients
from shapescript.compiler.ops.shapes import operand_type
from shapescript.compiler.ops.table import Kernel, Move, NoDerivative, OpEntry, attribute, register, require

# ---- sizes and checks


def _infer_bind_size(op: Op) -> tuple[Type, ...]:
    require([operand.type for operand in op.operands] == [INT], op, "takes a host int")
    attribute(op, "size")
    return ()


# bind_size(count) {size}: from here on, the symbol that `size` is has this value. A count below 0 is R1003.
register(OpEntry("bind_size", _infer_bind_size, NoDerivative.ZERO, Kernel("bind_size"), ordered=True))


def _infer_check_slice(op: Op) -> tuple[Type, ...]:
    require([operand.type for operand in op.operands] == [INT, INT], op, "takes start and stop")
    attribute(op, "size")
    attribute(op, "axis")
    return ()


# check_slice(start, stop) {size, axis}: R1107 unless 0 <= start <= stop <= size; `axis` is the axis's name, for the message.
register(OpEntry("check_slice", _infer_check_slice, NoDerivative.ZERO, Kernel("check_slice"), ordered=True))


# ---- slices


def _with_length(kind: TensorType, position: int, length: object) -> TensorType:
    axes = list(kind.axes)
    axes[position] = length  # type: ignore[call-overload]
    return TensorType(kind.element, tuple(axes))


def _infer_slice(op: Op) -> tuple[Type, ...]:
    require(len(op.operands) == 2 and op.operands[1].type == INT, op, "takes a tensor and the start")
    kind, position = operand_type(op), attribute(op, "position")
    require(0 <= position < kind.rank, op, "the position is not one of the axes")
    return (_with_length(kind, position, attribute(op, "length")),)


def _slice_derivative(b: Builder, op: Op, gradients: Gradients) -> Gradients:
    if gradients[0] is None:
        return [None, None]
    kind = operand_type(op)
    return [b.op("put", b.full(0.0, kind), gradients[0], op.operands[1], position=op.attributes["position"]), None]


# slice(x, start) {position, length}: the places start to start + length - 1 along one axis.
register(OpEntry("slice", _infer_slice, _slice_derivative, Move("slice")))


def _infer_put(op: Op) -> tuple[Type, ...]:
    require(len(op.operands) == 3 and op.operands[2].type == INT, op, "takes a tensor, what is put into it, and the start")
    kind, part, position = operand_type(op), operand_type(op, 1), attribute(op, "position")
    require(0 <= position < kind.rank and part.rank == kind.rank, op, "the position is not one of the axes")
    require(part == _with_length(kind, position, part.axes[position]), op, "the other axes and the elements must agree")
    return (kind,)


def _put_derivative(b: Builder, op: Op, gradients: Gradients) -> Gradients:
    if gradients[0] is None:
        return [None, None, None]
    part, start, position = operand_type(op, 1), op.operands[2], op.attributes["position"]
    taken = b.op("slice", gradients[0], start, position=position, length=part.axes[position])  # before the rest takes the storage over
    return [b.op("put", gradients[0], b.full(0.0, part), start, position=position), taken, None]


# put(x, part, start) {position}: x with the part in the place of its own elements from `start` on along one axis.
register(OpEntry("put", _infer_put, _put_derivative, Move("put"), consumes=(0,)))


def _add_slice_derivative(b: Builder, op: Op, gradients: Gradients) -> Gradients:
    if gradients[0] is None:
        return [None, None, None]
    position = op.attributes["position"]
    length = operand_type(op, 1).axes[position]
    return [gradients[0], b.op("slice", gradients[0], op.operands[2], position=position, length=length), None]


def _infer_add_slice(op: Op) -> tuple[Type, ...]:
    (kind,) = _infer_put(op)
    require(operand_type(op).element in NUMBERS, op, "takes numbers")
    return (kind,)


# add_slice(x, part, start) {position}: x with the part added to its own elements from `start` on, element by element (x + part).
register(OpEntry("add_slice", _infer_add_slice, _add_slice_derivative, Move("add_slice"), consumes=(0,)))


# ---- side by side


def _infer_concat(op: Op) -> tuple[Type, ...]:
    require(bool(op.operands), op, "takes tensors")
    kind, position = operand_type(op), attribute(op, "position")
    require(0 <= position < kind.rank, op, "the position is not one of the axes")
    whole = number(0)
    for place in range(len(op.operands)):
        part = operand_type(op, place)
        require(part.rank == kind.rank and part == _with_length(kind, position, part.axes[position]), op, "the other axes must agree")
        whole = whole + part.axes[position]
    return (_with_length(kind, position, whole),)


def _concat_derivative(b: Builder, op: Op, gradients: Gradients) -> Gradients:
    if gradients[0] is None:
        return [None] * len(op.operands)
    position, start, found = op.attributes["position"], number(0), []
    for place in range(len(op.operands)):
        length = operand_type(op, place).axes[position]
        found.append(b.op("slice", gradients[0], b.size(start), position=position, length=length))
        start = start + length
    return found


# concat(x...) {position}: one behind the other along one axis.
register(OpEntry("concat", _infer_concat, _concat_derivative, Move("concat")))


def _infer_literal(op: Op) -> tuple[Type, ...]:
    axes = attribute(op, "axes")
    count = 1
    for axis in axes:
        count *= axis.constant() or 0
    kinds = {operand.type for operand in op.operands}
    require(len(op.operands) == count and len(kinds) == 1, op, "takes as many numbers of one type as the axes have places")
    kind = operand_type(op)
    require(not kind.axes, op, "takes numbers")
    return (TensorType(kind.element, tuple(axes)),)


def _literal_derivative(b: Builder, op: Op, gradients: Gradients) -> Gradients:
    if gradients[0] is None:
        return [None] * len(op.operands)
    kind = result_type(op.result)
    flat = b.op("reshape", gradients[0], axes=(number(len(op.operands)),))
    parts = (b.op("slice", flat, b.size(number(place)), position=0, length=number(1)) for place in range(len(op.operands)))
    return [b.op("reshape", part, axes=()) for part in parts] if kind.element.is_float else [None] * len(op.operands)


# literal(number...) {axes}: a tensor of these numbers in row-major order; the axes have known sizes and at least one place.
register(OpEntry("literal", _infer_literal, _literal_derivative, Move("literal")))
