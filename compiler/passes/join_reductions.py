"""A contraction joined with the reductions along its rows (ops/reduced_contraction.py), as in attention: softmax behind the scores, and its
gradient behind that of the shares.

Such a product is long where sequences are, and its elements cost little, so it is memory that its time goes to: joined, a block of rows is
reduced while it is in cache. But for each block all of the operand of the columns is read, which each thread packs for itself: where that
is large and an element of the result takes many steps, this costs more than to read the rows again, as in a classifier of many classes.
"""

from __future__ import annotations

from collections.abc import Mapping

from shapescript.compiler.ir.nodes import Block, Function, Op, Value, use_counts
from shapescript.compiler.ir.sizes import product
from shapescript.compiler.ir.types import TensorType
from shapescript.compiler.ops.build import rebuilt, result_type
from shapescript.compiler.ops.shapes import LETTERS
from shapescript.compiler.passes.reduction_walks import overwritable_operands

SHORTEST_ROW = 64  # elements: shorter rows are near anyway
MOST_STEPS = 256  # of an element, for rows of any length: as of a large attention head
MOST_READ = 1 << 18  # elements of the operand of the columns, where steps are more: it stays in a near cache


def join_reductions(function: Function) -> Function:
    uses = use_counts(function.body)
    body = _block(function.body, uses)
    return function.with_body(body)


def _block(block: Block, uses: Mapping[Value, int]) -> Block:
    products: dict[Value, Op] = {}
    ops: list[Op] = []
    for op in block.ops:
        if op.name == "fused_reduction":
            place = next((place for place, value in enumerate(op.operands) if value in products and _is_along_rows(op, place)), None)
            if place is not None:
                made = products[op.operands[place]]
                ops.remove(made)
                ops.append(_joined(made, op, place))
                continue
        done = rebuilt(op, op.operands, [_block(region, uses) for region in op.regions], op.results)
        ops.append(done)
        if op.name in ("contraction", "fused_contraction") and len(op.results) == 1 and uses[op.result] == 1 and _makes_rows(op):
            products[op.result] = done
    return Block(block.parameters, tuple(ops), block.yields, block.symbols)


def _makes_rows(op: Op) -> bool:
    """Whether the last axis, and it alone, is of one operand only, so that the kernel's rows are the result's."""
    left, right, out = (op.attributes[name] for name in LETTERS)
    kind = result_type(op.result)
    if len(out) < 2 or kind.element is not result_type(op.operands[0]).element:
        return False
    length, own = kind.axes[-1].constant(), left if out[-1] in left else right
    other = right if own is left else left
    if (length is not None and length < SHORTEST_ROW) or not _are_few(_steps(op), length):
        return False
    return [letter for letter in out if letter in own and letter not in other] == [out[-1]]


def _steps(op: Op) -> int | None:
    """Of an element, where known."""
    out, sizes = op.attributes["out"], dict(zip(op.attributes["left"], result_type(op.operands[0]).axes, strict=True))
    return product(size for letter, size in sizes.items() if letter not in out and letter in op.attributes["right"]).constant()


def _are_few(steps: int | None, length: int | None) -> bool:
    return steps is None or steps <= MOST_STEPS or (length is not None and steps * length <= MOST_READ)


def _is_along_rows(op: Op, place: int) -> bool:
    """Whether rows of this operand are reduced, and a result takes its place."""
    kind, rank = op.operands[place].type, len(op.attributes["space"])
    is_last = tuple(op.attributes["positions"]) == (rank - 1,)
    return is_last and place in overwritable_operands(op) and any(result.type == kind for result in op.results)


def _joined(made: Op, reduction: Op, place: int) -> Op:
    element = Value(TensorType(result_type(made.result).element))
    region = made.regions[0] if made.regions else Block((element,), (), (element,))
    attributes = {name: made.attributes[name] for name in LETTERS} | {"maps": made.attributes.get("maps", ())}
    attributes |= {"place": place, "reduced_maps": reduction.attributes["maps"]}
    operands = (*made.operands, *reduction.operands[:place], *reduction.operands[place + 1 :])
    return Op("reduced_contraction", operands, attributes, reduction.results, (region, *reduction.regions), reduction.span)
