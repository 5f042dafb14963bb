"""Storages that are rows of another one, where nothing has to be moved: what a `slice` along the first axis takes is read where it lies,
and what a `put` puts there is computed there. So a loop's tapes (passes/tapes.py), and what it does for each place of a tensor, cost no
copies.

A slice is a row of its tensor while nothing is written there: up to the last operation that reads it. What is put is a row from the
operation that makes it on, so nothing may read the tensor from there up to the `put`, and nothing write to it while the row itself is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from shapescript.compiler.ir.nodes import Block, Op, Value, values_read, walk
from shapescript.compiler.ir.types import TensorType
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.ops.locations import RowStorage
from shapescript.compiler.ops.storage import Place, is_stored, overwritten
from shapescript.compiler.ops.table import View, entry
from shapescript.compiler.records.dataclass import dataclass


@dataclass(frozen=True)
class Row:
    """Where a storage lies: in the tensor `whole`, or in a part of it."""

    root: Value
    storage: RowStorage


class BlockRows:
    """Finds the rows among the storages that a block makes. `last`: the last operation that reads a value, their number for the end."""

    def __init__(
        self,
        block: Block,
        inside: Callable[[Value], Place],
        places: Mapping[Value, Place],
        lying: Mapping[Value, Sequence[Value]],
        last: Mapping[Value, int],
    ) -> None:
        """`inside`: where a value lies; where that is a row by now, what it is a row of."""
        self.block, self.inside, self.places, self.lying, self.last = block, inside, places, lying, last
        self.made = {result: index for index, op in enumerate(block.ops) for result in op.results}
        self.written = [set(self._written(op)) for op in block.ops]
        operands = (op.operands[place] for outer in block.ops for op in _with_inner(outer) for place in overwritten(op))
        self.taken = {places[operand].root for operand in operands if operand in places}

    def slices(self) -> Iterator[Row]:
        for index, op in enumerate(self.block.ops):
            if op.name != "slice" or not is_stored(op.result) or not _fits(op, op.operands[0], op.result):
                continue
            end, inside = self._last(op.result), self.inside(op.operands[0]).root
            if op.result in self.taken or end == len(self.block.ops) or self._is_written(inside, index + 1, end):
                continue
            if any(reader.name == "pack" and self._reads(reader, op.result) for reader in self.block.ops[index:]):
                continue
            yield Row(op.result, RowStorage(op.operands[0], op.operands[1], result_type(op.result).axes[0]))

    def puts(self, starts: Mapping[Value, int], homes: Sequence[Place | None]) -> Iterator[Row]:
        """`starts`: the operations that make the storages that have no place yet; `homes`: the places that the block's yields end in."""
        found: set[Value] = set()
        for index, op in enumerate(self.block.ops):
            if op.name != "put" or op.operands[1] not in self.places or not _fits(op, op.operands[0], op.operands[1]):
                continue
            whole, part, start = op.operands
            root, inside = self.places[part].root, self.inside(whole).root
            first, end = starts.get(root, -1), self._last(root)
            if first < 0 or root in self.taken or root in found or self.places[part].path or not isinstance(root.type, TensorType):
                continue
            if max(self.made.get(whole, -1), self.made.get(start, -1), self.made.get(inside, -1)) >= first:
                continue
            if any(self._reads(earlier, inside) for earlier in self.block.ops[first:index]) or self._is_written(inside, first, index - 1):
                continue
            if self._is_written(inside, index + 1, end) or (end == len(self.block.ops) and self._is_moved_to(inside, homes)):
                continue
            found.add(root)
            yield Row(root, RowStorage(whole, start, result_type(part).axes[0]))

    def _last(self, root: Value) -> int:
        return max((self.last[value] for value in self.lying[root] if value in self.last), default=-1)

    def _written(self, op: Op) -> Iterator[Value]:
        """The storages that an operation writes to, those in its regions too."""
        for inner in _with_inner(op):
            if not isinstance(entry(inner.name).lowering, View):
                yield from (self.inside(value).root for value in inner.results if value in self.places)
            yield from (self.inside(operand).root for place in overwritten(inner) if (operand := inner.operands[place]) in self.places)

    def _is_written(self, root: Value, first: int, last: int) -> bool:
        return any(root in written for written in self.written[first : last + 1])

    def _reads(self, op: Op, root: Value) -> bool:
        return any(value in self.places and root in (self.places[value].root, self.inside(value).root) for value in values_read(op))

    def _is_moved_to(self, root: Value, homes: Sequence[Place | None]) -> bool:
        """Whether the end of the block moves something else to a storage."""
        ends = zip(self.block.yields, homes, strict=True)
        return any(home is not None and home.root is root and self.inside(value).root is not root for value, home in ends)


def _with_inner(op: Op) -> Iterator[Op]:
    yield op
    for region in op.regions:
        yield from walk(region)


def _fits(op: Op, whole: Value, part: Value) -> bool:
    """Whether a part along the first axis is known to be no longer than the whole."""
    if op.attributes["position"] != 0:
        return False
    room = (result_type(whole).axes[0] - result_type(part).axes[0]).constant()
    return room is not None and room >= 0
