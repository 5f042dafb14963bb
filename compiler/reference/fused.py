"""What the fusion passes make (ops/fused.py): a region, evaluated on whole arrays broadcast over the space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.numerics.summation import reduce_sum
from shapescript.compiler.ops.fused import varies
from shapescript.compiler.ops.protocol import reduction_of_nothing
from shapescript.compiler.reference.frame import Frame, handles
from shapescript.compiler.reference.layouts import Array
from shapescript.compiler.reference.reductions import extreme, mean_of, rows_of
from shapescript.compiler.reference.shapes import contract, placed


@handles("kernel")
def _kernel(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    space = frame.shape(op.attributes["space"], op.span)
    elements = [placed(array, where, len(space)) for array, where in zip(operands, op.attributes["maps"], strict=True)]
    return _evaluated(op, elements, space, frame)


@handles("fused_contraction")
def _fused_contraction(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    left, right, *extras = operands
    product = contract(left, right, op.attributes)
    elements = [placed(array, where, product.ndim) for array, where in zip(extras, op.attributes["maps"], strict=True)]
    return _evaluated(op, [product, *elements], product.shape, frame)


@handles("fused_reduction")
def _fused_reduction(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    space, positions = frame.shape(op.attributes["space"], op.span), op.attributes["positions"]
    elements = [placed(array, where, len(space)) for array, where in zip(operands, op.attributes["maps"], strict=True)]
    once, points = tuple(1 if place in positions else extent for place, extent in enumerate(space)), varies(op)
    short = tuple(extent for place, extent in enumerate(space) if place not in positions)
    return [
        np.broadcast_to(array, space) if value in points else np.broadcast_to(array, once).reshape(short)
        for value, array in zip(op.regions[0].yields, _run_region(op, elements, space, frame), strict=True)
    ]


@handles("reduce")
def _reduce(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    """Of an element at all points, with its reduced axes kept as axes of one place."""
    kind, positions = op.attributes["kind"], op.attributes["positions"]
    assert frame.space is not None
    rows = rows_of(np.broadcast_to(operands[0], frame.space), positions)
    if kind != "sum" and rows.shape[-1] == 0:
        raise reduction_of_nothing(op)
    if kind in ("sum", "mean"):
        total = reduce_sum(rows)
        found = mean_of(total, rows.shape[-1]) if kind == "mean" else total
    else:
        found = extreme(rows, largest=kind == "max")
    return (found.reshape([1 if place in positions else extent for place, extent in enumerate(frame.space)]),)


@handles("at_index")
def _at_index(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    """Of an element at all points, by an index that is the same along the axis; one outside stands for 0."""
    position, space = op.attributes["position"], frame.space
    assert space is not None
    x, index = np.broadcast_to(operands[0], space), np.asarray(operands[1])
    once = tuple(1 if place == position else extent for place, extent in enumerate(space))
    if not x.size:
        return (np.zeros(once, x.dtype),)
    inside = np.where((index >= 0) & (index < space[position]), index, 0)
    return (np.take_along_axis(x, np.broadcast_to(inside, once), position),)


def _evaluated(op: Op, elements: Sequence[Array], space: tuple[int, ...], frame: Frame) -> Sequence[Array]:
    return [np.broadcast_to(array, space) for array in _run_region(op, elements, space, frame)]


def _run_region(op: Op, elements: Sequence[Array], space: tuple[int, ...], frame: Frame) -> Sequence[Array]:
    """An operand that is the same along an axis stays one element there until it meets others."""
    outer, frame.space = frame.space, space
    yielded: Sequence[Array] = frame.run(op.regions[0], elements)
    frame.space = outer
    return yielded
