"""Programs that are compiled and loaded again, and what came of them, byte for byte. `run([name, file, cache])` prints it."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import shapescript

TRAINING = """
import shapescript.std.nn as nn

dim Classes = 4

data Row:
    x: [3]
    label: int

data Line:
    step: int
    loss: float

model Net[H]:
    enter: nn.Linear[3, H]
    norm: nn.LayerNorm[H]
    leave: [H Classes] = uniform(-0.5, 0.5)

fn logits[H](m: Net[H], x: [b 3], mode: Mode) -> [b Classes]:
    hidden = x |> nn.linear(m.enter) |> nn.layer_norm(m.norm) |> gelu |> dropout(0.25, mode)
    return hidden @ m.leave

fn fit[H](mut m: Net[H], mut opt: AdamW[Net[H]], rows: Dataset[Row], sink: LogSink, mode: Mode, epochs: int) -> float:
    mut step = 0
    mut last = 0.0
    for epoch in 0..epochs:
        for batch in rows |> shuffle(epoch, seed=3) |> batches(5):
            loss, g = value_and_grad(cross_entropy(logits(m, batch.x, mode), batch.label), wrt=m)
            update(mut m, mut opt, g, lr=0.01)
            step = step + 1
            last = float(loss)
            write(sink, Line(step=step, loss=last))
    return last
"""

HOST = """
model Net:
    w: [3] = normal(0, 1)
    b: f64[2] = ones

fn told(words: Vocabulary, ids: int[b], seed: int) -> (Net, str):
    print("made with", seed)
    return Net(seed=seed), decode(words, ids)

fn through(m: Net, path: str) -> Net:
    save(path, m=m)
    return load(path, m=Net)

fn spread(x: [b n], k: int[b]) -> ([b], f64[], int[b]):
    return pick(softmax(x, over=n), k, over=n), sum(sum(f64(x), over=n), over=b), argmax(x, over=n)
"""


def of_training(program: Any, folder: Path) -> list[Any]:
    draw = np.random.default_rng(1)
    rows = program.Row.dataset(x=draw.normal(size=(23, 3)).astype(np.float32), label=draw.integers(0, 4, 23))
    m, sink, mode = program.Net[6](seed=2), shapescript.MemorySink(), shapescript.Train(seed=5)
    opt = shapescript.AdamW(m)
    found = [program.fit(m, opt, rows, sink, mode, 3), m.state_dict(), opt.moment("second", "leave"), mode.draws]
    return [*found, [record.loss for record in sink.records], program.logits(m, rows.all.x[:7], mode)]


def of_the_host(program: Any, folder: Path) -> list[Any]:
    m, text = program.told(shapescript.Vocabulary("abc"), np.array([0, 1, 1, 2]), 7)
    return [m.state_dict(), text, program.through(m, str(folder / "net.pt")).state_dict()]


def of_failures(program: Any, folder: Path) -> list[Any]:
    """The words and places of errors are a compiled function's too."""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    found: list[Any] = [program.spread(x, np.array([0, 1, 3]))]
    for arguments in ((x, np.array([0, 4, 1])), (x[:, :0], np.array([0, 0, 0])), (x, np.array([1, 2]))):
        try:
            program.spread(*arguments)
        except shapescript.ShapeScriptError as error:
            found.append([error.code, error.message, error.span and [error.span.line, error.span.column, error.span.text]])
    return found


JOBS: dict[str, tuple[str, Callable[[Any, Path], list[Any]]]] = {
    "training": (TRAINING, of_training),
    "host": (HOST, of_the_host),
    "failures": (HOST, of_failures),
}


def as_text(value: Any) -> Any:
    """With the bits of every number."""
    if isinstance(value, np.ndarray):
        return [str(value.dtype), value.shape, hashlib.sha256(value.tobytes()).hexdigest()]
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, dict):
        return {name: as_text(part) for name, part in value.items()}
    return [as_text(part) for part in value] if isinstance(value, list | tuple) else str(value)


def told(job: str, path: Path) -> str:
    return json.dumps(as_text(JOBS[job][1](shapescript.load(path), path.parent)))


def run(words: Sequence[str]) -> None:
    """The job's name, its program's file, and the cache."""
    job, path, cache = words
    os.environ.update(SHAPESCRIPT_CACHE_DIR=cache, SHAPESCRIPT_LOG="compile")
    print(told(job, Path(path)))


if __name__ == "__main__":
    run(sys.argv[1:])
