"""Windows along axes, as ops/windows.py defines them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.sizes import LARGEST
from shapescript.compiler.ir.types import TensorType
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.ops.protocol import window_does_not_fit
from shapescript.compiler.ops.windows import STEPS
from shapescript.compiler.records.dataclass import dataclass
from shapescript.compiler.reference.elementwise import known_number
from shapescript.compiler.reference.frame import Frame, handles
from shapescript.compiler.reference.layouts import Array


@dataclass(frozen=True)
class _Steps:
    """The windows along one axis."""

    position: int
    stride: int
    dilation: int
    before: int

    def places(self, k: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64]:
        """Where places k of each window lie on the axis: one row for each place."""
        return np.arange(count) * self.stride + k[:, None] * self.dilation - self.before


def _steps(op: Op, frame: Frame) -> list[_Steps]:
    for room in op.attributes["room"]:
        value = frame.number(room, op.span)
        if value < 0:
            raise window_does_not_fit(op, room, value)
    numbers = [[frame.size(size, op.span) for size in op.attributes[name]] for name in STEPS]
    if max(itertools.chain(*numbers)) >= LARGEST:
        raise MemoryError("windows 2**48 places apart or more")
    return [_Steps(position, *own) for position, *own in zip(op.attributes["positions"], *numbers, strict=True)]


@handles("windows")
def _windows(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    found: Array = operands[0]
    fill = known_number(op.attributes["fill"], result_type(op.result).element)
    steps = _steps(op, frame)
    lengths, counts = (frame.shape(op.attributes[name], op.span) for name in ("lengths", "counts"))
    for step, length, count in zip(steps, lengths, counts, strict=True):
        places, size = step.places(np.arange(length), count), found.shape[step.position]
        inside = (places >= 0) & (places < size)
        if size == 0:
            found = np.full((*found.shape[: step.position], 1, *found.shape[step.position + 1 :]), fill)
        taken = np.moveaxis(np.take(found, np.where(inside, places, 0), axis=step.position), step.position + 1, -1)
        shape = [1] * taken.ndim
        shape[step.position], shape[-1] = inside.shape
        found = np.where(inside.reshape(shape), taken, fill)
    return (found,)


@handles("fold")
def _fold(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    x: Array = operands[0]
    steps, kind = _steps(op, frame), op.result.type
    assert isinstance(kind, TensorType)
    found = np.zeros(frame.shape(kind.axes, op.span), x.dtype)
    positions = [step.position for step in steps]
    windowed = range(-len(steps), 0)
    target, source = np.moveaxis(found, positions, windowed), np.moveaxis(x, positions, range(len(steps)))
    places = [step.places(np.arange(length), x.shape[axis]) for step, length, axis in zip(steps, source.shape, windowed, strict=False)]
    for window_place in np.ndindex(source.shape[: len(steps)]):
        here = [of_axis[k] for of_axis, k in zip(places, window_place, strict=True)]
        inside = [(place >= 0) & (place < found.shape[position]) for place, position in zip(here, positions, strict=True)]
        there: tuple[Any, ...] = (..., *np.ix_(*(place[valid] for place, valid in zip(here, inside, strict=True))))
        back: tuple[Any, ...] = (..., *np.ix_(*inside))
        target[there] += source[window_place][back]
    return (found,)
