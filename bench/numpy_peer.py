"""NumPy, written by hand: a training step, and inference."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from .data import span_of
from .numpy_models import F32, LOSSES, hidden_of, scores
from .rows import CLIP, EPS
from .task import Array, Arrays, Task, Work


class NumpyTrainer:
    def __init__(self, task: Task) -> None:
        self.task, self.done, self.steps = task, 0, 0
        self.loss_and_gradients = LOSSES[task.row.model]
        fields = task.fields
        # Windows of a text are views of it, which indexing gathers.
        self.fields = [sliding_window_view(fields["text"], span_of(task.row))] if "text" in fields else [fields["pixels"], fields["label"]]
        self.names = sorted(task.start)
        self.parameters = {name: task.start[name].copy() for name in self.names}
        self.first = {name: np.zeros_like(value) for name, value in self.parameters.items()}
        self.second = {name: np.zeros_like(value) for name, value in self.parameters.items()}

    def round(self) -> list[float]:
        order = self.task.order[self.done]
        self.done += 1
        return [self._step(index) for index in order]

    def _step(self, index: Array) -> float:
        self.steps += 1
        loss, gradients = self.loss_and_gradients(self.parameters, *[field[index] for field in self.fields])
        norm = np.sqrt(sum(float(np.dot(g.ravel(), g.ravel())) for g in gradients.values()))
        self._update(gradients, F32(min(1.0, CLIP / (norm + 1e-6))))
        return loss

    def _update(self, gradients: Arrays, factor: np.float32) -> None:
        row, (beta1, beta2) = self.task.row, self.task.row.betas
        rate, root = F32(row.rate / (1 - beta1**self.steps)), F32(np.sqrt(1 - beta2**self.steps))
        for name in self.names:
            g, p, m, v = gradients[name], self.parameters[name], self.first[name], self.second[name]
            g *= factor
            p *= F32(1 - row.rate * row.decay)
            m += (g - m) * F32(1 - beta1)
            v *= F32(beta2)
            g *= g
            g *= F32(1 - beta2)
            v += g
            q = np.sqrt(v)
            q /= root
            q += F32(EPS)
            np.divide(m, q, out=q)
            q *= rate
            p -= q


class NumpyInference:
    def __init__(self, task: Task) -> None:
        self.parameters, self.calls = task.start, task.steps
        self.pixels = task.fields["pixels"][: task.row.batch]

    def round(self) -> list[float]:
        p, pixels = self.parameters, self.pixels
        for _ in range(self.calls):
            result = scores(p, hidden_of(p, pixels))
        return [float(value) for value in result[0]]


def work(task: Task) -> Work:
    return NumpyTrainer(task) if task.row.kind == "training" else NumpyInference(task)
