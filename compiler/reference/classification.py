"""Cross entropy, as its entry in ops/classification.py defines it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.numerics.summation import reduce_sum
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.ops.protocol import label_out_of_range, reduction_of_nothing
from shapescript.compiler.reference.elementwise import elementwise
from shapescript.compiler.reference.frame import Frame, handles
from shapescript.compiler.reference.layouts import Array
from shapescript.compiler.reference.reductions import extreme, mean_of


@handles("cross_entropy")
def _cross_entropy(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    logits, labels = operands
    element = result_type(op.results[0]).element
    classes, count = logits.shape[-1], labels.size
    rows, chosen = logits.reshape(count, classes), labels.reshape(count)
    _check_labels(op, chosen, classes)
    if count == 0:
        raise reduction_of_nothing(op)
    gaps = rows - extreme(rows, largest=True)[:, None]
    powers = elementwise("exp", element, gaps)
    totals = reduce_sum(powers)
    losses = elementwise("log", element, totals) - gaps[np.arange(count), chosen]
    return mean_of(reduce_sum(losses), count), (powers / totals[:, None]).reshape(logits.shape)


def _check_labels(op: Op, labels: Array, classes: int) -> None:
    outside = (labels < 0) | (labels >= classes)
    if outside.any():
        index = int(np.flatnonzero(outside)[0])
        raise label_out_of_range(op, index, int(labels[index]), classes)
