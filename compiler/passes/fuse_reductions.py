"""Reductions made one loop nest with the elementwise work before, between and behind them: `fused_reduction` (ops/fused.py).

Softmax is one walk over its operand in place of five, a layer's normalisation one in place of four, with what is reduced or read again
staying in the first cache; a sum of what only it reads is taken as that is computed. Reductions of one operand over the same axes are one.
The rules by which groups form are in fusion_reduction_groups.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shapescript.compiler.ir.nodes import Block, Function, Op, Value
from shapescript.compiler.ir.types import Element, TensorType
from shapescript.compiler.ops.build import Builder, rebuilt, result_type
from shapescript.compiler.ops.elementwise import FLOATS
from shapescript.compiler.ops.fused import REDUCTIONS
from shapescript.compiler.ops.shapes import kept
from shapescript.compiler.ops.table import Control, entry
from shapescript.compiler.passes.epilogue_sinking import readers_of, sink_epilogues
from shapescript.compiler.passes.fusion_access import Accesses, Map
from shapescript.compiler.passes.fusion_groups import Group
from shapescript.compiler.passes.fusion_reduction_groups import PLACES, ReductionGroup, ReductionSchedule, parameters_of, space_of

BEHIND_ALL = (1 << 63) - 1  # of indices


def fuse_reductions(function: Function) -> Function:
    body = _fused_block(function.body, Accesses())
    return function.with_body(body)


def _fused_block(block: Block, accesses: Accesses) -> Block:
    inner: list[Op] = []
    for op in block.ops:
        accesses.define(op)
        control = isinstance(entry(op.name).lowering, Control)
        regions = tuple(_fused_block(region, accesses) for region in op.regions) if control else op.regions
        inner.append(rebuilt(op, op.operands, regions, op.results))
    groups = _scheduled(inner, accesses)
    sunk = sink_epilogues(inner, readers_of(groups, block.yields))
    groups = groups if sunk == inner else _scheduled(sunk, accesses)
    readers = readers_of(groups, block.yields)
    ops: list[Op] = []
    for group in groups:
        if isinstance(group, ReductionGroup) and group.positions and len(group.ops) > 1:  # one of them a reduction
            made = (value for op in group.ops for value in op.results)
            ops.append(_fused(group, [value for value in made if readers.get(value, set()) - {group}]))
        else:
            ops += group.ops
    return Block(block.parameters, tuple(ops), block.yields, block.symbols)


def _scheduled(ops: Sequence[Op], accesses: Accesses) -> list[Group]:
    schedule = ReductionSchedule(accesses, ops)
    for op in ops:
        schedule.add(op)
    return schedule.groups


def _fused(group: ReductionGroup, results: Sequence[Value]) -> Op:
    region = _Region(group)
    for op in group.ops:
        region.add(op)
    block = region.builder.block(region.parameters.values(), [region.elements[value] for value in results])
    attributes = {"space": group.space, "maps": tuple(map_ for _, map_ in region.parameters), "positions": group.positions}
    operands = tuple(value for value, _ in region.parameters)
    return Op("fused_reduction", operands, attributes, tuple(results), (block,), group.ops[-1].span)


class _Region:
    """The region of a fused reduction: elements in, elements out."""

    def __init__(self, group: ReductionGroup) -> None:
        self.group, self.builder = group, Builder()
        self.parameters: dict[tuple[Value, Map], Value] = {}
        self.elements: dict[Value, Value] = {}  # what the group makes
        self.constants: dict[object, Value] = {}
        self.reduced: dict[tuple[Value, str], Value] = {}

    def add(self, op: Op) -> None:
        with self.builder.at(op.span):
            operands = [self._element(*read) for read in zip(op.operands, parameters_of(op, self.group), strict=True)]
            if op.name in REDUCTIONS:
                self.elements[op.result] = self._reduced(operands[0], op.name, op.result.hint)
            elif op.name == "pick":
                self.elements[op.result] = self.builder.op("at_index", *operands, position=op.attributes["position"], hint=op.result.hint)
            elif op.name in PLACES:
                self.elements[op.result] = self._place(op, *operands)
            elif op.name == "kernel":
                self._inline(op, operands)
            else:
                self.elements[op.result] = self.builder.op(op.name, *operands, hint=op.result.hint, **op.attributes)

    def _reduced(self, element: Value, kind: str, hint: str = "") -> Value:
        if (element, kind) not in self.reduced:
            self.reduced[element, kind] = self.builder.op("reduce", element, kind=kind, positions=self.group.positions, hint=hint)
        return self.reduced[element, kind]

    def _place(self, op: Op, element: Value) -> Value:
        """The least index of those where the extreme is, or a NaN: where there is one, the extreme is NaN."""
        b, (position,) = self.builder, op.attributes["positions"]
        is_here = b.op("eq", element, self._reduced(element, op.name.removeprefix("arg")))
        if result_type(element).element in FLOATS:
            is_here = b.op("or", is_here, b.op("ne", element, element))
        places = b.op("select", is_here, self._index(position), self._constant(BEHIND_ALL, Element.I64))
        return self._reduced(places, "min", op.result.hint)

    def _constant(self, value: float, element: Element) -> Value:
        return self._made("constant", (), {"value": value, "element": element})

    def _index(self, position: int) -> Value:
        return self._made("iota", (), {"axes": (), "position": position})

    def _element(self, operand: Value, map_: Map) -> Value:
        if operand in self.elements:
            return self.elements[operand]
        if (operand, map_) not in self.parameters:
            self.parameters[operand, map_] = Value(TensorType(result_type(operand).element), operand.hint)
        return self.parameters[operand, map_]

    def _inline(self, op: Op, operands: Sequence[Value]) -> None:
        (region,), group = op.regions, self.group
        assert group.space is not None and group.positions is not None
        rows = None if space_of(op) == group.space else kept(len(group.space), group.positions)
        values = dict(zip(region.parameters, operands, strict=True))
        for inner in region.ops:
            attributes = dict(inner.attributes)
            if inner.name == "iota" and rows is not None:
                attributes["position"] = rows[attributes["position"]]
            with self.builder.at(inner.span):
                given = [values[value] for value in inner.operands]
                values[inner.result] = self._made(inner.name, given, attributes, inner.result.hint)
        self.elements.update((result, values[value]) for result, value in zip(op.results, region.yields, strict=True))

    def _made(self, name: str, operands: Sequence[Value], attributes: Mapping[str, object], hint: str = "") -> Value:
        """Constants and indices once for all that use them."""
        key = (name, tuple((name, repr(value)) for name, value in attributes.items())) if not operands else None
        if key is not None and key in self.constants:
            return self.constants[key]
        found = self.builder.op(name, *operands, hint=hint, **attributes)
        if key is not None:
            self.constants[key] = found
        return found
