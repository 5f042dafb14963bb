"""The rows of the table: which model of which sizes is trained, or called, and how much of that is a round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

ModelName = Literal["classifier", "char_gpt", "digits_cnn", "lstm"]
Kind = Literal["training", "inference"]


@dataclass(frozen=True)
class Row:
    """`steps` of a round: some 0.1 s of the slowest peer's; `rounds` are counted, one more comes before them.

    Parameters with `undecayed` in their names have no weight decay.
    `tolerance` is how far apart the numbers of two peers may be, relative to numbers above 1: each rounds in its own way.
    """

    name: str
    title: str
    model: ModelName
    dims: Mapping[str, int]
    batch: int
    steps: int
    rounds: int
    kind: Kind = "training"
    rate: float = 3e-4
    betas: tuple[float, float] = (0.9, 0.999)
    decay: float = 0.01
    undecayed: str | None = None
    tolerance: float = 1e-4


EPS, CLIP = 1e-8, 1.0
SCANNED_STEPS = 100  # of one `lax.scan`, or the round's steps where those are fewer


def _classifier(inputs: int, hidden: int, classes: int, batch: int, steps: int, rounds: int) -> Row:
    name, dims = f"{inputs}-{hidden}-{classes}", {"In": inputs, "Hidden": hidden, "Classes": classes}
    return Row(name, f"classifier {name}, batch {batch}", "classifier", dims, batch, steps, rounds)


def _inference(batch: int, calls: int) -> Row:
    dims = {"In": 64, "Hidden": 128, "Classes": 10}
    return Row(f"inference-{batch}", f"inference 64-128-10, batch {batch}", "classifier", dims, batch, calls, 11, "inference")


_GPT = {"Vocabulary": 65, "Context": 64, "Width": 128, "Heads": 4, "Depth": 4}
_LSTM = {"Vocabulary": 65, "Context": 32, "Width": 64, "Hidden": 128}

ROWS: Sequence[Row] = (
    _classifier(64, 128, 10, 64, steps=200, rounds=11),
    _classifier(784, 512, 10, 64, steps=100, rounds=7),
    _classifier(1024, 4096, 1024, 256, steps=3, rounds=5),
    Row(
        "char-gpt",
        "character transformer, 4 layers, 4 heads, width 128, context 64, batch 12",
        "char_gpt",
        _GPT,
        batch=12,
        steps=5,
        rounds=7,
        rate=1e-3,
        betas=(0.9, 0.99),
        decay=0.1,
        undecayed="_norm.",
        tolerance=1e-3,
    ),
    Row("digits-cnn", "convolutional net 1→32→64, 1024→128→10, batch 64", "digits_cnn", {}, 64, 10, 7, rate=1e-3),
    Row("lstm", "LSTM 64→128, 32 steps, batch 32", "lstm", _LSTM, 32, 10, 7, rate=1e-3),
    _inference(1, calls=1000),
    _inference(256, calls=200),
)
START_UP_ROW = ROWS[0]
