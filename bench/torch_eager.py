"""PyTorch, eager, as its tutorials write it."""

from __future__ import annotations

import torch
from torch import nn

from .task import BETAS, CLASSES, CLIP, DECAY, EPS, HIDDEN, INPUTS, RATE, Array, Task


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.output = nn.Linear(INPUTS, HIDDEN), nn.Linear(HIDDEN, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.output(torch.relu(self.hidden(x)))
        return scores


class TorchTrainer:
    def __init__(self, task: Task) -> None:
        torch.set_num_threads(1)
        self.task, self.done, self.net = task, 0, Net()
        self.net.load_state_dict({name: torch.from_numpy(value) for name, value in task.start.items()})
        self.optimiser = torch.optim.AdamW(self.net.parameters(), lr=RATE, betas=BETAS, eps=EPS, weight_decay=DECAY)
        self.pixels, self.label = torch.from_numpy(task.pixels), torch.from_numpy(task.label)

    def train(self, steps: int) -> list[float]:
        return [self._step(self.task.order[self.done]) for _ in range(steps)]

    def _step(self, index: Array) -> float:
        self.done += 1
        rows = torch.from_numpy(index)
        loss = nn.functional.cross_entropy(self.net(self.pixels[rows]), self.label[rows])
        self.optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), CLIP)
        self.optimiser.step()
        return loss.item()
