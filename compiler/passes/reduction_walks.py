"""How often a fused reduction (ops/fused.py) walks along its reduced axes, and what each walk loads, computes, reduces and stores.

A reduction whose operand needs the result of another is in a later walk: softmax takes three, for the greatest element, the sum of the
exponentials, and the quotients. What two walks need is computed in both where that is cheap. Where it isn't, the first one stores it: as
the result that it is, or in the storage of a result of the same type that nothing else is written to until the value has been read last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from shapescript.compiler.ir.nodes import Block, Op, Value
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.ops.fused import varies
from shapescript.compiler.passes.fusion_access import CHEAP
from shapescript.compiler.records.dataclass import dataclass


@dataclass
class Walk:
    """`points` are computed at each point, of region parameters and what is read back; then `reduced` and `stored` are taken.

    `before` are the operations on what is the same all along that can be done once this walk begins. `read_back` and `stored` name results
    by their numbers, whose storages hold the values.
    """

    before: list[Op] = field(default_factory=list)
    points: list[Op] = field(default_factory=list)
    loaded: list[Value] = field(default_factory=list)
    read_back: dict[Value, int] = field(default_factory=dict)
    reduced: list[Op] = field(default_factory=list)
    stored: list[tuple[Value, int]] = field(default_factory=list)

    def region(self, parameters: Sequence[Value]) -> Block:
        """What is computed at each point; it yields what is reduced, then what is stored."""
        reduced, stored = (op.operands[0] for op in self.reduced), (value for value, _ in self.stored)
        return Block(tuple(parameters), tuple(self.points), (*reduced, *stored))


@dataclass(frozen=True)
class Walks:
    """In turn; `behind` are the operations that are done when all walks are."""

    walks: Sequence[Walk]
    behind: Sequence[Op]
    varying: frozenset[Value]


def walks_of(op: Op) -> Walks:
    (region,), varying = op.regions, varies(op)
    depth = _depths(region)
    last = max((depth[value] for value in region.yields if value in varying), default=0)
    count = max([last + 1, *(depth[inner.result] for inner in region.ops if inner.name == "reduce")])
    found = [Walk() for _ in range(count)]
    behind: list[Op] = []
    for inner in region.ops:
        if inner.name == "reduce":
            found[depth[inner.operands[0]]].reduced.append(inner)
        elif inner.result not in varying:
            (found[depth[inner.result]].before if depth[inner.result] < count else behind).append(inner)
    for place, value in enumerate(region.yields):
        if value in varying:
            found[depth[value]].stored.append((value, place))
    _Planner(op, varying, depth, found).plan()
    return Walks(found, behind, frozenset(varying))


def _depths(region: Block) -> Mapping[Value, int]:
    """The number of walks that must be over before a value is known."""
    depth = dict.fromkeys(region.parameters, 0)
    for op in region.ops:
        depth[op.result] = max((depth.get(operand, 0) for operand in op.operands), default=0) + (op.name == "reduce")
    return depth


def _last_needs(op: Op, varying: set[Value], depth: Mapping[Value, int]) -> Mapping[Value, int]:
    """The last walk that may need a value which varies: that of a result or a reduction that is computed of it."""
    (region,) = op.regions
    last: dict[Value, int] = {}

    def need(value: Value, walk: int) -> None:
        last[value] = max(last.get(value, 0), walk)

    for value in region.yields:
        need(value, depth[value])
    for inner in reversed(region.ops):
        for operand in inner.operands:
            need(operand, depth[operand] if inner.name == "reduce" else last.get(inner.result, 0))
    return {value: walk for value, walk in last.items() if value in varying}


def is_heavy(op: Op) -> bool:
    return op.name not in CHEAP and op.name not in ("constant", "iota", "dropout", "relu")


class _Planner:
    def __init__(self, op: Op, varying: set[Value], depth: Mapping[Value, int], walks: Sequence[Walk]) -> None:
        self.op, self.varying, self.depth, self.walks = op, varying, depth, walks
        (self.region,) = op.regions
        self.definitions = {inner.result: inner for inner in self.region.ops}
        self.last = _last_needs(op, varying, depth)
        self.computed: dict[Value, int] = {}  # heavy values: the walk that computes each first
        self.kept: dict[Value, int] = {}  # where one is stored, by a result's number
        self.busy: set[int] = set()

    def plan(self) -> None:
        for number, walk in enumerate(self.walks):
            wanted = [*(inner.operands[0] for inner in walk.reduced), *(value for value, _ in walk.stored)]
            needed: set[Value] = set()
            for value in wanted:
                self._need(value, number, needed)
            walk.points = [inner for inner in self.region.ops if inner.result in needed]
            walk.loaded = [value for value in self.region.parameters if value in needed]
            for inner in walk.points:
                if is_heavy(inner):
                    self.computed.setdefault(inner.result, number)
            for value, place in walk.stored:
                self.kept.setdefault(value, place)

    def _need(self, value: Value, number: int, needed: set[Value]) -> None:
        if value in needed or value in self.walks[number].read_back or value not in self.varying:
            return
        if value in self.computed:
            place = self.kept.get(value)
            if place is None:
                place = self._room_for(value)
            if place is not None:
                self.walks[number].read_back[value] = place
                return
        needed.add(value)
        if value in self.definitions:
            for operand in self.definitions[value].operands:
                self._need(operand, number, needed)

    def _room_for(self, value: Value) -> int | None:
        """A result of the value's type that nothing is written to while the value is needed; the walk that computes it stores it there."""
        for place, result in enumerate(self.region.yields):
            fits = result in self.varying and result_type(result).element is result_type(value).element
            if fits and place not in self.busy and self.depth[result] >= self.last[value]:
                self.busy.add(place)
                self.kept[value] = place
                self.walks[self.computed[value]].stored.append((value, place))
                return place
        return None


def _taken_behind(op: Op, first: int) -> set[Value]:
    """The parameters of which one element is read once more behind the beginning of a walk."""
    (region,), found = op.regions, set[Value]()
    depth, varying = _depths(region), varies(op)
    for inner in reversed(region.ops):
        if inner.name == "at_index" and depth[inner.result] > first:
            found.add(inner.operands[0])
        elif inner.result in found and inner.result in varying:
            found.update(inner.operands)
    return found


def overwritable_operands(op: Op) -> tuple[int, ...]:
    """Operands that a result may lie upon: read at the point itself, and never again once something has been written."""
    walks = walks_of(op).walks
    first = next((number for number, walk in enumerate(walks) if walk.stored), len(walks))
    again = {value for walk in walks[first + 1 :] for value in walk.loaded} | _taken_behind(op, first)
    here = tuple(range(len(op.attributes["space"])))
    places = enumerate(zip(op.regions[0].parameters, op.attributes["maps"], strict=True))
    return tuple(place for place, (parameter, map_) in places if tuple(map_) == here and parameter not in again)
