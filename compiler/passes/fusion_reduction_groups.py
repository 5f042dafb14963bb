"""Which kernels and reductions of a block become one fused reduction: groups in a schedule, as in fusion_groups.py.

A group has a space, of which its reductions take the same axes. A kernel belongs to its *points*, with the whole space, or to its *rows*,
with the axes that are kept. What a group makes is read in it at the same point, or the same row, or at all points of the row.
"""

from __future__ import annotations

from collections.abc import Sequence

from shapescript.compiler.ir.nodes import Op, Value, walk_ops
from shapescript.compiler.ir.sizes import Size, product
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.ops.fused import REDUCTIONS, varies
from shapescript.compiler.ops.shapes import kept, without
from shapescript.compiler.passes.fusion_access import Access, Accesses, Map, identity, is_elementwise, is_register
from shapescript.compiler.passes.fusion_groups import Group, Schedule
from shapescript.compiler.passes.reduction_walks import is_heavy
from shapescript.compiler.records.dataclass import dataclass

MOST_OPS = 96  # at a point
PLACES = ("argmax", "argmin")
SHORTEST = 8  # places of the innermost axis, below which vectors along it would be mostly empty


@dataclass(eq=False)
class ReductionGroup(Group):
    """`positions` are the reduced axes; None without a reduction."""

    positions: tuple[int, ...] | None = None

    @property
    def rows(self) -> tuple[Size, ...]:
        assert self.space is not None and self.positions is not None
        return without(self.space, self.positions)


def space_of(op: Op) -> tuple[Size, ...] | None:
    """Of a kernel, an elementwise operation, a reduction or a pick; None for what can't be in a group."""
    if op.name == "kernel":
        return tuple(op.attributes["space"]) or None
    if is_elementwise(op):
        return result_type(op.result).axes
    return result_type(op.operands[0]).axes if positions_of(op) else None


def positions_of(op: Op) -> tuple[int, ...] | None:
    """The axes of which an operation leaves one element for each place of the others, and can do so in a group; None of what doesn't."""
    if op.name in (*REDUCTIONS, *PLACES):
        return tuple(op.attributes["positions"]) or None
    if op.name == "pick":
        return (op.attributes["position"],)
    return None


def maps_of(op: Op) -> tuple[Map, ...]:
    """For each operand the places of its axes in the operation's space."""
    if op.name == "kernel":
        return tuple(map(tuple, op.attributes["maps"]))
    if op.name == "pick":
        rank = result_type(op.operands[0]).rank
        return tuple(range(rank)), kept(rank, (op.attributes["position"],))
    return tuple(() if is_register(operand) else identity(operand) for operand in op.operands)


class ReductionSchedule(Schedule):
    """The groups of one block, whose elementwise operations have been fused.

    Where a kernel and a group only read the same, they stay apart if what the kernel makes is reduced over other axes: it is for that
    group.
    """

    def __init__(self, accesses: Accesses, ops: Sequence[Op]) -> None:
        super().__init__(accesses)
        over: dict[Value, set[Map]] = {}
        for op in ops:
            positions = positions_of(op)
            if positions:
                over.setdefault(op.operands[0], set()).add(positions)
        self.reduced_over = {op: found for op in ops if len(found := set().union(*(over.get(value, set()) for value in op.results))) == 1}

    def add(self, op: Op) -> None:
        space = space_of(op)
        if space is None:
            super().add(op)
            return
        self.accesses.define(op)
        reads = {Access(operand, map_) for operand, map_ in zip(op.operands, maps_of(op), strict=True)}
        positions = positions_of(op)
        alone = ReductionGroup([op], space, self._makers(op.operands) | self._binders(op), reads, positions)
        is_ordered = positions is not None and op.name not in ("sum", "pick")
        is_ordered = is_ordered and not product(space[place] for place in positions or ()).constant()
        if is_ordered and self.last_ordered:
            alone.inputs.add(self.last_ordered)
        joined = self._joined(alone)
        if joined is None:
            self._append(alone)
        if is_ordered:
            self.last_ordered = joined or alone

    def _joined(self, alone: ReductionGroup) -> ReductionGroup | None:
        makers = self._latest_first(self.maker[access.source] for access in alone.reads if access.map and access.source in self.maker)
        whole = [access for access in alone.reads if len(access.map) == len(alone.space or ())]
        sharers = self._latest_first(group for access in whole for group in self.readers.get(access, ()) if group.space == alone.space)
        sharers = [group for group in sharers if len(self._positions(alone) | self._positions(group)) == 1]
        for group in dict.fromkeys([*makers, *sharers]):
            if isinstance(group, ReductionGroup) and self._join(alone, group):
                for other in makers:
                    is_before = other is not group and other in self.position and self.position[other] < self.position[group]
                    if is_before and isinstance(other, ReductionGroup):
                        self._draw_in(other, group)
                return group
        return None

    def _positions(self, group: Group) -> set[Map]:
        """Over which axes the group reduces, or what it makes is reduced."""
        positions = group.positions if isinstance(group, ReductionGroup) else None
        return {positions} if positions else self.reduced_over.get(group.ops[0], set())

    def _is_for_another(self, reader: ReductionGroup) -> bool:
        """Whether a kernel on rows is for a reduction over these, and costs much: there it is computed in vectors, here row by row."""
        op = reader.ops[0]
        return op in self.reduced_over and costs_much(op)

    def _draw_in(self, other: Group, group: Group) -> None:
        assert isinstance(other, ReductionGroup) and isinstance(group, ReductionGroup)
        if other.space != group.space:
            return
        super()._draw_in(other, group)
        if other not in self.position:
            group.positions = group.positions or other.positions
            if self.last_ordered is other:
                self.last_ordered = group

    def _take(self, new: Group, group: Group) -> None:
        assert isinstance(new, ReductionGroup) and isinstance(group, ReductionGroup)
        group.positions = group.positions or new.positions
        super()._take(new, group)

    def _reads_points(self, reader: Group, maker: Group) -> bool:
        """Whether both can be one group, and the reader needs of what the maker makes only what its own point or row has."""
        if not (isinstance(reader, ReductionGroup) and isinstance(maker, ReductionGroup)) or reader is maker:
            return False
        found = {group.positions for group in (reader, maker)} - {None}
        if len(found) != 1 or maker.space is None or reader.space is None:
            return False
        both = ReductionGroup([*maker.ops, *reader.ops], maker.space, positions=found.pop())
        fits = reader.space == both.space or (reader.positions is None and reader.space == both.rows and not self._is_for_another(reader))
        if not fits or not pays(both) or sum(1 for _ in walk_ops(both.ops)) > MOST_OPS:
            return False
        made = {value for op in maker.ops for value in op.results}
        return all(is_member(op, both) and _reads_own(op, both, made) for op in both.ops)


def pays(group: ReductionGroup) -> bool:
    """Whether vectors along the innermost axis have enough to do. Where it is reduced they have no more in walks of their own."""
    assert group.space is not None
    places = group.space[-1].constant()
    return places is None or places >= SHORTEST or group.positions == (len(group.space) - 1,)


def costs_much(op: Op) -> bool:
    """Whether a kernel or an elementwise operation does more at a point than a few instructions."""
    return positions_of(op) is None and any(map(is_heavy, op.regions[0].ops if op.name == "kernel" else [op]))


def is_member(op: Op, group: ReductionGroup) -> bool:
    """Whether each result is what its type says: one for each point where it has the space's axes, else one for each row."""
    assert group.space is not None and group.positions is not None
    if op.name in PLACES:  # in two walks, of which another takes the first as well, or what is computed twice costs little
        is_alone = not any(other.name in REDUCTIONS for other in group.ops)
        return group.positions == (len(group.space) - 1,) and not (is_alone and any(map(costs_much, group.ops)))
    if op.name == "pick":  # of which what it needs at the one place is computed again
        has_dropout = any(inner.name == "dropout" for inner in walk_ops(group.ops))
        return group.positions == (len(group.space) - 1,) and group.space[-1].constant() != 1 and not has_dropout
    if positions_of(op):
        return True
    if space_of(op) == group.space:
        if op.name != "kernel":
            return any(not is_register(operand) for operand in op.operands)
        attributes = {"maps": op.attributes["maps"], "positions": group.positions}
        return varies(Op("fused_reduction", op.operands, attributes, (), op.regions)).issuperset(op.regions[0].yields)
    return op.name != "dropout" and all(inner.name != "dropout" for region in op.regions for inner in region.ops)


def _reads_own(op: Op, group: ReductionGroup, made: set[Value]) -> bool:
    space, positions = group.space, group.positions
    assert space is not None and positions is not None
    rows = kept(len(space), positions)
    is_point = space_of(op) == space
    is_along = bool(rows) and rows[-1] != len(space) - 1
    for operand, map_ in zip(op.operands, maps_of(op), strict=True):
        if operand not in made:
            continue
        of_points = len(result_type(operand).axes) == len(space)
        if is_point:
            own = map_ == identity(operand) if of_points else is_along and map_ == rows
        else:
            own = not of_points and map_ == identity(operand)
        if not own:
            return False
    return True


def parameters_of(op: Op, group: ReductionGroup) -> Sequence[Map]:
    """For each operand the places of its axes in the group's space."""
    assert group.space is not None and group.positions is not None
    if space_of(op) == group.space:
        return maps_of(op)
    rows = kept(len(group.space), group.positions)
    return tuple(tuple(rows[place] for place in map_) for map_ in maps_of(op))
