"""Rows of a tensor by their numbers: gather, scatter_rows, which is its transpose, and rows added to those that are there."""

from __future__ import annotations

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.types import Element, TensorType, Type
from shapescript.compiler.ops.build import Builder
from shapescript.compiler.ops.elementwise import FLOATS, NUMBERS, Gradients
from shapescript.compiler.ops.shapes import operand_type
from shapescript.compiler.ops.table import Kernel, OpEntry, attribute, register, require


def _infer_gather(op: Op) -> tuple[Type, ...]:
    require(len(op.operands) == 2, op, "takes rows and an index")
    rows, index = operand_type(op), operand_type(op, 1)
    require(rows.rank >= 1 and index.element is Element.I64, op, "takes rows along a first axis, and an index of ints")
    return (TensorType(rows.element, (*index.axes, *rows.axes[1:])),)


def _gather_derivative(b: Builder, op: Op, gradients: Gradients) -> Gradients:
    if gradients[0] is None:
        return [None, None]
    return [b.op("scatter_rows", gradients[0], op.operands[1], size=operand_type(op).axes[0]), None]


# gather(rows, index): result[i..., r...] = rows[index[i...], r...]. An index outside of the first axis is R1101.
register(OpEntry("gather", _infer_gather, _gather_derivative, Kernel("gather"), ordered=True))


def _infer_scatter_rows(op: Op) -> tuple[Type, ...]:
    require(len(op.operands) == 2, op, "takes rows to add and an index")
    rows, index = operand_type(op), operand_type(op, 1)
    require(rows.element in FLOATS and index.element is Element.I64, op, "takes rows of floats, and an index of ints")
    require(rows.axes[: index.rank] == index.axes, op, "the rows' axes must begin with the index's")
    return (TensorType(rows.element, (attribute(op, "size"), *rows.axes[index.rank :])),)


def _scatter_rows_derivative(b: Builder, op: Op, gradients: Gradients) -> Gradients:
    return [None if gradients[0] is None else b.op("gather", gradients[0], op.operands[1]), None]


# scatter_rows(rows, index) {size}: +0.0 everywhere; then, for the index's positions in row-major order, rows[i..., r...] is added to
# result[index[i...], r...]. Not ordered: it may come to stand before the gather that it belongs to and that refuses an index outside, so
# here such a row is left out.
register(OpEntry("scatter_rows", _infer_scatter_rows, _scatter_rows_derivative, Kernel("scatter_rows")))


def _infer_add_rows(op: Op) -> tuple[Type, ...]:
    require(len(op.operands) == 3, op, "takes a tensor, rows to add to it and an index")
    kind, rows, index = (operand_type(op, place) for place in range(3))
    require(kind.element in NUMBERS and index.element is Element.I64 and kind.rank >= 1, op, "takes numbers, and an index of ints")
    require(rows == TensorType(kind.element, (*index.axes, *kind.axes[1:])), op, "the rows have the index's axes, then the tensor's others")
    return (kind,)


def _add_rows_derivative(b: Builder, op: Op, gradients: Gradients) -> Gradients:
    if gradients[0] is None:
        return [None, None, None]
    return [gradients[0], b.op("gather", gradients[0], op.operands[2]), None]


# add_rows(x, rows, index): x, to which, for the index's positions in row-major order, rows[i..., r...] is added at [index[i...], r...]. An
# index outside of the first axis is R1101, before anything is added; `called` is the function of the language that the message names.
register(OpEntry("add_rows", _infer_add_rows, _add_rows_derivative, Kernel("add_rows"), ordered=True, consumes=(0,)))
