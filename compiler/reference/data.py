"""Handles and data: draws of a mode's stream, orders and fields of datasets, and what the host does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.numerics.random import Domain, dropout_scale, dropout_threshold, order, stream_words
from shapescript.compiler.numerics.sampling import sampled_rows
from shapescript.compiler.ops.protocol import no_sample, part_out_of_range
from shapescript.compiler.ops.table import Host, entries
from shapescript.compiler.reference.border import perform
from shapescript.compiler.reference.frame import HANDLERS, Frame, handles
from shapescript.compiler.reference.layouts import Array

EVAL = 0
KIND, SEED, DRAWS = range(3)  # words of a mode's block

for _name, _entry in entries().items():
    if isinstance(_entry.lowering, Host):
        HANDLERS[_name] = perform


@handles("mode_draw")
def _mode_draw(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    block = operands[0].block
    draw = -1 if block[KIND] == EVAL else int(block[DRAWS])
    if draw >= 0:
        block[DRAWS] += 1
    return np.asarray(block[SEED]), np.asarray(draw, np.int64)


@handles("mode_is_train")
def _mode_is_train(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    return (np.asarray(operands[0].block[KIND] != EVAL),)


@handles("dropout")
def _dropout(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    x, rate, seed, draw = operands
    if draw < 0:
        return (x,)
    if frame.space is not None:
        x = np.broadcast_to(x, frame.space)
    words = stream_words(int(seed), Domain.DRAW, int(draw), 0, x.size).reshape(x.shape)
    kept = words.astype(np.uint64) >= np.uint64(dropout_threshold(float(rate)))
    return (np.where(kept, x * x.dtype.type(dropout_scale(float(rate))), x.dtype.type(0.0)),)


# ---- datasets


@dataclass(frozen=True)
class Ordered:
    """Rows of a dataset in an order of their own: all of them, or some."""

    dataset: Any
    rows: Array


@handles("order")
def _order(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    dataset, k, seed = operands
    return (Ordered(dataset, order(int(dataset.block[0]), int(seed), int(k))),)


@handles("sample_order")
def _sample_order(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    dataset, count, k, seed = operands
    if count < 0 or size_of(dataset) == 0:
        raise no_sample(op, size_of(dataset), int(count))
    return (Ordered(dataset, sampled_rows(size_of(dataset), int(seed), int(k), 0, int(count))),)


@handles("order_part")
def _order_part(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    ordered, start, stop = operands[0], int(operands[1]), int(operands[2])
    if not 0 <= start <= stop <= size_of(ordered):
        raise part_out_of_range(op, start, stop, size_of(ordered))
    return (Ordered(ordered.dataset, ordered.rows[start:stop]),)


@handles("order_size")
def _order_size(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    return (np.asarray(size_of(operands[0]), np.int64),)


@handles("dataset_all")
def _dataset_all(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    return tuple(operands[0].arrays)


def size_of(examples: Any) -> int:
    """How many examples there are in a dataset or an ordered one."""
    return len(examples.rows) if isinstance(examples, Ordered) else int(examples.block[0])


def rows_between(examples: Any, start: int, stop: int) -> list[Array]:
    """Each field of the examples at places start..stop of a dataset or an ordered one."""
    if isinstance(examples, Ordered):
        chosen = examples.rows[start:stop]
        return [array[chosen] for array in examples.dataset.arrays]
    return [array[start:stop] for array in examples.arrays]
