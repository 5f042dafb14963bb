"""Models, and what is done to whole gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shapescript.compiler.ir.nodes import Op, Value
from shapescript.compiler.ir.types import ModelType
from shapescript.compiler.numerics.summation import block_tree, reduce_sum
from shapescript.compiler.ops.protocol import ExecutionError, not_finite_gradient, not_finite_loss
from shapescript.compiler.reference.frame import Frame, handles
from shapescript.compiler.reference.layouts import Array, Layout, aligned, aligned_copy


def layout_of(value: Value, frame: Frame) -> Layout:
    """The layout of a model's value."""
    assert isinstance(value.type, ModelType)
    return frame.layouts.of(value.type)


# ---- models and their parts


@handles("leaf")
def _leaf(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    return (layout_of(op.operands[0], frame).places[op.attributes["path"]].view(operands[0]),)


@handles("submodel")
def _submodel(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    start = layout_of(op.operands[0], frame).start_of(op.attributes["path"])
    return (operands[0][start : start + layout_of(op.result, frame).total],)


@handles("replace_submodel")
def _replace_submodel(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    (model, part), path = operands, op.attributes["path"]
    layout, changed = layout_of(op.operands[0], frame), aligned_copy(model)
    if path in layout.places:
        layout.places[path].view(changed)[...] = part
    else:
        start = layout.start_of(path)
        changed[start : start + part.size] = part
    return (changed,)


@handles("pack")
def _pack(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    layout = layout_of(op.result, frame)
    buffer = aligned(layout.total)
    for place, tensor in zip(layout.places.values(), operands, strict=True):
        place.view(buffer)[...] = tensor
    return (buffer,)


@handles("copy", "stop_gradient")
def _same(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    """No storage is ever changed here, so the value itself will do."""
    return (operands[0],)


# ---- gradients


def sum_of_squares(tensor: Array) -> Array:
    """In f64, where the square of an f32 is exact."""
    wide = tensor.reshape(-1).astype(np.float64)
    return reduce_sum(wide * wide)


@handles("global_norm")
def _global_norm(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    """One reduction for each parameter, then the block tree over them in the order of their names."""
    squares = {place.name: sum_of_squares(place.numbers(operands[0])) for place in layout_of(op.operands[0], frame).trained}
    norm = np.sqrt(block_tree(list(squares.values()))) if squares else np.float64(0.0)
    if not np.isfinite(norm):
        culprit = next((name for name, square in squares.items() if not np.isfinite(square)), next(iter(squares)))
        raise not_finite_gradient(op, culprit, frame.step_of(op))
    return (np.asarray(norm),)


@handles("scale_model")
def _scale_model(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    model, factor = operands
    scaled = aligned_copy(model)
    for place in layout_of(op.operands[0], frame).trained:
        tensor = place.numbers(scaled)
        place.write(scaled, tensor * factor.astype(tensor.dtype))
    return (scaled,)


@handles("check_finite")
def _check_finite(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    (value,), (operand,) = operands, op.operands
    if isinstance(operand.type, ModelType):
        tensors = [(place.name, place.numbers(value)) for place in layout_of(operand, frame).trained]
    else:
        tensors = [(operand.hint or "the tensor", value)]
    for name, tensor in tensors:
        finite = np.isfinite(tensor)
        if not finite.all():
            raise _not_finite(op, name, float(tensor[~finite].reshape(-1)[0]), frame)
    return ()


def _not_finite(op: Op, name: str, value: float, frame: Frame) -> ExecutionError:
    step = frame.step_of(op)
    return not_finite_loss(op, value, step) if op.attributes["what"] == "loss" else not_finite_gradient(op, name, step)
