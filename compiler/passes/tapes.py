"""What a loop over a range keeps of each of its turns: tensors with a leading axis of the number of turns.

A value that the loop carries and the one that a turn hands on in its place are one row of numbers: where both are kept, they share a tape
with one place more, which begins with the value before the loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from shapescript.compiler.diagnostics.model import CompileError, Diagnostic
from shapescript.compiler.ir.nodes import Op, Value
from shapescript.compiler.ir.sizes import LARGEST, ONE, Size, product
from shapescript.compiler.ir.types import Element, TensorType
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.records.dataclass import dataclass

MOST_AXES = 64


@dataclass(frozen=True)
class _Tape:
    """`written` is put in each turn, `behind` the place of the turn's number by so much; `first` is put in before all."""

    kind: TensorType
    written: Value
    inside: Value
    result: Value
    behind: int = 0
    first: Value | None = None


class Tapes:
    """The loop, with these operations in its body, and tapes of the values kept."""

    def __init__(self, loop: Op, ops: Sequence[Op], kept: Sequence[Value], turns: Size) -> None:
        """Raises CompileError E0503 where a tape would have too many elements, E0112 where it would have too many axes."""
        self.loop, self.ops, self.turns = loop, ops, turns
        self._reads: dict[Value, tuple[_Tape, int]] = {}
        self.tapes: list[_Tape] = []
        (body,) = loop.regions
        made = {result for op in ops for result in op.results}
        pairs = zip(loop.operands[2:], body.parameters[1:], body.yields, strict=True)
        handed_on = {parameter: (value, first) for first, parameter, value in pairs if value in made}
        for value in kept:
            following = handed_on.get(value)
            if value not in self._reads and following is not None and following[0] in kept and following[0] not in self._reads:
                tape = self._new(following[0], turns + ONE, 1, following[1])
                self._reads |= {value: (tape, 0), following[0]: (tape, 1)}
        for value in kept:
            if value not in self._reads:
                self._reads[value] = self._new(value, turns), 0

    def _new(self, value: Value, places: Size, behind: int = 0, first: Value | None = None) -> _Tape:
        kind = TensorType(result_type(value).element, (places, *result_type(value).axes))
        count = product(kind.axes).constant()
        if count is not None and count > LARGEST:
            message = f"the gradient through this loop keeps {count} numbers: a tensor has at most 2**48 elements"
            raise CompileError(Diagnostic("E0503", message, self.loop.span, help="let it go round less often"))
        if kind.rank > MOST_AXES:
            message = f"loops that a gradient goes through nest too deeply here: what they keep has more than {MOST_AXES} axes"
            raise CompileError(Diagnostic("E0112", message, self.loop.span))
        self.tapes.append(_Tape(kind, value, Value(kind, value.hint), Value(kind, value.hint), behind, first))
        return self.tapes[-1]

    def read(self, builder: Builder, value: Value, turn: Value) -> Value:
        """A kept value, as it was in a turn; turns are counted from 0."""
        tape, behind = self._reads[value]
        place = builder.op("add", turn, builder.constant(behind, Element.I64)) if behind else turn
        part = builder.op("slice", tape.result, place, position=0, length=ONE)
        return builder.op("reshape", part, axes=result_type(value).axes, hint=value.hint)

    def forward(self) -> list[Op]:
        """The loop, and before it the tapes that it goes round with."""
        (body,) = self.loop.regions
        before, inside = Builder(self.loop.span), Builder(self.loop.span)
        empty = [self._begun(tape, before) for tape in self.tapes]
        index, start = body.parameters[0], self.loop.operands[0]
        turn = inside.op("sub", index, start) if self.tapes else index
        full: dict[_Tape, Value] = {}

        def write(values: Sequence[Value]) -> None:
            for tape in self.tapes:
                if tape.written in values:
                    place = inside.op("add", turn, inside.constant(tape.behind, Element.I64)) if tape.behind else turn
                    full[tape] = put_place(inside, tape.inside, tape.written, place)

        write(body.parameters)
        for op in self.ops:
            inside.ops.append(op)
            write(op.results)
        parameters = (*body.parameters, *(tape.inside for tape in self.tapes))
        block = inside.block(parameters, (*body.yields, *(full[tape] for tape in self.tapes)), body.symbols)
        results = (*self.loop.results, *(tape.result for tape in self.tapes))
        operands = (*self.loop.operands, *empty)
        return [*before.ops, Op(self.loop.name, operands, self.loop.attributes, results, (block,), self.loop.span)]

    def _begun(self, tape: _Tape, builder: Builder) -> Value:
        whole = builder.op("reserve", element=tape.kind.element, axes=tape.kind.axes, hint=tape.written.hint)
        return whole if tape.first is None else put_place(builder, whole, tape.first, builder.constant(0, Element.I64))


def put_place(builder: Builder, whole: Value, value: Value, place: Value) -> Value:
    """The tensor with the value at a place of its first axis."""
    row = builder.op("reshape", value, axes=(ONE, *result_type(value).axes))
    return builder.op("put", whole, row, place, position=0)
