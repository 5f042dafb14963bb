"""Operations that joined the group of their operands, and are read by one later group alone, moved there where that saves memory traffic.

The derivative of tanh, 1 - y*y, depends on the forward pass alone; computed there it would be written, and read in the backward pass,
though y is kept anyway. A gate `y > 0` may be the better thing to keep: a byte instead of y's four, where y is needed for nothing else.
So the two ways are compared: passes over memory first, then bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from shapescript.compiler.ir.nodes import Op, Value
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.passes.fusion_access import Accesses, identity, point_reads
from shapescript.compiler.passes.fusion_groups import MOST_MEMBERS, Group
from shapescript.compiler.passes.fusion_uses import Uses

Traffic = tuple[int, int]  # passes, bytes an element


def sink(groups: Sequence[Group], uses: Uses) -> None:
    """Change the groups in place; their order stays valid, since operations move to later groups only."""
    position = {group: place for place, group in enumerate(groups)}
    for group in reversed(groups):
        if group.space is None:
            continue
        for target in sorted(_targets(group, uses), key=lambda other: position[other]):
            members = _only_for(group, target, uses, position)
            fits = members and len(members) + len(target.ops) <= MOST_MEMBERS
            if fits and _late(members, group, target, uses) < _early(members, group, uses):
                _move(members, group, target, uses)


def _targets(group: Group, uses: Uses) -> set[Group]:
    """Groups of the same space that alone read something that this one makes."""
    found: set[Group] = set()
    for op in group.ops:
        readers = uses.outside(op.result, group)
        if len(readers) == 1:
            found.update(reader for reader in readers if reader is not None and reader.space == group.space)
    return found


def _only_for(group: Group, target: Group, uses: Uses, position: Mapping[Group, int]) -> list[Op]:
    """The group's operations whose results serve the target alone, each at its own point, and that read nothing of what is overwritten
    before the target has its turn: it would have to be copied."""
    found: list[Op] = []
    for op in reversed(group.ops):
        readers = uses.readers.get(op.result, set())
        serves = readers and all(reader is not None and (reader[0] is target or reader[1] in found) for reader in readers)
        if serves and op is not group.contraction and _at_points(op.result, target, uses.accesses):
            found += [op] if all(position[target] <= position[writer] for writer in _writers(op, uses)) else []
    return found[::-1]


def _writers(op: Op, uses: Uses) -> Iterator[Group]:
    """What overwrites something that the operation reads."""
    for access in point_reads(op, uses.accesses):
        writer = uses.overwritten.get(uses.accesses.stored(access.source))
        if writer is not None:
            yield writer


def _at_points(value: Value, target: Group, accesses: Accesses) -> bool:
    if target.contraction and value in target.contraction.operands:
        return False
    ops = [op for op in target.ops if op is not target.contraction]
    return all(access.map == identity(value) for op in ops for access in point_reads(op, accesses) if access.source is value)


def _early(members: Sequence[Op], group: Group, uses: Uses) -> Traffic:
    """Computed where they are: each result that the target wants is written and read."""
    return _traffic([op.result for op in members if uses.is_stored(op.result, group)] * 2)


def _late(members: Sequence[Op], group: Group, target: Group, uses: Uses) -> Traffic:
    """Computed in the target, which reads what they read; of that, what the group makes has to be written if it isn't yet."""
    made = {op.result for op in group.ops}
    inside = {op.result for op in members}
    already = {access.source for op in target.ops if op is not target.contraction for access in point_reads(op, uses.accesses)} - inside
    reads = {access.source for op in members for access in point_reads(op, uses.accesses) if access.map} - inside
    written = [value for value in reads if value in made and not uses.is_stored(value, group)]
    return _traffic([*(reads - already), *written])


def _traffic(values: Iterable[Value]) -> Traffic:
    sizes = [result_type(value).element.bytes for value in values]
    return len(sizes), sum(sizes)


def _move(members: Sequence[Op], group: Group, target: Group, uses: Uses) -> None:
    for op in members:
        uses.remove(group, op)
        uses.add(target, op)
    moved = set(members)
    group.ops = [op for op in group.ops if op not in moved]
    first = 1 if target.contraction else 0
    target.ops = [*target.ops[:first], *members, *target.ops[first:]]
