"""Loops over examples that only the host can give: native code asks it to open a feed, for one run of examples after another, and to
close the feed at the loop's end. What a call leaves open Python closes when the call ends, however it does (codegen/feeding.py).

    site           the exchange before                           after
    open feed      the object's number, the batch's size,        the feed's number
                   first place, end, batches to read ahead
    take batches   the feed's number, the place                  how many examples there are from it on, each field's address
    close feed     the feed's number
    all            the dataset's object's number                 the address of each field asked for
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.context import load_address, load_word, store_word
from shapescript.compiler.codegen.emit import I64, PTR, Builder, Value, at, load, store
from shapescript.compiler.codegen.lowering import Lowering, Site
from shapescript.compiler.codegen.orders import example_bytes
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.nodes import Op

_NUMBER, _FIRST, _END, _FIELDS = range(4)  # words of a loop's feed: its number, the places that it has given, where each field's begin


class FedLoop:
    """One loop's feed. `fields`: the values of the program that are fields of a batch, by their places in the record; `count` is how many
    the record has. What is emitted here is reached only where the examples are fed."""

    def __init__(self, low: Lowering, op: Op, fields: Mapping[int, nodes.Value], count: int) -> None:
        self.low, self.op, self.fields, self.count = low, op, fields, count
        self.words = emit.stack(low.b, I64, _FIELDS + count)

    def open(self, numbers: Sequence[Value]) -> None:
        """`numbers`: the object's number, the batch's size, the first place, the end, how many batches to read ahead."""
        b = self.low.b
        self._ask("open feed", numbers, 1)
        store(b, load_word(b, self.low.context, self.low.layout.first_exchange), at(b, self.words, _NUMBER, I64))
        store(b, I64(0), at(b, self.words, _END, I64))

    def addresses(self, start: Value) -> dict[int, Value]:
        """Where each field of the examples from this place on lies, those of one batch at least."""
        b, low = self.low.b, self.low
        with b.if_then(b.icmp_signed(">=", start, load(b, at(b, self.words, _END, I64), I64)), likely=False):
            self._ask("take batches", [load(b, at(b, self.words, _NUMBER, I64), I64), start], 1 + self.count)
            first = low.layout.first_exchange
            store(b, start, at(b, self.words, _FIRST, I64))
            store(b, b.add(start, load_word(b, low.context, first)), at(b, self.words, _END, I64))
            for field in range(self.count):
                store(b, load_word(b, low.context, first + 1 + field), at(b, self.words, _FIELDS + field, I64))
        past = b.sub(start, load(b, at(b, self.words, _FIRST, I64), I64))
        return {
            field: at(b, self._field(b, field), extents.times(b, past, example_bytes(value)), emit.I8)
            for field, value in self.fields.items()
        }

    def close(self) -> None:
        self._ask("close feed", [load(self.low.b, at(self.low.b, self.words, _NUMBER, I64), I64)], 0)

    def _field(self, b: Builder, field: int) -> Value:
        return b.load(at(b, self.words, _FIELDS + field, I64), align=8, typ=PTR)

    def _ask(self, kind: str, numbers: Sequence[Value], answers: int) -> None:
        with self.low.measured_part(self.op, kind):
            ask_host(self.low, Site(kind, self.op), numbers, answers)


def ask_columns(low: Lowering, op: Op, number: Value, fields: Mapping[int, nodes.Value]) -> dict[int, Value]:
    """Where the host has put these fields of all examples of a fed dataset."""
    ask_host(low, Site("all", op, tuple(fields)), [number], len(fields))
    return {field: load_address(low.b, low.context, low.layout.first_exchange + place) for place, field in enumerate(fields)}


def ask_host(low: Lowering, site: Site, numbers: Sequence[Value], answers: int) -> None:
    """Have Python do what the site says with these I64; as many words are its answer."""
    for place, number in enumerate(numbers):
        store_word(low.b, number, low.context, low.layout.first_exchange + place)
    low.exchange_words = max(low.exchange_words, len(numbers), answers)
    low.call_host(site)
