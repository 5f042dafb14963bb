"""Contractions that read windows, or make what lies in windows, without a tensor of windows: those of one example are enough at a time.

windows_contraction(left, right, extras...) {side, axes, positions, …, left, right, out, maps}: a `fused_contraction` in which operand
`side` (0 or 1) stands for its `windows`, whose attributes are here too, with these axes.

contraction_fold(left, right) {left, right, out, axes, positions, …}: a `contraction`, with these axes, and the `fold` of that.

An example is a place of the first axis of the tensor of windows, which windows don't move along.
"""

from __future__ import annotations

from shapescript.compiler.ir.nodes import Op, Value
from shapescript.compiler.ir.sizes import product
from shapescript.compiler.ir.types import TensorType, Type
from shapescript.compiler.ops.shapes import LETTERS, operand_type
from shapescript.compiler.ops.table import Kernel, NoDerivative, OpEntry, attribute, entry, register, require
from shapescript.compiler.ops.windows import STEPS

WINDOWS = ("positions", "lengths", "counts", *STEPS, "fill", "room")
FOLD = ("positions", "sizes", *STEPS, "room")


def windows_op(op: Op) -> Op:
    """The `windows` of a `windows_contraction`."""
    attributes = {name: attribute(op, name) for name in WINDOWS}
    bare = Op("windows", (op.operands[attribute(op, "side")],), attributes)
    (kind,) = entry("windows").infer(bare)
    return Op("windows", bare.operands, attributes, (Value(kind),), (), op.span)


def contraction_op(op: Op) -> Op:
    """The contraction, of the windows or in front of the fold."""
    if op.name == "contraction_fold":
        attributes = {name: attribute(op, name) for name in LETTERS}
        (kind,) = entry("contraction").infer(Op("contraction", op.operands, attributes))
        return Op("contraction", op.operands, attributes, (Value(kind),), (), op.span)
    operands, side = list(op.operands), attribute(op, "side")
    operands[side] = Value(TensorType(operand_type(op, side).element, tuple(attribute(op, "axes"))))
    attributes = {name: attribute(op, name) for name in (*LETTERS, "maps")}
    return Op("fused_contraction", tuple(operands), attributes, op.results, op.regions, op.span)


def fold_op(op: Op) -> Op:
    """The `fold` of a `contraction_fold`."""
    x = Value(TensorType(operand_type(op).element, tuple(attribute(op, "axes"))))
    return Op("fold", (x,), {name: attribute(op, name) for name in FOLD}, op.results, (), op.span)


def _same_count(op: Op, kind: Type) -> None:
    axes = tuple(attribute(op, "axes"))
    require(isinstance(kind, TensorType) and product(kind.axes) == product(axes), op, "the axes are those of another number of elements")
    require(bool(axes) and isinstance(kind, TensorType) and kind.axes[:1] == axes[:1], op, "the first axis stays")
    require(0 not in attribute(op, "positions"), op, "windows don't move along the first axis")


def _infer_windows_contraction(op: Op) -> tuple[Type, ...]:
    require(attribute(op, "side") in (0, 1), op, "side is 0 or 1")
    _same_count(op, windows_op(op).result.type)
    return entry("fused_contraction").infer(contraction_op(op))


def _infer_contraction_fold(op: Op) -> tuple[Type, ...]:
    _same_count(op, contraction_op(op).result.type)
    return entry("fold").infer(fold_op(op))


register(OpEntry("windows_contraction", _infer_windows_contraction, NoDerivative.FORBIDDEN, Kernel("windows_contraction")))
register(OpEntry("contraction_fold", _infer_contraction_fold, NoDerivative.FORBIDDEN, Kernel("contraction_fold")))
