"""Random numbers by a mode's stream, as ops/draws.py and numerics/sampling.py define them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.numerics.evaluation import evaluate
from shapescript.compiler.numerics.philox import Domain, stream_words
from shapescript.compiler.numerics.sampling import MEANS, NUMBERS, UNIT
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.ops.protocol import no_distribution, reduction_of_nothing
from shapescript.compiler.reference.elementwise import elementwise
from shapescript.compiler.reference.frame import Frame, handles
from shapescript.compiler.reference.reductions import extreme, extreme_index


@handles("categorical")
def _categorical(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    logits, seed, draw = operands
    choices, shape = logits.shape[-1], logits.shape[:-1]
    if choices == 0:
        raise reduction_of_nothing(op)
    if draw < 0:
        return (np.asarray(extreme_index(logits, largest=True)),)
    rows = logits.reshape(math.prod(shape), choices)
    top = extreme(rows, largest=True)
    lost = np.flatnonzero(~np.isfinite(top))
    if lost.size:
        raise no_distribution(op, int(lost[0]))
    powers = elementwise("exp", result_type(op.operands[0]).element, rows - top[:, None]).astype(np.float64)
    sums = [np.zeros(len(rows))]
    for place in range(choices):
        sums.append(sums[-1] + powers[:, place])
    aims = evaluate(UNIT, [stream_words(int(seed), Domain.DRAW, int(draw), 0, len(rows))]) * sums[-1]
    index = np.zeros(len(rows), np.int64)
    for total in sums[1:]:
        index += total <= aims
    return (index.reshape(shape),)


@handles("random_uniform", "random_normal")
def _random(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    seed, draw = operands
    shape = frame.shape(result_type(op.result).axes, op.span)
    if draw < 0:
        return (np.broadcast_to(np.float32(MEANS[op.name]), shape),)
    return (evaluate(NUMBERS[op.name], [stream_words(int(seed), Domain.DRAW, int(draw), 0, math.prod(shape))]).reshape(shape),)
