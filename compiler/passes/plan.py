"""The memory plan: where each stored value of a function is put (ops/locations.py), so that few bytes are needed and few are moved.

A value is computed at the place where it ends, and needs no move there, wherever nothing reads that place from then on: a gradient in the
model that it is packed into, a result in the caller's array, a loop's next value in the loop's storage. All other storages are slots, which
values whose lives don't overlap share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from shapescript.compiler.ir.nodes import Block, Function, Op, Value, free_values
from shapescript.compiler.ir.sizes import Size
from shapescript.compiler.ir.types import Element, OrderedType, TensorType, Type
from shapescript.compiler.ops.locations import (
    Borrowed,
    Location,
    ParameterStorage,
    Plan,
    ResultStorage,
    SlotStorage,
    argument_symbols,
    has_storage,
    is_late,
    part_offset,
    storage_bytes,
)
from shapescript.compiler.ops.storage import LOOPS, OWN, Place, homes, packed_in_place, places
from shapescript.compiler.ops.table import Control, Scalar, entry
from shapescript.compiler.passes.symbols import rows_bound

VECTOR, SHORT_ROW = 16, 64  # elements


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


def overwritable(op: Op) -> tuple[int, ...]:
    """Operands that the operation's result may lie upon: each element is read before the one at its place is written, and not again.

    Rows that end within a vector stay apart: loading a row would wait for the masked store of the one before (measured: twice the time).
    """
    if op.name == "cross_entropy":
        return () if _ends_within_a_vector(op.results[1].type) else (0,)
    if op.name == "cumsum":
        return (0,)
    if op.name == "kernel":
        first, rank = 0, len(op.attributes["space"])
        if rank > 1 and _ends_within_a_vector(op.results[0].type):
            return ()
    elif op.name == "fused_contraction":
        first, rank = 2, len(op.attributes["out"])
    elif isinstance(entry(op.name).lowering, Scalar):
        return tuple(range(len(op.operands)))
    else:
        return ()
    here = tuple(range(rank))
    return tuple(first + place for place, positions in enumerate(op.attributes["maps"]) if tuple(positions) == here)


def _ends_within_a_vector(kind: Type) -> bool:
    """Whether the last axis is short and no multiple of the vectors that it is walked along in."""
    assert isinstance(kind, TensorType)
    last = kind.axes[-1].constant()
    return last is not None and last < SHORT_ROW and last % VECTOR != 0


@dataclass
class _Slot:
    number: int
    size: Size
    busy_until: int
    occupant: Value


@dataclass
class _Planner:
    places: Mapping[Value, Place]
    roots: dict[Value, Location] = field(default_factory=dict)
    packed: dict[Value, tuple[Value, int]] = field(default_factory=dict)  # the model that a storage is part of, and where
    ends: dict[Value, Place] = field(default_factory=dict)  # for a storage that is another one at its block's end: that place
    slots: dict[Block, tuple[tuple[int, Size], ...]] = field(default_factory=dict)
    lying: dict[Value, list[Value]] = field(default_factory=dict)
    count: int = 0

    def __post_init__(self) -> None:
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
        self._to_targets(block, lives, starts, targets, homes_)
        self._to_packs(block, lives, starts)
        self._to_slots(block, lives, starts)
        for op in block.ops:
            self._plan_regions(op)

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
            if self._changes_an_argument(target, block, starts[root]):
                continue
            if home is None or self._is_unread(home, block, lives, starts[root]):
                self.roots[root] = target
                if home is not None:
                    self.ends[root] = home

    def _changes_an_argument(self, target: Location, block: Block, start: int) -> bool:
        """Whether something may fail after operation `start` has changed the caller's storage: what fails must leave it as it was."""
        return isinstance(target.storage, ParameterStorage) and any(entry(op.name).ordered for op in block.ops[start + 1 :])

    def _movable(self, value: Value, starts: Mapping[Value, int]) -> Value | None:
        """The value's storage, where it is one that the block makes, as a whole, and that has no place yet."""
        place = self.places.get(value)
        if place is None or place.path or self._is_placed(place.root) or starts.get(place.root, -1) < 0:
            return None
        return place.root

    def _is_unread(self, home: Place, block: Block, lives: _Lives, start: int) -> bool:
        """Whether nothing reads what lies at a place from the operation `start` on, which may write over what it reads."""
        last = [lives.last[value] for value in self.lying.get(home.root, ()) if value in lives.last and self.places[value].overlaps(home)]
        return all(use < start or (use == start and self._may_lie_upon(block.ops[start], home.root)) for use in last)

    def _may_lie_upon(self, op: Op, root: Value) -> bool:
        """Whether the operation's results may take the storage of operands that lie in `root`."""
        allowed = overwritable(op)
        found = False
        for place, operand in enumerate(op.operands):
            if operand in self.places and self.places[operand].root is root:
                same_width = all(_element_bytes(result) == _element_bytes(operand) for result in op.results if has_storage(result))
                if place not in allowed or self.places[operand].path or not same_width:
                    return False
                found = True
        return found

    def _to_packs(self, block: Block, lives: _Lives, starts: dict[Value, int]) -> None:
        """Operands of packs that are computed in the packed model, which begins with the first of them."""
        for operand, (op, path) in packed_in_place(block, self.places).items():
            model, start = op.result, starts.get(operand, -1)
            if self._is_placed(operand) or model not in starts or start < 0:
                continue
            if model in self.ends and not self._is_unread(self.ends[model], block, lives, start):
                continue
            if model in self.roots and self._changes_an_argument(self.roots[model], block, start):
                continue
            self.packed[operand] = model, part_offset(model.type, path)
            starts[model] = min(starts[model], start)

    # ---- slots

    def _to_slots(self, block: Block, lives: _Lives, starts: Mapping[Value, int]) -> None:
        slots: list[_Slot] = []
        for root, start in sorted(starts.items(), key=lambda item: item[1]):
            if self._is_placed(root) or self._can_be_left_out(block, root, start, lives):
                continue
            end = max([start, *(lives.last[value] for value in self.lying[root] if value in lives.last)])
            slot = self._slot_for(block, slots, root, start, end)
            self.roots[root] = Location(SlotStorage(slot.number))
        self.slots[block] = tuple((slot.number, slot.size) for slot in slots)

    def _can_be_left_out(self, block: Block, root: Value, start: int, lives: _Lives) -> bool:
        """Fields of a batch and second results that nobody reads are never made."""
        is_read = any(value in lives.last for value in self.lying[root])
        return not is_read and (start < 0 or block.ops[start].name in ("cross_entropy", "kernel"))

    def _slot_for(self, block: Block, slots: list[_Slot], root: Value, start: int, end: int) -> _Slot:
        size = storage_bytes(root.type)
        free = [slot for slot in slots if self._is_free(block, slot, start)]
        fitting = [slot for slot in free if slot.size == size] or [slot for slot in free if _covers(slot.size, size)]
        growing = [slot for slot in free if _covers(size, slot.size) and not _is_known_later(block, size, slot.size)]
        if fitting or growing:
            slot = (fitting or growing)[0]
            slot.size = slot.size if fitting else size
            slot.busy_until, slot.occupant = end, root
            return slot
        slots.append(_Slot(self.count, size, end, root))
        self.count += 1
        return slots[-1]

    def _is_free(self, block: Block, slot: _Slot, start: int) -> bool:
        if slot.busy_until == start and start >= 0 and start < len(block.ops):
            return self._may_lie_upon(block.ops[start], slot.occupant)
        return slot.busy_until < start

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
    """The last operation of a block that uses each value; the block's end counts as one operation more."""

    def __init__(self, block: Block) -> None:
        self.last: dict[Value, int] = {}
        for index, op in enumerate(block.ops):
            self.last.update((value, index) for value in op.operands)
            for region in op.regions:
                self.last.update((value, index) for value in free_values(region))
        self.last.update((value, len(block.ops)) for value in block.yields)


def _is_known_later(block: Block, size: Size, earlier: Size) -> bool:
    """Whether a size needs what an operation of the block binds, and the earlier one of the same slot doesn't."""
    bound = {symbol for op in block.ops for symbol in rows_bound(op)}
    return not bound.isdisjoint(set(size.symbols()) - set(earlier.symbols()))


def _covers(large: Size, small: Size) -> bool:
    """Whether one size is at least the other whatever their symbols are."""
    return all(count >= 0 for _, count in (large - small).terms)


def _element_bytes(value: Value) -> int:
    return value.type.element.bytes if isinstance(value.type, TensorType) else Element.F32.bytes
