"""Structured control flow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ops.protocol import no_batches, start_out_of_range
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
    examples, size, drop_last, start, _, *carried = operands
    (body,) = op.regions
    (rows,) = body.symbols
    for begin, end in _batches(op, size_of(examples), int(size), bool(drop_last), int(start)):
        frame.sizes[rows] = end - begin
        carried = frame.run(body, [*rows_between(op, examples, begin, end, frame.host), *carried])
    return carried


def _batches(op: Op, rows: int, size: int, drop_last: bool, start: int) -> Iterator[tuple[int, int]]:
    """Where each batch begins and ends; the last is smaller, or left out. Raises ExecutionError: R1102 where there would be none though the
    loop begins at the first example, R1107 for a start outside."""
    if size <= 0 or rows == 0 or (drop_last and start == 0 and rows < size):
        raise no_batches(op, rows, size, drop_last)
    if not 0 <= start <= rows:
        raise start_out_of_range(op, start, rows)
    end = start + (rows - start) // size * size if drop_last else rows
    return ((begin, min(begin + size, end)) for begin in range(start, end, size))


@handles("isolated")
def _isolated(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    return frame.run(op.regions[0], ())
