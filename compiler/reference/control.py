"""Structured control flow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ops.protocol import no_batches
from shapescript.compiler.reference.data import rows_between, size_of
from shapescript.compiler.reference.frame import Frame, handles


@handles("if")
def _if(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    yes, no = op.regions
    return frame.run(yes if operands[0] else no, ())


@handles("while")
def _while(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    condition, body = op.regions
    carried = list(operands)
    while frame.run(condition, carried)[0]:
        carried = frame.run(body, carried)
    return carried


@handles("for_range")
def _for_range(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    start, stop, *carried = operands
    for index in range(int(start), int(stop)):
        carried = frame.run(op.regions[0], [np.asarray(index, np.int64), *carried])
    return carried


@handles("for_batches")
def _for_batches(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    examples, size, drop_last, *carried = operands
    (body,) = op.regions
    (rows,) = body.symbols
    for start, stop in _batches(op, size_of(examples), int(size), bool(drop_last)):
        frame.sizes[rows] = stop - start
        carried = frame.run(body, [*rows_between(examples, start, stop), *carried])
    return carried


def _batches(op: Op, rows: int, size: int, drop_last: bool) -> Iterator[tuple[int, int]]:
    """Where each batch begins and ends; the last is smaller, or left out. Raises ExecutionError R1102 where there would be none."""
    if size <= 0 or rows == 0 or (drop_last and rows < size):
        raise no_batches(op, rows, size, drop_last)
    end = rows // size * size if drop_last else rows
    return ((start, min(start + size, end)) for start in range(0, end, size))


@handles("isolated")
def _isolated(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    return frame.run(op.regions[0], ())
