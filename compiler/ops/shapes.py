"""Operations that change axes, not elements: broadcast, transpose, reshape; reductions and contractions."""

from __future__ import annotations

from collections.abc import Sequence

from shapescript.compiler.ir.nodes import Op, Value
from shapescript.compiler.ir.sizes import Size, product
from shapescript.compiler.ir.types import Element, TensorType, Type
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.ops.elementwise import FLOATS, NUMBERS, Gradients
from shapescript.compiler.ops.table import Contraction, Move, NoDerivative, OpEntry, Reduction, View, attribute, register, require


def operand_type(op: Op, place: int = 0) -> TensorType:
    kind = op.operands[place].type
    require(isinstance(kind, TensorType), op, "takes tensors")
    assert isinstance(kind, TensorType)
    return kind


def without(axes: Sequence[Size], positions: Sequence[int]) -> tuple[Size, ...]:
    return tuple(axis for place, axis in enumerate(axes) if place not in positions)


def kept(rank: int, positions: Sequence[int]) -> tuple[int, ...]:
    """The places that are not among `positions`."""
    return tuple(place for place in range(rank) if place not in positions)


# ---- broadcast, transpose, reshape ------------------------------------------------------------------------------------------------------


def _infer_broadcast(op: Op) -> tuple[Type, ...]:
    kind, axes, positions = operand_type(op), attribute(op, "axes"), attribute(op, "positions")
    require(len(positions) == kind.rank and list(positions) == sorted(set(positions)), op, "positions must ascend, one for each axis")
    require(all(place < len(axes) and axes[place] == axis for place, axis in zip(positions, kind.axes, strict=True)), op, "axes differ")
    return (TensorType(kind.element, tuple(axes)),)


def _broadcast_derivative(b: Builder, op: Op, gradients: Gradients) -> Gradients:
    if gradients[0] is None:
        return [None]
    new = kept(len(op.attributes["axes"]), op.attributes["positions"])
    return [b.op("sum", gradients[0], positions=new) if new else gradients[0]]


register(OpEntry("broadcast", _infer_broadcast, _broadcast_derivative, Move("broadcast")))


def _infer_transpose(op: Op) -> tuple[Type, ...]:
    kind, permutation = operand_type(op), attribute(op, "permutation")
    require(sorted(permutation) == list(range(kind.rank)), op, "not a permutation of the axes")
    return (TensorType(kind.element, tuple(kind.axes[place] for place in permutation)),)


def inverse(permutation: Sequence[int]) -> tuple[int, ...]:
    return tuple(permutation.index(place) for place in range(len(permutation)))


def _transpose_derivative(b: Builder, op: Op, gradients: Gradients) -> Gradients:
    return [None if gradients[0] is None else b.op("transpose", gradients[0], permutation=inverse(op.attributes["permutation"]))]


# transpose {permutation}: the result's axis i is the operand's axis permutation[i].
register(OpEntry("transpose", _infer_transpose, _transpose_derivative, Move("transpose")))


def _infer_reshape(op: Op) -> tuple[Type, ...]:
    kind, axes = operand_type(op), attribute(op, "axes")
    same = product(axes) == product(kind.axes) or product(axes).known() == product(kind.axes).known()
    require(same, op, f"{product(axes)} is not {product(kind.axes)} elements")
    return (TensorType(kind.element, tuple(axes)),)


def _reshape_derivative(b: Builder, op: Op, gradients: Gradients) -> Gradients:
    return [None if gradients[0] is None else b.op("reshape", gradients[0], axes=operand_type(op).axes)]


# reshape {axes}: the same elements in row-major order. The language has no such operation: groups of a pattern come down to it.
register(OpEntry("reshape", _infer_reshape, _reshape_derivative, View("reshape")))


# ---- reductions -------------------------------------------------------------------------------------------------------------------------


def reduced_type(op: Op, allowed: Sequence[Element]) -> TensorType:
    kind, positions = operand_type(op), attribute(op, "positions")
    require(kind.element in allowed, op, f"element types must be one of {allowed}")
    require(list(positions) == sorted(set(positions)) and all(0 <= place < kind.rank for place in positions), op, "positions must ascend")
    return TensorType(kind.element, without(kind.axes, positions))


def spread_back(b: Builder, value: Value, op: Op) -> Value:
    """A reduction's result (or its gradient) at every place of the operand."""
    kind = operand_type(op)
    return b.broadcast(value, kind.axes, kept(kind.rank, op.attributes["positions"]))


def _sum_derivative(b: Builder, op: Op, gradients: Gradients) -> Gradients:
    return [None if gradients[0] is None else spread_back(b, gradients[0], op)]


register(OpEntry("sum", lambda op: (reduced_type(op, NUMBERS),), _sum_derivative, Reduction("sum")))


def _mean_derivative(b: Builder, op: Op, gradients: Gradients) -> Gradients:
    if gradients[0] is None:
        return [None]
    count = b.size(product(operand_type(op).axes[place] for place in op.attributes["positions"]), result_type(gradients[0]).element)
    return [spread_back(b, b.op("div", gradients[0], b.spread(count, result_type(gradients[0]))), op)]


# The sum divided by the count, which is rounded to the element type; of nothing it is an error (R1103).
register(OpEntry("mean", lambda op: (reduced_type(op, FLOATS),), _mean_derivative, Reduction("mean"), ordered=True))


def _extreme_derivative(b: Builder, op: Op, gradients: Gradients) -> Gradients:
    """To the lowest index that holds the extreme; one axis at a time."""
    if gradients[0] is None:
        return [None]
    kind, (place,) = operand_type(op), op.attributes["positions"]
    chosen = spread_back(b, b.op("argmax" if op.name == "max" else "argmin", op.operands[0], positions=(place,)), op)
    hit = b.op("eq", b.op("iota", axes=kind.axes, position=place), chosen)
    return [b.op("select", hit, spread_back(b, gradients[0], op), b.full(0.0, kind))]


def _infer_index(op: Op) -> tuple[Type, ...]:
    require(len(attribute(op, "positions")) == 1, op, "takes one axis")
    return (TensorType(Element.I64, reduced_type(op, NUMBERS).axes),)


# max, min {positions}: NaN propagates; of nothing they are an error (R1103). Along several axes the checker makes one after the other.
for _name in ("max", "min"):
    register(OpEntry(_name, lambda op: (reduced_type(op, NUMBERS),), _extreme_derivative, Reduction(_name), ordered=True))
    register(OpEntry(f"arg{_name}", _infer_index, NoDerivative.ZERO, Reduction(f"arg{_name}"), ordered=True))


# ---- contraction ------------------------------------------------------------------------------------------------------------------------


LETTERS = ("left", "right", "out")  # attributes: for each axis of an operand, or of the result, its number


def _infer_contraction(op: Op) -> tuple[Type, ...]:
    require(len(op.operands) == 2, op, "takes two operands")
    sizes: dict[int, Size] = {}
    for place, letters in enumerate((attribute(op, "left"), attribute(op, "right"))):
        kind = operand_type(op, place)
        require(len(letters) == kind.rank and len(set(letters)) == len(letters), op, "one letter for each axis, none twice")
        for letter, axis in zip(letters, kind.axes, strict=True):
            require(sizes.setdefault(letter, axis) == axis, op, f"axis {letter} is {sizes[letter]} and {axis}")
    out = attribute(op, "out")
    require(len(set(out)) == len(out) and all(letter in sizes for letter in out), op, "an axis of the result is in no operand")
    left, right = set(op.attributes["left"]), set(op.attributes["right"])
    require(
        all(letter in left and letter in right for letter in left | right if letter not in out), op, "a summed axis is in one operand only"
    )
    element = operand_type(op).element
    require(element in FLOATS and operand_type(op, 1).element is element, op, "operands must be of one float type")
    return (TensorType(element, tuple(sizes[letter] for letter in out)),)


def _contraction_derivative(b: Builder, op: Op, gradients: Gradients) -> Gradients:
    if gradients[0] is None:
        return [None, None]
    left, right, out = (op.attributes[name] for name in LETTERS)
    return [
        b.op("contraction", gradients[0], op.operands[1], left=out, right=right, out=left),
        b.op("contraction", gradients[0], op.operands[0], left=out, right=left, out=right),
    ]


# contraction {left, right, out}: numbers name the axes. Every summed axis is in both operands.
register(OpEntry("contraction", _infer_contraction, _contraction_derivative, Contraction()))
