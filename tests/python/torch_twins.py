"""The programs of the tests, written by hand in PyTorch. Parameters have the names that the programs give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

torch.set_num_threads(1)  # small steps gain nothing from more, and lose much on a busy machine


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.output = nn.Linear(64, 128), nn.Linear(128, 10)

    def loss(self, pixels: Tensor, label: Tensor) -> Tensor:
        return cross_entropy(self.output(torch.relu(self.hidden(pixels))), label)


class Line(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.slope, self.offset = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(()))

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        return ((x @ self.slope + self.offset - y) ** 2).mean()


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner, self.gain = nn.Linear(width, width), nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.gain * torch.tanh(self.inner(x))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(64, 48), nn.Linear(48, 8)
        self.blocks = nn.ModuleList([Block(48) for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.enter(x))
        for block in self.blocks:
            h = block(h)
        return self.leave(h)


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(8, 48), nn.Linear(48, 64)

    def forward(self, z: Tensor) -> Tensor:
        return torch.sigmoid(self.leave(torch.relu(self.enter(z))))


class Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = Encoder(), Decoder()

    def loss(self, pixels: Tensor) -> Tensor:
        error = self.decoder(self.encoder(pixels)) - pixels
        return (error**2).mean() + 1e-4 * self.encoder.leave.weight.abs().mean()


class RowReader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.place = nn.Linear(8, 32), nn.Parameter(torch.zeros(8, 32))
        self.query, self.key, self.value = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 32)
        self.head = nn.Linear(32, 10)

    def loss(self, pixels: Tensor, label: Tensor) -> Tensor:
        placed = torch.tanh(self.embed(pixels.reshape(-1, 8, 8))) + self.place
        q, k, v = self.query(placed), self.key(placed), self.value(placed)
        weights = torch.softmax(q @ k.transpose(1, 2) / 32**0.5, dim=2)
        return cross_entropy(self.head((placed + weights @ v).mean(dim=1)), label)


class Twin:
    """A module with the start of a program's model, trained as the program trains."""

    def __init__(self, module: nn.Module, start: Mapping[str, np.ndarray[Any, Any]], decay: float = 0.01) -> None:
        module.load_state_dict({name: torch.from_numpy(array) for name, array in start.items()})
        self.module = module
        self.optimiser = torch.optim.AdamW(module.parameters(), weight_decay=decay)

    def gradients(self, *fields: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
        self._backward(fields)
        return {name: parameter.grad.numpy().copy() for name, parameter in self.module.named_parameters() if parameter.grad is not None}

    def step(self, *fields: np.ndarray[Any, Any], rate: float, clip: float | None = None) -> float:
        """One update; gives the loss before it."""
        loss = self._backward(fields)
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(self.module.parameters(), clip)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()
        return loss

    def parameters(self) -> dict[str, np.ndarray[Any, Any]]:
        return {name: tensor.numpy().copy() for name, tensor in self.module.state_dict().items()}

    def _backward(self, fields: tuple[np.ndarray[Any, Any], ...]) -> float:
        self.optimiser.zero_grad()
        loss: Tensor = self.module.loss(*(torch.from_numpy(np.array(field)) for field in fields))
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.item()


LEAST_SCALE = 1e-4


def assert_near(ours: Mapping[str, np.ndarray[Any, Any]], theirs: Mapping[str, np.ndarray[Any, Any]], relative: float) -> None:
    """Each tensor to within `relative` of its twin's largest element.

    One whose elements are all below LEAST_SCALE is measured by that: a gradient that is 0 on paper (of a key's bias, which moves all
    scores of a row alike) is nothing but rounding on both sides.
    """
    assert ours.keys() == theirs.keys()
    for name, array in theirs.items():
        assert np.abs(ours[name] - array).max() <= relative * max(np.abs(array).max(), LEAST_SCALE), name
