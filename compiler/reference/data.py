"""Handles and data: draws of a mode's stream, fields of datasets, and what the host does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.types import OrderedType
from shapescript.compiler.numerics.random import Domain, dropout_scale, dropout_threshold, stream_words
from shapescript.compiler.ops.protocol import Host as World
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


@handles("order_size")
def _order_size(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    return (np.asarray(size_of(operands[0]), np.int64),)


@handles("dataset_all")
def _dataset_all(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    """Of a fed dataset only the fields that are used are read."""
    (data,) = operands
    if not is_fed(data):
        return tuple(data.arrays)
    wanted = [field for field, value in enumerate(op.results) if frame.uses(value)]
    found = dict(zip(wanted, frame.host.columns(op, data, wanted), strict=True)) if wanted else {}
    return [found.get(field) for field in range(len(op.results))]


def size_of(examples: Any) -> int:
    """How many examples there are in a dataset or an ordered one."""
    return int(examples.block[0])


def is_fed(data: Any) -> bool:
    """Whether the host alone knows a dataset's examples."""
    return bool(data.block[1])


def rows_between(op: Op, examples: Any, start: int, stop: int, host: World) -> Sequence[Array]:
    """Each field of the examples at places start..stop of a dataset or an ordered one."""
    is_ordered = isinstance(op.operands[0].type, OrderedType)
    data = examples.dataset if is_ordered else examples
    if not is_ordered and not is_fed(data):
        return [array[start:stop] for array in data.arrays]
    rows = examples.rows(start, stop - start) if is_ordered else np.arange(start, stop)
    return host.gather(op, data, rows) if is_fed(data) else [array[rows] for array in data.arrays]
