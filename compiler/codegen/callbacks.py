"""What Python does while native code runs: the host's operations, polling, and memory; and what it keeps for one call."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from shapescript.compiler.codegen.context import ContextLayout, Word
from shapescript.compiler.codegen.feeding import Feeds, columns
from shapescript.compiler.codegen.late_records import LateRecords
from shapescript.compiler.codegen.lower_host import answer_words, asked_words, operand_words
from shapescript.compiler.codegen.lowering import GROW, POLL, START_WORKERS, Site
from shapescript.compiler.codegen.measurement import Table
from shapescript.compiler.codegen.memory import Arena, aligned
from shapescript.compiler.codegen.pointers import DTYPES, address_of, bytes_at, tensor_at
from shapescript.compiler.codegen.target import Target
from shapescript.compiler.codegen.workers import PROCESS
from shapescript.compiler.ir.flat import flat_layout, slot_layout
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.types import DatasetType, Element, HandleType, ModelType, OptimiserType, OrderedType, TensorType, Type
from shapescript.compiler.numerics.optimisers import BLOCK_WORDS, FIRST_SLOT, KINDS, OptimiserKind
from shapescript.compiler.ops.protocol import Host, OptimiserState

POLL_NANOSECONDS = 50_000_000
FIRST_BUDGETS = {True: 1 << 27, False: 1 << 20}  # clock ticks between polls, on x86-64 and elsewhere, until a call has polled twice
LEAST_BUDGET, MOST_BUDGET = 1 << 12, 1 << 32

Callback = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


class Frame:
    """One call's context, objects and callback; used again by later calls, by one at a time."""

    def __init__(self, layout: ContextLayout, sites: Sequence[Site], target: Target, table: Table | None = None) -> None:
        self.layout, self.sites, self.target, self.table = layout, sites, target, table
        self.block = aligned(8 * layout.words).view(np.int64)
        self.block[:] = 0
        self.address: int = self.block.ctypes.data
        self.words = memoryview(self.block)  # type: ignore[arg-type]
        self.numbers = self.words.cast("B").cast("d")
        self.objects: Sequence[Any] = ()  # the caller's arguments; a list of the frame's own from the first question on
        self.feeds = Feeds()
        self.storages: Sequence[Any] = ()
        self.constants: dict[int, Any] = {}
        self.kept: list[Any] = []
        self.late: dict[int, Any] = {}
        self.host: Host | None = None
        self.error: BaseException | None = None
        self.arena: Arena | None = None
        self.was_asked = False  # whether the call has come back to Python
        self.was_polled = False
        self.seen = 0  # when it was polled last, or asked first: whole nanoseconds, since Python keeps memory for floats that have gone
        self.serves = True
        self._answers = self._serve()
        next(self._answers)
        self._callback = Callback(self._answers.send)
        self.words[Word.CALLBACK] = ctypes.cast(self._callback, ctypes.c_void_p).value or 0
        self.words[Word.BUDGET] = FIRST_BUDGETS[target.is_x86]
        self.words[Word.PROFILE] = table.address if table else 0
        self.records = LateRecords(sites, self.words, self.address, layout.first_record, layout.words) if layout.records else None

    def begin(self, host: Host, arguments: Sequence[Any], storages: Sequence[Any], arena: Arena) -> None:
        """For a call whose words have been written."""
        self.host, self.objects, self.storages, self.arena = host, arguments, storages, arena
        self.was_asked = False

    def end(self) -> None:
        """Write what waits for a log, and let go of what the call used."""
        try:
            if self.was_asked:
                self._take_records()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        try:
            if self.was_asked:
                self.feeds.close_all()
        finally:
            if self.was_asked and self.records:
                self.records.forget()
            self.host = self.arena = None
            self.objects = self.storages = ()
            if self.was_asked:
                self.error = None
                self.constants.clear()
                self.late.clear()
                self.kept.clear()

    # ---- answering

    def _serve(self) -> Generator[int, int, None]:
        """Answers one request after another. A generator, because an interrupt that arrives while native code runs is raised where Python
        goes on: here that is inside the `try`, in a function it would be before its first statement."""
        try:
            while True:
                try:
                    while True:
                        self._answer((yield 0))
                        self.words[Word.ANSWERED] = 1
                except GeneratorExit:
                    return
                except BaseException as error:  # native code ends the call; it is raised again when that has returned
                    self.error = error
                    self.words[Word.ANSWERED] = 0  # an interrupt may have come just after the answer: it ends the call too
        finally:
            self.serves = False

    def _answer(self, request: int) -> None:
        if not self.was_asked:
            self.was_asked, self.was_polled, self.seen, self.objects = True, False, time.monotonic_ns(), list(self.objects)
        if request not in (GROW, START_WORKERS):
            self._take_records()
        if request == POLL:
            self._poll()
        elif request == GROW:
            assert self.arena is not None
            self.arena.grow(self.words, self.words[Word.DETAIL])
        elif request == START_WORKERS:
            self._start_workers()
        elif (site := self.sites[request]).kind == "host":
            assert site.op is not None
            self._perform(site.op)
        elif site.kind == "slot":
            self._make_slot(*map(int, site.data))
        elif site.kind == "late result":
            place, element, rank = site.data
            self._make_result(int(place), str(element), int(rank))
        else:
            self._feed(site)

    def _take_records(self) -> None:
        if self.records and self.records.wait:
            assert self.host is not None
            self.records.take(self.object, self.host.perform)

    def _poll(self) -> None:
        now = time.monotonic_ns()
        elapsed, self.seen = now - self.seen, now
        if self.was_polled:
            ticks = self.words[Word.BUDGET] * POLL_NANOSECONDS // max(elapsed, 1000)
            self.words[Word.BUDGET] = min(max(ticks, LEAST_BUDGET), MOST_BUDGET)
        self.was_polled = True
        assert self.host is not None
        self.host.poll()

    def _start_workers(self) -> None:
        pool = PROCESS.started(self.target, self.words[Word.THREADS])
        self.words[Word.THREADS] = 1 if pool is None else min(self.words[Word.THREADS], len(pool.threads) + 1)
        self.words[Word.POOL] = 0 if pool is None else pool.address

    def _make_result(self, place: int, element: str, rank: int) -> None:
        first = self.layout.first_exchange
        shape = self.words[first : first + rank].tolist()
        try:
            self.late[place] = np.empty(shape, DTYPES[Element(element)])
        except ValueError as error:  # NumPy's, of more elements than it counts
            raise MemoryError(f"a result of shape {tuple(shape)}: {error}") from None
        self.words[place] = address_of(self.late[place])

    def _make_slot(self, word: int, place: int, total: int) -> None:
        """Give the caller's state whose block's address is in this word of the context a slot, not set to anything."""
        states = [state for state in (*self.objects, *self.storages) if isinstance(state, OptimiserState)]
        state = next(state for state in states if address_of(state.block) == self.words[word])
        state.put(place, aligned(total))

    def _perform(self, op: Op) -> None:
        assert self.host is not None
        place = self.layout.first_exchange
        operands = []
        for operand in op.operands:
            operands.append(self.read(operand.type, place, self.words[place + 1 : place + operand_words(operand.type)]))
            place += operand_words(operand.type)
        shapes = []
        for result in op.results:
            count = asked_words(result.type)
            shapes.append(tuple(self.words[place : place + count]))
            place += count
        self.kept.clear()
        results = self.host.perform(op, operands)
        for result, shape, value in zip(op.results, shapes, results, strict=True):
            self._write(result.type, shape, value, place)
            place += answer_words(result.type)

    def _feed(self, site: Site) -> None:
        """What codegen/feeds.py lists."""
        assert self.host is not None and site.op is not None
        first = self.layout.first_exchange
        answer: list[int] = []
        match site.kind:
            case "open feed":
                answer = [self.feeds.open(self.host, site.op, self.object(self.words[first]), self.words[first + 1 : first + 5].tolist())]
            case "take batches":
                answer = self.feeds.take(site.op, self.words[first], self.words[first + 1])
            case "close feed":
                self.feeds.close(self.words[first])
            case "all":
                arrays, answer = columns(self.host, site.op, self.object(self.words[first]), [int(field) for field in site.data])
                self._new_object(arrays)  # they stay as long as an object does
        for place, word in enumerate(answer):
            self.words[first + place] = word

    # ---- values

    def _new_object(self, value: Any) -> int:
        """Its number, that of one which the program has let go of where there is such."""
        assert isinstance(self.objects, list)
        number = self.words[Word.OBJECTS]
        if number < len(self.objects):  # another had this number
            del self.objects[number:]
            if self.records:
                self.records.forget()
        self.objects.append(value)
        self.words[Word.OBJECTS] = number + 1
        return number

    def object(self, number: int) -> Any:
        self.was_asked = True
        if number >= 0:
            return self.objects[number]
        if number not in self.constants:
            op = self.sites[-number].op
            assert op is not None and self.host is not None
            (self.constants[number],) = self.host.perform(op, ())
        return self.constants[number]

    def read(self, kind: Type, place: int, shape: Sequence[int] = ()) -> Any:
        """A value of native code for the host to look at. Tensors are copies; models and optimisers are views, valid during the call.

        No `match`: with a pattern of a class CPython keeps a new name in its caches at each look, and a steady step keeps nothing."""
        if isinstance(kind, TensorType):
            if not kind.axes:
                return self.read_number(kind.element, place)
            return tensor_at(self.words[place], kind.element, tuple(shape)).copy()
        if isinstance(kind, ModelType):
            return bytes_at(self.words[place], flat_layout(kind).total)
        if isinstance(kind, OptimiserType):
            return _state_at(self.words[place], KINDS[kind.kind], slot_layout(kind.model).total)
        return self.object(self.words[place])

    def result(self, kind: Type, place: int) -> Any:
        """A result that is no number and has no storage before the call."""
        return self.late[place] if isinstance(kind, TensorType) else self.object(self.words[place])

    def read_number(self, element: Element, place: int) -> Any:
        if element.is_float:
            return self.numbers[place]
        return self.words[place] if element is Element.I64 else bool(self.words[place])

    def write_number(self, element: Element, place: int, value: Any) -> None:
        if element.is_float:
            self.numbers[place] = value
        else:
            self.words[place] = int(value)

    def _write(self, kind: Type, shape: tuple[int, ...], value: Any, place: int) -> None:
        if isinstance(kind, HandleType | DatasetType | OrderedType):
            self.words[place] = self._new_object(value)
            if answer_words(kind) == 2:
                self.words[place + 1] = address_of(value.block)
        elif isinstance(kind, ModelType):
            self._keep(_buffer(value, flat_layout(kind).total), place)
        elif isinstance(kind, OptimiserType):
            optimiser = KINDS[kind.kind]
            for slot in optimiser.slots_of(value.constants(optimiser)):
                _buffer(value.slot(optimiser, slot), slot_layout(kind.model).total)
            self.kept.append(value)
            self._keep(value.block, place)
        elif not kind.axes:
            self.write_number(kind.element, place, value)
        else:
            array = np.ascontiguousarray(value, DTYPES[kind.element])
            if array.shape != shape:
                raise ValueError(f"the host gave a tensor of shape {array.shape} where {shape} was asked")
            self._keep(array, place)

    def _keep(self, array: Any, place: int) -> None:
        """Native code copies the array's elements right after the callback; until the next one it stays alive."""
        self.kept.append(array)
        self.words[place] = address_of(array)


def _state_at(address: int, kind: OptimiserKind, total: int) -> OptimiserState:
    """A view of native code's state."""
    block = bytes_at(address, 8 * BLOCK_WORDS).view(np.int64)
    state = OptimiserState(block, [None] * len(kind.slots))
    for slot in kind.slots_of(state.constants(kind)):
        place = kind.slots.index(slot)
        state.slots[place] = bytes_at(int(block[FIRST_SLOT + place]), total)
    return state


def _buffer(value: Any, count: int) -> Any:
    if value.dtype != np.uint8 or value.shape != (count,) or not value.flags.c_contiguous:
        raise ValueError(f"the host gave a buffer of {value.shape} {value.dtype} where {count} bytes were asked")
    return value
