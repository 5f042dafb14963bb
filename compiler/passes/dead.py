"""Operations that nothing uses, dropped. Ordered ones stay, but for control flow in which nothing is ordered and which surely ends."""
from __future__ import annotations

from collections.abc import Callable

from shapescript.compiler.ir.nodes import Block, Op, Value, walk
from shapescript.compiler.ops.build import rebuilt
from shapescript.compiler.ops.table import entry

ENDING = ("if", "for_range")    # control flow that ends by itself; `for_batches` may fail (R1102), `while` may go on for ever


def is_droppable(op: Op) -> bool:
    """Whether the program is the same without the operation if nothing uses its results."""
    if op.name in ENDING:
        return all(is_droppable(inner) for region in op.regions for inner in region.ops)
    return not entry(op.name).ordered


def drop_dead(block: Block, droppable: Callable[[Op], bool] = is_droppable) -> Block:
    """The block without droppable operations whose results are not used, regions included."""
    return _swept(block, set(), droppable)


def drop_dead_views(block: Block) -> Block:
    return drop_dead(block, lambda op: op.name in ("leaf", "submodel"))


def _swept(block: Block, used: set[Value], droppable: Callable[[Op], bool]) -> Block:
    used.update(block.yields)
    kept: list[Op] = []
    for op in reversed(block.ops):
        if droppable(op) and not any(result in used for result in op.results):
            continue
        regions = tuple(_swept(region, used, droppable) for region in reversed(op.regions))[::-1]
        used.update(op.operands)
        kept.append(rebuilt(op, op.operands, regions, op.results) if op.regions else op)
    return Block(block.parameters, tuple(reversed(kept)), block.yields, block.symbols)


def has_order(op: Op) -> bool:
    """Whether the operation or one in its regions is ordered; control flow alone isn't."""
    if op.regions:
        return any(has_order(inner) for region in op.regions for inner in walk(region) if not inner.regions)
    return entry(op.name).ordered
