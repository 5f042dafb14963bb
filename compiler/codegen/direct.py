"""Examples that lie in memory, in the dataset's own order: read where they lie, copied apart only where their rows overlap or have gaps."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.block import UNHEARD_OF_BYTES
from shapescript.compiler.codegen.emit import I64, PTR, Builder, Value, at
from shapescript.compiler.codegen.lowering import Lowering
from shapescript.compiler.codegen.memory import ALIGNMENT
from shapescript.compiler.codegen.orders import copy_rows, example_bytes, field_address, rows_follow
from shapescript.compiler.ir import nodes


class Direct:
    """Fields of a dataset, by their places in the record, for values of the program. `in_place` (I1): their rows follow each other."""

    def __init__(self, low: Lowering, block: Value, fields: Mapping[int, nodes.Value]) -> None:
        self.low, self.block, self.fields = low, block, fields
        self.in_place = rows_follow(low, block, fields)

    def room(self, count: Value) -> Value:
        """The bytes that copies of so many examples need: none where rows follow; where it would wrap, more than any machine has."""
        if not self.fields:
            return I64(0)
        b = self.low.b
        total: emit.Size = 0
        for value in self.fields.values():
            total = extents.plus(b, total, extents.round_up(b, extents.times(b, count, example_bytes(value)), ALIGNMENT))
        most = UNHEARD_OF_BYTES // sum(example_bytes(value) + ALIGNMENT for value in self.fields.values())
        bytes_ = b.select(b.icmp_signed(">", count, I64(most)), I64(UNHEARD_OF_BYTES), emit.size(total))
        return b.select(self.in_place, I64(0), bytes_)

    def pieces(self, start: Value, count: Value, memory: Value) -> dict[int, Value]:
        """Where `count` examples from `start` on begin, for each field: in the dataset, or copies in the memory."""
        b, low = self.low.b, self.low
        copies: dict[int, Value] = {}
        for field, value in self.fields.items():  # one copy behind the other
            copies[field] = memory
            memory = at(b, memory, extents.round_up(b, extents.times(b, count, example_bytes(value)), ALIGNMENT), emit.I8)
        if self.fields:
            with b.if_then(b.not_(self.in_place), likely=False):
                copy_rows(low, start, count, self.block, self.fields, copies)
        found: dict[int, Value] = {}
        for field, value in self.fields.items():
            here = at(b, field_address(low, self.block, field), extents.times(b, start, example_bytes(value)), emit.I8)
            found[field] = b.select(self.in_place, here, copies[field])
        return found


def either(b: Builder, condition: Value, yes: Callable[[], dict[int, Value]], no: Callable[[], dict[int, Value]]) -> dict[int, Value]:
    """The pointers that one of the two gives, which one decided by the run; `no` is likely."""
    arrived: list[tuple[dict[int, Value], object]] = []
    with b.if_else(condition, likely=False) as branches:
        for branch, give in zip(branches, (yes, no), strict=True):
            with branch:
                pointers = give()
                arrived.append((pointers, b.block))
    found: dict[int, Value] = {}
    for field in arrived[0][0]:
        found[field] = b.phi(PTR)
        for pointers, block in arrived:
            found[field].add_incoming(pointers[field], block)
    return found
