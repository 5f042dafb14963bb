"""Places along an axis (ops/places.py) said with less to move: what is whole, what has just been put, what is the same everywhere."""

from __future__ import annotations

from shapescript.compiler.ir.nodes import Op, Value
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.passes.fold import Definitions


def _whole(op: Op, definitions: Definitions, b: Builder) -> Value | None:
    """A slice of all places, a part in the place of all, and one tensor beside none."""
    if op.name == "put" and op.operands[1].type == op.result.type:
        return op.operands[1]
    unchanged = (op.name == "slice" and op.operands[0].type == op.result.type) or (op.name == "concat" and len(op.operands) == 1)
    return op.operands[0] if unchanged else None


def _slice_of_what_was_put(op: Op, definitions: Definitions, b: Builder) -> Value | None:
    before = definitions.get(op.operands[0]) if op.name == "slice" else None
    if before is None or before.name != "put" or before.attributes["position"] != op.attributes["position"]:
        return None
    _, part, start = before.operands
    return part if start is op.operands[1] and part.type == op.result.type else None


def _slice_of_broadcast(op: Op, definitions: Definitions, b: Builder) -> Value | None:
    """Of the operand, or of nothing where every place holds the same."""
    before = definitions.get(op.operands[0]) if op.name == "slice" else None
    if before is None or before.name != "broadcast":
        return None
    source, positions, position = before.operands[0], before.attributes["positions"], op.attributes["position"]
    if position in positions:
        source = b.op("slice", source, op.operands[1], position=positions.index(position), length=op.attributes["length"])
    return b.broadcast(source, result_type(op.result).axes, positions)


RULES = (_whole, _slice_of_what_was_put, _slice_of_broadcast)
