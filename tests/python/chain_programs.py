"""The programs that chains run: a model with dropout and noise, in all the ways of reading data and of logging."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import Any

import numpy as np

ROWS, BATCH, EPOCHS = 22, 4, 3
STEPS = EPOCHS * -(-ROWS // BATCH)

TEXT = """
dim D = 4
dim Hidden = 8
dim Classes = 3

data Row:
    id: int
    x: [D]
    label: int

model Net:
    enter: [D Hidden] = uniform(-0.8, 0.8)
    leave: [Hidden Classes] = uniform(-0.8, 0.8)

data Line:
    step: int
    epoch: int
    seen: int
    rows: int
    loss: float
    lr: float

fn noisy(x: [b n], mode: Mode) -> [b n]:
    if training(mode):
        return x + 0.1 * random_normal[b n](mode)
    return x

fn loss(m: Net, batch: Row[b], mode: Mode) -> []:
    hidden = noisy(batch.x, mode) @ m.enter |> relu |> dropout(0.25, mode)
    return hidden @ m.leave |> cross_entropy(batch.label)

fn size_of(batch: Row[b]) -> int:
    return b

fn ids(batch: Row[b]) -> int:
    mut code = 0
    for i in 0..b:
        code = code * 100 + int(batch.id[b=i])
    return code

fn go(mode: Mode, epochs: int, stop: int, every: int, prefetch: int, carry_on: bool):
    rows = LOAD
    sink = SINK
    mut m = Net(seed=3)
    mut opt = AdamW(m)
    mut epoch = 0
    mut seen = 0
    if carry_on:
        m, opt, epoch, seen = load("chain.pt", m=Net, opt=AdamW[Net], epoch=int, seen=int, mode=mode, sink=sink, rows=rows)
    while epoch < epochs and opt.step < stop:
        until = minimum(rows.count, seen + (stop - opt.step) * BATCH)
LOOP        if seen >= rows.count:
            epoch = epoch + 1
            seen = 0
            flush(sink)
    save("chain.pt", m=m, opt=opt, epoch=epoch, seen=seen, mode=mode, sink=sink, rows=rows)

fn main(train: bool, epochs: int, stop: int, every: int, prefetch: int, carry_on: bool = false):
    mut mode = Eval
    if train:
        mode = Train(seed=5)
    go(mode, epochs, stop, every, prefetch, carry_on)
"""

LOOP = """
for batch in ORDER:
    lr = 0.1 / (opt.step + 1)
    l, g = value_and_grad(loss(m, batch, mode), wrt=m)
    update(mut m, mut opt, g, lr=lr)
    seen = seen + size_of(batch)
    write(sink, Line(step=opt.step, epoch=epoch, seen=seen, rows=ids(batch), loss=l, lr=lr))
    if opt.step % every == 0:
        save("chain.pt", m=m, opt=opt, epoch=epoch, seen=seen, mode=mode, sink=sink, rows=rows)
"""


@dataclass(frozen=True)
class Variant:
    """load, sink, order: what stands in the program for the dataset, the log, and the batches of an epoch from `seen` to `until`."""

    load: str = 'load_data[Row]("rows.npz")'
    sink: str = 'jsonl("chain.jsonl")'
    order: str = "rows |> shuffle(epoch) |> take(until) |> batches(BATCH, start=seen, prefetch=prefetch)"

    @property
    def text(self) -> str:
        loop = indent(LOOP.strip(), " " * 8)
        if "start=" not in self.order:  # a loop without batches is refused where it isn't known that a run goes on
            loop = f"        if seen < until:\n{indent(loop, ' ' * 4)}"
        text = TEXT.replace("LOOP", f"{loop}\n").replace("LOAD", self.load).replace("SINK", self.sink).replace("ORDER", self.order)
        return text.replace("BATCH", str(BATCH))


NPY = 'load_data[Row](id="id.npy", x="x.npy", label="label.npy")'
CSV = 'load_data[Row]("rows.csv")'

VARIANTS = {
    "memory": Variant(),
    "part": Variant(sink='csv("chain.csv")', order="rows |> shuffle(epoch) |> part(seen, until) |> batches(BATCH)"),
    "npy": Variant(load=NPY, sink='tee(jsonl("chain.jsonl"), csv("chain.csv"))'),
    "csv": Variant(load=CSV),
    "composed": Variant(
        load=f"concat({CSV} |> take(9), {NPY} |> skip(9))",
        sink='csv("chain.csv")',
        order="rows |> shuffle(epoch) |> sample(rows.count, epoch, seed=4) |> take(until) |> batches(BATCH, start=seen, prefetch=prefetch)",
    ),
}


def examples() -> dict[str, np.ndarray[Any, Any]]:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(ROWS, 4)).astype(np.float32)
    return {"id": np.arange(ROWS), "x": x, "label": draw.integers(0, 3, ROWS)}


def write_data(folder: Path) -> None:
    """The examples in each kind of file that the programs read."""
    held = examples()
    np.savez(folder / "rows.npz", **held)  # type: ignore[arg-type]
    for name, array in held.items():
        np.save(folder / f"{name}.npy", array)
    with (folder / "rows.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", *(f"x.{place}" for place in range(4)), "label"])
        for row in range(ROWS):
            writer.writerow([held["id"][row], *held["x"][row].tolist(), held["label"][row]])
