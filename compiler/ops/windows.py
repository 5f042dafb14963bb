"""Windows along axes, and what lies in windows added up where it belongs: convolutions and pooling are made of these two.

A window along an axis has `length` places, `dilation` apart; the first window begins `before` places in front of the axis, each next one
`stride` places further on. Both operations are pure and safe for any sizes: what lies outside is never read or written.

`room` holds sizes that must not be below 0, else the operation fails with R1110 (E0503 where they are known): how far the windows can move
along each axis, the strides less 1. What a pass makes needs none, and windows of one place without padding fit an axis of any size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.sizes import LARGEST, ZERO, Size
from shapescript.compiler.ir.types import TensorType, Type
from shapescript.compiler.ops.build import Builder
from shapescript.compiler.ops.elementwise import FLOATS, Gradients
from shapescript.compiler.ops.shapes import operand_type
from shapescript.compiler.ops.table import Move, OpEntry, attribute, register, require

STEPS = ("strides", "dilations", "before")


def _check_steps(op: Op, rank: int) -> tuple[int, ...]:
    positions: tuple[int, ...] = attribute(op, "positions")
    in_order = list(positions) == sorted(set(positions)) and all(0 <= place < rank for place in positions)
    require(bool(positions) and in_order, op, "positions must ascend, one for each axis")
    require(all(len(attribute(op, name)) == len(positions) for name in STEPS), op, "one number for each axis")
    attribute(op, "room")
    return positions


def _replaced(axes: tuple[Size, ...], positions: tuple[int, ...], sizes: tuple[Size, ...]) -> tuple[Size, ...]:
    given = dict(zip(positions, sizes, strict=True))
    return tuple(given.get(place, axis) for place, axis in enumerate(axes))


# ---- windows


def _infer_windows(op: Op) -> tuple[Type, ...]:
    kind = operand_type(op)
    positions, lengths, counts = _check_steps(op, kind.rank), attribute(op, "lengths"), attribute(op, "counts")
    require(len(lengths) == len(counts) == len(positions), op, "one length and one count for each axis")
    attribute(op, "fill")
    return (TensorType(kind.element, (*_replaced(kind.axes, positions, lengths), *counts)),)


def _windows_derivative(b: Builder, op: Op, gradients: Gradients) -> Gradients:
    if gradients[0] is None:
        return [None]
    positions = op.attributes["positions"]
    sizes = tuple(operand_type(op).axes[place] for place in positions)
    steps = {name: op.attributes[name] for name in STEPS}
    return [b.op("fold", gradients[0], positions=positions, sizes=sizes, **steps, room=())]


# windows(x) {positions, lengths, counts, strides, dilations, before, fill, room}: each listed axis is replaced by the places of a window,
# and the windows' numbers follow as the last axes. For one axis: result[…, k, …, i] = x[…, i * stride + k * dilation - before, …], and
# `fill` where x has no such place.
register(OpEntry("windows", _infer_windows, _windows_derivative, Move("windows")))


# ---- fold


def _infer_fold(op: Op) -> tuple[Type, ...]:
    kind, count = operand_type(op), len(attribute(op, "positions"))
    positions, sizes = _check_steps(op, kind.rank - count), attribute(op, "sizes")
    require(len(sizes) == count, op, "one size for each axis")
    require(kind.element in FLOATS, op, "takes floats")
    return (TensorType(kind.element, _replaced(kind.axes[: kind.rank - count], positions, sizes)),)


def _fold_derivative(b: Builder, op: Op, gradients: Gradients) -> Gradients:
    if gradients[0] is None:
        return [None]
    positions, axes = op.attributes["positions"], operand_type(op).axes
    lengths = tuple(axes[place] for place in positions)
    steps = {name: op.attributes[name] for name in STEPS}
    counts = axes[len(axes) - len(positions) :]
    return [b.op("windows", gradients[0], positions=positions, lengths=lengths, counts=counts, **steps, fill=0.0, room=())]


# fold(x) {positions, sizes, strides, dilations, before, room}: the other way round, windows as `windows` lays them out to a tensor of these
# sizes. Each element begins at +0.0, and what belongs to it is added in the row-major order of the places in the windows.
register(OpEntry("fold", _infer_fold, _fold_derivative, Move("fold")))


def room_to_check(name: str, attributes: Mapping[str, Any]) -> tuple[Size, ...]:
    """`room` of an operation once sizes are known: 0 for windows that fit an axis of any size."""
    room: tuple[Size, ...] = attributes["room"]
    if name == "fold" or not room:
        return room
    windows = zip(room, attributes["lengths"], attributes["before"], strict=True)
    return tuple(ZERO if length.constant() == 1 and before.constant() == 0 else size for size, length, before in windows)


def misfit(op: Op, room: Size, value: int) -> str:
    """What to say of a size in `room` that is below 0."""
    if "sizes" in op.attributes:  # a fold
        return f"windows {value + 1} places apart: a stride is at least 1"
    place = op.attributes["positions"][op.attributes["room"].index(room)]
    axis = operand_type(op, op.attributes.get("side", 0)).axes[place]
    missing = "1 place" if value == -1 else f"{-value} places" if value > -LARGEST else "at least 2**48 places"
    return f"a window doesn't fit into axis {axis}, padding included: it is {missing} too long"
