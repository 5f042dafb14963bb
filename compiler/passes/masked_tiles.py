"""Tiles of a product of which an epilogue reads nothing: those that a mask takes out, such as the half of attention's scores that lies in
the future. Their sums are left at +0.0, since what stands in their place doesn't depend on them."""

from __future__ import annotations

from collections.abc import Mapping

from shapescript.compiler.ir.nodes import Block, Op, Value
from shapescript.compiler.records.dataclass import dataclass


@dataclass(frozen=True)
class Ascending:
    """That one index, by its axis, is less than another one, or where it isn't `strict` at most as great."""

    less: int
    greater: int
    strict: bool


def masked_where(region: Block) -> Ascending | None:
    """Where the region's only result doesn't depend on its first parameter, as far as two indices say."""
    definitions = {op.result: op for op in region.ops if op.results}
    if len(region.yields) != 1 or not region.ops:
        return None
    chosen = definitions.get(region.yields[0])
    if chosen is None or chosen.name != "select":
        return None
    condition, then, otherwise = chosen.operands
    dependent = {region.parameters[0]}
    for op in region.ops:
        if not dependent.isdisjoint(op.operands):
            dependent.update(op.results)
    if condition in dependent or (then in dependent) == (otherwise in dependent):
        return None
    return _holds(condition, then not in dependent, definitions)


def zeros_where(region: Block, value: Value) -> Ascending | None:
    """Where a value of a region is a zero, as far as two indices say."""
    definitions = {op.result: op for op in region.ops if op.results}
    chosen = definitions.get(value)
    if chosen is None or chosen.name != "select":
        return None
    condition, *branches = chosen.operands
    for branch, operand in enumerate(branches):
        constant = definitions.get(operand)
        if constant is not None and constant.name == "constant" and constant.attributes["value"] == 0:
            return _holds(condition, branch == 0, definitions)
    return None


def _holds(condition: Value, wanted: bool, definitions: Mapping[Value, Op]) -> Ascending | None:
    """Where a comparison of two indices, or its negation, is what is wanted."""
    op = definitions.get(condition)
    if op is not None and op.name == "not":
        return _holds(op.operands[0], not wanted, definitions)
    if op is None or op.name not in ("lt", "le", "gt", "ge"):
        return None
    positions = [_position(definitions.get(operand)) for operand in op.operands]
    if op.name in ("gt", "ge"):
        positions.reverse()
    first, second = positions
    if first is None or second is None:
        return None
    is_strict = op.name in ("lt", "gt")
    return Ascending(first, second, is_strict) if wanted else Ascending(second, first, not is_strict)


def _position(op: Op | None) -> int | None:
    return op.attributes["position"] if op is not None and op.name == "iota" else None
