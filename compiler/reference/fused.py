"""What the fusion pass makes: a region of elementwise operations, evaluated on whole arrays broadcast over the space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.reference.frame import Frame, handles
from shapescript.compiler.reference.layouts import Array
from shapescript.compiler.reference.shapes import contract, placed


@handles("kernel")
def _kernel(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    space = frame.shape(op.attributes["space"], op.span)
    elements = [placed(array, where, len(space)) for array, where in zip(operands, op.attributes["maps"], strict=True)]
    return _evaluated(op, elements, space, frame)


@handles("fused_contraction")
def _fused_contraction(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    left, right, *extras = operands
    product = contract(left, right, op.attributes)
    elements = [placed(array, where, product.ndim) for array, where in zip(extras, op.attributes["maps"], strict=True)]
    return _evaluated(op, [product, *elements], product.shape, frame)


def _evaluated(op: Op, elements: Sequence[Array], space: tuple[int, ...], frame: Frame) -> Sequence[Array]:
    """An operand that is the same along an axis stays one element there until it meets others."""
    outer, frame.space = frame.space, space
    yielded = frame.run(op.regions[0], elements)
    frame.space = outer
    return [np.broadcast_to(array, space) for array in yielded]
