"""Rows of a product that are reduced and then read by one more product along them, without the rows as a tensor: attention, from the scores
to the mixed values.

rows_product(operands..., other) {attributes of a reduced_contraction, rows, is_left, last_left, last_right, last_out}: a
`reduced_contraction` of all operands but the last (ops/reduced_contraction.py), whose result number `rows` is the left or right operand of
a `contraction` with `other`, which sums over the rows' last axis. The results are that contraction's, then the other ones of the reduction.
"""

from __future__ import annotations

from shapescript.compiler.ir.nodes import Op, Value
from shapescript.compiler.ir.types import Type
from shapescript.compiler.ops.reduced_contraction import product_op
from shapescript.compiler.ops.shapes import LETTERS
from shapescript.compiler.ops.table import Kernel, NoDerivative, OpEntry, attribute, entry, register, require

REDUCED = (*LETTERS, "maps", "place", "reduced_maps")


def reduced_op(op: Op) -> Op:
    """The `reduced_contraction` of a `rows_product`, with a value of its own for the rows."""
    results = list(op.results[1:])
    results.insert(attribute(op, "rows"), Value(product_op(op).result.type))
    return Op("reduced_contraction", op.operands[:-1], {name: attribute(op, name) for name in REDUCED}, tuple(results), op.regions, op.span)


def last_op(op: Op, rows: Value) -> Op:
    """The contraction that reads the rows."""
    operands = (rows, op.operands[-1]) if attribute(op, "is_left") else (op.operands[-1], rows)
    attributes = {name: attribute(op, f"last_{name}") for name in LETTERS}
    return Op("contraction", operands, attributes, op.results[:1], (), op.span)


def _infer(op: Op) -> tuple[Type, ...]:
    bare = Op("reduced_contraction", op.operands[:-1], {name: attribute(op, name) for name in REDUCED}, (), op.regions, op.span)
    kinds, number = list(entry("reduced_contraction").infer(bare)), attribute(op, "rows")
    require(0 <= number < len(kinds) and kinds[number] == product_op(op).result.type, op, "reads rows as long as the product's")
    last = last_op(op, Value(kinds.pop(number)))
    own, letters = last.attributes["left" if attribute(op, "is_left") else "right"], last.attributes["out"]
    require(bool(own) and own[-1] not in letters and set(own[:-1]) <= set(letters), op, "sums over the rows' last axis alone")
    return (*entry("contraction").infer(last), *kinds)


register(OpEntry("rows_product", _infer, NoDerivative.FORBIDDEN, Kernel("rows_product"), ordered=True))
