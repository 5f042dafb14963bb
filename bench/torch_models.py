"""The models of the rows in PyTorch, with its own layers. Each begins with this project's parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from .char_gpt_torch import Gpt
from .task import Arrays, Task


def _begun(net: nn.Module, start: Arrays) -> nn.Module:
    net.load_state_dict({name: torch.tensor(value) for name, value in start.items()})
    return net


class Classifier(nn.Module):
    def __init__(self, dims: Mapping[str, int]) -> None:
        super().__init__()
        self.hidden, self.output = nn.Linear(dims["In"], dims["Hidden"]), nn.Linear(dims["Hidden"], dims["Classes"])

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.output(torch.relu(self.hidden(pixels)))
        return scores

    def loss(self, pixels: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(self(pixels), label)


class Cnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)
        self.hidden, self.output = nn.Linear(1024, 128), nn.Linear(128, 10)

    def loss(self, pixels: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        features = self.second(torch.relu(self.first(pixels.view(-1, 1, 8, 8))))
        # The same as pooling behind relu, where torch.compile of PyTorch 2.13 gives the convolutions gradients of 0.
        pooled = torch.relu(functional.max_pool2d(features, 2))
        hidden = torch.relu(self.hidden(pooled.flatten(1)))
        return functional.cross_entropy(self.output(hidden), label)


class Lstm(nn.Module):
    def __init__(self, dims: Mapping[str, int]) -> None:
        super().__init__()
        self.characters = nn.Embedding(dims["Vocabulary"], dims["Width"])
        self.memory = nn.LSTM(dims["Width"], dims["Hidden"], batch_first=True)
        self.output = nn.Linear(dims["Hidden"], dims["Vocabulary"])

    def loss(self, ids: torch.Tensor) -> torch.Tensor:
        outputs, _ = self.memory(self.characters(ids[:, :-1]))
        return functional.cross_entropy(self.output(outputs).flatten(0, 1), ids[:, 1:].flatten())


def net_of(task: Task) -> Any:
    """A module whose `loss` takes a batch's fields."""
    match task.row.model:
        case "classifier":
            return _begun(Classifier(task.row.dims), task.start)
        case "char_gpt":
            return Gpt(task.start)
        case "digits_cnn":
            return _begun(Cnn(), task.start)
        case "lstm":
            return _begun(Lstm(task.row.dims), task.start)
