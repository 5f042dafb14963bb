"""What engines hold of datasets, and how models and optimisers look from an engine's side and from Python's."""

from __future__ import annotations

import numpy as np

from shapescript.compiler.numerics.optimisers import STEP
from shapescript.compiler.ops.protocol import OptimiserState
from shapescript.runtime.arrays import Array, Words, engine_array
from shapescript.runtime.dataset import Dataset
from shapescript.runtime.layout import Layout
from shapescript.runtime.optimiser import OPTIMISERS, Optimiser
from shapescript.runtime.orders import Ordered


class DatasetHandle:
    """A dataset as an engine gets it."""

    __slots__ = ("arrays", "block", "dataset", "shapes")

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self.block: Words = dataset.block
        self.arrays: tuple[Array, ...] = tuple(map(engine_array, dataset.arrays))
        self.shapes = [field.shape for field in dataset.record.fields]


class OrderHandle:
    """An order of a dataset as an engine gets it; `dataset` is what it orders."""

    __slots__ = ("block", "dataset", "ordered", "rows")

    def __init__(self, ordered: Ordered, dataset: DatasetHandle) -> None:
        self.ordered, self.dataset = ordered, dataset
        self.block: Words = ordered.block
        self.rows = ordered.rows


def optimiser_state(optimiser: Optimiser) -> OptimiserState:
    return OptimiserState(optimiser.block, optimiser.slots)


def optimiser_copy(kind: str, layout: Layout, state: OptimiserState) -> Optimiser:
    """An optimiser of Python's, with storage of its own, that holds what an engine's does."""
    made = OPTIMISERS[kind]
    copy = made.with_constants(layout, state.constants(made.kind).tolist())
    copy.block[STEP] = state.block[STEP]
    for slot in made.kind.slots_of(state.constants(made.kind)):
        np.copyto(copy.slot(slot.name), state.slot(made.kind, slot))
    return copy
