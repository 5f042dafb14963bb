"""This project: the loop over epochs and batches is the program's, one call of native code."""

from __future__ import annotations

from pathlib import Path

import shapescript

from .task import BATCH, BATCHES_PER_EPOCH, SEED, Array, Start, Task, digits

PROGRAM = Path(__file__).with_name("mlp.ss")


class ShapeScriptTrainer:
    def __init__(self, task: Task) -> None:
        self.program = shapescript.load(PROGRAM)
        self.data = self.program.Digit.dataset(pixels=task.pixels, label=task.label)
        self.model = self.program.Mlp(seed=0)
        self.model.load_state_dict(task.start)
        self.optimiser, self.sink = shapescript.AdamW(self.model), shapescript.MemorySink()
        self.epoch = 0

    def train(self, steps: int) -> list[float]:
        before, epochs = len(self.sink.records), steps // BATCHES_PER_EPOCH
        self.program.train(self.model, self.optimiser, self.data, self.sink, self.epoch, self.epoch + epochs, BATCH)
        self.epoch += epochs
        return [record.loss for record in self.sink.records[before:]]


def common_start() -> Start:
    start: Start = shapescript.load(PROGRAM).Mlp(seed=SEED).state_dict()
    return start


def common_order(epochs: int) -> Array:
    """The examples of each step, in the order in which the program goes through them."""
    import numpy as np

    pixels, label = digits()
    data = shapescript.load(PROGRAM).Digit.dataset(pixels=pixels, label=label)
    return np.concatenate([data.shuffle(epoch).rows(0, len(data)) for epoch in range(epochs)]).reshape(-1, BATCH)
