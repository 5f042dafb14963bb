"""The way back through a loop over a range: a loop that goes from the last turn to the first.

What a turn's adjoints read of that turn is kept on tapes: tensors with a leading axis of the number of turns, which the forward loop
carries and puts into, and of which the way back takes slices. It carries the adjoints of what the loop carries, and those of what lies
outside of the loop, to which each turn adds in place. Both begin with what they are behind the loop, +0.0 where that is nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shapescript.compiler.ir.nodes import Block, Op, Value
from shapescript.compiler.ir.sizes import Size
from shapescript.compiler.ir.types import INT, Element
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.passes.activity import Place, paths
from shapescript.compiler.passes.adjoints import Adjoints, defined_by, place_type, zeros
from shapescript.compiler.passes.dead import drop_dead
from shapescript.compiler.passes.recall import Recall, refuse_sizes_of_one_turn
from shapescript.compiler.passes.tapes import Tapes
from shapescript.compiler.records.dataclass import dataclass

if TYPE_CHECKING:
    from shapescript.compiler.passes.reverse import Reverse


def reverse_range(reverse: Reverse, op: Op, adjoints: Adjoints) -> Sequence[Op]:
    (body,), turns = op.regions, reverse.turns[op]
    back = _Back(op, adjoints)
    if not back.anything_arrives():
        return (op,)
    with reverse.passing_by(body):
        forward = reverse.run(body.ops, back.inside)
    loop = back.loop(turns)
    if loop is None:
        return (op,)

    (block,) = loop.regions
    last = adjoints.builder.op("sub", adjoints.builder.size(turns), adjoints.builder.constant(1, Element.I64))
    builder = Builder(op.span)
    turn = builder.op("sub", last, block.parameters[0])
    index = builder.op("add", turn, op.operands[0])
    recall = Recall(body.parameters, forward, {body.parameters[0]: index}, reverse.around)
    needed = recall.needed(block.ops, block.yields)
    tapes = Tapes(op, [*forward, *recall.parts], needed, turns)
    yields = recall.rewritten(block.ops, block.yields, lambda b, value: tapes.read(b, value, turn), builder)
    region = builder.block(block.parameters, yields)
    refuse_sizes_of_one_turn(op, region.ops, reverse.known_outside)
    adjoints.builder.ops.append(Op(loop.name, loop.operands, loop.attributes, loop.results, (region,), loop.span))
    back.hand_on(loop.results)
    return tapes.forward()


@dataclass(frozen=True)
class _Strand:
    """An adjoint that the loop carries: what it is before the loop, in a turn, behind a turn, behind the loop. It goes to what a carried
    value began with, by its number and path, or to a place outside of the loop, whose adjoint it is from there on."""

    goes_to: tuple[int, str] | Place
    begins: Value
    arrives: Value
    leaves: Value
    result: Value


def _accumulator(place: Place) -> Value:
    return Value(place_type(place), place[0].hint)


class _Back:
    """The loop that goes back. `carried` are the results of the forward loop that have adjoints, by number and path, with what such an
    adjoint is called in a turn."""

    def __init__(self, op: Op, adjoints: Adjoints) -> None:
        self.op, self.adjoints, self.activity = op, adjoints, adjoints.activity
        (self.body,) = op.regions
        self.operands, self.parameters = op.operands[2:], self.body.parameters[1:]
        self.inside = Adjoints(Builder(op.span), self.activity, defined_by(self.body), _accumulator)
        self.strands: list[_Strand] = []
        self.carried = {key: Value(place_type((op.results[key[0]], key[1])), op.results[key[0]].hint) for key in self._active()}
        for (number, path), value in self.carried.items():
            self.inside.add(self.body.yields[number], value, path)

    def _active(self) -> list[tuple[int, str]]:
        found = []
        for number, (result, parameter) in enumerate(zip(self.op.results, self.parameters, strict=True)):
            for path in paths(result):
                behind, in_turn = self.activity.place(result, path), self.activity.place(parameter, path)
                if behind in self.activity.varying and (behind in self.activity.useful or in_turn in self.activity.useful):
                    found.append((number, path))
        return found

    def anything_arrives(self) -> bool:
        return any(self.adjoints.get(self.op.results[number], path) is not None for number, path in self.carried)

    def loop(self, turns: Size) -> Op | None:
        """When the body has been gone back through. None where nobody needs what it gives."""
        builder = self.adjoints.builder
        self.strands = [*self._of_carried(builder), *self._of_places_outside(builder)]
        operands = (builder.constant(0, Element.I64), builder.size(turns), *(strand.begins for strand in self.strands))
        parameters = (Value(INT, self.body.parameters[0].hint), *(strand.arrives for strand in self.strands))
        block = self.inside.builder.block(parameters, [strand.leaves for strand in self.strands])
        results = tuple(strand.result for strand in self.strands)
        whole = Op(self.op.name, operands, self.op.attributes, results, (block,), self.op.span)
        pruned = drop_dead(Block((), (whole,), tuple(strand.result for strand in self.strands if self._is_wanted(strand))))
        return pruned.ops[0] if pruned.ops else None

    def _of_carried(self, builder: Builder) -> list[_Strand]:
        found = []
        for (number, path), value in self.carried.items():
            begins = self.adjoints.get(self.op.results[number], path) or zeros(builder, result_type(value))
            leaves = self.inside.now_or_zeros(self.activity.place(self.parameters[number], path), self.inside.builder)
            found.append(_Strand((number, path), begins, value, leaves, Value(value.type, value.hint)))
        return found

    def _of_places_outside(self, builder: Builder) -> list[_Strand]:
        found = []
        for place in list(self.inside.changed()):
            begins, value = self.adjoints.now_or_zeros(place, builder), self.inside.before(place)
            found.append(_Strand(place, begins, value, self.inside.of[place], Value(value.type, value.hint)))
        return found

    def _is_wanted(self, strand: _Strand) -> bool:
        number, path = strand.goes_to
        return isinstance(number, Value) or self.activity.place(self.operands[number], path) in self.activity.varying

    def hand_on(self, results: Sequence[Value]) -> None:
        """Those of outer places first: they are what a carried value's adjoint is added to where it was one of them."""
        there = [strand for strand in self.strands if strand.result in results]
        for strand in there:
            number, path = strand.goes_to
            if isinstance(number, Value):
                self.adjoints.of[number, path] = strand.result
        for strand in there:
            number, path = strand.goes_to
            if not isinstance(number, Value):
                self.adjoints.add(self.operands[number], strand.result, path)
