"""Composite operations replaced by what their entries expand them to, until none is left; `stop_gradient` and `checkpoint` have done their
work and go."""

from __future__ import annotations

from collections.abc import Sequence

from shapescript.compiler.ir.nodes import Block, Function, Op, Value
from shapescript.compiler.ops.build import Builder, rebuilt
from shapescript.compiler.ops.table import Composite, entry


def expand(function: Function) -> Function:
    body = _block(function.body, {})
    return function.with_body(body)


def _block(block: Block, replaced: dict[Value, Value]) -> Block:
    ops: list[Op] = []
    _expand(block.ops, replaced, ops)
    return Block(block.parameters, tuple(ops), tuple(replaced.get(value, value) for value in block.yields), block.symbols)


def _expand(source: Sequence[Op], replaced: dict[Value, Value], found: list[Op]) -> None:
    for op in source:
        if op.name == "checkpoint":
            (region,) = op.regions
            _expand(region.ops, replaced, found)
            replaced.update((old, replaced.get(new, new)) for old, new in zip(op.results, region.yields, strict=True))
            continue
        regions = tuple(_block(region, replaced) for region in op.regions)
        renamed = rebuilt(op, [replaced.get(value, value) for value in op.operands], regions, op.results)
        lowering = entry(op.name).lowering
        if op.name == "stop_gradient":
            replaced[op.result] = renamed.operands[0]
        elif isinstance(lowering, Composite):
            builder = Builder(op.span)
            results = lowering.expand(builder, renamed)
            _expand(builder.ops, replaced, found)
            replaced.update((old, replaced.get(new, new)) for old, new in zip(op.results, results, strict=True))
        else:
            found.append(renamed)
