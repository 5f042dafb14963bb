"""The memory plan: where each stored value of a function is put (ops/locations.py), so that few bytes are needed and few are moved.

A value is computed at the place where it ends, and needs no move there, wherever nothing reads that place from then on: a gradient in the
model that it is packed into, a moment in the state that it replaces a part of, a result in the caller's array, a loop's next value in the
loop's storage. All other storages are slots, which values whose lives don't overlap share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from shapescript.compiler.ir.nodes import Block, Function, Op, Value
from shapescript.compiler.ir.sizes import Size
from shapescript.compiler.ir.types import OrderedType
from shapescript.compiler.ops.locations import (
    Borrowed,
    Location,
    ParameterStorage,
    Plan,
    ResultStorage,
    Slot,
    SlotStorage,
    argument_symbols,
    has_storage,
    is_late,
    part_offset,
    storage_bytes,
)
from shapescript.compiler.ops.storage import LOOPS, OWN, Place, homes, last_uses, packed_in_place, places
from shapescript.compiler.ops.table import Control, entry
from shapescript.compiler.passes.plan_parts import Parts, replaced_parts
from shapescript.compiler.passes.plan_rows import BlockRows, Row
from shapescript.compiler.passes.slot_places import Lifetime, arranged
from shapescript.compiler.passes.symbols import rows_bound
from shapescript.compiler.records.dataclass import dataclass


def plan_memory(function: Function) -> Plan:
    """For a function that has been through `insert_copies`."""
    planner = _Planner(places(function))
    body, symbols = function.body, argument_symbols(function)
    for index, value in enumerate(body.parameters):
        planner.roots[value] = Location(ParameterStorage(index))
    declared = enumerate(body.yields[: function.results])
    targets = [None if is_late(value.type, symbols) else Location(ResultStorage(place)) for place, value in declared]
    targets += [Location(ParameterStorage(index)) for index, mutable in enumerate(function.mutable) if mutable]
    mutable_places = [planner.places.get(value) for value, mutable in zip(body.parameters, function.mutable, strict=True) if mutable]
    planner.plan(body, targets, [None] * function.results + mutable_places)
    locations = {value: location for value in planner.places if (location := planner.location(value)) is not None}
    return Plan(locations, planner.slots)


@dataclass
class _Occupied(Lifetime):
    """`occupant`: the storage that lies there last."""

    occupant: Value


@dataclass
class _Planner:
    places: Mapping[Value, Place]
    roots: dict[Value, Location] = field(default_factory=dict)
    packed: dict[Value, tuple[Value, int]] = field(default_factory=dict)  # the model that a storage is part of, and where
    ends: dict[Value, Place] = field(default_factory=dict)  # for a storage that is another one at its block's end: that place
    slots: dict[Block, tuple[Slot, ...]] = field(default_factory=dict)
    lying: dict[Value, list[Value]] = field(default_factory=dict)
    over: dict[Value, Place] = field(default_factory=dict)  # for a storage that takes the place of a part: that part
    rows: dict[Value, Place] = field(default_factory=dict)  # for a storage that is a row: the place of the whole
    count: int = 0

    def __post_init__(self) -> None:
        self.parts = Parts(self.places, self._in_place)
        for value, place in self.places.items():
            self.lying.setdefault(place.root, []).append(value)

    def location(self, value: Value) -> Location | None:
        place = self.places[value]
        base = self._root_location(place.root)
        return base and base.part(part_offset(place.root.type, place.path))

    def _root_location(self, root: Value) -> Location | None:
        if root not in self.packed:
            return self.roots.get(root)
        model, offset = self.packed[root]
        base = self._root_location(model)
        return base and base.part(offset)

    def _is_placed(self, root: Value) -> bool:
        return root in self.roots or root in self.packed

    def plan(self, block: Block, targets: Sequence[Location | None], homes_: Sequence[Place | None]) -> None:
        """Place what the block makes. Yields end at `targets`; `homes_` are the places there that values of the program lie in."""
        lives = _Lives(block)
        starts: dict[Value, int] = {}
        for root, index in self._made(block, lives):
            starts.setdefault(root, index)
        rows = BlockRows(block, self._in_place, self.places, self.lying, lives.last)
        for row in rows.slices():
            self._to_row(row)
        self._to_targets(block, lives, starts, targets, homes_)
        self._to_packs(block, lives, starts, self._to_replaced(block, lives, starts))
        for row in rows.puts({root: start for root, start in starts.items() if not self._is_placed(root)}, homes_):
            location = self._root_location(self._in_place(row.storage.whole).root)
            if location is None or not isinstance(location.storage, ParameterStorage):  # what fails must leave it as it was
                self._to_row(row)
        self._to_slots(block, lives, starts)
        for op in block.ops:
            self._plan_regions(op)

    def _to_row(self, row: Row) -> None:
        """What lies in the row keeps the whole from being overwritten."""
        self.roots[row.root], self.rows[row.root] = Location(row.storage), self.places[row.storage.whole]
        root = row.root
        while root in self.rows:
            root = self.rows[root].root
            self.lying[root] += self.lying[row.root]

    def _in_place(self, value: Value) -> Place:
        """The place of a value; for what lies in a row, that of the whole."""
        place = self.places[value]
        while place.root in self.rows:
            place = self.rows[place.root]
        return place

    # ---- what a block makes

    def _made(self, block: Block, lives: _Lives) -> Iterator[tuple[Value, int]]:
        """The storages that begin in the block, and the number of the operation that does. Of a dataset only the fields that are read."""
        for value in block.parameters:
            if value in self.places and self._is_new(self.places[value].root):
                yield value, -1
        for index, op in enumerate(block.ops):
            for value in op.results:
                if op.name == "dataset_all" and value in self.places:
                    if value in lives.last:
                        self.roots[value] = Location(Borrowed(value))
                elif value in self.places and self._is_new(self.places[value].root):
                    yield self.places[value].root, index

    def _is_new(self, root: Value) -> bool:
        return root in self.places and has_storage(root) and not self._is_placed(root)

    # ---- values computed where they end

    def _to_targets(
        self, block: Block, lives: _Lives, starts: dict[Value, int], targets: Sequence[Location | None], homes_: Sequence[Place | None]
    ) -> None:
        for value, target, home in zip(block.yields, targets, homes_, strict=True):
            root = self._movable(value, starts)
            if root is None or target is None:
                continue
            if self._changes_an_argument(target, lives, starts[root]):
                continue
            if home is None or self._is_unread(home, root, block, lives, starts[root]):
                self.roots[root] = target
                if home is not None:
                    self.ends[root] = home

    def _changes_an_argument(self, target: Location, lives: _Lives, start: int) -> bool:
        """Whether something may fail after operation `start` has changed the caller's storage: what fails must leave it as it was."""
        return isinstance(target.storage, ParameterStorage) and lives.last_ordered > start

    def _movable(self, value: Value, starts: Mapping[Value, int]) -> Value | None:
        """The value's storage, where it is one that the block makes, as a whole, and that has no place yet."""
        place = self.places.get(value)
        if place is None or place.path or self._is_placed(place.root) or starts.get(place.root, -1) < 0:
            return None
        return place.root

    def _is_unread(self, home: Place, root: Value, block: Block, lives: _Lives, start: int) -> bool:
        """Whether nothing reads what lies at a place from the operation `start` on, which makes `root` and may write over what it reads."""
        there = (value for value in self.lying.get(home.root, ()) if self._in_place(value).overlaps(home))
        last = [lives.last[value] for value in there if value in lives.last]
        return all(use < start or (use == start and self.parts.may_lie_upon(block.ops[start], root, home)) for use in last)

    def _to_replaced(self, block: Block, lives: _Lives, starts: dict[Value, int]) -> dict[Value, int]:
        """New parts of models, computed where the old ones lie; gives for each the operation that replaces it."""
        found: dict[Value, int] = {}
        for root, part, index in replaced_parts(block, self.places, lives.last):
            start = starts.get(root, -1)
            if self._is_placed(root) or start < 0 or starts.get(part.root, -1) >= start:
                continue
            if self.parts.is_free(part, root, block, start, index) and not self._changes_a_part(part, lives, start):
                self.packed[root] = part.root, part_offset(part.root.type, part.path)
                self.over[root] = part
                found[root] = index
        return found

    def _changes_a_part(self, part: Place, lives: _Lives, start: int) -> bool:
        location = self._root_location(part.root)
        return location is not None and self._changes_an_argument(location, lives, start)

    def _to_packs(self, block: Block, lives: _Lives, starts: dict[Value, int], replaced: Mapping[Value, int]) -> None:
        """Operands of packs that are computed in the packed model, which begins with the first of them."""
        for operand, (op, path) in packed_in_place(block, self.places).items():
            model, start = op.result, starts.get(operand, -1)
            if self._is_placed(operand) or model not in starts or start < 0:
                continue
            end, part = replaced.get(model, len(block.ops)), self.over.get(model) or self.ends.get(model)
            inner = part.inner(path) if part and path else part
            if inner and not self.parts.is_free(inner, operand, block, start, end):
                continue
            if inner and starts.get(inner.root, -1) >= start:
                continue
            if self._changes_a_part(Place(model), lives, start):
                continue
            self.packed[operand] = model, part_offset(model.type, path)
            starts[model] = min(starts[model], start)

    # ---- slots

    def _to_slots(self, block: Block, lives: _Lives, starts: Mapping[Value, int]) -> None:
        known: list[_Occupied] = []
        later: list[_Occupied] = []
        for root, start in sorted(starts.items(), key=lambda item: item[1]):
            if self._is_placed(root) or self._can_be_left_out(block, root, start, lives):
                continue
            end = max([start, *(lives.last[value] for value in self.lying[root] if value in lives.last)])
            is_later = lives.is_known_later(storage_bytes(root.type))
            slot = self._slot_for(block, later if is_later else known, root, start, end, is_later)
            self.roots[root] = Location(SlotStorage(slot.number))
        numbers = [slot.number for slot in later]
        apart = (Slot(slot.number, slot.size, tuple(numbers[:place])) for place, slot in enumerate(later))
        self.slots[block] = (*arranged(known), *apart)

    def _can_be_left_out(self, block: Block, root: Value, start: int, lives: _Lives) -> bool:
        """Fields of a batch and second results that nobody reads are never made."""
        is_read = any(value in lives.last for value in self.lying[root])
        return not is_read and (start < 0 or block.ops[start].name == "kernel")

    def _slot_for(self, block: Block, slots: list[_Occupied], root: Value, start: int, end: int, is_later: bool) -> _Occupied:
        """One that the storage may lie upon; where sizes are known later, one that is free too."""
        size = storage_bytes(root.type)
        ending = (slot for slot in slots if slot.last == start or (is_later and slot.last < start))
        free = (slot for slot in ending if slot.last < start or self._is_taken_over(block, slot, root, start))
        slot = next((slot for slot in free if _covers(slot.size, size)), None)
        if slot is None:
            slot = _Occupied(self.count, size, start, end, root)
            slots.append(slot)
            self.count += 1
        slot.last, slot.occupant = end, root
        return slot

    def _is_taken_over(self, block: Block, slot: _Occupied, root: Value, start: int) -> bool:
        """Whether the operation `start` may write its result over what it reads last of a slot."""
        return 0 <= start < len(block.ops) and self.parts.may_lie_upon(block.ops[start], root, Place(slot.occupant))

    # ---- regions

    def _plan_regions(self, op: Op) -> None:
        if not isinstance(entry(op.name).lowering, Control):
            return
        if op.name == "if":
            targets = [self.location(value) if value in self.places else None for value in op.results]
            for branch, region in enumerate(op.regions):
                outer = zip(op.results, homes(op), strict=True)
                self.plan(region, targets, [None if home in (OWN, branch) else self.places.get(value) for value, home in outer])
            return
        carried = op.operands[LOOPS[op.name] :]
        stored = [self.places.get(value) for value in carried]
        targets = [None if place is None else self.location(value) for value, place in zip(carried, stored, strict=True)]
        for region in op.regions:
            if op.name == "for_batches" and not isinstance(op.operands[0].type, OrderedType):
                self._borrow(region.parameters[: len(region.parameters) - len(carried)])
            is_condition = op.name == "while" and region is op.regions[0]
            self.plan(region, [None] if is_condition else targets, [None] if is_condition else stored)

    def _borrow(self, fields: Sequence[Value]) -> None:
        """A batch of a dataset in its own order is a piece of it."""
        for value in fields:
            if value in self.places:
                self.roots[value] = Location(Borrowed(value))


class _Lives:
    """The last operation of a block that reads each value, the last ordered one, and the sizes that operations bind."""

    def __init__(self, block: Block) -> None:
        self.last = last_uses(block)
        self.last_ordered = max((index for index, op in enumerate(block.ops) if entry(op.name).ordered), default=-1)
        self.bound = frozenset(symbol for op in block.ops for symbol in rows_bound(op))

    def is_known_later(self, size: Size) -> bool:
        """Whether a size needs what an operation of the block binds."""
        return not self.bound.isdisjoint(size.symbols())


def _covers(large: Size, small: Size) -> bool:
    """Whether one size is at least the other whatever their symbols are."""
    return all(count >= 0 for _, count in (large - small).terms)
