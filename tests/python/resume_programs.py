"""The programs of the field reports about going on: 64 examples, 3 epochs of 16 steps, in as many ways as the reports ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

ROWS, BATCH, EPOCHS = 64, 4, 3
STEPS = EPOCHS * ROWS // BATCH

TRAINING = """
import shapescript.std.schedule as schedule

data Row:
    id: int
    x: [3]
    label: int

model Net:
    enter: [3 Hidden] = uniform(-1, 1)
    leave: [Hidden Classes] = uniform(-1, 1)

dim Hidden = 6
dim Classes = 4

data Line:
    step: int
    epoch: int
    batch: int
    rows: int
    loss: float
    lr: float

fn loss(m: Net, batch: Row[b], mode: Mode) -> []:
    noisy = batch.x + 0.1 * random_normal[b 3](mode)
    return noisy @ m.enter |> relu |> dropout(0.25, mode) |> leave(m) |> cross_entropy(batch.label)

fn leave(x: [b Hidden], m: Net) -> [b Classes]:
    return x @ m.leave

fn evaluated(m: Net, rows: Dataset[Row], k: int) -> float:
    mut total = 0.0
    for batch in rows |> shuffle(k, seed=9) |> batches(5):
        total = total + float(loss(m, batch, Eval))
    return total

fn rate(step: int) -> float:
    return schedule.warm_up_cosine(step, 0.1, 5, 45) * schedule.step(step, 1.0, 20)

# Goes to step `stop`, and saves there. `evaluate`: an evaluation each so many steps, 0 for none. `other`: what is done between the load and
# the first step that must change nothing: 1 makes a model and a mode, 2 makes an order of another dataset, 3 evaluates.
fn go(rows: Dataset[Row], sink: LogSink, stop: int, prefetch: int, evaluate: int, other: int, carry_on: bool):
    mode = Train(seed=1)
    mut m = Net(seed=2)
    mut opt = AdamW(m)
    mut epoch = 0
    mut seen = 0
    if carry_on:
        m, opt, epoch, seen = load("run.pt", m=Net, opt=AdamW[Net], epoch=int, seen=int, mode=mode, sink=sink, rows=rows)
    if other == 1:
        another = Net(seed=3)
        print(loss(another, rows.all, Train(seed=1)) > 0.0)
    if other == 2:
        for batch in rows |> take(10) |> shuffle(7) |> batches(3):
            print(max(batch.label, over=batch) >= 0)
    if other == 3:
        print(evaluated(m, rows, 0) > 0.0)
    while epoch < EPOCHS and opt.step < stop:
        until = minimum(rows.count, seen + (stop - opt.step) * BATCH)
        for batch in rows |> shuffle(epoch) |> take(until) |> batches(BATCH, start=seen, prefetch=prefetch):
            lr = rate(opt.step)
            l, g = value_and_grad(loss(m, batch, mode), wrt=m)
            update(mut m, mut opt, g, lr=lr)
            write(sink, Line(step=opt.step, epoch=epoch, batch=seen // BATCH, rows=code(batch.id), loss=l, lr=lr))
            seen = seen + BATCH
            if evaluate > 0:
                if opt.step % evaluate == 0:
                    print(evaluated(m, rows, opt.step) > 0.0)
        if seen == rows.count:
            epoch = epoch + 1
            seen = 0
    save("run.pt", m=m, opt=opt, epoch=epoch, seen=seen, mode=mode, sink=sink, rows=rows)

fn code(ids: int[b]) -> int:
    mut found = 0
    for i in 0..b:
        found = found * 100 + int(ids[b=i])
    return found
""".replace("EPOCHS", str(EPOCHS)).replace("BATCH", str(BATCH))

ACCUMULATING = """
import shapescript.std.optim as optim

data Row:
    id: int
    x: [3]
    label: int

model Net:
    weight: [3 Classes] = uniform(-1, 1)

dim Classes = 4
const Window = 4

data Line:
    update: int
    parts: int

fn size_of(batch: Row[b]) -> int:
    return b

# `every`: it saves after each so many parts of gradients; `within`: within a window too, with what was added so far.
fn go(rows: Dataset[Row], sink: LogSink, epochs: int, parts: int, every: int, within: bool, carry_on: bool) -> int:
    mut m = Net(seed=2)
    mut opt = AdamW(m)
    mut so_far = optim.accumulated(m)
    mut epoch = 0
    mut seen = 0
    mut part = 0
    mut due = false
    mut done = 0
    if carry_on:
        m, opt, so_far, epoch, seen, part = load(
            "run.pt", m=Net, opt=AdamW[Net], so_far=optim.Accumulated[Net], epoch=int, seen=int, part=int, sink=sink
        )
    while epoch < epochs and done < parts:
        until = minimum(rows.count, seen + (parts - done) * 4)
        for batch in rows |> shuffle(epoch) |> take(until) |> batches(4, start=seen):
            l, g = value_and_grad(batch.x @ m.weight |> cross_entropy(batch.label), wrt=m)
            optim.add(mut so_far, g, size_of(batch))
            part = part + 1
            done = done + 1
            seen = minimum(seen + 4, rows.count)
            due = due or done % every == 0
            if part == Window or seen == rows.count:
                mean = optim.gradient(so_far)
                update(mut m, mut opt, mean, lr=0.1)
                write(sink, Line(update=opt.step, parts=part))
                so_far = optim.accumulated(m)
                part = 0
            if due and (part == 0 or within):
                due = false
                save("run.pt", m=m, opt=opt, so_far=so_far, epoch=epoch, seen=seen, part=part, sink=sink)
        if seen == rows.count:
            epoch = epoch + 1
            seen = 0
    return opt.step
"""


def rows_of(program: Any, count: int = ROWS) -> Any:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(count, 3)).astype(np.float32)
    return program.Row.dataset(id=np.arange(count), x=x, label=draw.integers(0, 4, count))


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix in (".pt", ".jsonl")}
