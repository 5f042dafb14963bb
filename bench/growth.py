"""How the time of a training step grows with the batch and with the width, beside what it computes, and what is compiled for it.

The first column of growth is that of time from the line before, the second that of arithmetic: where time jumps and arithmetic doesn't, a
boundary (a tile, a cache, a plan of threads) has been crossed.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import shapescript
from shapescript import calls, engines

from .ours import Loaded, program_text
from .rows import ROWS, Row
from .table import Table, as_text, duration
from .task import Arrays

BATCHES = tuple(2**power for power in range(13))
WIDTHS = tuple(2**power for power in range(4, 13))
EXAMPLES = 8192
REPEATS = 7
SECONDS_A_REPEAT = 0.03
UPDATE_FLOPS = 16  # of a parameter: its square for the norm, the clip, both moments, the step, the decay


@dataclass
class Compiles:
    count: int = 0
    seconds: float = 0.0


@contextmanager
def counted_compiles() -> Iterator[Compiles]:
    """Counts what becomes native code, and how long that takes."""
    found, compiled = Compiles(), engines.compiled

    def timed(*arguments: Any, **named: Any) -> Any:
        begun = time.perf_counter()
        try:
            return compiled(*arguments, **named)
        finally:
            found.count += 1
            found.seconds += time.perf_counter() - begun

    with mock.patch.object(calls, "compiled", timed):
        yield found


class Training:
    """A classifier of the digits' sizes with made-up data; steps of any batch."""

    def __init__(self, folder: Path, width: int) -> None:
        dims = {**ROWS[0].dims, "Hidden": width}
        row: Row = replace(ROWS[0], dims=dims)
        path = folder / f"width-{width}.ss"
        path.write_text(program_text(row))
        self.dims, self.loaded = dims, Loaded(path, row, _data(dims["In"], dims["Classes"]))
        self.optimiser, self.done = shapescript.AdamW(self.loaded.model), 0

    def steps(self, count: int, batch: int) -> float:
        """Seconds."""
        self.done += 1
        loaded, sink = self.loaded, shapescript.MemorySink()
        begun = time.perf_counter()
        loaded.program.train_steps(loaded.model, self.optimiser, loaded.data, sink, self.done, count, batch)
        return time.perf_counter() - begun

    def least(self, batch: int) -> float:
        """Seconds of a step, the least of the repeats."""
        self.steps(1, batch)
        count = max(1, int(SECONDS_A_REPEAT / self.steps(1, batch)))
        return min(self.steps(count, batch) / count for _ in range(REPEATS))

    def flops(self, batch: int) -> float:
        """Of the products, forward and back, of which the first layer's input needs no gradient, and of the update."""
        inputs, hidden, classes = (self.dims[name] for name in ("In", "Hidden", "Classes"))
        first, second = inputs * hidden, hidden * classes
        return 2.0 * batch * (2 * first + 3 * second) + UPDATE_FLOPS * (first + second + hidden + classes)


def _data(inputs: int, classes: int) -> Arrays:
    random = np.random.default_rng(0)
    return {"pixels": random.random((EXAMPLES, inputs), dtype=np.float32), "label": random.integers(0, classes, EXAMPLES)}


@dataclass(frozen=True)
class Measured:
    size: int
    seconds: float
    flops: float
    compiles: int
    compile_seconds: float


def by_batch(folder: Path) -> list[Measured]:
    found = []
    with counted_compiles() as compiles:
        training = Training(folder, ROWS[0].dims["Hidden"])
        for batch in BATCHES:
            before = replace(compiles)
            least = training.least(batch)
            found.append(Measured(batch, least, training.flops(batch), compiles.count - before.count, compiles.seconds - before.seconds))
    return found


def by_width(folder: Path) -> list[Measured]:
    found, batch = [], ROWS[0].batch
    for width in WIDTHS:
        with counted_compiles() as compiles:
            training = Training(folder, width)
            found.append(Measured(width, training.least(batch), training.flops(batch), compiles.count, compiles.seconds))
    return found


def growth_table(title: str, name: str, found: Sequence[Measured]) -> Table:
    lines = []
    for before, one in zip([None, *found[:-1]], found, strict=True):
        growth = ["", ""] if before is None else [f"{one.seconds / before.seconds:.2f}×", f"{one.flops / before.flops:.2f}×"]
        compiles = [str(one.compiles), f"{one.compile_seconds:.2f}"]
        rate = f"{one.flops / one.seconds / 1e9:.1f}"
        lines.append([str(one.size), duration(one.seconds * 1e6), *growth, f"{one.flops / 1e6:.2f}", rate, *compiles])
    return Table(title, [name, "a step", "time grows", "flops grow", "Mflop", "Gflop/s", "compiles", "seconds"], lines)


def main(words: Sequence[str]) -> int:
    argparse.ArgumentParser("python -m bench growth", description=__doc__).parse_args(words)
    with tempfile.TemporaryDirectory() as name, mock.patch.dict(os.environ, {"SHAPESCRIPT_CACHE_DIR": name}):
        folder = Path(name)
        print(as_text(growth_table("64-128-10, by the batch", "batch", by_batch(folder))))
        print()
        print(as_text(growth_table("64-width-10, batch 64, by the width", "width", by_width(folder))))
    return 0
