"""Models, and what is done to whole gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shapescript.compiler.ir.nodes import Op, Value
from shapescript.compiler.ir.types import ModelType
from shapescript.compiler.numerics.norms import (
    FIRST_FACTOR,
    LARGER,
    LARGEST_NORM,
    LARGEST_SQUARES,
    SECOND_FACTOR,
    SMALLER,
    SMALLEST_FACTOR,
    SMALLEST_SQUARES,
)
from shapescript.compiler.numerics.summation import block_tree, reduce_sum
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.ops.protocol import not_finite_gradient, not_finite_loss
from shapescript.compiler.reference.frame import Frame, handles
from shapescript.compiler.reference.layouts import DTYPES, Array, Layout, aligned, aligned_copy


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


@handles("flat")
def _flat(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    return (operands[0].view(DTYPES[result_type(op.result).element]),)


@handles("pack_flat")
def _pack_flat(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    layout = layout_of(op.result, frame)
    buffer = aligned(layout.total)
    for place in layout.places.values():
        place.view(buffer)[...] = place.view(np.ascontiguousarray(operands[0]).view(np.uint8))
    return (buffer,)


@handles("copy", "stop_gradient")
def _same(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    """No storage is ever changed here, so the value itself will do."""
    return (operands[0],)


# ---- gradients


def sum_of_squares(tensors: Sequence[Array], scale: float = 1.0) -> np.float64:
    """One reduction for each tensor in f64, where the square of an f32 is exact; then the block tree over them."""
    wide = [tensor.reshape(-1).astype(np.float64) * scale for tensor in tensors]
    return np.float64(block_tree([reduce_sum(numbers * numbers) for numbers in wide])) if wide else np.float64(0.0)


def norm_of(tensors: Sequence[Array]) -> np.float64:
    """The root of the sum of squares, of elements that were scaled where it would leave the range (numerics/norms.py)."""
    squares = sum_of_squares(tensors)
    if squares < SMALLEST_SQUARES:
        return np.float64(np.sqrt(sum_of_squares(tensors, LARGER)) * SMALLER)
    if squares >= LARGEST_SQUARES:
        root = np.sqrt(sum_of_squares(tensors, SMALLER))
        return np.float64(min(root * LARGER, LARGEST_NORM)) if np.isfinite(root) else np.float64(root)
    return np.float64(np.sqrt(squares))


@handles("global_norm")
def _global_norm(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    return (np.asarray(norm_of([place.numbers(operands[0]) for place in layout_of(op.operands[0], frame).trained])),)


def split(factor: Array, dtype: np.dtype[Any]) -> tuple[bool, Array]:
    """A gradient's factor as tensors of this type take it, and whether it is the second of two."""
    if factor.dtype == np.float64 and factor < SMALLEST_FACTOR:
        return True, (factor * SECOND_FACTOR).astype(dtype)
    return False, factor.astype(np.float32).astype(dtype)


@handles("scale_model")
def _scale_model(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    model, factor = operands
    scaled = aligned_copy(model)
    for place in layout_of(op.operands[0], frame).trained:
        tensor = place.numbers(scaled)
        is_split, rounded = split(factor, tensor.dtype)
        place.write(scaled, (tensor * tensor.dtype.type(FIRST_FACTOR) if is_split else tensor) * rounded)
    return (scaled,)


@handles("check_finite")
def _check_finite(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    value, *norm = operands
    if norm and np.isfinite(norm[0]):
        return ()
    tensors = _checked(op, value, frame)
    culprits = [(name, tensor[~np.isfinite(tensor)]) for name, tensor in tensors if not np.isfinite(tensor).all()]
    if culprits:
        name, bad = culprits[0]
        step = frame.step_of(op)
        if op.attributes["what"] == "loss":
            raise not_finite_loss(op, float(bad.reshape(-1)[0]), step)
        raise not_finite_gradient(op, name, any(bool(np.isnan(numbers).any()) for _, numbers in culprits), step)
    return ()


@handles("all_finite")
def _all_finite(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    return (np.asarray(all(bool(np.isfinite(tensor).all()) for _, tensor in _checked(op, operands[0], frame))),)


def _checked(op: Op, value: Any, frame: Frame) -> list[tuple[str, Array]]:
    """The tensors that are looked at, by their names."""
    operand = op.operands[0]
    if isinstance(operand.type, ModelType):
        return [(place.name, place.numbers(value)) for place in layout_of(operand, frame).trained]
    return [(operand.hint or "the tensor", value)]
