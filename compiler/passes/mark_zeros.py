"""Contractions that read a tensor with zeros where a mask put them, such as the gradient of attention's scores, are told where: half of the
steps of their sums are left out then.

`zeros` of a `contraction`: which operand it is, and two of its letters; it is zero where the index along the first is less than that along
the second, or where the next number is 0 at most as great. The last number: whether that must be looked at in a run, at the end of each row
that the mask cuts, since a row is the same from there on, as attention's shares are.
"""

from __future__ import annotations

from collections.abc import Mapping

from shapescript.compiler.ir.nodes import Block, Function, Op, Value
from shapescript.compiler.ops.build import rebuilt, result_type
from shapescript.compiler.ops.reduced_contraction import reduction_op
from shapescript.compiler.passes.masked_tiles import filled_ends, zeros_where

SHORTEST = 256  # elements of an axis


def mark_zeros(function: Function) -> Function:
    return function.with_body(_block(function.body))


def _block(block: Block) -> Block:
    made: dict[Value, Op] = {}
    ops: list[Op] = []
    for op in block.ops:
        done = rebuilt(op, op.operands, [_block(region) for region in op.regions], op.results)
        if op.name == "contraction" and (zeros := _zeros_of(op, made)) is not None:
            done = Op(op.name, op.operands, dict(op.attributes) | {"zeros": zeros}, op.results, (), op.span)
        ops.append(done)
        made.update((result, op) for result in op.results)
    return Block(block.parameters, tuple(ops), block.yields, block.symbols)


def _zeros_of(op: Op, made: Mapping[Value, Op]) -> tuple[int, int, int, int, int] | None:
    for place, (operand, letters) in enumerate(zip(op.operands, (op.attributes["left"], op.attributes["right"]), strict=True)):
        source = made.get(operand)
        if source is None or source.name != "reduced_contraction" or len(set(letters)) < len(source.attributes["out"]):
            continue
        region, rank = source.regions[1], len(letters)
        where = zeros_where(region, region.yields[source.results.index(operand)])
        is_looked_at = where is None
        if where is None:
            found = filled_ends(source.regions[0], reduction_op(source), source.attributes["place"])
            where = found[1] if found is not None and found[1].less == rank - 2 else None
        lengths = [axis.constant() for axis in result_type(operand).axes]
        if where is not None and all((lengths[position] or 0) >= SHORTEST for position in (where.less, where.greater)):
            return place, letters[where.less], letters[where.greater], int(where.strict), int(is_looked_at)
    return None
