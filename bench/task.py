"""What every peer is given: the data, a start, and the examples of each step, the same for all, in a folder that processes share."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .rows import Row

ROOT = Path(__file__).resolve().parents[1]
PROGRAM_NAME = "program.ss"

Array = NDArray[Any]
Arrays = dict[str, Array]


@dataclass(frozen=True)
class Task:
    """`start`: parameters by PyTorch's names; `order`: the numbers of the examples, [rounds, steps, batch]; `program`: this project's."""

    row: Row
    fields: Arrays
    start: Arrays
    order: Array
    program: Path

    @property
    def steps(self) -> int:
        return int(self.order.shape[1])


class Work(Protocol):
    """A peer at work: a round is as many steps, or calls, as the task says; it gives numbers that must be the same for all peers.

    Of a training step that is the loss, read on the host; of calls, some numbers of the last one's result.
    """

    def round(self) -> list[float]: ...


def save_task(folder: Path, task: Task) -> None:
    fields = {f"field.{name}": value for name, value in task.fields.items()}
    start = {f"start.{name}": value for name, value in task.start.items()}
    arrays: dict[str, Any] = {"row": json.dumps(asdict(task.row)), "order": task.order, **fields, **start}
    np.savez(folder / "task.npz", **arrays)


def load_task(folder: Path) -> Task:
    with np.load(folder / "task.npz") as file:
        arrays = {name: file[name] for name in file.files}
    fields, start = (
        {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)} for prefix in ("field.", "start.")
    )
    row = json.loads(str(arrays["row"]))
    return Task(Row(**{**row, "betas": tuple(row["betas"])}), fields, start, arrays["order"], folder / PROGRAM_NAME)
