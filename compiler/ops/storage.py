"""Where values lie: the one definition that the pass `insert_copies`, the memory plan and both engines share.

Values have value semantics until `insert_copies`; after it the following holds too.

Registers. A tensor without axes is a register; a View that gives one (`leaf` of `offset: []`) reads it where the operation stands. Modes,
sinks, strings, datasets and their orders are references, which nobody copies. None of these lies anywhere.

Places. Every other value lies in a `Place`: a storage, named by the value that first had it, and a path inside (a model's dotted name).

    a parameter of the function     the caller's storage
    result of a View                where its operand lies: `leaf` and `submodel` at their path, `reshape` at the same place
    result i where `consumes` has   where the consumed operand lies; the operation may overwrite it element by element or whole,
    an i-th entry                   before it has read anything else
    a loop (while, for_range,       carried operand, region parameter and result are one storage. At the end of each iteration every
    for_batches)                    yielded value is moved there
    result i of an `if`             where the yield of branch `homes[i]` (attribute, one number for each result) lies: the other branch's
                                    yield is moved there at that branch's end. homes[i] = -1: in a storage of its own, and both are moved
    anything else                   a storage of its own, needed from its operation to the last use of a value that lies in it

Moves. At the end of a region or of the function, moves are made one after another in the order of the yields, each unless the value already
lies at its destination. A function's results are moved to the caller's arrays first, then the new values of `mut` parameters into their
parameters' storages. A value may be computed at its destination at once where nothing reads the destination from there on.

What an engine may rely on:
 1. Where an operation overwrites what it consumes, or a move overwrites its destination, no value lying there is read afterwards, and no
    other operand of that operation lies there. `replace_submodel` overwrites the part that it replaces alone, and may find its second
    operand there: nothing to move.
 2. Parameters that aren't `mut`, the fields of a batch, the results of `dataset_all`, and the parameters of a `while`'s condition are
    never overwritten.
 3. A storage in `packed_in_place` may be the place of a leaf in a packed model: what an operand of the pack is computed in then lies there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from shapescript.compiler.ir.nodes import Block, Function, Op, Value, values_read, walk
from shapescript.compiler.ir.types import ModelType, OptimiserType, TensorType, sorted_leaves
from shapescript.compiler.ops.table import View, entry
from shapescript.compiler.records.dataclass import dataclass

LOOPS = {"while": 0, "for_range": 2, "for_batches": 5}  # the number of operands before the carried ones
OWN = -1


def is_stored(value: Value) -> bool:
    """Whether the value lies in a storage: it is neither a register nor a reference."""
    return isinstance(value.type, ModelType | OptimiserType) or (isinstance(value.type, TensorType) and bool(value.type.axes))


@dataclass(frozen=True, slots=True)
class Place:
    """Part of a storage: `root` names it; an empty path is the whole."""

    root: Value
    path: str = ""

    def inner(self, path: str) -> Place:
        return Place(self.root, f"{self.path}.{path}" if self.path else path)

    def covers(self, other: Place) -> bool:
        return self.root is other.root and (not self.path or other.path == self.path or other.path.startswith(self.path + "."))

    def overlaps(self, other: Place) -> bool:
        return self.covers(other) or other.covers(self)


class Places:
    """Learns, operation by operation in program order, where values lie."""

    def __init__(self) -> None:
        self.of: dict[Value, Place] = {}
        self.lying: dict[Value, list[Value]] = {}

    def put(self, value: Value, place: Place | None = None) -> None:
        """The value lies at the place; without one, in a storage of its own."""
        if is_stored(value):
            self.of[value] = place or Place(value)
            self.lying.setdefault(self.of[value].root, []).append(value)

    def overlapping(self, place: Place) -> Iterator[Value]:
        """The values known so far that share elements with the place."""
        return (value for value in self.lying.get(place.root, ()) if self.of[value].overlaps(place))

    def enter_loop(self, op: Op) -> None:
        """Region parameters lie where the carried operands do."""
        carried = op.operands[LOOPS[op.name] :]
        for region in op.regions:
            own = len(region.parameters) - len(carried)
            for value in region.parameters[:own]:
                self.put(value)
            for value, operand in zip(region.parameters[own:], carried, strict=True):
                self.put(value, self.of.get(operand))

    def define(self, op: Op) -> None:
        """The results; after the regions of the operation."""
        if op.name in LOOPS:
            for value, operand in zip(op.results, op.operands[LOOPS[op.name] :], strict=True):
                self.put(value, self.of.get(operand))
        elif op.name == "if":
            for place, value in enumerate(op.results):
                home = homes(op)[place]
                self.put(value, None if home == OWN else self.of.get(op.regions[home].yields[place]))
        else:
            for place, value in enumerate(op.results):
                self.put(value, self._result(op, place))

    def _result(self, op: Op, place: int) -> Place | None:
        lowering, consumed = entry(op.name).lowering, entry(op.name).consumes
        if place < len(consumed):
            return self.of.get(op.operands[consumed[place]])
        if not isinstance(lowering, View):
            return None
        base = self.of.get(op.operands[0])
        return base.inner(op.attributes["path"]) if base and "path" in op.attributes else base


def homes(op: Op) -> tuple[int, ...]:
    """For each result of an `if`: the branch whose yield gives its place, or OWN."""
    found: tuple[int, ...] = op.attributes.get("homes", (OWN,) * len(op.results))
    return found


def places(function: Function) -> Mapping[Value, Place]:
    """Where each stored value of a function lies, by the rules above; meaningful after `insert_copies`."""
    known = Places()
    for value in function.body.parameters:
        known.put(value)
    _walk(function.body, known)
    return known.of


def _walk(block: Block, known: Places) -> None:
    for op in block.ops:
        if op.name in LOOPS:
            known.enter_loop(op)
        for region in op.regions:
            _walk(region, known)
        known.define(op)


def packed_in_place(block: Block, known: Mapping[Value, Place]) -> Mapping[Value, tuple[Op, str]]:
    """Storages that operands of the block's packs fill, and that may be part of the packed model: the pack, and the leaf's dotted name
    (none for the whole).

    They are made in this block and used up by then: nothing that lies there is read later, or taken over by another operation.
    """
    made = {value for op in block.ops for value in op.results}
    last = last_uses(block)
    taken = {known[operand].root for op in walk(block) for place in overwritten(op) if (operand := op.operands[place]) in known}
    lying: dict[Value, list[Value]] = {}
    for value, place in known.items():
        lying.setdefault(place.root, []).append(value)
    found: dict[Value, tuple[Op, str]] = {}
    for index, op in enumerate(block.ops):
        if op.name not in ("pack", "pack_flat"):
            continue
        roots = [known[operand].root for operand in op.operands if operand in known]
        whole = op.name == "pack_flat"
        names = [""] if whole else [leaf.name for leaf in sorted_leaves(op.attributes["model"])]
        for name, operand in zip(names, op.operands, strict=True):
            filled = known.get(operand)
            if filled is None or filled.path or filled.root not in made or filled.root in taken or filled.root in found:
                continue
            if roots.count(filled.root) == 1 and all(last.get(value, -1) <= index for value in lying[filled.root]):
                found[filled.root] = op, name
    return found


def overwritten(op: Op) -> Sequence[int]:
    """The operands whose storage the operation takes over: what it consumes, what a loop carries."""
    return range(LOOPS[op.name], len(op.operands)) if op.name in LOOPS else entry(op.name).consumes


def last_uses(block: Block) -> Mapping[Value, int]:
    """The number of the last operation of a block that reads each value; the block's end counts as one operation more."""
    last: dict[Value, int] = {}
    for index, op in enumerate(block.ops):
        last.update((value, index) for value in values_read(op))
    last.update((value, len(block.ops)) for value in block.yields)
    return last
