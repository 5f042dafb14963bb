"""Tiles of a product of which an epilogue reads nothing: those that a mask takes out, such as the half of attention's scores that lies in
the future. Their sums are left at +0.0, since what stands in their place doesn't depend on them."""

from __future__ import annotations

from collections.abc import Mapping

from shapescript.compiler.ir.nodes import Block, Op, Value
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.ops.fused import varies
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


def filled_ends(product: Block, reduction: Op, place: int) -> tuple[Op, Ascending] | None:
    """The constant that a mask fills the ends of a product's rows with, and where, if nothing else differs along them in the reduction that
    reads the rows as its operand number `place`: then each of its results is the same all along the end of a row."""
    where, last = masked_where(product), len(reduction.attributes["space"]) - 1
    if where is None or where.greater != last or where.less == last or tuple(reduction.attributes["positions"]) != (last,):
        return None
    chosen = next(op for op in product.ops if op.results[0] is product.yields[0])
    filling = next((op for op in product.ops if op.name == "constant" and op.result in chosen.operands[1:]), None)
    (region,), points = reduction.regions, varies(reduction)
    if filling is None or not _is_float(filling.result):
        return None
    others = [value for value in region.parameters if value in points and value is not region.parameters[place]]
    if others or any(op.name == "dropout" or (op.name == "iota" and op.result in points) for op in region.ops):
        return None
    if any(op.name == "at_index" or (op.name == "reduce" and not _is_float(op.result)) for op in region.ops):
        return None
    return filling, where


def _is_float(value: Value) -> bool:
    return result_type(value).element.is_float


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
