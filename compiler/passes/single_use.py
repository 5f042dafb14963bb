"""Rewriting that pays only where a value has one use: the operation that made it then has nothing to make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from shapescript.compiler.ir.nodes import Block, Op, Value, walk
from shapescript.compiler.ops.build import rebuilt
from shapescript.compiler.passes.dead import drop_dead
from shapescript.compiler.passes.fold import is_known


def rewrite_single_uses(block: Block) -> tuple[Block, bool]:
    """The block with its regions, and whether anything changed.

    A transposed contraction writes its result transposed; `update` with a gradient scaled by a factor takes the factor itself. A check that
    goes by the norm may look at the gradient before it was scaled.
    """
    rewriter = _Rewriter(_uses(block))
    found = rewriter.block(block)
    if not rewriter.changed:
        return block, False
    return drop_dead(_checking(found, rewriter.unscaled) if rewriter.unscaled else found), True


def _goes_by_norm(op: Op) -> bool:
    return op.name == "check_finite" and len(op.operands) == 2


def _uses(block: Block) -> Counter[Value]:
    found = Counter(block.yields)
    for op in walk(block):
        found.update(op.operands[1:] if _goes_by_norm(op) else op.operands)
        for region in op.regions:
            found.update(region.yields)
    return found


def _checking(block: Block, unscaled: Mapping[Value, Value]) -> Block:
    """The block with checks of gradients before they were scaled."""
    ops: list[Op] = []
    for op in block.ops:
        operands = tuple(unscaled.get(operand, operand) for operand in op.operands) if _goes_by_norm(op) else op.operands
        ops.append(rebuilt(op, operands, [_checking(region, unscaled) for region in op.regions], op.results))
    return Block(block.parameters, tuple(ops), block.yields, block.symbols)


class _Rewriter:
    def __init__(self, uses: Mapping[Value, int]) -> None:
        self.uses = uses
        self.definitions: dict[Value, Op] = {}
        self.changed = False
        self.unscaled: dict[Value, Value] = {}  # gradients, by what they were scaled to for an update alone

    def block(self, block: Block) -> Block:
        ops: list[Op] = []
        for op in block.ops:
            regions = tuple(self.block(region) for region in op.regions)
            done = rebuilt(op, op.operands, regions, op.results) if regions else op
            found = self.transposed_contraction(op, block) or self.scaled_update(op)
            self.changed = self.changed or found is not None
            ops.append(found or done)
            self.definitions.update((result, ops[-1]) for result in ops[-1].results)
        return Block(block.parameters, tuple(ops), block.yields, block.symbols)

    def transposed_contraction(self, op: Op, block: Block) -> Op | None:
        source = self.definitions.get(op.operands[0]) if op.name == "transpose" else None
        if source is None or source.name != "contraction" or self.uses[source.result] != 1 or source not in block.ops:
            return None
        out = tuple(source.attributes["out"][place] for place in op.attributes["permutation"])
        return Op("contraction", source.operands, {**source.attributes, "out": out}, op.results, (), source.span)

    def scaled_update(self, op: Op) -> Op | None:
        source = self.definitions.get(op.operands[2]) if op.name == "update" else None
        if source is None or source.name != "scale_model" or self.uses[source.result] != 1:
            return None
        model, optimiser, _, rate, factor = op.operands
        if not is_known(factor, 1.0, self.definitions):
            return None
        gradient, scale = source.operands
        self.unscaled[source.result] = gradient
        return rebuilt(op, (model, optimiser, gradient, rate, scale), (), op.results)
