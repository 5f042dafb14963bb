"""A region in two: as it is done the first time, and as it is done again, without what is done only once.

A mode's draw and what the host gives aren't had again by asking again. The first time they come out of the region, and where it is done
again they come in: out of a loop on a tape, out of an `if` as further results.
"""

from __future__ import annotations

from collections.abc import Sequence

from shapescript.compiler.diagnostics.model import CompileError, Diagnostic
from shapescript.compiler.ir.nodes import Block, Op, Value, walk_ops
from shapescript.compiler.ir.sizes import Size
from shapescript.compiler.ir.types import TensorType
from shapescript.compiler.ops.build import Builder, rebuilt
from shapescript.compiler.ops.storage import LOOPS
from shapescript.compiler.ops.table import Host, entry
from shapescript.compiler.passes.kept_by_branches import KeptByBranches
from shapescript.compiler.passes.renaming import copied, renamed, renamed_values
from shapescript.compiler.passes.tapes import Tapes
from shapescript.compiler.records.dataclass import dataclass

APART = ("checkpoint", "isolated")


def is_done_once(op: Op) -> bool:
    """Whether the operation gives something that it would not give again."""
    is_asked = op.name == "mode_draw" or (isinstance(entry(op.name).lowering, Host) and entry(op.name).ordered)
    return is_asked and bool(op.results)


def has_done_once(op: Op) -> bool:
    return any(map(is_done_once, walk_ops((op,))))


@dataclass(frozen=True)
class Split:
    """`first` yields what `again` uses of it behind the region's own yields; `again` knows it by the names `given`."""

    first: Block
    given: tuple[Value, ...]
    again: Block

    def forward(self, op: Op) -> Op:
        return rebuilt(op, op.operands, (self.first,), (*op.results, *self.given))


def split_done_once(region: Block, turns: dict[Op, Size]) -> Split:
    """The first has values of its own. Adds the turns of the loops that are made. Raises CompileError E0804 where what is done once would
    have to come out of a loop without a known number of turns, or is no tensor and in control flow."""
    splitting = _Splitting(turns)
    first, again, out = splitting.ops(region.ops)
    names: dict[Value, Value] = {}
    ops = copied(first, names)
    given = tuple(Value(value.type, value.hint) for value in out)
    known = dict(zip(out, given, strict=True))
    return Split(
        Block((), tuple(ops), renamed_values((*region.yields, *out), names)),
        given,
        Block((), tuple(splitting.renamed(again, known)), renamed_values(region.yields, known)),
    )


class _Splitting:
    def __init__(self, turns: dict[Op, Size]) -> None:
        self.turns = turns

    def renamed(self, ops: Sequence[Op], names: dict[Value, Value]) -> list[Op]:
        """With the turns of the loops in them."""
        found = renamed(ops, names)
        for old, new in zip(walk_ops(ops), walk_ops(found), strict=True):
            if old in self.turns:
                self.turns[new] = self.turns[old]
        return found

    def ops(self, ops: Sequence[Op]) -> tuple[list[Op], list[Op], list[Value]]:
        """As done first, as done again, and what comes out of the one and into the other."""
        first: list[Op] = []
        again: list[Op] = []
        out: list[Value] = []
        for op in ops:
            if is_done_once(op):
                first.append(op)
                out += op.results
            elif not has_done_once(op):
                first.append(op)
                again.append(op)
            else:
                ours, theirs, more = self.control(op)
                first += ours
                again.append(theirs)
                out += more
        return first, again, out

    def control(self, op: Op) -> tuple[Sequence[Op], Op, Sequence[Value]]:
        parts = [self.ops(region.ops) for region in op.regions]
        if op.name not in APART:
            self.refuse_what_cannot_come_out(op, [value for _, _, out in parts for value in out])
        if op.name == "for_range":
            return self.loop(op, *parts[0])
        kept = KeptByBranches(op, [out for _, _, out in parts])
        regions = []
        for branch, (region, (_, again, out)) in enumerate(zip(op.regions, parts, strict=True)):
            names = {value: kept.result(branch, value) for value in out}
            regions.append(Block((), tuple(self.renamed(again, names)), renamed_values(region.yields, names)))
        return [kept.forward([first for first, _, _ in parts])], rebuilt(op, op.operands, regions, op.results), kept.results

    def loop(self, op: Op, first: list[Op], again: list[Op], out: list[Value]) -> tuple[Sequence[Op], Op, Sequence[Value]]:
        (body,) = op.regions
        tapes = Tapes(op, first, out, self.turns[op])
        builder = Builder(op.span)
        turn = builder.op("sub", body.parameters[0], op.operands[0])
        names = {value: tapes.read(builder, value, turn) for value in out}
        builder.ops += self.renamed(again, names)
        region = builder.block(body.parameters, renamed_values(body.yields, names), body.symbols)
        done = rebuilt(op, op.operands, (region,), op.results)
        self.turns[done] = self.turns[op]
        return tapes.forward(), done, [tape.result for tape in tapes.tapes]

    def refuse_what_cannot_come_out(self, op: Op, values: Sequence[Value]) -> None:
        is_uncounted = op.name in LOOPS and op.name != "for_range"
        if is_uncounted or not all(isinstance(value.type, TensorType) for value in values):
            (culprit, *_) = [inner for inner in walk_ops((op,)) if is_done_once(inner)]
            message = f"{culprit.name} is done once, and what it gave can't be kept for when the checkpoint's value is computed again"
            raise CompileError(Diagnostic("E0804", message, culprit.span or op.span, help="do it outside of checkpoint(...)"))
