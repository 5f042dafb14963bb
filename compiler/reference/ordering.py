"""Order along one axis, as ops/ordering.py defines it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.reference.frame import Frame, handles
from shapescript.compiler.reference.indexing import check_index
from shapescript.compiler.reference.layouts import Array


@handles("cumsum")
def _cumsum(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    x = np.moveaxis(operands[0], op.attributes["position"], 0)
    found = np.array(x)
    places = range(len(x) if x.size else 0)[:: -1 if op.attributes["reverse"] else 1]
    for before, place in pairwise(places):
        found[place] = found[before] + x[place]
    return (np.moveaxis(found, 0, op.attributes["position"]),)


@handles("argsort")
def _argsort(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    """NumPy's stable sort takes NaN as the greatest. Descending is the reverse of what is sorted from the other end."""
    (x, descending), position = operands, op.attributes["position"]
    if not descending:
        return (_stable_order(x, position),)
    return (x.shape[position] - 1 - np.flip(_stable_order(np.flip(x, position), position), position),)


def _stable_order(x: Array, position: int) -> Array:
    try:
        return np.argsort(x, axis=position, kind="stable")
    except ValueError as error:  # NumPy's, of more elements than it counts
        raise MemoryError(f"the order of a tensor of shape {x.shape}: {error}") from None


@handles("take_along")
def _take_along(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    (x, index), position = operands, op.attributes["position"]
    check_index(op, index, x.shape[position])
    return (np.take_along_axis(x, index, position) if index.size else np.empty(index.shape, x.dtype),)


@handles("put_along")
def _put_along(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    """Row by row along the axis: in one of them no element of the result is met twice."""
    position = op.attributes["position"]
    x, index = (np.moveaxis(operand, position, 0) for operand in operands)
    size = frame.size(op.attributes["size"], op.span)
    columns = math.prod(x.shape[1:])
    found = np.zeros((size, columns), x.dtype)
    rows = len(x) if x.size else 0
    for row, places in zip(x.reshape(len(x), columns)[:rows], index.reshape(len(x), columns)[:rows], strict=True):
        inside = np.flatnonzero((places >= 0) & (places < size))
        found[places[inside], inside] += row[inside]
    return (np.moveaxis(found.reshape(size, *x.shape[1:]), 0, position),)


@handles("check_index")
def _check_index(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    check_index(op, operands[0], frame.size(op.attributes["size"], op.span))
    return ()


@handles("pick")
def _pick(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    """An index outside, of which the check is still to come, stands for 0."""
    (x, index), position = operands, op.attributes["position"]
    if not index.size:
        return (np.empty(index.shape, x.dtype),)
    inside = np.where((index >= 0) & (index < x.shape[position]), index, 0)
    one = inside.reshape(*index.shape[:position], 1, *index.shape[position:])
    return (np.take_along_axis(x, one, position).reshape(index.shape),)
