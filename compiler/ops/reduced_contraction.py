"""Contractions whose rows are reduced as soon as they are made, without the product as a tensor between: the scores of attention and the
softmax of their rows, or the gradients of both.

reduced_contraction(left, right, others...) {left, right, out, maps, place, reduced_maps}: a `fused_contraction` of the first
operands, as many as `maps` says, with one result, by the first region; and the `fused_reduction` of that over its last axis, by the second.
There it is operand number `place`, and the other operands follow the first ones; `reduced_maps` are the maps of all.
"""

from __future__ import annotations

from shapescript.compiler.ir.nodes import Op, Value
from shapescript.compiler.ir.types import Type
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.ops.shapes import LETTERS
from shapescript.compiler.ops.table import Kernel, NoDerivative, OpEntry, attribute, entry, register, require


def product_op(op: Op) -> Op:
    """The contraction of a `reduced_contraction`."""
    attributes = {name: attribute(op, name) for name in (*LETTERS, "maps")}
    operands = op.operands[: 2 + len(attributes["maps"])]
    bare = Op("fused_contraction", operands, attributes, (), op.regions[:1], op.span)
    return Op(bare.name, operands, attributes, tuple(map(Value, entry(bare.name).infer(bare))), bare.regions, op.span)


def reduction_op(op: Op) -> Op:
    """The reduction of a `reduced_contraction`, whose results are this one's."""
    product, others = product_op(op), list(op.operands[2 + len(attribute(op, "maps")) :])
    others.insert(attribute(op, "place"), product.result)
    space = result_type(product.result).axes
    attributes = {"space": space, "maps": attribute(op, "reduced_maps"), "positions": (len(space) - 1,)}
    return Op("fused_reduction", tuple(others), attributes, op.results, op.regions[1:], op.span)


def _infer(op: Op) -> tuple[Type, ...]:
    require(len(op.regions) == 2, op, "has two regions")
    product = product_op(op)
    require(len(product.results) == 1 and bool(result_type(product.result).axes), op, "reduces one result, along its last axis")
    return entry("fused_reduction").infer(reduction_op(op))


register(OpEntry("reduced_contraction", _infer, NoDerivative.FORBIDDEN, Kernel("reduced_contraction"), ordered=True))
