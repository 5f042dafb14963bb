"""Operations that move elements: broadcast, transpose, reshape; and contractions, which are brought to one form by moving."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.reference.frame import Frame, handles
from shapescript.compiler.reference.layouts import Array
from shapescript.compiler.reference.scalars import contraction


def placed(array: Array, positions: Sequence[int], rank: int) -> Array:
    """A view with `rank` axes in which the array's axis j is axis positions[j], and the others have one element.

    An array without axes broadcasts as it is.
    """
    if array.ndim == 0:
        return array
    order = sorted(range(array.ndim), key=lambda axis: positions[axis])
    return np.transpose(array, order)[tuple(slice(None) if place in positions else None for place in range(rank))]


@handles("broadcast")
def _broadcast(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    axes = op.attributes["axes"]
    return (np.broadcast_to(placed(operands[0], op.attributes["positions"], len(axes)), frame.shape(axes, op.span)),)


@handles("transpose")
def _transpose(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    return (np.transpose(operands[0], op.attributes["permutation"]),)


@handles("reshape")
def _reshape(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    return (np.reshape(operands[0], frame.shape(op.attributes["axes"], op.span), order="C"),)


@handles("contraction")
def _contraction(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    return (contract(operands[0], operands[1], op.attributes),)


def contract(left: Array, right: Array, attributes: Mapping[str, Any]) -> Array:
    """A sum of products by the attributes `left`, `right` and `out`; summed axes run in the order of the left operand's."""
    left_axes, right_axes, out = (tuple(attributes[name]) for name in ("left", "right", "out"))
    sizes = dict(zip(left_axes + right_axes, left.shape + right.shape, strict=True))
    batch = [axis for axis in out if axis in left_axes and axis in right_axes]
    rows = [axis for axis in out if axis not in right_axes]
    columns = [axis for axis in out if axis not in left_axes]
    summed = [axis for axis in left_axes if axis not in out]

    def grouped(array: Array, axes: Sequence[int], *groups: Sequence[int]) -> Array:
        order = [axes.index(axis) for group in groups for axis in group]
        return np.transpose(array, order).reshape([math.prod(sizes[axis] for axis in group) for group in groups])

    product = contraction(grouped(left, left_axes, batch, rows, summed), grouped(right, right_axes, batch, summed, columns))
    found = [*batch, *rows, *columns]
    return np.transpose(product.reshape([sizes[axis] for axis in found]), [found.index(axis) for axis in out])
