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


def _window(array: Array, start: Any, length: int, position: int) -> tuple[slice, ...]:
    """The places of a part; the array has as many."""
    first = max(0, min(int(start), array.shape[position] - length))
    return (*[slice(None)] * position, slice(first, first + length))


@handles("slice")
def _slice(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    """Of more places than there are: zeros. That happens only before a check that fails."""
    x, start = operands
    length, position = frame.size(op.attributes["length"], op.span), op.attributes["position"]
    if length > x.shape[position]:
        return (np.zeros(frame.shape(op.result.type.axes, op.span), x.dtype),)  # type: ignore[union-attr]
    return (x[_window(x, start, length, position)],)


@handles("put", "add_slice")
def _put(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    """Of a part with more places than there are nothing is written."""
    x, part, start = operands
    length, position = part.shape[op.attributes["position"]], op.attributes["position"]
    found = np.array(x, order="C")
    if length <= x.shape[position]:
        window = _window(x, start, length, position)
        found[window] = part if op.name == "put" else x[window] + part
    return (found,)


@handles("concat")
def _concat(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    return (np.concatenate(operands, axis=op.attributes["position"]),)


@handles("literal")
def _literal(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    return (np.array(operands, operands[0].dtype).reshape(frame.shape(op.attributes["axes"], op.span)),)
