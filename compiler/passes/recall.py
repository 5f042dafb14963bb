"""What a backward block reads of the forward block that it belongs to, which is over by then: kept by the forward block, or had again.

Had again, since that costs next to nothing: constants and sizes; parts of models, and slices, of what is there still; a few operations on
numbers of these; and a broadcast, reshape or transpose of anything. Everything else is kept, and never computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import field

from shapescript.compiler.diagnostics.model import CompileError, Diagnostic
from shapescript.compiler.ir.nodes import Op, Value, free_values, walk_ops
from shapescript.compiler.ir.sizes import Symbol
from shapescript.compiler.ir.types import ModelType, TensorType, sorted_leaves
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.ops.storage import LOOPS
from shapescript.compiler.ops.table import Scalar, entry
from shapescript.compiler.passes.activity import PARTS
from shapescript.compiler.passes.renaming import renamed_op, renamed_values
from shapescript.compiler.passes.safe_sizes import SafeSizes, bound_inside, cut
from shapescript.compiler.passes.symbols import symbols_in
from shapescript.compiler.records.dataclass import dataclass

Read = Callable[[Builder, Value], Value]

FROM_NOTHING = ("constant", "size", "iota")
PLACES_ONLY = ("broadcast", "reshape", "transpose", "stop_gradient")
PARTS_ONLY = (*PARTS, "slice")
MOST_AGAIN = 16  # operations done again for one value


@dataclass
class Around:
    """What is around the block that is gone back through. `passing` are values of the loops and branches around it, which have to be kept
    themselves where they are read."""

    safe: SafeSizes
    passing: set[Value] = field(default_factory=set)


class Recall:
    """For a forward block with these parameters and operations, those that later blocks read included; `there` are values of it that need
    not be kept, since the backward block has them under the names given."""

    def __init__(self, parameters: Sequence[Value], ops: Sequence[Op], there: Mapping[Value, Value], around: Around) -> None:
        self.inside = {*parameters, *(result for op in ops for result in op.results)}
        self.there, self._around = there, around
        self.parts: list[Op] = []  # more operations of the forward block: the tensors of a model that is kept, and what is cut
        self._again: dict[Value, Op] = {}
        self._leaves: dict[Value, list[Value]] = {}
        self._cut: dict[Value, Value] = {}
        self._steps: dict[Value, int] = {}  # how many operations it takes to have a value again
        self._free = set(there)  # what is had without keeping anything
        for op in ops:
            if len(op.results) == 1:
                self._note(op)

    def _note(self, op: Op) -> None:
        own = [operand for operand in op.operands if operand in self.inside]
        is_free = self._free.issuperset(own)
        steps = 1 + sum(self._steps.get(operand, 0) for operand in own)
        if steps > MOST_AGAIN or not (op.name in PLACES_ONLY or (is_free and _costs_little(op))):
            return
        if op.name in PARTS_ONLY and op.operands[0] not in self.inside and op.operands[0] in self._around.passing:
            return  # the whole would be kept for the part
        self._again[op.result], self._steps[op.result] = op, steps
        if is_free:
            self._free.add(op.result)

    def needed(self, ops: Sequence[Op], yields: Sequence[Value]) -> list[Value]:
        """The values to keep for backward operations, in the order of their first use; tensors, and registers."""
        found: dict[Value, None] = {}
        seen = set(self.there)

        def need(value: Value) -> None:
            if value in seen or value not in self.inside:
                return
            seen.add(value)
            if value in self._again:
                for operand in self._again[value].operands:
                    need(operand)
            elif isinstance(value.type, ModelType):
                found.update(dict.fromkeys(self._parts_of(value)))
            else:
                found[self._fit(value)] = None

        for op in ops:
            for value in used_by(op):
                need(value)
        for value in yields:
            need(value)
        return list(found)

    def _fit(self, value: Value) -> Value:
        """The value as it can be kept."""
        kind = result_type(value)
        axes = tuple(map(self._around.safe.of, kind.axes))
        if axes != kind.axes:
            builder = Builder()
            self._cut[value] = cut(builder, value, axes)
            self.parts += builder.ops
        return self._cut.get(value, value)

    def _parts_of(self, model: Value) -> list[Value]:
        assert isinstance(model.type, ModelType)
        if model not in self._leaves:
            names = [leaf.name for leaf in sorted_leaves(model.type)]
            builder = Builder()
            self._leaves[model] = [builder.op("leaf", model, path=name) for name in names]
            self.parts += builder.ops
        return self._leaves[model]

    def rewritten(self, ops: Sequence[Op], yields: Sequence[Value], read: Read, builder: Builder) -> tuple[Value, ...]:
        """Put the operations into the builder, each behind what it reads of the forward block; gives the yields. `read` makes what was
        kept."""
        names = dict(self.there)

        def have(value: Value) -> None:
            if value in names or value not in self.inside:
                return
            again = self._again.get(value)
            if again is not None:
                for operand in again.operands:
                    have(operand)
                (names[value],) = builder.emit(again.name, *renamed_values(again.operands, names), hints=(value.hint,), **again.attributes)
            elif isinstance(value.type, ModelType):
                leaves = self._parts_of(value)
                for leaf in leaves:
                    have(leaf)
                names[value] = builder.op("pack", *renamed_values(leaves, names), model=value.type)
            else:
                names[value] = cut(builder, read(builder, self._cut.get(value, value)), result_type(value).axes)

        self.inside.update(leaf for leaves in self._leaves.values() for leaf in leaves)
        for op in ops:
            with builder.at(op.span):
                for value in used_by(op):
                    have(value)
            builder.ops.append(renamed_op(op, names))
        for value in yields:
            have(value)
        return renamed_values(yields, names)


def _costs_little(op: Op) -> bool:
    is_number = isinstance(op.result.type, TensorType) and not op.result.type.axes
    return op.name in (*FROM_NOTHING, *PARTS_ONLY) or (is_number and isinstance(entry(op.name).lowering, Scalar))


def used_by(op: Op) -> Iterator[Value]:
    yield from op.operands
    for region in op.regions:
        yield from free_values(region)


def refuse_sizes_of_one_turn(forward: Op, backward: Sequence[Op], known_outside: Set[Symbol]) -> None:
    """E0804 where the way back through a loop or a branch has sizes that are known inside of the forward one only."""
    bound = bound_inside(forward.regions) - known_outside
    if not bound:
        return
    for op in walk_ops(backward):
        parts = (*op.attributes.values(), *(value.type for value in (*op.operands, *op.results)))
        symbol = next((symbol for part in parts for symbol in symbols_in(part) if symbol in bound), None)
        if symbol is not None:
            what = "loop" if forward.name in LOOPS else "condition"
            message = f"the gradient needs a tensor with an axis of {symbol}, and can't keep it: that size is known inside of a {what} only"
            help = f"take slices of a length that is known before the {what}"
            raise CompileError(Diagnostic("E0804", message, op.span or forward.span, help=help))
