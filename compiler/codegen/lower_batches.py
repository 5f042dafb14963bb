"""Loops over batches: of a dataset in its own order, of an order that native code computes, and of what the host feeds."""

from __future__ import annotations

from collections.abc import Callable

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.direct import Direct, either
from shapescript.compiler.codegen.emit import I64, Value, at, load
from shapescript.compiler.codegen.feeds import FedLoop
from shapescript.compiler.codegen.lower_control import counted_loop
from shapescript.compiler.codegen.lowering import Lowering, Site, lowers
from shapescript.compiler.codegen.orders import (
    ORDER_KIND,
    SIZE,
    Window,
    example_bytes,
    gather,
    is_fed,
    window_capacity,
    window_words,
)
from shapescript.compiler.codegen.storage import copy_storage
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.sizes import number, of, sum_of
from shapescript.compiler.ir.types import OrderedType
from shapescript.compiler.ops import protocol
from shapescript.compiler.ops.locations import storage_bytes
from shapescript.compiler.ops.storage import LOOPS


@lowers("for_batches")
def _for_batches(low: Lowering, op: Op) -> None:
    _Loop(low, op).build()


class _Loop:
    def __init__(self, low: Lowering, op: Op) -> None:
        self.low, self.op = low, op
        self.data, *self.numbers = op.operands[: LOOPS["for_batches"]]
        (body,) = op.regions
        self.symbol = body.symbols[0]
        own = len(body.parameters) - len(op.operands[LOOPS["for_batches"] :])
        self.carried = body.parameters[own:]
        self.fields: dict[int, nodes.Value] = {place: value for place, value in enumerate(body.parameters[:own]) if low.has_place(value)}
        self.feed = FedLoop(low, op, self.fields, own)

    def build(self) -> None:
        low, b = self.low, self.low.b
        self.object, self.block = low.values[self.data][:2]
        rows = load(b, at(b, self.block, SIZE, I64), I64)
        self.start, self.end, self.size = self._limits(rows)
        if isinstance(self.data.type, OrderedType):
            self.fed = b.icmp_signed("==", load(b, at(b, self.block, ORDER_KIND, I64), I64), I64(protocol.FED))
            self._in_an_order(rows, self.data.type.repeats)
        else:
            self.fed = is_fed(b, self.block)
            self._in_its_own_order()

    def _limits(self, rows: Value) -> tuple[Value, Value, Value]:
        """The first place, the end, and the size of a batch, no more than there are examples. R1102, R1107."""
        low, b = self.low, self.low.b
        size, drops, start, _ = map(low.number, self.numbers)
        from_the_first = b.icmp_signed("==", start, I64(0))
        too_few = b.and_(b.and_(drops, from_the_first), b.icmp_signed("<", rows, size))
        nothing = b.or_(b.icmp_signed("<=", size, I64(0)), b.or_(b.icmp_signed("==", rows, I64(0)), too_few))
        low.fail_if(nothing, Site("no batches", self.op), [rows, size, b.zext(drops, I64)])
        outside = b.or_(b.icmp_signed("<", start, I64(0)), b.icmp_signed(">", start, rows))
        low.fail_if(outside, Site("start", self.op), [start, rows])
        size = emit.size(extents.least(b, size, rows))
        whole = b.mul(b.sdiv(b.sub(rows, start), size), size)
        return start, b.select(drops, b.add(start, whole), rows), size

    def _in_its_own_order(self) -> None:
        low, b = self.low, self.low.b
        rows = Direct(low, self.block, self.fields)
        with low.scratch(b.select(self.fed, I64(0), rows.room(self.size)) if self.fields else 0) as memory:

            def borrow(start: Value) -> None:
                count = emit.size(low.size(of(self.symbol)))
                found = either(b, self.fed, lambda: self.feed.addresses(start), lambda: rows.pieces(start, count, memory))
                low.borrowed.update((value, found[field]) for field, value in self.fields.items())

            self._turns(borrow)

    def _in_an_order(self, places: Value, repeats: bool) -> None:
        low, b = self.low, self.low.b
        data_block = low.values[self.data][2]
        capacity = window_capacity(b, places, self.size)
        with low.scratch(b.select(self.fed, I64(0), emit.size(extents.times(b, window_words(b, capacity), 8)))) as memory:
            window = Window(low.values[self.data], memory, capacity, repeats)
            with b.if_then(b.not_(self.fed)):
                window.clear(b)

            def fill(start: Value) -> None:
                examples = low.size(of(self.symbol))
                with b.if_else(self.fed, likely=False) as (is_fed_, is_computed):
                    with is_fed_:
                        for field, here in self.feed.addresses(start).items():
                            value = self.fields[field]
                            copy_storage(low, low.pointer(value), here, extents.times(b, examples, example_bytes(value)))
                    with is_computed:
                        gather(low, window.rows(low, start, self.end, examples), examples, data_block, self.fields)

            bytes_ = sum_of(storage_bytes(value.type) for value in self.fields.values()) * number(2)

            def measured_fill(start: Value) -> None:
                with low.measured_part(self.op, "batch", bytes_):
                    fill(start)

            self._turns(measured_fill)

    def _turns(self, fill: Callable[[Value], None]) -> None:
        """The loop itself, between the opening and the closing of its feed where it needs one."""
        low, b = self.low, self.low.b
        opens = b.and_(self.fed, b.icmp_signed("<", self.start, self.end))
        with b.if_then(opens, likely=False):
            self.feed.open([self.object, self.size, self.start, self.end, low.number(self.numbers[-1])])

        def begin(start: Value) -> None:
            low.sizes.bind(self.symbol, emit.size(extents.least(b, b.sub(self.end, start), self.size)))

        operands = self.op.operands[LOOPS["for_batches"] :]
        counted_loop(low, (self.start, self.end, self.size), operands, self.op, self.carried, begin, fill)
        with b.if_then(opens, likely=False):
            self.feed.close()
