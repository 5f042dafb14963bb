"""The context of a call: one block of 64-bit words through which Python and native code speak to each other.

words 0 to 20      see Word
then               one word for each parameter: a number's bits (a float's as f64), or an address
                   one for each symbol that the arguments bind
                   one for each result: as above; for a handle the number of its object
then               the exchange: what a callback is given, and what it answers
then               records for logs that wait for Python (late_records.py)
"""

from __future__ import annotations

from enum import IntEnum

from shapescript.compiler.codegen import scalars
from shapescript.compiler.codegen.emit import F32, F64, I1, I16, I64, PTR, Builder, ElementType, Value, at
from shapescript.compiler.ir.types import Element
from shapescript.compiler.numerics.bfloat16 import from_bfloat16, to_bfloat16
from shapescript.compiler.numerics.scalar import Argument, Kind
from shapescript.compiler.records.dataclass import dataclass

ENTRY = "shapescript_entry"  # the exported function: it takes the address of a context
WORD_BYTES = 8
DETAILS = 4

TO_BF16, FROM_BF16 = to_bfloat16(Argument(0, Kind.F64)), from_bfloat16(Argument(0, Kind.U16))


class Word(IntEnum):
    """Words with a fixed place."""

    SITE = 0  # the site where native code left, 0 where it came to its end
    DETAIL = 1  # what the site tells: four words
    DEADLINE = 5  # the clock's reading at which the host is polled next
    BUDGET = 6  # clock ticks between polls
    CALLBACK = 7  # the address of the function that Python answers
    ANSWERED = 8  # 1 where the callback came to its end
    PROFILE = 9  # the address of the table of a function that is compiled to be measured
    RECORDS = 10  # the address of the words for records that wait (late_records.py)
    RECORDS_NEXT = 11  # that of the first free one, and their end
    RECORDS_END = 12
    RECORDS_DUE = 13  # the clock's reading from which on a record doesn't wait
    ARENA_NEXT = 14  # the arena's next free byte, the end of its chunk, and the chunk itself; from here on a call writes all at once
    ARENA_END = 15
    ARENA_CHUNK = 16
    OBJECTS = 17  # how many objects of Python's the call has: arguments first, then what callbacks made
    THREADS = 18  # how many threads the call may use
    POOL = 19  # the address of the block of a pool with so many, 0 where it isn't started
    GRAIN = 20  # picoseconds of work that are worth a thread


HEADER_WORDS = 21


@dataclass(frozen=True)
class ContextLayout:
    """How many words a function's context has of each sort."""

    parameters: int
    symbols: int
    results: int
    exchange: int = 0
    records: int = 0

    @property
    def first_symbol(self) -> int:
        return HEADER_WORDS + self.parameters

    @property
    def first_result(self) -> int:
        return self.first_symbol + self.symbols

    @property
    def first_exchange(self) -> int:
        return self.first_result + self.results

    @property
    def first_record(self) -> int:
        return self.first_exchange + self.exchange

    @property
    def words(self) -> int:
        return self.first_record + self.records


def word(b: Builder, context: Value, index: int) -> Value:
    """The address of a word."""
    return at(b, context, int(index), I64)


def load_word(b: Builder, context: Value, index: int, kind: ElementType = I64) -> Value:
    return b.load(word(b, context, index), align=WORD_BYTES, typ=kind)


def store_word(b: Builder, value: Value, context: Value, index: int) -> None:
    b.store(value, word(b, context, index), align=WORD_BYTES)


def load_number(b: Builder, context: Value, index: int, element: Element) -> Value:
    """A number without axes, as it is in registers."""
    if element is Element.F64:
        return load_word(b, context, index, F64)
    if element is Element.F32:
        return b.fptrunc(load_word(b, context, index, F64), F32)
    if element is Element.BF16:
        return scalars.emit(b, TO_BF16, [load_word(b, context, index, F64)])
    bits = load_word(b, context, index)
    return bits if element is Element.I64 else b.icmp_signed("!=", bits, I64(0))


def store_number(b: Builder, value: Value, context: Value, index: int) -> None:
    if value.type == I16:
        value = scalars.emit(b, FROM_BF16, [value])
    if value.type == F32:
        value = b.fpext(value, F64)
    elif value.type == I1:
        value = b.zext(value, I64)
    store_word(b, value, context, index)


def load_address(b: Builder, context: Value, index: int) -> Value:
    return load_word(b, context, index, PTR)
