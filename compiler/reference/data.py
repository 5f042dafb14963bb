"""Handles and data: draws of a mode's stream, orders and fields of datasets, and what the host does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.numerics.random import Domain, dropout_scale, dropout_threshold, order, stream_words
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
    """A dataset in the order of a permutation of its rows."""

    dataset: Any
    permutation: Array

    @property
    def block(self) -> Array:
        rows: Array = self.dataset.block
        return rows


@handles("order")
def _order(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    dataset, k, seed = operands
    return (Ordered(dataset, order(int(dataset.block[0]), int(seed), int(k))),)


@handles("dataset_all")
def _dataset_all(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    return tuple(operands[0].arrays)


def rows_between(examples: Any, start: int, stop: int) -> list[Array]:
    """Each field of the examples at places start..stop of a dataset or an ordered one."""
    if isinstance(examples, Ordered):
        chosen = examples.permutation[start:stop]
        return [array[chosen] for array in examples.dataset.arrays]
    return [array[start:stop] for array in examples.arrays]
