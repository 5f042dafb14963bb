"""Who reads what, once operations are in groups: a broadcast that every reader sees through has no reader left, and is dead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

from shapescript.compiler.ir.nodes import Op, Value, values_read
from shapescript.compiler.ops.storage import overwritten
from shapescript.compiler.ops.table import entry
from shapescript.compiler.passes.fusion_access import Accesses, is_elementwise, is_register, point_reads
from shapescript.compiler.passes.fusion_groups import Group
from shapescript.compiler.records.dataclass import dataclass

Reader = tuple[Group, Op] | None  # None: the block yields it


@dataclass
class Uses:
    """For each value of a block its live readers; and for the values that something in the block overwrites, what does so first."""

    accesses: Accesses
    readers: dict[Value, set[Reader]] = field(default_factory=dict)
    overwritten: dict[Value, Group] = field(default_factory=dict)

    def is_live(self, op: Op) -> bool:
        return entry(op.name).ordered or any(self.readers.get(result) for result in op.results)

    def outside(self, value: Value, group: Group) -> set[Group | None]:
        """The other groups that read a value of the group; None among them where the block yields it."""
        return {reader[0] if reader else None for reader in self.readers.get(value, ())} - {group}

    def is_stored(self, value: Value, group: Group) -> bool:
        return bool(self.outside(value, group))

    def add(self, group: Group, op: Op) -> None:
        for value in self.sources(op):
            self.readers.setdefault(value, set()).add((group, op))

    def remove(self, group: Group, op: Op) -> None:
        for value in self.sources(op):
            self.readers[value].discard((group, op))

    def sources(self, op: Op) -> Iterator[Value]:
        """What the operation reads, through broadcasts and transposes where it is fused."""
        if is_elementwise(op):
            yield from (access.source for access in point_reads(op, self.accesses))
            yield from filter(is_register, op.operands)  # constants are no reads, but an operation left as it is has them as operands
        else:
            yield from values_read(op)


def find_uses(groups: Sequence[Group], yields: Iterable[Value], accesses: Accesses) -> Uses:
    uses = Uses(accesses)
    for group in groups:
        for op in group.ops:
            for place in overwritten(op):
                uses.overwritten.setdefault(accesses.stored(op.operands[place]), group)
    for value in yields:
        uses.readers.setdefault(value, set()).add(None)
    for group in reversed(groups):
        for op in reversed(group.ops):
            if uses.is_live(op):
                uses.add(group, op)
    return uses
