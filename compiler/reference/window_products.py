"""Contractions of windows and in front of folds (ops/window_products.py): with the whole tensor of windows in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ops.window_products import contraction_op, fold_op, windows_op
from shapescript.compiler.reference.frame import HANDLERS, Frame, handles


@handles("windows_contraction")
def _windows_contraction(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    side, given = op.attributes["side"], list(operands)
    (found,) = HANDLERS["windows"](windows_op(op), [operands[side]], frame)
    given[side] = found.reshape(frame.shape(op.attributes["axes"], op.span))
    return HANDLERS["fused_contraction"](contraction_op(op), given, frame)


@handles("contraction_fold")
def _contraction_fold(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    (found,) = HANDLERS["contraction"](contraction_op(op), operands, frame)
    return HANDLERS["fold"](fold_op(op), [found.reshape(frame.shape(op.attributes["axes"], op.span))], frame)
