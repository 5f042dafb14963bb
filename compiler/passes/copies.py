"""Value semantics made storage: a `copy` where an operation or a move would overwrite what is still read.

The storage discipline that this pass establishes, and engines rely on, is written in `compiler/ops/storage.py`. In short: a consumed
operand may be overwritten, a value carried by a loop is updated in place, a `mut` parameter's storage is where its final value must be.

Where a consumed operand is needed later there are two mends. Mostly the operation gets a copy and works on that. But where the operand
fills a storage in which a final value has to end anyway (a loop's, a `mut` parameter's), the operation works there and what comes later
reads the copy: `best = m` in a loop costs one copy then, not three.

Each `if` gets the attribute `homes`: a result lies where one of the branches has it already, where that storage is free to be overwritten.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shapescript.compiler.ir.nodes import Block, Function, Op, Value, free_values
from shapescript.compiler.ops.build import rebuilt
from shapescript.compiler.ops.storage import LOOPS, OWN, Place, Places, is_stored, overwritten
from shapescript.compiler.passes.needs import Needs


def insert_copies(function: Function) -> Function:
    body = function.body
    pass_ = _Copies()
    for value, mutable in zip(body.parameters, function.mutable, strict=True):
        pass_.places.put(value)
        (pass_.persistent if mutable else pass_.protected).add(value)
    changed = [value for value, mutable in zip(body.parameters, function.mutable, strict=True) if mutable]
    targets = [None] * function.results + [pass_.places.of.get(value) for value in changed]
    done = pass_.ended(pass_.block(body), targets)
    return function.with_body(done)


class _Copies:
    """`protected` storages are never overwritten; in `persistent` ones a final value has to end."""

    def __init__(self) -> None:
        self.places = Places()
        self.needs = Needs(self.places)
        self.protected: set[Value] = set()
        self.persistent: set[Value] = set()
        self.renamed: dict[Value, Value] = {}

    def value(self, value: Value) -> Value:
        while value in self.renamed:
            value = self.renamed[value]
        return value

    # ---- blocks

    def block(self, block: Block) -> Block:
        """The block with copies between its operations; its yields are still to be seen to (`ended`)."""
        found: list[Op] = []
        outside = dict(self.renamed)
        with self.needs.block(block, self.value):
            for index, op in enumerate(block.ops):
                self.needs.at(index)
                operands = self.own_operands(op, found)
                done = self.with_regions(rebuilt(op, operands, op.regions, op.results))
                self.places.define(done)
                if op.name == "dataset_all":
                    self.protected.update(done.results)
                found.append(done)
        yields = tuple(self.value(value) for value in block.yields)
        self.renamed = outside
        return Block(block.parameters, tuple(found), yields, block.symbols)

    def ended(self, block: Block, targets: Sequence[Place | None]) -> Block:
        """The block with copies of yields that a move to an earlier target would overwrite."""
        ops, yields = list(block.ops), list(block.yields)
        for index, target in enumerate(targets):
            if target is None or self.places.of.get(yields[index]) == target:
                continue
            for later in range(index + 1, len(yields)):
                place = self.places.of.get(yields[later])
                if place and place.overlaps(target):
                    yields[later] = self.copied(yields[later], ops, None)
        return Block(block.parameters, tuple(ops), tuple(yields), block.symbols)

    def copied(self, value: Value, found: list[Op], user: Op | None) -> Value:
        made = Value(value.type, value.hint)
        op = Op("copy", (value,), {}, (made,), (), user.span if user else None)
        self.places.define(op)
        found.append(op)
        return made

    # ---- consumed operands

    def own_operands(self, op: Op, found: list[Op]) -> list[Value]:
        """The operands, copied where the operation would overwrite what is still needed."""
        operands = [self.value(operand) for operand in op.operands]
        for index in overwritten(op):
            value = operands[index]
            if not is_stored(value):
                continue
            place = self.places.of[value]
            changed = place.inner(op.attributes["path"]) if op.name == "replace_submodel" else place
            others = [operand for other, operand in enumerate(operands) if other != index and self.overlap(operand, changed)]
            shared = bool(others) and op.name != "replace_submodel"
            readers = [*self.needs.later(changed), *self.read_inside(op, place)]
            if place.root in self.protected or shared:
                operands[index] = self.copied(value, found, op)
            elif readers and self.can_save(value, place, readers):
                saved = self.copied(value, found, op)
                self.needs.hand_over(value, saved)
                self.renamed[value] = saved
            elif readers:
                operands[index] = self.copied(value, found, op)
        return operands

    def overlap(self, value: Value, place: Place) -> bool:
        found = self.places.of.get(value)
        return found is not None and found.overlaps(place)

    def read_inside(self, op: Op, place: Place) -> Iterator[Value]:
        """What a loop reads at the place while it carries it."""
        if op.name in LOOPS:
            yield from (value for value in self.outer_values(op) if self.overlap(value, place))

    def outer_values(self, op: Op) -> dict[Value, None]:
        return {self.value(value): None for region in op.regions for value in free_values(region)}

    def can_save(self, value: Value, place: Place, readers: Sequence[Value]) -> bool:
        """Whether later readers can take a copy instead: all of them read this very value, and in this block."""
        whole = place.root in self.persistent and not place.path
        return whole and all(reader is value for reader in readers) and self.needs.only_in_this_block(value)

    # ---- control flow

    def with_regions(self, op: Op) -> Op:
        if op.name in LOOPS:
            return self.loop(op)
        return self.condition(op) if op.name == "if" else op

    def loop(self, op: Op) -> Op:
        self.places.enter_loop(op)
        carried = [self.places.of.get(operand) for operand in op.operands[LOOPS[op.name] :]]
        self.persistent.update(place.root for place in carried if place)
        *conditions, body = op.regions
        with self.needs.throughout(self.outer_values(op)):
            kept: list[Block] = []
            for condition in conditions:
                with self.needs.throughout(dict.fromkeys(condition.parameters)):
                    kept.append(self.block(condition))
            self.protected.update(body.parameters[: len(body.parameters) - len(carried)])
            kept.append(self.ended(self.block(body), carried))
        return rebuilt(op, op.operands, kept, op.results)

    def condition(self, op: Op) -> Op:
        before = set(self.places.of)
        bodies = [self.block(region) for region in op.regions]
        yields = [[self.places.of.get(value) for value in body.yields] for body in bodies]
        taken: list[Place] = []
        chosen: list[int] = []
        for options in zip(*yields, strict=True):
            home = next((branch for branch, place in enumerate(options) if place and self.is_free(place, before, taken)), OWN)
            chosen.append(home)
            taken += [place for place in (options[home],) if place and home != OWN]
        targets = [options[home] if home != OWN else None for options, home in zip(zip(*yields, strict=True), chosen, strict=True)]
        regions = [self.ended(body, targets) for body in bodies]
        attributes = {**op.attributes, "homes": tuple(chosen)} if any(home != OWN for home in chosen) else op.attributes
        return rebuilt(op, op.operands, regions, op.results, attributes)

    def is_free(self, place: Place, before: set[Value], taken: Sequence[Place]) -> bool:
        """Whether a result of the `if` may take over the place: it is an outer one that nothing needs afterwards."""
        outer = place.root in before and place.root not in self.protected
        return outer and not any(place.overlaps(other) for other in taken) and not any(self.needs.later(place))
