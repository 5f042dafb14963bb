"""Which operations of a block become one: groups in a schedule that stays a valid order of the block at every step.

Operations are taken in program order. An elementwise operation joins the group, or the contraction, that makes one of its operands at the
same point of the same space; if there is none, the last group that reads what it reads. It moves up to the group, and what it needs from
behind the group moves up before it; where some of that depends on the group itself, it can't join. When it has joined one group, groups
that make its other operands are drawn in, if what stands between doesn't mind. A group has one contraction at the most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

from shapescript.compiler.ir.nodes import Op, Value, values_read
from shapescript.compiler.ir.sizes import Size, Symbol
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.ops.storage import overwritten
from shapescript.compiler.ops.table import entry
from shapescript.compiler.passes.fusion_access import Access, Accesses, identity, is_elementwise, is_register, point_reads
from shapescript.compiler.passes.symbols import mentions, rows_bound
from shapescript.compiler.records.dataclass import dataclass

MOST_MEMBERS = 64
CHECKED = ("slice", "put", "add_slice")
MOST_SHARERS = 2  # groups tried that only read the same


@dataclass(eq=False)
class Group:
    """Operations that are executed as one, or one that isn't fused (`space` is None). `inputs` are the groups that it needs before it."""

    ops: list[Op]
    space: tuple[Size, ...] | None = None
    inputs: set[Group] = field(default_factory=set)
    reads: set[Access] = field(default_factory=set)

    @property
    def contraction(self) -> Op | None:
        return self.ops[0] if self.ops and self.ops[0].name == "contraction" else None


class Schedule:
    """The groups of one block in an order that can be executed."""

    def __init__(self, accesses: Accesses) -> None:
        self.accesses = accesses
        self.groups: list[Group] = []
        self.position: dict[Group, int] = {}
        self.maker: dict[Value, Group] = {}
        self.binder: dict[Symbol, Group] = {}
        self.readers: dict[Access, list[Group]] = {}
        self.users: dict[Value, set[Group]] = {}  # who reads a value, in whatever way
        self.last_ordered: Group | None = None
        self.last_check: Group | None = None

    def add(self, op: Op) -> None:
        """The next operation of the block."""
        self.accesses.define(op)
        if is_elementwise(op):
            self._add_elementwise(op)
            return
        space = result_type(op.result).axes or None if op.name == "contraction" else None
        group = Group([op], space, self._makers(values_read(op)) | self._binders(op) | self._to_come_before(op))
        if entry(op.name).ordered:
            group.inputs |= {self.last_ordered} if self.last_ordered else set()
            self.last_ordered = group
        self._append(group)
        if op.name == "leaf" and is_register(op.result):
            self._read_early(group)
        self.binder.update((symbol, group) for symbol in rows_bound(op))
        self.last_check = group if op.name == "check_slice" else self.last_check

    def _read_early(self, group: Group) -> None:
        """A number of a model is read as soon as the model is there: something may overwrite the model, which would be copied for this."""
        start = max((self.position[maker] + 1 for maker in group.inputs), default=0)
        self._reorder(start, [group, *self.groups[start:-1]])

    def _to_come_before(self, op: Op) -> set[Group]:
        """What must not come behind the operation for reasons beside its operands: those that still read what it overwrites, else that is
        copied; and the check of a slice, else another error might come before that one's."""
        readers = {group for place in overwritten(op) for group in self.users.get(self.accesses.stored(op.operands[place]), ())}
        return readers | ({self.last_check} if self.last_check and op.name in CHECKED else set())

    def _add_elementwise(self, op: Op) -> None:
        own = identity(op.result)
        reads = set(point_reads(op, self.accesses))
        inputs = self._makers([*(access.source for access in reads), *filter(is_register, op.operands)]) | self._binders(op)
        alone = Group([op], result_type(op.result).axes, inputs, reads)
        makers = self._latest_first(self.maker[access.source] for access in reads if access.source in self.maker and access.map == own)
        sharers = self._latest_first(group for access in reads if access.map for group in self.readers.get(access, ()))
        candidates = [group for group in makers if group.space == alone.space]
        candidates += [group for group in sharers if group.space == alone.space and group not in candidates][:MOST_SHARERS]
        joined = next((group for group in candidates if self._join(alone, group)), None)
        if joined is None:
            self._append(alone)
            return
        for other in makers:
            if other is not joined and other.space == alone.space and self.position[other] < self.position[joined]:
                self._draw_in(other, joined)

    # ---- joining

    def _join(self, new: Group, group: Group) -> bool:
        """Put an operation that isn't scheduled yet into a group."""
        if len(group.ops) >= MOST_MEMBERS or not self._reads_points(new, group):
            return False
        before = self._needed_behind(new.inputs, group)
        if before is None:
            return False
        if before:
            start = self.position[group]
            moved = set(before)
            rest = [other for other in self.groups[start + 1 :] if other not in moved]
            self._reorder(start, [*before, group, *rest])
        self._take(new, group)
        return True

    def _draw_in(self, other: Group, group: Group) -> None:
        """Merge an earlier group into a later one, if both have one space and nothing between needs the one for the other."""
        both = other.contraction is not None and group.contraction is not None
        if both or len(other.ops) + len(group.ops) > MOST_MEMBERS or not self._reads_points(group, other):
            return
        start, end = self.position[other], self.position[group]
        after: set[Group] = {other}
        for between in self.groups[start + 1 : end]:
            if between.inputs & after:
                after.add(between)
        if group.inputs & (after - {other}):
            return
        window = self.groups[start + 1 : end]
        self._reorder(start, [*(g for g in window if g not in after), group, *(g for g in window if g in after), *self.groups[end + 1 :]])
        del self.position[other]
        for value in self._read_by(other.ops, other.reads):
            self.users[value].discard(other)
        has_contraction = group.contraction is not None
        group.ops = [*group.ops[:has_contraction], *other.ops, *group.ops[has_contraction:]]
        self._inherit(other, group)
        for later in self.groups[start:]:
            if other in later.inputs:
                later.inputs = (later.inputs - {other}) | {group}

    def _reads_points(self, reader: Group, maker: Group) -> bool:
        """Whether the reader needs of what the maker makes only the element at its own point."""
        space = maker.space or ()
        whole = reader.contraction is not None and any(self.maker.get(operand) is maker for operand in reader.contraction.operands)
        points = all(access.map == tuple(range(len(space))) for access in reader.reads if self.maker.get(access.source) is maker)
        return points and not whole

    def _needed_behind(self, needed: set[Group], group: Group) -> list[Group] | None:
        """The groups scheduled behind `group` that those needed are or need, in order; None where one needs the group."""
        wanted = set(needed)
        found: list[Group] = []
        for other in reversed(self.groups[self.position[group] + 1 :]):
            if other in wanted:
                if group in other.inputs:
                    return None
                wanted |= other.inputs
                found.append(other)
        return found[::-1]

    def _take(self, new: Group, group: Group) -> None:
        group.ops += new.ops
        self._inherit(new, group)

    def _inherit(self, old: Group, group: Group) -> None:
        group.inputs = (group.inputs | old.inputs) - {group, old}
        group.reads |= old.reads
        self._register(old.ops, old.reads, group)

    # ---- bookkeeping

    def _register(self, ops: Sequence[Op], reads: Iterable[Access], group: Group) -> None:
        self.maker.update((result, group) for op in ops for result in op.results)
        for value in self._read_by(ops, reads):
            self.users.setdefault(value, set()).add(group)
        for access in reads:
            readers = self.readers.setdefault(access, [])
            if group not in readers:
                readers.append(group)

    def _append(self, group: Group) -> None:
        self.position[group] = len(self.groups)
        self.groups.append(group)
        self._register(group.ops, group.reads, group)

    def _reorder(self, start: int, groups: Sequence[Group]) -> None:
        self.groups[start:] = groups
        self.position.update((group, start + place) for place, group in enumerate(groups))

    def _makers(self, values: Iterable[Value]) -> set[Group]:
        return {self.maker[value] for value in values if value in self.maker}

    def _binders(self, op: Op) -> set[Group]:
        return {self.binder[symbol] for symbol in self.binder if mentions(op, {symbol})}

    def _latest_first(self, groups: Iterable[Group]) -> list[Group]:
        scheduled = {group for group in groups if group in self.position}
        return sorted(scheduled, key=lambda group: -self.position[group])

    def _read_by(self, ops: Sequence[Op], reads: Iterable[Access]) -> Iterator[Value]:
        """The values whose elements a group of these operations, which reads this, reads where they lie."""
        yield from (self.accesses.stored(access.source) for access in reads)
        for op in ops:
            if not is_elementwise(op):
                yield from map(self.accesses.stored, values_read(op))
