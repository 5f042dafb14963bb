"""Elementwise work on all parameters of a model as work on its buffer: one pass over it, whatever the number of parameters.

Where each operand of a `pack` is the same expression of parameters with its own name (`leaf_expressions.py`), the expression is computed
of the whole buffers (`flat`), and is the model (`pack_flat`). An optimiser that a program writes over models as vectors comes to one kernel
so. What lies between the parameters is computed too, and cleared.

A gradient is packed of tensors that are made in all kinds of ways. Where it is looked at as a whole, say by its norm, it lies in memory as
a whole, and what follows reads it there.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from shapescript.compiler.ir.nodes import Block, Function, Op, Value, free_values
from shapescript.compiler.ir.types import sorted_leaves
from shapescript.compiler.ops.build import Builder, rebuilt
from shapescript.compiler.passes.dead import drop_dead
from shapescript.compiler.passes.leaf_expressions import LeafExpressions, Packed


def join_leaves(function: Function) -> Function:
    body = drop_dead(_joined(function.body, {}, {}))
    return function.with_body(body)


def _joined(block: Block, outer: Mapping[Value, Op], outer_packed: Mapping[Value, Packed]) -> Block:
    definitions = dict(outer)
    for op in block.ops:
        definitions.update((result, op) for result in op.results)
    leaves = LeafExpressions(definitions, outer_packed)
    packs = _alike(block, leaves)
    builder, replaced = Builder(), leaves.replaced
    for op in block.ops:
        operands = [replaced.get(operand, operand) for operand in op.operands]
        with builder.at(op.span):
            if op in packs:
                packed = builder.op("pack_flat", leaves.whole(builder, op), model=op.attributes["model"], hint=op.result.hint)
                replaced[op.result] = packed
                _use_parts(builder, op, packed, replaced)
            else:
                regions = [_joined(_renamed(region, replaced), definitions, leaves.packed) for region in op.regions]
                builder.ops.append(rebuilt(op, operands, regions, op.results))
    yields = [replaced.get(value, value) for value in block.yields]
    return Block(block.parameters, tuple(builder.ops), tuple(yields), block.symbols)


def _use_parts(builder: Builder, pack: Op, packed: Value, replaced: dict[Value, Value]) -> None:
    """What follows reads a packed tensor where it lies in the model."""
    for leaf, operand in zip(sorted_leaves(pack.attributes["model"]), pack.operands, strict=True):
        replaced[operand] = builder.op("leaf", packed, path=leaf.name, hint=operand.hint)


def _renamed(block: Block, replaced: Mapping[Value, Value]) -> Block:
    ops = []
    for op in block.ops:
        regions = [_renamed(region, replaced) for region in op.regions]
        ops.append(rebuilt(op, [replaced.get(operand, operand) for operand in op.operands], regions, op.results))
    return Block(block.parameters, tuple(ops), tuple(replaced.get(value, value) for value in block.yields), block.symbols)


def _alike(block: Block, leaves: LeafExpressions) -> set[Op]:
    """The packs to make so: what their expressions compute on the way is used in such expressions only."""
    users: dict[Value, set[Op | None]] = {}
    places = {op: place for place, op in enumerate(block.ops)}
    for op in block.ops:
        for value in (*op.operands, *(value for region in op.regions for value in free_values(region))):
            users.setdefault(value, set()).add(op)
    for value in block.yields:
        users.setdefault(value, set()).add(None)
    found: dict[Op, set[Value]] = {}
    for op in block.ops:
        expression = leaves.of_pack(op) if op.name == "pack" else None
        if expression is not None:
            found[op] = expression.inside
        elif op.name == "pack" and op.operands and any(user is None or user.name != "leaf" for user in users.get(op.result, ())):
            leaves.put(Packed(op.result, op.operands))

    def is_widened(value: Value) -> bool:
        """Whether it is a bf16 parameter as f32: the model's other uses of it have that too, and it costs nothing where it is read."""
        op = leaves.definitions[value]
        source = leaves.definitions.get(op.operands[0]) if op.name == "to_f32" else None
        return source is not None and source.name == "leaf"

    while True:
        inside = {value: leaves.definitions[value] for values in found.values() for value in values}
        within = {*inside.values(), *found}
        is_apart = partial(_is_apart, users, places, within)
        left = {pack: values for pack, values in found.items() if all(is_widened(value) or is_apart(pack, value) for value in values)}
        if len(left) == len(found):
            return set(found)
        found = left


def _is_apart(users: Mapping[Value, set[Op | None]], places: Mapping[Op, int], within: set[Op], pack: Op, value: Value) -> bool:
    """Whether nothing but these operations needs the value; or it is a tensor of the pack, and what needs it comes later."""
    others = users.get(value, set()) - within
    return not others or (value in pack.operands and all(user is None or places[user] > places[pack] for user in others))
