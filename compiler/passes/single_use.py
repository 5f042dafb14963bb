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

    A transposed contraction writes its result transposed; `update` with a gradient scaled by a factor takes the factor itself.
    """
    rewriter = _Rewriter(_uses(block))
    found = rewriter.block(block)
    return (drop_dead(found), True) if rewriter.changed else (block, False)


def _uses(block: Block) -> Counter[Value]:
    found = Counter(block.yields)
    for op in walk(block):
        found.update(op.operands)
        for region in op.regions:
            found.update(region.yields)
    return found


class _Rewriter:
    def __init__(self, uses: Mapping[Value, int]) -> None:
        self.uses = uses
        self.definitions: dict[Value, Op] = {}
        self.changed = False

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
        return rebuilt(op, (model, optimiser, gradient, rate, scale), (), op.results)
