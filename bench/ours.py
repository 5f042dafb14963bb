"""This project: a round is one call of native code, the loop over batches is the program's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import shapescript

from .data import fields_of
from .rows import CLIP, EPS, ModelName, Row
from .task import PROGRAM_NAME, ROOT, Array, Task, Work, save_task

SEED = 1
PROGRAMS = Path(__file__).with_name("programs")
STEPS = """

data StepLoss:
    loss: float

fn train_steps(mut m: {model}, mut opt: AdamW[{model}], data: Dataset[{record}], sink: LogSink, k: int, steps: int, size: int):
    for batch in data |> sample(steps * size, k) |> batches(size):
        l, mut g = value_and_grad({loss}, wrt=m)
        clip_norm(mut g, {clip})
        update(mut m, mut opt, g, lr={rate})
        write(sink, StepLoss(loss=l))
"""


@dataclass(frozen=True)
class Source:
    """A program that the loop over training steps is put behind, and what it calls things."""

    path: Path
    model: str
    record: str
    loss: str = "loss(m, batch)"


SOURCES: Mapping[ModelName, Source] = {
    "classifier": Source(PROGRAMS / "classifier.ss", "Mlp", "Digit"),
    "char_gpt": Source(ROOT / "examples" / "char_gpt.ss", "Gpt", "Window"),
    "digits_cnn": Source(ROOT / "examples" / "digits_cnn.ss", "Cnn", "Digit", "loss(m, batch, Eval)"),
    "lstm": Source(PROGRAMS / "lstm.ss", "Speller", "Window"),
}


def program_text(row: Row) -> str:
    source = SOURCES[row.model]
    loop = STEPS.format(model=source.model, record=source.record, loss=source.loss, clip=CLIP, rate=row.rate)
    return source.path.read_text() + loop


class Loaded:
    """A row's program, its model and its data."""

    def __init__(self, path: Path, row: Row, fields: Mapping[str, Array], seed: int = SEED) -> None:
        source = SOURCES[row.model]
        self.program: Any = shapescript.load(path, dict(row.dims))
        record = getattr(self.program, source.record)
        self.data = record.windows(fields["text"]) if "text" in fields else record.dataset(**fields)
        self.model = getattr(self.program, source.model)(seed=seed)


class ShapeScriptTrainer:
    def __init__(self, task: Task) -> None:
        self.task, self.done = task, 0
        self.loaded = Loaded(task.program, task.row, task.fields)
        self.loaded.model.load_state_dict(task.start)
        self.optimiser = shapescript.AdamW(self.loaded.model, betas=task.row.betas, eps=EPS, decay=task.row.decay)
        self.sink = shapescript.MemorySink()

    def round(self) -> list[float]:
        before, loaded = len(self.sink.records), self.loaded
        loaded.program.train_steps(loaded.model, self.optimiser, loaded.data, self.sink, self.done, self.task.steps, self.task.row.batch)
        self.done += 1
        return [record.loss for record in self.sink.records[before:]]


class ShapeScriptInference:
    def __init__(self, task: Task) -> None:
        self.loaded = Loaded(task.program, task.row, task.fields)
        self.loaded.model.load_state_dict(task.start)
        self.pixels, self.calls = task.fields["pixels"][: task.row.batch], task.steps

    def round(self) -> list[float]:
        forward, m, pixels = self.loaded.program.forward, self.loaded.model, self.pixels
        for _ in range(self.calls):
            result = forward(m, pixels)
        return [float(value) for value in result[0]]


def work(task: Task) -> Work:
    return ShapeScriptTrainer(task) if task.row.kind == "training" else ShapeScriptInference(task)


def prepare_task(folder: Path, row: Row, rounds: int, steps: int) -> None:
    """Writes the row's program and its task: the start, and the order in which the program goes through the examples."""
    path, fields = folder / PROGRAM_NAME, fields_of(row)
    path.write_text(program_text(row))
    loaded = Loaded(path, row, fields)
    order = np.empty((rounds, steps, 0), np.int64)
    if row.kind == "training":
        drawn = [loaded.data.sample(steps * row.batch, k).rows(0, steps * row.batch) for k in range(rounds)]
        order = np.array(drawn, np.int64).reshape(rounds, steps, row.batch)
    save_task(folder, Task(row, fields, loaded.model.state_dict(), order, path))
