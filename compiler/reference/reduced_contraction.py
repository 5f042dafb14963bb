"""Contractions whose rows are reduced (ops/reduced_contraction.py), and then read by another (ops/rows_product.py): one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ops.reduced_contraction import product_op, reduction_op
from shapescript.compiler.ops.rows_product import last_op, reduced_op
from shapescript.compiler.reference.frame import HANDLERS, Frame, handles


@handles("reduced_contraction")
def _reduced_contraction(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    product, place = product_op(op), op.attributes["place"]
    count = len(product.operands)
    made = HANDLERS["fused_contraction"](product, operands[:count], frame)
    others = operands[count:]
    return HANDLERS["fused_reduction"](reduction_op(op), [*others[:place], *made, *others[place:]], frame)


@handles("rows_product")
def _rows_product(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    reduced, number = reduced_op(op), op.attributes["rows"]
    found = list(_reduced_contraction(reduced, operands[:-1], frame))
    rows, other = found.pop(number), operands[-1]
    last = last_op(op, reduced.results[number])
    given = (rows, other) if op.attributes["is_left"] else (other, rows)
    return [*HANDLERS["contraction"](last, given, frame), *found]
