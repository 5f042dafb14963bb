"""The model of examples/char_gpt.ss in PyTorch, as nanoGPT's readers would write it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

Start = Mapping[str, "np.ndarray[Any, Any]"]


def _linear(weight: torch.Tensor) -> nn.Linear:
    """A layer without bias that begins with this weight, [outputs inputs]."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    layer.weight = nn.Parameter(weight.contiguous().clone())
    return layer


def _norm(start: Start, name: str) -> nn.LayerNorm:
    layer = nn.LayerNorm(len(start[f"{name}.weight"]))
    layer.load_state_dict({part: torch.tensor(start[f"{name}.{part}"]) for part in ("weight", "bias")})
    return layer


class Block(nn.Module):
    def __init__(self, start: Start, name: str) -> None:
        super().__init__()
        parts = [torch.tensor(start[f"{name}.{part}"]) for part in ("query", "key", "value")]
        self.heads, self.part, width = parts[0].shape
        self.attention_norm, self.inner_norm = _norm(start, f"{name}.attention_norm"), _norm(start, f"{name}.inner_norm")
        self.attend = _linear(torch.cat([part.reshape(-1, width) for part in parts]))
        self.join = _linear(torch.tensor(start[f"{name}.join"]).reshape(-1, width).T)
        self.widen, self.narrow = _linear(torch.tensor(start[f"{name}.widen"]).T), _linear(torch.tensor(start[f"{name}.narrow"]).T)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, width = x.shape
        parts = self.attend(self.attention_norm(x)).split(width, dim=2)
        query, key, value = (part.view(b, t, self.heads, self.part).transpose(1, 2) for part in parts)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.join(mixed.transpose(1, 2).contiguous().view(b, t, width))
        inner: torch.Tensor = x + self.narrow(functional.gelu(self.widen(self.inner_norm(x))))
        return inner


class Gpt(nn.Module):
    def __init__(self, start: Start) -> None:
        super().__init__()
        self.characters, self.places = (nn.Parameter(torch.tensor(start[name])) for name in ("characters", "places"))
        depth = 1 + max(int(name.split(".")[1]) for name in start if name.startswith("blocks."))
        self.blocks = nn.ModuleList(Block(start, f"blocks.{number}") for number in range(depth))
        self.last_norm = _norm(start, "last_norm")

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = functional.embedding(ids, self.characters) + self.places[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.last_norm(x), self.characters)

    def loss(self, ids: torch.Tensor) -> torch.Tensor:
        logits = self(ids[:, :-1])
        return functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))
