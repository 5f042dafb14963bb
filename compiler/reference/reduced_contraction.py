"""Contractions whose rows are reduced (ops/reduced_contraction.py): one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ops.reduced_contraction import product_op, reduction_op
from shapescript.compiler.reference.frame import HANDLERS, Frame, handles


@handles("reduced_contraction")
def _reduced_contraction(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    product, place = product_op(op), op.attributes["place"]
    count = len(product.operands)
    made = HANDLERS["fused_contraction"](product, operands[:count], frame)
    others = operands[count:]
    return HANDLERS["fused_reduction"](reduction_op(op), [*others[:place], *made, *others[place:]], frame)
