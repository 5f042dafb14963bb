"""Elementwise operations made `kernel`s and epilogues of contractions (ops/fused.py), so that no pass over memory is made that they save.

The rules, in the order in which they apply in each block:

 1. Broadcasts and transposes are places, not work: a fused operation reads their operand directly, with its axes at their places in the
    loop's space. Constants, `iota`, and short cheap expressions of these and of registers are computed at the point wherever they are
    wanted: they read nothing. Any of them is made for itself only where something that isn't fused reads it.
 2. An elementwise operation joins what makes one of its operands at the same point of the same space (`fusion_groups.py`): an elementwise
    group, or a contraction, whose epilogue it becomes if its other operands can be had before. Else it joins a group that reads what it
    reads. Operations that only happen to have the same axes stay apart: together they save nothing.
 3. What depends on the forward pass alone and is read by one later group is computed there where that saves traffic (`fusion_sinking.py`).
 4. A group's results are the values that are read outside of it.

Pure operations move freely in this, since they have no effects; ordered ones keep their order. `dropout` is fused only where the space is
its own axes in order, so its row-major index is the point's. Operations on registers, and elementwise ones that nothing could be fused
with, stay as they are.
"""

from __future__ import annotations

from shapescript.compiler.ir.nodes import Block, Function, Op, Value
from shapescript.compiler.ir.types import TensorType
from shapescript.compiler.ops.build import Builder, rebuilt, result_type
from shapescript.compiler.ops.table import Control, entry
from shapescript.compiler.passes.fusion_access import Accesses, Map, identity, is_register
from shapescript.compiler.passes.fusion_groups import Group, Schedule
from shapescript.compiler.passes.fusion_sinking import sink
from shapescript.compiler.passes.fusion_uses import Uses, find_uses


def fuse(function: Function) -> Function:
    body = _fused_block(function.body, Accesses())
    return function.with_body(body)


def _fused_block(block: Block, accesses: Accesses) -> Block:
    schedule = Schedule(accesses)
    for op in block.ops:
        control = isinstance(entry(op.name).lowering, Control)
        regions = tuple(_fused_block(region, accesses) for region in op.regions) if control else op.regions
        schedule.add(rebuilt(op, op.operands, regions, op.results))
    uses = find_uses(schedule.groups, block.yields, accesses)
    sink(schedule.groups, uses)
    ops = [op for group in schedule.groups for op in _emit(group, uses)]
    return Block(block.parameters, tuple(ops), block.yields, block.symbols)


def _emit(group: Group, uses: Uses) -> list[Op]:
    live = [op for op in group.ops if uses.is_live(op)]
    if group.space is None or not live:
        return live
    results = [op.result for op in live if uses.is_stored(op.result, group)]
    if len(live) == 1 and (group.contraction or _reads_as_it_is(live[0], uses.accesses)):
        return live
    region = _Region(uses.accesses)
    first = region.parameter(group.contraction.result, identity(group.contraction.result)) if group.contraction else None
    for op in live:
        if op is not group.contraction:
            region.compute(op)
    block = region.builder.block(region.parameters.values(), [region.elements[value] for value in results])
    if group.contraction is None or first is None:
        attributes = {"space": group.space, "maps": tuple(map_ for _, map_ in region.parameters)}
        return [Op("kernel", tuple(value for value, _ in region.parameters), attributes, tuple(results), (block,), live[-1].span)]
    extras = list(region.parameters)[1:]
    attributes = {**group.contraction.attributes, "maps": tuple(map_ for _, map_ in extras)}
    operands = (*group.contraction.operands, *(value for value, _ in extras))
    return [Op("fused_contraction", operands, attributes, tuple(results), (block,), group.contraction.span)]


def _reads_as_it_is(op: Op, accesses: Accesses) -> bool:
    """Whether every operand with axes is one that is read at the operation's own points."""
    tensors = [operand for operand in op.operands if not is_register(operand)]
    return all(accesses.through(operand, identity(operand)).source is operand and operand not in accesses.free_ops for operand in tensors)


class _Region:
    """The region of a fused operation: elements in, elements out."""

    def __init__(self, accesses: Accesses) -> None:
        self.accesses = accesses
        self.builder = Builder()
        self.parameters: dict[tuple[Value, Map], Value] = {}
        self.elements: dict[Value, Value] = {}  # what the group makes, at the point
        self.others: dict[tuple[Value, Map], Value] = {}  # constants, indices and what is computed of them

    def parameter(self, value: Value, map_: Map) -> Value:
        found = Value(TensorType(result_type(value).element), value.hint)
        self.parameters[value, map_] = found
        if map_ == identity(value) and map_:
            self.elements.setdefault(value, found)
        return found

    def compute(self, op: Op) -> None:
        """An operation of the group, on elements."""
        with self.builder.at(op.span):
            operands = [self.element(operand, identity(operand)) for operand in op.operands]
            (self.elements[op.result],) = self.builder.emit(op.name, *operands, hints=(op.result.hint,), **op.attributes)

    def element(self, value: Value, map_: Map) -> Value:
        access = self.accesses.through(value, map_)
        source, map_ = access.source, access.map
        if source in self.elements and map_ == identity(source):
            return self.elements[source]
        if source in self.accesses.free_ops or self.accesses.is_constant(source):
            return self.free_element(source, map_)
        return self.parameters.get((source, map_)) or self.parameter(source, map_)

    def free_element(self, value: Value, map_: Map) -> Value:
        if (value, map_) not in self.others:
            op = self.accesses.definitions[value]
            if op.name == "iota":
                found = self.builder.op("iota", axes=(), position=map_[op.attributes["position"]])
            elif op.name == "by_leaf":
                numbers = [self.element(operand, ()) for operand in op.operands]
                found = self.builder.op("by_leaf", *numbers, axes=(), **{name: op.attributes[name] for name in ("ends", "choice")})
            else:
                found = self.builder.op(op.name, *(self.element(operand, map_) for operand in op.operands), **op.attributes)
            self.others[value, map_] = found
        return self.others[value, map_]
