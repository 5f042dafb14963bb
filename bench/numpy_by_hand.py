"""NumPy, written by hand: gradients on paper, in place where that helps."""

from __future__ import annotations

import numpy as np

from .task import BETAS, CLIP, DECAY, EPS, RATE, Array, Task

F32 = np.float32


class NumpyTrainer:
    def __init__(self, task: Task) -> None:
        self.task, self.done = task, 0
        self.names = sorted(task.start)
        self.parameters = {name: task.start[name].copy() for name in self.names}
        self.first = {name: np.zeros_like(value) for name, value in self.parameters.items()}
        self.second = {name: np.zeros_like(value) for name, value in self.parameters.items()}

    def train(self, steps: int) -> list[float]:
        return [self._step(self.task.order[self.done]) for _ in range(steps)]

    def _step(self, index: Array) -> float:
        self.done += 1
        loss, gradients = self._loss_and_gradients(self.task.pixels[index], self.task.label[index])
        norm = np.sqrt(sum(float(np.dot(g.ravel(), g.ravel())) for g in gradients.values()))
        self._update(gradients, F32(min(1.0, CLIP / (norm + 1e-6))))
        return loss

    def _loss_and_gradients(self, x: Array, y: Array) -> tuple[float, dict[str, Array]]:
        p, rows = self.parameters, np.arange(len(x))
        h = x @ p["hidden.weight"].T
        h += p["hidden.bias"]
        np.maximum(h, 0, out=h)
        z = h @ p["output.weight"].T
        z += p["output.bias"]
        z -= z.max(1, keepdims=True)
        chosen = z[rows, y]
        e = np.exp(z, out=z)
        s = e.sum(1, keepdims=True)
        loss = float((np.log(s[:, 0]) - chosen).mean())
        e /= s
        e[rows, y] -= 1
        e /= F32(len(x))
        d = e @ p["output.weight"]
        d *= h > 0
        return loss, {"hidden.bias": d.sum(0), "hidden.weight": d.T @ x, "output.bias": e.sum(0), "output.weight": e.T @ h}

    def _update(self, gradients: dict[str, Array], factor: np.float32) -> None:
        beta1, beta2 = BETAS
        rate, root = F32(RATE / (1 - beta1**self.done)), F32(np.sqrt(1 - beta2**self.done))
        for name in self.names:
            g, p, m, v = gradients[name], self.parameters[name], self.first[name], self.second[name]
            g *= factor
            p *= F32(1 - RATE * DECAY)
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
