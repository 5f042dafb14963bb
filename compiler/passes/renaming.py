"""Operations with other names for what they use, or with new names for all that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shapescript.compiler.ir.nodes import Block, Op, Value
from shapescript.compiler.ops.build import rebuilt


def renamed(ops: Sequence[Op], names: Mapping[Value, Value]) -> list[Op]:
    """The operations, which use `names[value]` in the place of a value; regions too."""
    return [renamed_op(op, names) for op in ops] if names else list(ops)


def renamed_op(op: Op, names: Mapping[Value, Value]) -> Op:
    regions = tuple(
        Block(region.parameters, tuple(renamed(region.ops, names)), renamed_values(region.yields, names), region.symbols)
        for region in op.regions
    )
    return rebuilt(op, renamed_values(op.operands, names), regions, op.results)


def renamed_values(values: Sequence[Value], names: Mapping[Value, Value]) -> tuple[Value, ...]:
    return tuple(names.get(value, value) for value in values)


def copied(ops: Sequence[Op], names: dict[Value, Value]) -> list[Op]:
    """The operations with values of their own; `names` says for what was there before what stands for it, and is added to."""
    return [_copied_op(op, names) for op in ops]


def _copied_op(op: Op, names: dict[Value, Value]) -> Op:
    operands = renamed_values(op.operands, names)
    regions = tuple(_copied_block(region, names) for region in op.regions)
    return rebuilt(op, operands, regions, _new(op.results, names))


def _copied_block(block: Block, names: dict[Value, Value]) -> Block:
    parameters = _new(block.parameters, names)
    ops = tuple(copied(block.ops, names))
    return Block(parameters, ops, renamed_values(block.yields, names), block.symbols)


def _new(values: Sequence[Value], names: dict[Value, Value]) -> tuple[Value, ...]:
    made = tuple(Value(value.type, value.hint) for value in values)
    names.update(zip(values, made, strict=True))
    return made
