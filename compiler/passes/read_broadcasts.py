"""Fused operations read through a broadcast whose axes were reshaped since: what they read is the tensor that was spread, along the axes
that it has. So the gradient of a pooling meets its windows. (`fuse` reads through a broadcast itself, where no reshape is in between.)
"""

from __future__ import annotations

from shapescript.compiler.ir.nodes import Block, Function, Op, Value
from shapescript.compiler.ops.build import Builder, rebuilt, result_type
from shapescript.compiler.passes.dead import drop_dead
from shapescript.compiler.passes.reshape_rules import broadcast_to

FIRST_MAPPED = {"kernel": 0, "fused_reduction": 0, "fused_contraction": 2}  # the operand that the first map belongs to


def read_broadcasts(function: Function) -> Function:
    body = drop_dead(_block(function.body))
    return function.with_body(body)


def _block(block: Block) -> Block:
    ops: list[Op] = []
    definitions: dict[Value, Op] = {}
    for op in block.ops:
        done = rebuilt(op, op.operands, [_block(region) for region in op.regions], op.results)
        if op.name in FIRST_MAPPED:
            done = _reading(done, definitions, ops)
        ops.append(done)
        definitions.update((result, done) for result in done.results)
    return Block(block.parameters, tuple(ops), block.yields, block.symbols)


def _reading(op: Op, definitions: dict[Value, Op], ops: list[Op]) -> Op:
    """The operation with other operands; reshapes of these are put in front of it."""
    first, operands, maps = FIRST_MAPPED[op.name], list(op.operands), list(op.attributes["maps"])
    for place, positions in enumerate(maps):
        reshape = definitions.get(operands[first + place])
        broadcast = definitions.get(reshape.operands[0]) if reshape is not None and reshape.name == "reshape" else None
        if reshape is None or broadcast is None or broadcast.name != "broadcast":
            continue
        builder = Builder(op.span)
        spread = broadcast_to(broadcast, result_type(reshape.result).axes, builder)
        if spread is None or not builder.ops or builder.ops[-1].name != "broadcast":
            continue
        *before, last = builder.ops
        ops += before
        operands[first + place] = last.operands[0]
        maps[place] = tuple(positions[axis] for axis in last.attributes["positions"])
    return rebuilt(op, operands, op.regions, op.results, {**op.attributes, "maps": tuple(maps)})
