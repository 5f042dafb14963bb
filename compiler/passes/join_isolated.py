"""What was kept apart from the rest of the program, so that it is computed again and not taken from there, put where it stands.

From here on nothing is shared any more: a value is computed as often as it is written.
"""

from __future__ import annotations

from collections.abc import Sequence

from shapescript.compiler.ir.nodes import Block, Function, Op, Value
from shapescript.compiler.ops.build import rebuilt
from shapescript.compiler.passes.renaming import renamed_values


def join_isolated(function: Function) -> Function:
    body = _block(function.body, {})
    return function.with_body(body)


def _block(block: Block, names: dict[Value, Value]) -> Block:
    ops: list[Op] = []
    _join(block.ops, names, ops)
    return Block(block.parameters, tuple(ops), renamed_values(block.yields, names), block.symbols)


def _join(source: Sequence[Op], names: dict[Value, Value], found: list[Op]) -> None:
    for op in source:
        if op.name == "isolated":
            (region,) = op.regions
            _join(region.ops, names, found)
            names.update(zip(op.results, renamed_values(region.yields, names), strict=True))
        else:
            found.append(rebuilt(op, renamed_values(op.operands, names), [_block(region, names) for region in op.regions], op.results))
