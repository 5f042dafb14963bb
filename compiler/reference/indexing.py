"""Rows by their numbers, as ops/indexing.py defines them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ops.protocol import index_out_of_range
from shapescript.compiler.reference.frame import Frame, handles
from shapescript.compiler.reference.layouts import Array


def check_index(op: Op, index: Array, size: int) -> None:
    """Raises ExecutionError R1101 for the first one out of range."""
    outside = np.flatnonzero((index < 0) | (index >= size))
    if outside.size:
        position = int(outside[0])
        raise index_out_of_range(op, position, int(index.reshape(-1)[position]), size)


@handles("gather")
def _gather(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    rows, index = operands
    check_index(op, index, len(rows))
    return (np.asarray(rows[index]),)


@handles("scatter_rows")
def _scatter_rows(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    rows, index = operands
    found = np.zeros(frame.shape(op.result.type.axes, op.span), rows.dtype)  # type: ignore[union-attr]
    for place, row in zip(index.reshape(-1), rows.reshape(index.size, *rows.shape[index.ndim :]), strict=True):
        if 0 <= place < len(found):
            found[place] += row
    return (found,)


@handles("add_rows")
def _add_rows(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    x, rows, index = operands
    check_index(op, index, len(x))
    found = np.array(x, order="C")
    for place, row in zip(index.reshape(-1), rows.reshape(index.size, *x.shape[1:]), strict=True):
        found[place] += row
    return (found,)
