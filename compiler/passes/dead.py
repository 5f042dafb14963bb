"""Operations, results of branches and carried values that nothing uses, dropped. Ordered operations stay.

What is live is marked first, from ordered operations and from what the block yields backwards; one sweep then drops the rest. A carried
value is live where its result is, or where a live operation of the loop uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shapescript.compiler.ir.nodes import Block, Op, Value
from shapescript.compiler.ops.build import rebuilt
from shapescript.compiler.ops.storage import LOOPS
from shapescript.compiler.ops.table import Control, entry

MAY_NOT_END = ("while", "for_batches")  # for ever, or by an error (R1102)

Droppable = Callable[[Op], bool]


def may_drop(op: Op) -> bool:
    """Whether the operation may be dropped by itself; control flow may where it ends and what is inside may."""
    return op.name not in MAY_NOT_END if _is_control(op) else not entry(op.name).ordered


def drop_dead(block: Block, droppable: Droppable = may_drop) -> Block:
    """The block without droppable operations whose results are not used, regions included."""
    marks = _Marks(droppable)
    marks.enter(block, None)
    for value in block.yields:
        marks.need(value)
    marks.finish()
    return _swept(block, marks, range(len(block.yields)), range(len(block.parameters)))


def drop_dead_views(block: Block) -> Block:
    return drop_dead(block, lambda op: op.name in ("leaf", "submodel"))


def _is_control(op: Op) -> bool:
    return isinstance(entry(op.name).lowering, Control)


class _Marks:
    """`live` operations and values. A value's origin is the operation that makes it, or that has it as a region's parameter."""

    def __init__(self, droppable: Droppable) -> None:
        self.droppable = droppable
        self.live: set[Op | Value] = set()
        self.origins: dict[Value, tuple[Op, int]] = {}
        self.around: dict[Op, Op | None] = {}
        self.waiting: list[Value] = []

    def enter(self, block: Block, around: Op | None) -> None:
        for op in block.ops:
            self.around[op] = around
            self.origins.update((result, (op, place)) for place, result in enumerate(op.results))
            if _is_control(op):
                for region in op.regions:
                    own = own_parameters(op, region)
                    self.origins.update((value, (op, place - own)) for place, value in enumerate(region.parameters))
                    self.enter(region, op)
            if not self.droppable(op):
                self.keep(op)

    def need(self, value: Value) -> None:
        if value not in self.live:
            self.live.add(value)
            self.waiting.append(value)

    def finish(self) -> None:
        while self.waiting:
            value = self.waiting.pop()
            if value in self.origins:
                op, place = self.origins[value]
                self.keep(op)
                if place >= 0:
                    self.need_way(op, place)

    def keep(self, op: Op) -> None:
        """The operation stays, with those around it; what it needs whatever results are used."""
        found: Op | None = op
        while found is not None and found not in self.live:
            self.live.add(found)
            always = found.operands[: carried_from(found)]
            for value in always:
                self.need(value)
            if found.name == "while":
                self.need(found.regions[0].yields[0])
            if not prunes(found):
                for region in found.regions:
                    for value in region.yields:
                        self.need(value)
            found = self.around[found]

    def need_way(self, op: Op, place: int) -> None:
        """A result, or a carried parameter: what it comes from."""
        if op.name in LOOPS:
            self.need(op.operands[carried_from(op) + place])
            self.need(op.regions[-1].yields[place])
            self.live.update(region.parameters[own_parameters(op, region) + place] for region in op.regions)
            self.live.add(op.results[place])
        elif op.name == "if":
            for region in op.regions:
                self.need(region.yields[place])


def prunes(op: Op) -> bool:
    return op.name in LOOPS or op.name == "if"


def carried_from(op: Op) -> int:
    """The number of operands before the carried ones."""
    return LOOPS.get(op.name, len(op.operands))


def own_parameters(op: Op, region: Block) -> int:
    """The number of a region's parameters before the carried ones."""
    return len(region.parameters) - len(op.operands[carried_from(op) :])


def _swept(block: Block, marks: _Marks, yields: Sequence[int], parameters: Sequence[int]) -> Block:
    ops = tuple(_swept_op(op, marks) for op in block.ops if op in marks.live)
    kept = tuple(block.parameters[place] for place in parameters)
    return Block(kept, ops, tuple(block.yields[place] for place in yields), block.symbols)


def _swept_op(op: Op, marks: _Marks) -> Op:
    if not _is_control(op):
        return op
    if not prunes(op):
        regions = [_swept(region, marks, range(len(region.yields)), range(len(region.parameters))) for region in op.regions]
        return rebuilt(op, op.operands, regions, op.results)
    wanted = [place for place, result in enumerate(op.results) if result in marks.live]
    first = carried_from(op)
    regions = []
    for region in op.regions:
        own = own_parameters(op, region)
        is_condition = op.name == "while" and region is op.regions[0]
        parameters = [*range(own), *(own + place for place in wanted if op.name != "if")]
        regions.append(_swept(region, marks, [0] if is_condition else wanted, parameters))
    operands = [*op.operands[:first], *(op.operands[first + place] for place in wanted if op.name != "if")]
    return rebuilt(op, operands, regions, [op.results[place] for place in wanted])
