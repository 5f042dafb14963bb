"""What engines hold of datasets, and how models and optimisers look from an engine's side and from Python's."""

from __future__ import annotations

import numpy as np

from shapescript.compiler.ops.protocol import OptimiserState
from shapescript.runtime.arrays import Array, Words
from shapescript.runtime.dataset import Dataset
from shapescript.runtime.layout import Layout
from shapescript.runtime.optimiser import AdamW

_STEP, _CONSTANTS = slice(0, 1), slice(3, 7)


class DatasetHandle:
    """A dataset as an engine gets it."""

    __slots__ = ("arrays", "block", "dataset")

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self.block: Words = dataset.block
        self.arrays: tuple[Array, ...] = tuple(dataset.all[name] for name in dataset.record.field_names)


def optimiser_state(optimiser: AdamW) -> OptimiserState:
    return OptimiserState(optimiser.block, optimiser.first, optimiser.second)


def optimiser_copy(layout: Layout, state: OptimiserState) -> AdamW:
    """An optimiser of Python's, with storage of its own, that holds what an engine's does."""
    beta1, beta2, eps, decay = (float(value) for value in state.block[_CONSTANTS].view(np.float64))
    copy = AdamW.over(layout, (beta1, beta2), eps, decay)
    copy_state(state, optimiser_state(copy))
    return copy


def copy_state(source: OptimiserState, target: OptimiserState) -> None:
    """Step, constants and moments; the addresses in the target's block stay its own."""
    target.block[_STEP] = source.block[_STEP]
    target.block[_CONSTANTS] = source.block[_CONSTANTS]
    np.copyto(target.first, source.first)
    np.copyto(target.second, source.second)
