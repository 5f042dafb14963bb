"""Reductions, in the order that docs/exactness.md defines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.numerics.elementary import maximum, minimum
from shapescript.compiler.numerics.evaluation import DTYPES
from shapescript.compiler.numerics.scalar import Argument, Expr
from shapescript.compiler.numerics.summation import reduce_sum
from shapescript.compiler.ops.protocol import reduction_of_nothing
from shapescript.compiler.ops.shapes import kept
from shapescript.compiler.reference.frame import Frame, handles
from shapescript.compiler.reference.layouts import Array
from shapescript.compiler.reference.scalars import evaluate


def rows_of(array: Array, positions: Sequence[int]) -> Array:
    """[kept..., n]: the reduced axes as one, the last, in row-major order of the operand's axes."""
    staying = kept(array.ndim, positions)
    count = math.prod(array.shape[place] for place in positions)
    return np.transpose(array, (*staying, *positions)).reshape(*(array.shape[place] for place in staying), count)


def mean_of(total: Array, count: int) -> Array:
    """The count is rounded to the element type before the division."""
    return np.asarray(total / np.asarray(count, np.int64).astype(total.dtype))


@handles("sum")
def _sum(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    return (reduce_sum(rows_of(operands[0], op.attributes["positions"])),)


@handles("mean")
def _mean(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    rows = _some_rows(op, operands[0])
    return (mean_of(reduce_sum(rows), rows.shape[-1]),)


@handles("max", "min")
def _extreme(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    return (extreme(_some_rows(op, operands[0]), largest=op.name == "max"),)


@handles("argmax", "argmin")
def _extreme_index(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    return (extreme_index(_some_rows(op, operands[0]), largest=op.name == "argmax"),)


def _some_rows(op: Op, operand: Array) -> Array:
    rows = rows_of(operand, op.attributes["positions"])
    if rows.shape[-1] == 0:
        raise reduction_of_nothing(op)
    return rows


@cache
def _greater(dtype: np.dtype[Any], largest: bool) -> Expr:
    kind = next(kind for kind, found in DTYPES.items() if found == dtype)
    return (maximum if largest else minimum)(Argument(0, kind), Argument(1, kind))


def _neighbours(values: Array) -> tuple[Array, Array, Array]:
    """The last axis as the first and second of its pairs, and what is left over."""
    even = values.shape[-1] // 2 * 2
    return values[..., 0:even:2], values[..., 1:even:2], values[..., even:]


def extreme(rows: Array, largest: bool) -> Array:
    """The largest or smallest of the last axis. `maximum` and `minimum` take any order: NaN wins, and +0 is above -0."""
    values = rows
    while values.shape[-1] > 1:
        first, second, rest = _neighbours(values)
        values = np.concatenate([evaluate(_greater(rows.dtype, largest), [first, second]), rest], axis=-1)
    return values[..., 0]


def extreme_index(rows: Array, largest: bool) -> Array:
    """The lowest index of an element that no other exceeds (+0 and -0 are equal), or of the first NaN.

    Neighbours are compared in pairs, so that the survivor of a tie stands at the lower index.
    """
    values, indices = rows, np.broadcast_to(np.arange(rows.shape[-1], dtype=np.int64), rows.shape)
    while values.shape[-1] > 1:
        first, second, rest = _neighbours(values)
        take_second = second > first if largest else second < first
        if values.dtype.kind == "f":
            take_second |= np.isnan(second) & ~np.isnan(first)
        values = np.concatenate([np.where(take_second, second, first), rest], axis=-1)
        first, second, rest = _neighbours(indices)
        indices = np.concatenate([np.where(take_second, second, first), rest], axis=-1)
    return indices[..., 0]
