"""The end of a row that a mask fills with one number, as where attention's scores lie in the future: it isn't walked along.

What is computed there is the same all along, so one number says it: the greatest element takes it in once, a sum leaves it out where it
is a zero, and what is stored there is stored without being computed. Only where a sum would take in another number the whole row is walked
along. The bits are those of the whole row: to add a zero changes nothing but the sign of a zero, which one +0.0 decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.elements import constant, emit_region
from shapescript.compiler.codegen.emit import I1, LANES, Builder, Value
from shapescript.compiler.codegen.reductions import Reduction
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.nodes import Block, Op
from shapescript.compiler.passes.masked_tiles import Ascending, filled_ends
from shapescript.compiler.passes.reduction_walks import Walk
from shapescript.compiler.records.dataclass import dataclass

SHORTEST = 256  # elements of a row: shorter ones are walked along sooner than their ends are looked for


@dataclass(frozen=True)
class RowTail:
    """`parameter`, of the reduction's region, is the number that `filling` gives from the place on where `where` holds."""

    parameter: nodes.Value
    filling: Op
    where: Ascending

    @property
    def key(self) -> object:
        return self.where, repr(self.filling.attributes["value"])

    def start(self, b: Builder, index: emit.Size, count: emit.Size) -> emit.Size:
        """A place from which on it holds in the row whose index is given: whole vectors, at least one, lie before it."""
        first = extents.plus(b, index, 1 if self.where.strict else 0)
        return extents.least(b, extents.most(b, extents.round_up(b, first, LANES), LANES), count)


def tail_of(product: Block, reduction: Op, place: int) -> RowTail | None:
    """Of a product's rows, which the reduction reads as its operand number `place`."""
    length, found = reduction.attributes["space"][-1].constant(), filled_ends(product, reduction, place)
    if found is None or length is None or length < SHORTEST:
        return None
    return RowTail(reduction.regions[0].parameters[place], *found)


class KnownTail:
    """What is the same along one row's end, walk by walk."""

    def __init__(self, b: Builder, tail: RowTail, start: emit.Size) -> None:
        self.b, self.start = b, start
        self.known: dict[nodes.Value, Value] = {tail.parameter: constant(tail.filling)}

    def begin(self, walk: Walk, once: Mapping[nodes.Value, Value]) -> None:
        ops = tuple(op for op in walk.points if op.result not in self.known)
        block = Block((), ops, tuple(op.result for op in ops))
        self.known.update(zip(block.yields, emit_region(self.b, block, {**once, **self.known}), strict=True))

    def reduced(self, walk: Walk) -> list[Value]:
        return [self.known[op.operands[0]] for op in walk.reduced]

    def is_left_out(self, walk: Walk) -> Value:
        """Whether no sum of the walk changes by it."""
        b, found = self.b, I1(1)
        for op, value in zip(walk.reduced, self.reduced(walk), strict=True):
            if op.attributes["kind"] in ("sum", "mean"):
                found = b.and_(found, b.fcmp_ordered("==", value, emit.constant(0.0, value.type)))
        return found


def joined(b: Builder, reductions: Sequence[Reduction], found: Sequence[Value], ends: Sequence[Value], is_there: Value) -> list[Value]:
    """What rows give with their ends, where these are there and were left out."""
    grown = (reduction.combine(b, value, end) for reduction, value, end in zip(reductions, found, ends, strict=True))
    return [b.select(is_there, more, value) for more, value in zip(grown, found, strict=True)]
