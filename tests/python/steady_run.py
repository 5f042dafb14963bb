"""Sixty epochs of a steady step, and what they allocate: `python steady_run.py FOLDER Eval|Train`, a process by itself, since malloc's
statistics and tracemalloc's count what every thread of a process does."""

from __future__ import annotations

import ctypes
import gc
import sys
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from api_programs import digits
from fixtures import EXAMPLES

import shapescript
from shapescript.compiler.codegen import callbacks
from shapescript.compiler.codegen.memory import ARENAS

EPOCHS = 60
POLL_NANOSECONDS, FIRST_BUDGET = 100_000, 1 << 16  # every epoch is polled from the first on, however fast or busy the machine is


class MallocInfo(ctypes.Structure):
    """What glibc's `mallinfo2` returns."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ["arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"]
    ]


class Meter(shapescript.LogSink):
    """A sink whose flush, at an epoch's end, notes how much memory is in use."""

    kind = "meter"

    def __init__(self, epochs: int) -> None:
        self.readings = np.zeros((epochs, 5), np.int64)
        self.count = 0
        self._malloc = ctypes.CDLL(None).mallinfo2
        self._malloc.restype = MallocInfo

    def flush(self) -> None:
        info = self._malloc()
        self.readings[self.count] = (ARENAS.grows, ARENAS.bytes, tracemalloc.get_traced_memory()[0], info.uordblks, info.hblkhd)
        self.count += 1

    def write(self, record_name: str, fields: Mapping[str, Any]) -> None: ...
    def position(self) -> dict[str, Any]:
        return {"kind": self.kind}

    def check_restore(self, position: Mapping[str, Any]) -> None: ...
    def restore(self, position: Mapping[str, Any]) -> None: ...


def program(folder: Path) -> Any:
    """The example, with a loop that neither logs nor saves: those make records and files, the steps themselves nothing."""
    added = """
fn steps(mut m: Mlp, mut opt: AdamW[Mlp], train: Dataset[Digit], sink: LogSink, epochs: int, mode: Mode):
    for epoch in 0..epochs:
        for batch in train |> shuffle(epoch) |> batches(64):
            l, mut g = value_and_grad(loss(m, batch, mode), wrt=m)
            clip_norm(mut g, 1.0)
            update(mut m, mut opt, g, lr=3e-4)
        flush(sink)
"""
    path = folder / "steady.ss"
    path.write_text((EXAMPLES / "train_mlp.ss").read_text() + added)
    return shapescript.load(path)


def main(folder: Path, mode: shapescript.Mode) -> None:
    callbacks.POLL_NANOSECONDS = POLL_NANOSECONDS
    callbacks.FIRST_BUDGETS.update(dict.fromkeys(callbacks.FIRST_BUDGETS, FIRST_BUDGET))
    loaded, (pixels, label) = program(folder), digits()
    train = loaded.Digit.dataset(pixels=pixels[:200], label=label[:200])  # three batches of 64, one of 8
    m = loaded.Mlp(seed=1)
    opt, meter = shapescript.AdamW(m), Meter(EPOCHS)
    loaded.steps(m, opt, train, Meter(1), 1, mode)
    gc.collect()
    gc.disable()  # what other tests have left behind isn't to be freed in between
    tracemalloc.start()
    try:
        loaded.steps(m, opt, train, meter, EPOCHS, mode)
    finally:
        tracemalloc.stop()
        gc.enable()
    assert opt.step == (EPOCHS + 1) * 4
    assert len(vars(loaded)["_instances"]) == 1
    steady = meter.readings[EPOCHS // 2 :]  # Python's caches and tracemalloc's own tables fill in the first ones
    grows, pool, traced, *malloc = steady.T
    assert np.ptp(grows) == 0 and np.ptp(pool) == 0
    assert np.ptp(traced) == 0
    assert all(np.ptp(column) == 0 for column in malloc)


if __name__ == "__main__":
    main(Path(sys.argv[1]), {"Eval": shapescript.Eval, "Train": shapescript.Train(seed=1)}[sys.argv[2]])
