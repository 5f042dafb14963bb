"""Records for logs that wait in a call's context until Python takes them, all at once and in their order.

They wait for half a poll's time and the rest of a loop's turn at most, and never behind anything that shows: before Python does another of
the program's operations, when it is polled, and at the call's end, it takes them. The words of the context for them:

    one for each place in the program that writes records: 1 more than the number of the sink that it has written to in this call, 0 where
    it has written none: what a sink has against a record is to show where the first one is written
    the records: the number of the place's site, then the operands as in the exchange (lower_host.py): the sink's object, the fields
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from shapescript.compiler.codegen.context import WORD_BYTES, Word
from shapescript.compiler.codegen.lowering import Site
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.types import Element, TensorType, Type
from shapescript.compiler.records.dataclass import dataclass

SITE_WORDS = 1
ROOM_WORDS = 4096  # for records


def record_sites(sites: Sequence[Site]) -> list[int]:
    """The numbers of the sites that write records; the n-th has the n-th word."""
    return [number for number, site in enumerate(sites) if site.kind == "host" and site.op is not None and site.op.name == "write"]


def record_words(op: Op) -> int:
    return SITE_WORDS + len(op.operands)


def block_words(sites: Sequence[Site]) -> int:
    """How many words of a context are for records."""
    places = len(record_sites(sites))
    return places + ROOM_WORDS if places else 0


@dataclass(frozen=True)
class _Form:
    """How the records of one place in the program lie in memory."""

    op: Op
    words: int
    unpack: Callable[[memoryview, int], tuple[Any, ...]]  # the operands, from the byte where the first lies; of objects their numbers
    objects: tuple[int, ...]  # which operands are objects

    @staticmethod
    def of(op: Op) -> _Form:
        kinds = [operand.type for operand in op.operands]
        objects = tuple(place for place, kind in enumerate(kinds) if not isinstance(kind, TensorType))
        return _Form(op, record_words(op), struct.Struct("=" + "".join(map(_code, kinds))).unpack_from, objects)


def _code(kind: Type) -> str:
    if not isinstance(kind, TensorType) or kind.element is Element.I64:
        return "q"
    return "d" if kind.element.is_float else "?7x"


class LateRecords:
    """The records of the calls that use one context, whose words are these and of which those from `first` to `end` are for records."""

    def __init__(self, sites: Sequence[Site], words: memoryview, address: int, first: int, end: int) -> None:
        numbers = record_sites(sites)
        self._words, self._address = words, address
        self._forms = {number: _Form.of(op) for number in numbers if (op := sites[number].op)}
        self._flags, self._first = range(first, first + len(numbers)), first + len(numbers)
        words[Word.RECORDS], words[Word.RECORDS_END] = address + WORD_BYTES * first, address + WORD_BYTES * end
        self.forget()

    @property
    def wait(self) -> bool:
        return self._end() > self._first

    def forget(self) -> None:
        """Nothing waits, and no place has written to a sink: a call has ended, or an object gets a number that another had."""
        for flag in self._flags:
            self._words[flag] = 0
        self._words[Word.RECORDS_DUE] = 0
        self._clear()

    def take(self, object_of: Callable[[int], Any], write: Callable[[Op, Sequence[Any]], Any]) -> None:
        """Write what waits. A record that can't be written ends the call, which then would not have come to those behind it; so does an
        interrupt, behind which a record would stand where one is missing."""
        place, end = self._first, self._end()
        try:
            while place < end:
                form = self._forms[self._words[place]]
                operands = list(form.unpack(self._words, WORD_BYTES * (place + SITE_WORDS)))
                for object_ in form.objects:
                    operands[object_] = object_of(operands[object_])
                write(form.op, operands)
                place += form.words
        finally:
            self._clear()

    def _end(self) -> int:
        return (self._words[Word.RECORDS_NEXT] - self._address) // WORD_BYTES

    def _clear(self) -> None:
        self._words[Word.RECORDS_NEXT] = self._address + WORD_BYTES * self._first
