"""What a call from Python takes, by the kinds of its arguments:  python -m bench.calls [ROUNDS]

Best of many rounds, in microseconds, with the small classifier on one example, so that nearly all of it is the border and not arithmetic.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

import shapescript

from .ours import PROGRAMS

ADDED = """

fn number(n: int) -> int:
    return n

fn scaled(m: Mlp, pixels: [b In], factor: float, mode: Mode) -> [b Classes]:
    y = forward(m, dropout(pixels, 0.1, mode))
    return y * factor

fn step(mut m: Mlp, mut opt: AdamW[Mlp], batch: Digit[b], rate: float) -> float:
    l, mut g = value_and_grad(loss(m, batch), wrt=m)
    clip_norm(mut g, 1.0)
    update(mut m, mut opt, g, lr=rate)
    return l
"""
CALLS_A_ROUND = 200


def calls(folder: Path) -> Mapping[str, Callable[[], Any]]:
    path = folder / "calls.ss"
    path.write_text((PROGRAMS / "classifier.ss").read_text() + ADDED)
    program: Any = shapescript.load(path)
    m, pixels = program.Mlp(seed=1), np.random.default_rng(0).random((1, 64), np.float32)
    batch, opt = program.Digit.batch(pixels=pixels, label=np.zeros(1, np.int64)), shapescript.AdamW(m)
    strided = np.repeat(pixels, 2, axis=1)[:, ::2]
    return {
        "a number": lambda: program.number(3),
        "a model, an array": lambda: program.forward(m, pixels),
        "the same, by name": lambda: program.forward(m=m, pixels=pixels),
        "a model, an array with strides": lambda: program.forward(m, strided),
        "a model, an array, a number, a mode": lambda: program.scaled(m, pixels, 2.0, shapescript.Eval),
        "a model, a batch": lambda: program.loss(m, batch),
        "a step: mut model and optimiser, a batch, a number": lambda: program.step(m, opt, batch, 1e-6),
    }


def microseconds(call: Callable[[], Any], rounds: int) -> float:
    def once() -> float:
        begun = time.perf_counter()
        for _ in repeat(None, CALLS_A_ROUND):
            call()
        return time.perf_counter() - begun

    return min(once() for _ in range(rounds)) / CALLS_A_ROUND * 1e6


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    with tempfile.TemporaryDirectory() as folder, shapescript.threads(1):
        for what, call in calls(Path(folder)).items():
            print(f"{what}: {microseconds(call, rounds):.2f} µs")


if __name__ == "__main__":
    main()
