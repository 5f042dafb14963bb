"""How the time of a training step grows with the batch and with the width, beside what it computes, and what is compiled for it.

The first column of growth is that of time from the line before, the second that of arithmetic. Below a table stands where time grows much
more than arithmetic: there a boundary (a tile, a cache, a plan of threads) has been crossed, or the machine did something else.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import shapescript
from shapescript import calls, engines
from shapescript.compiler.codegen.thread_count import default_threads

from .arithmetic import step_flops
from .options import thread_count
from .ours import Loaded, program_text
from .page import PAGE, Part, put
from .peers import threads_shown
from .progress import say
from .results import facts_of_run, listed
from .rows import ROWS, Row
from .table import Table, as_markdown, as_text, duration
from .task import Arrays

BATCHES = tuple(2**power for power in range(13))
WIDTHS = tuple(2**power for power in range(4, 13))
EXAMPLES = 8192
REPEATS = 7
QUICK_STRIDE, QUICK_REPEATS = 4, 2
SECONDS_A_REPEAT = 0.03
JUMP = 1.25  # times as much as arithmetic: so much more time is told


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

    def least(self, batch: int, repeats: int) -> float:
        """Seconds of a step, the least of the repeats."""
        self.steps(1, batch)
        count = max(1, int(SECONDS_A_REPEAT / self.steps(1, batch)))
        return min(self.steps(count, batch) / count for _ in range(repeats))


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


def by_batch(folder: Path, batches: Sequence[int], repeats: int) -> list[Measured]:
    found = []
    with counted_compiles() as compiles:
        training = Training(folder, ROWS[0].dims["Hidden"])
        for batch in batches:
            say(f"batch {batch}, the last is {batches[-1]}")
            before = replace(compiles)
            least, flops = training.least(batch, repeats), step_flops(training.dims, batch)
            found.append(Measured(batch, least, flops, compiles.count - before.count, compiles.seconds - before.seconds))
    return found


def by_width(folder: Path, widths: Sequence[int], repeats: int) -> list[Measured]:
    found, batch = [], ROWS[0].batch
    for width in widths:
        say(f"width {width}, the last is {widths[-1]}")
        with counted_compiles() as compiles:
            training = Training(folder, width)
            least, flops = training.least(batch, repeats), step_flops(training.dims, batch)
            found.append(Measured(width, least, flops, compiles.count, compiles.seconds))
    return found


def growth_table(title: str, name: str, found: Sequence[Measured]) -> Table:
    lines = []
    for before, one in zip([None, *found[:-1]], found, strict=True):
        growth = ["", ""] if before is None else [f"{one.seconds / before.seconds:.2f}×", f"{one.flops / before.flops:.2f}×"]
        compiles = [str(one.compiles), f"{one.compile_seconds:.2f}"]
        rate = f"{one.flops / one.seconds / 1e9:.1f}"
        lines.append([str(one.size), duration(one.seconds * 1e6), *growth, f"{one.flops / 1e6:.2f}", rate, *compiles])
    head = [name, "a step", "time grows", "flops grow", "Mflop", "Gflop/s", "compiles", "seconds"]
    return Table(title, head, lines, list(_jumps(name, found)))


def _jumps(name: str, found: Sequence[Measured]) -> Iterator[str]:
    """Where time grows much more than arithmetic does."""
    unexplained = 0
    for before, one in pairwise(found):
        time_grows, flops_grow = one.seconds / before.seconds, one.flops / before.flops
        if time_grows > JUMP * flops_grow:
            unexplained += 1
            yield f"from {name} {before.size} to {one.size} time grows {time_grows:.2f}×, arithmetic {flops_grow:.2f}×"
    if not unexplained:
        yield f"time grows nowhere more than {JUMP}× as much as arithmetic"


def main(words: Sequence[str]) -> int:
    options = _options(words)
    stride, repeats = (QUICK_STRIDE, QUICK_REPEATS) if options.quick else (1, REPEATS)
    with (
        tempfile.TemporaryDirectory() as name,
        mock.patch.dict(os.environ, {"SHAPESCRIPT_CACHE_DIR": name}),
        shapescript.threads(options.threads),
    ):
        batches = by_batch(Path(name), BATCHES[::stride], repeats)
        widths = by_width(Path(name), WIDTHS[::stride], repeats)
    say("")
    tables = [
        growth_table(f"64-128-10, by the batch, {threads_shown(options.threads)}", "batch", batches),
        growth_table(f"64-width-10, batch 64, by the width, {threads_shown(options.threads)}", "width", widths),
    ]
    print("\n\n".join(map(as_text, tables)))
    if options.write_results:
        head = f"The last run of `python -m bench growth --write-results`; a step is the least of {repeats} repeats."
        put(PAGE, Part.GROWTH, "\n\n".join([head, listed(facts_of_run()), *map(as_markdown, tables)]))
        print(f"\nwritten to {PAGE}")
    return 0


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench growth", description=__doc__)
    parser.add_argument(
        "--threads", type=thread_count, default=default_threads(), help="number of threads (default: as many as a call may use)"
    )
    parser.add_argument("--quick", action="store_true", help=f"one size of {QUICK_STRIDE}, {QUICK_REPEATS} repeats")
    parser.add_argument("--write-results", action="store_true", help="write the tables to bench/RESULTS.md too")
    return parser.parse_args(words)
