"""Optimisers: their state and their updates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.numerics.elementary import power_of_step
from shapescript.compiler.numerics.moments import SMALLEST_MOMENT
from shapescript.compiler.ops.protocol import OptimiserState
from shapescript.compiler.reference.border import optimiser_state
from shapescript.compiler.reference.frame import Frame, handles
from shapescript.compiler.reference.layouts import Array, aligned, aligned_copy
from shapescript.compiler.reference.models import layout_of

BLOCK_WORDS = 8
CONSTANTS = slice(3, 7)  # beta1, beta2, eps and decay in an optimiser's block, as f64


@handles("optimiser")
def _optimiser(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    model, *constants = operands
    block = np.zeros(BLOCK_WORDS, np.int64)
    block[CONSTANTS].view(np.float64)[:] = constants
    return (optimiser_state(block, aligned(model.size), aligned(model.size)),)


@handles("optimiser_step")
def _optimiser_step(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    return (np.asarray(operands[0].block[0]),)


@dataclass(frozen=True)
class AdamWScalars:
    """One update's numbers: made in f64 from the constants, the rate and the step, each to be rounded once to the tensor's type."""

    add_first: float
    keep_second: float
    add_second: float
    eps: float
    shrink: float
    rate: float
    root: float

    @staticmethod
    def of(state: OptimiserState, rate: np.float64, step: int) -> AdamWScalars:
        beta1, beta2, eps, decay = (np.float64(constant) for constant in state.block[CONSTANTS].view(np.float64))
        one = np.float64(1.0)
        first, second = (one - power_of_step(float(beta), step) for beta in (beta1, beta2))
        return AdamWScalars(one - beta1, beta2, one - beta2, eps, one - rate * decay, rate / first, one / np.sqrt(second))


def adamw(value: Array, first: Array, second: Array, gradient: Array, numbers: AdamWScalars) -> None:
    """One tensor's update, in place, unfused: Loshchilov and Hutter, "Decoupled weight decay regularization" (2019), with
    PyTorch's bias corrections, the second as a factor of the root. A first moment below 2^-100 in size becomes 0."""
    kind = value.dtype.type
    moved = (gradient - first) * kind(numbers.add_first) + first
    first[...] = np.where(np.abs(moved) < kind(SMALLEST_MOMENT), kind(0.0), moved)
    second[...] = (gradient * gradient) * kind(numbers.add_second) + second * kind(numbers.keep_second)
    denominator = np.sqrt(second) * kind(numbers.root) + kind(numbers.eps)
    value[...] = value * kind(numbers.shrink) - (first / denominator) * kind(numbers.rate)


UPDATES: dict[str, Callable[[Array, Array, Array, Array, AdamWScalars], None]] = {"AdamW": adamw}


@handles("update")
def _update(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    model, state, gradient, rate, factor = operands
    changed = aligned_copy(model)
    after = optimiser_state(state.block, aligned_copy(state.first), aligned_copy(state.second))
    after.block[0] += 1
    numbers = AdamWScalars.of(state, np.float64(rate), int(after.block[0]))
    move = UPDATES[op.attributes["kind"]]
    for place in layout_of(op.operands[0], frame).floats:
        given = place.view(gradient)
        move(place.view(changed), place.view(after.first), place.view(after.second), given * factor.astype(given.dtype), numbers)
    return changed, after
