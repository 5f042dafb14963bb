"""Places along one axis, as ops/places.py defines them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ops.protocol import inexact_axis, slice_out_of_range
from shapescript.compiler.reference.frame import Frame, handles
from shapescript.compiler.reference.layouts import Array


@handles("bind_size")
def _bind_size(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    count = int(operands[0])
    if count < 0:
        raise inexact_axis(f"axis {op.attributes['size']} would have {count} elements", op.span)
    frame.sizes.update((symbol, count) for symbol in op.attributes["size"].symbols())
    return ()


@handles("check_slice")
def _check_slice(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    start, stop = map(int, operands)
    size = frame.size(op.attributes["size"], op.span)
    if not 0 <= start <= stop <= size:
        raise slice_out_of_range(op, start, stop, size)
    return ()


def _inside(start: Any, length: int, size: int) -> int:
    return max(0, min(int(start), size - length))


def _window(array: Array, start: Any, length: int, position: int) -> tuple[slice, ...]:
    first = _inside(start, length, array.shape[position])
    return (*[slice(None)] * position, slice(first, first + length))


@handles("slice")
def _slice(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    x, start = operands
    return (x[_window(x, start, frame.size(op.attributes["length"], op.span), op.attributes["position"])],)


@handles("put", "add_slice")
def _put(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    x, part, start = operands
    position = op.attributes["position"]
    found = np.array(x, order="C")
    window = _window(x, start, part.shape[position], position)
    found[window] = part if op.name == "put" else x[window] + part
    return (found,)


@handles("concat")
def _concat(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    return (np.concatenate(operands, axis=op.attributes["position"]),)


@handles("literal")
def _literal(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    return (np.array(operands, operands[0].dtype).reshape(frame.shape(op.attributes["axes"], op.span)),)
