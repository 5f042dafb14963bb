"""PyTorch, eager or with `torch.compile`, as its tutorials write a training step."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from torch import nn

from .data import span_of
from .rows import CLIP, EPS
from .task import Array, Task, Work
from .torch_models import net_of


def _decayed_in_part(net: nn.Module, decay: float, undecayed: str | None) -> list[dict[str, Any]]:
    """Groups for an optimiser: no decay of the parameters with `undecayed` in their names."""
    named = list(net.named_parameters())
    others = [parameter for name, parameter in named if undecayed is None or undecayed not in name]
    kept = [parameter for name, parameter in named if undecayed is not None and undecayed in name]
    groups = [{"params": others, "weight_decay": decay}]
    return [*groups, {"params": kept, "weight_decay": 0.0}] if kept else groups


class TorchTrainer:
    def __init__(self, task: Task, is_compiled: bool) -> None:
        row = task.row
        self.task, self.done, self.net = task, 0, net_of(task)
        self.loss = torch.compile(self.net.loss) if is_compiled else self.net.loss
        groups = _decayed_in_part(self.net, row.decay, row.undecayed)
        self.optimiser = torch.optim.AdamW(groups, lr=row.rate, betas=row.betas, eps=EPS, fused=True)
        fields = {name: torch.from_numpy(value) for name, value in task.fields.items()}
        # Windows of a text are views of it, which indexing gathers.
        self.fields = [fields["text"].unfold(0, span_of(row), 1)] if "text" in fields else [fields["pixels"], fields["label"]]

    def round(self) -> list[float]:
        order = self.task.order[self.done]
        self.done += 1
        return [self._step(rows) for rows in order]

    def _step(self, rows: Array) -> float:
        index = torch.from_numpy(rows)
        loss = self.loss(*[field[index] for field in self.fields])
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), CLIP)
        self.optimiser.step()
        return float(loss.item())


class TorchInference:
    def __init__(self, task: Task) -> None:
        self.net = net_of(task).eval()
        self.pixels, self.calls = torch.from_numpy(np.ascontiguousarray(task.fields["pixels"][: task.row.batch])), task.steps

    def round(self) -> list[float]:
        net, pixels = self.net, self.pixels
        with torch.inference_mode():
            for _ in range(self.calls):
                result = net(pixels)
        return [float(value) for value in result[0]]


def _work(task: Task, is_compiled: bool) -> Work:
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    return TorchTrainer(task, is_compiled) if task.row.kind == "training" else TorchInference(task)


def eager(task: Task) -> Work:
    return _work(task, is_compiled=False)


def compiled(task: Task) -> Work:
    return _work(task, is_compiled=True)
