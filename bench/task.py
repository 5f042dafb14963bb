"""What every peer trains: the digits, a start, and the order of the examples, the same for all."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "examples" / "digits_train.npz"

INPUTS, HIDDEN, CLASSES, BATCH = 64, 128, 10, 64
BATCHES_PER_EPOCH = 22
ROWS = BATCHES_PER_EPOCH * BATCH  # no smaller batch at an epoch's end
RATE, BETAS, EPS, DECAY, CLIP = 3e-4, (0.9, 0.999), 1e-8, 0.01, 1.0
SEED = 1

Array = NDArray[Any]
Start = dict[str, Array]


@dataclass(frozen=True)
class Task:
    """`start`: parameters by PyTorch's names; `order`: for each step the numbers of its examples."""

    pixels: Array
    label: Array
    start: Start
    order: Array


class Trainer(Protocol):
    """A peer: goes on training, batches, clipping and update included, and reads the loss of each step."""

    def train(self, steps: int) -> list[float]: ...


def digits() -> tuple[Array, Array]:
    with np.load(DATA) as file:
        return file["pixels"][:ROWS], file["label"][:ROWS]


def save_task(path: Path, start: Start, order: Array) -> None:
    np.savez(path, order=order, **start)


def load_task(path: Path) -> Task:
    pixels, label = digits()
    with np.load(path) as file:
        return Task(pixels, label, {name: file[name] for name in file.files if name != "order"}, file["order"])
