"""What an engine and its host say to each other: both engines take the same arguments, make the same calls and fail in the same words.

An engine executes a function whose sizes are known but for axis variables. Values cross the border as follows.

    tensor with axes        a C-contiguous NumPy array of the element's type, native byte order
    host int, float, bool   Python's; a `[]` of f32 is a float that f32 represents
    model                   its flat buffer: a 64-byte-aligned uint8 array, laid out as ir/flat.py says
    optimiser               OptimiserState
    Mode                    an object with `.block`, an int64 array [kind: 0 Eval, 1 Train; seed; draws; 0], read and written in place
    Dataset                 an object with `.shapes`, each field's of one example, and `.block`, an int64 array [rows, 0 or 1, then for each
                            field its address and the bytes from one row to the next]. At 0 rows lie in memory, and `.arrays` has the fields
                            in order; rows may overlap, inside of one elements follow each other. At 1 the dataset is fed: the host alone
                            knows its examples, and addresses are 0
    its orders              an object with `.dataset`, which it is an order of, `.rows(start, count)`, the numbers of the examples at these
                            places, and `.block`, an int64 array [places, PERMUTED, DRAWN or FED, k, seed, the first place]
    LogSink, Vocabulary,    any object; engines only pass it on
    str
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from shapescript.compiler.diagnostics.model import Span
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.sizes import Size
from shapescript.compiler.numerics.optimisers import FIRST_CONSTANT, FIRST_SLOT, OptimiserKind, Slot
from shapescript.compiler.numerics.ranges import RANGES
from shapescript.compiler.ops.checks import FAILURES
from shapescript.compiler.ops.windows import misfit
from shapescript.compiler.records.dataclass import dataclass

Bytes = npt.NDArray[np.uint8]
OF_LABELS = ("cross_entropy", "nll", "accuracy")  # what takes an index and calls it a label


@dataclass(frozen=True)
class OptimiserState:
    """`block`: int64 words as numerics/optimisers.py says; `slots`: the flat buffers, at their addresses in the block, None for one that
    isn't there. Where a `mut` state comes to need a slot that it hasn't, an engine puts one in."""

    block: npt.NDArray[np.int64]
    slots: list[Bytes | None]

    def constants(self, kind: OptimiserKind) -> npt.NDArray[np.float64]:
        """The constants of its kind, in their order."""
        return self.block[FIRST_CONSTANT : FIRST_CONSTANT + len(kind.constants)].view(np.float64)

    def slot(self, kind: OptimiserKind, slot: Slot) -> Bytes:
        """A slot that is there."""
        buffer = self.slots[kind.slots.index(slot)]
        assert buffer is not None
        return buffer

    def put(self, place: int, slot: Bytes | None) -> None:
        self.slots[place] = slot
        self.block[FIRST_SLOT + place] = 0 if slot is None else slot.ctypes.data


PERMUTED, DRAWN, FED = range(3)
"""What an order is: the k-th permutation of a dataset that isn't fed, from the first place on; examples drawn from one; or an order whose
examples the host alone can give one behind the other, whatever its dataset is."""


class Feed(Protocol):
    """The batches of one loop over what is fed."""

    def take(self, start: int) -> tuple[int, Sequence[Any]]:
        """The examples from place `start` on, which are as many as some whole batches or reach the loop's end: how many, and the fields in
        the record's order, valid until the next call."""

    def close(self) -> None:
        """Let go of everything; it may be called twice."""


class Host(Protocol):
    """What an engine asks of the world around it."""

    def perform(self, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
        """Do an operation whose lowering is Host; gives its results. What it raises ends the call and reaches the caller unchanged."""

    def feed(self, op: Op, examples: Any, size: int, start: int, end: int, prefetch: int) -> Feed:
        """What gives a loop over a dataset or an order of one its batches of `size` examples, from place `start` to `end`."""

    def gather(self, op: Op, data: Any, rows: Any) -> Sequence[Any]:
        """The fields of the examples of a fed dataset with these numbers (int64)."""

    def columns(self, op: Op, data: Any, fields: Sequence[int]) -> Sequence[Any]:
        """These fields of all examples of a fed dataset, by their places in the record."""

    def poll(self) -> None:
        """Called on a time budget (every 50 ms or so) while the engine works; a KeyboardInterrupt raised here ends the call."""


class ExecutionError(Exception):
    """A run-time error of the program: code, message, place. Nothing that the failing operation would change has changed."""

    def __init__(self, code: str, message: str, span: Span | None, step: int | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.span, self.step = code, message, span, step


# ---- failures that both engines report, in one wording ----------------------------------------------------------------------------------


def index_out_of_range(op: Op, position: int, value: int, size: int) -> ExecutionError:
    checked = op.attributes.get("size")  # of `check_index`, which has no tensor
    axis = op.operands[0].type.axes[op.attributes.get("position", 0)] if checked is None else checked  # type: ignore[union-attr]
    called = op.attributes.get("called", op.name)
    one, several = ("label", "labels") if called in OF_LABELS else ("index", "indices")
    range_ = f"so {several} go from 0 to {size - 1}" if size else f"so there is no {one} into it"
    what, many = ("class axis", "classes") if called in OF_LABELS else ("axis", "elements")
    text = f"{one} {value} at position {position}: {called}'s {what} {axis} has {size} {many}, {range_}"
    return ExecutionError("R1101", text, op.span)


def slice_out_of_range(op: Op, start: int, stop: int, size: int) -> ExecutionError:
    axis = op.attributes["axis"]
    text = f"{axis}={start}" if stop == start + 1 else f"{axis}={start}..{stop}"
    range_ = f"has {size} places, 0 to {size - 1}" if size else "has no places"
    return ExecutionError("R1107", f"`{text}` is outside: axis {axis} {range_}", op.span)


def reduction_of_nothing(op: Op) -> ExecutionError:
    name = op.attributes["kind"] if op.name == "reduce" else op.name
    return ExecutionError("R1103", f"{name} of nothing: the reduced axes have no elements, and {name} has no value for that", op.span)


def not_finite_loss(op: Op, value: float, step: int | None = None) -> ExecutionError:
    return ExecutionError("R1104", f"the loss is {value}{_at(step)}; nothing was changed by this step", op.span, step)


def not_finite_gradient(op: Op, parameter: str, has_nan: bool, step: int | None = None) -> ExecutionError:
    """`parameter` is the first with such an element; `has_nan` is whether any has a NaN, and so the norm."""
    norm = "nan" if has_nan else "inf"
    text = f"the gradient of {parameter} is not finite{_at(step)} (the norm is {norm}); nothing was changed by this step"
    return ExecutionError("R1105", text, op.span, step)


def out_of_range(op: Op, value: float) -> ExecutionError:
    return ExecutionError("R1109", f"{RANGES[op.attributes['rule']].fault(value)}; nothing was changed", op.span)


def integer_division(op: Op, left: int, right: int) -> ExecutionError:
    sign = "//" if op.name == "floordiv" else "%"
    what = "divides by zero" if right == 0 else "overflows 64 bits"
    return ExecutionError("R1106", f"{left} {sign} {right} {what}", op.span)


def failed_check(op: Op) -> ExecutionError:
    code, message = FAILURES[op.attributes["failure"]]
    return ExecutionError(code, message, op.span)


def no_batches(op: Op, rows: int, size: int, drop_last: bool) -> ExecutionError:
    if size <= 0:
        return ExecutionError("R1102", f"batches of {size} examples: a batch has at least 1", op.span)
    if rows == 0:
        return ExecutionError("R1102", "the dataset is empty, so there are no batches", op.span)
    return ExecutionError("R1102", f"{rows} examples give no batch of {size} with drop_last={'true' if drop_last else 'false'}", op.span)


def start_out_of_range(op: Op, start: int, examples: int) -> ExecutionError:
    return ExecutionError("R1107", f"batches from example {start} on, of {examples}: `start` goes from 0 to {examples}", op.span)


def no_distribution(op: Op, row: int) -> ExecutionError:
    return ExecutionError("R1108", f"the largest logit of row {row} is NaN or infinite, so nothing can be drawn by the row", op.span)


def window_does_not_fit(op: Op, room: Size, value: int) -> ExecutionError:
    return ExecutionError("R1110", misfit(op, room, value), op.span)


def inexact_axis(message: str, span: Span | None) -> ExecutionError:
    return ExecutionError("R1003", message, span)


def _at(step: int | None) -> str:
    return "" if step is None else f" at step {step}"
