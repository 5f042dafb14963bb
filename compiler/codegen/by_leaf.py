"""Numbers that differ from parameter to parameter of a model's buffer (`by_leaf`), in a kernel along it: a loop over the runs that have the
same numbers, around the loop along elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from llvmlite import ir

from shapescript.compiler.codegen import elements, emit, extents
from shapescript.compiler.codegen.emit import I64, LANES, Builder, Value, at, load, splat, store
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.nodes import Block, Op

Chosen = Mapping[nodes.Value, Value]
Vector = Callable[[Chosen, Value, Value | None], None]


def by_leaf_ops(region: Block) -> list[Op]:
    return [op for op in region.ops if op.name == "by_leaf"]


def each_run(b: Builder, region: Block, inputs: Mapping[nodes.Value, Value], low: emit.Size, high: emit.Size, vector: Vector) -> None:
    """`vector(chosen, i, valid)` for elements i to i + 15 from low (a multiple of LANES) to high, or `valid` of them, with what each
    `by_leaf` of the region gives there."""
    ops = by_leaf_ops(region)
    ends = sorted({end for op in ops for end in op.attributes["ends"]})
    rows = [[end, *(_choice(op, end) for op in ops)] for end in ends]
    table = emit.constant_table(b.module, "runs", [number for row in rows for number in row])
    rooms = {op: _numbers(b, region, op, inputs) for op in ops}
    is_whole = all(end % LANES == 0 for end in ends)

    def run(place: Value, state: Sequence[Value]) -> list[Value]:
        row = at(b, table, b.mul(place, I64(1 + len(ops))), I64)
        chosen = {}
        for column, (op, (room, kind)) in enumerate(rooms.items(), 1):
            chosen[op.result] = load(b, at(b, room, b.mul(load(b, at(b, row, column, I64), I64), I64(LANES)), kind), kind, LANES)
        end = load(b, at(b, row, 0, I64), I64)
        first, last = emit.size(extents.most(b, low, state[0])), emit.size(extents.least(b, high, end))

        def turn(i: Value, _: Sequence[Value]) -> list[Value]:
            vector(chosen, i, None)
            return [b.add(i, I64(LANES))]

        (i,) = emit.loop(b, first, b.sub(last, I64(LANES - 1)), LANES, turn, [first])
        if not is_whole:
            with b.if_then(b.icmp_signed("<", i, last)):
                vector(chosen, i, b.sub(last, i))
        return [end]

    emit.loop(b, 0, len(rows), 1, run, [I64(0)])


def _choice(op: Op, end: int) -> int:
    """Of the part that an element before `end` is in."""
    ends, choice = op.attributes["ends"], op.attributes["choice"]
    return int(next(place for place, last in zip(choice, ends, strict=True) if end <= last))


def _numbers(b: Builder, region: Block, op: Op, inputs: Mapping[nodes.Value, Value]) -> tuple[Value, emit.ElementType]:
    """The operands on the stack, each in all lanes, and their type."""
    constants = {inner.result: elements.constant(inner) for inner in region.ops if inner.name == "constant"}
    numbers = [inputs[operand] if operand in inputs else constants[operand] for operand in op.operands]
    vectors = [number if isinstance(number.type, ir.VectorType) else splat(b, number, LANES) for number in numbers]
    kind = emit.scalar_of(vectors[0].type)
    room = emit.stack(b, kind, LANES * len(vectors))
    for place, number in enumerate(vectors):
        store(b, number, at(b, room, LANES * place, kind))
    return room, kind
