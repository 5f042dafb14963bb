"""Arguments and results as words of a call's context: sizes bound and checked, addresses taken, results made.

What a call of a function does here depends on its types alone, so it is written out once as Python source: with loops over parameters it
took 9 µs a call, written out 1.4, beside 2 µs of native code for a small model's forward pass on one example. All words of a call are
written at once, its arena's and threads' too: three times by themselves they took 1 µs more.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from shapescript.compiler.codegen.callbacks import Frame
from shapescript.compiler.codegen.context import HEADER_WORDS, WORD_BYTES, ContextLayout, Word
from shapescript.compiler.codegen.memory import Chunk, aligned
from shapescript.compiler.codegen.pointers import DTYPES, address_of
from shapescript.compiler.codegen.thread_count import threads_now
from shapescript.compiler.codegen.workers import PROCESS
from shapescript.compiler.ir.flat import flat_layout, slot_layout
from shapescript.compiler.ir.nodes import Function
from shapescript.compiler.ir.sizes import Size, Symbol
from shapescript.compiler.ir.types import (
    MODE,
    DatasetType,
    Element,
    ModelType,
    OptimiserType,
    TensorType,
    Type,
)
from shapescript.compiler.numerics.optimisers import BLOCK_WORDS, KINDS
from shapescript.compiler.ops.binding import bind_sizes
from shapescript.compiler.ops.locations import is_late
from shapescript.compiler.ops.protocol import OptimiserState

# (arguments, the context's words, the arena's first chunk) to the storages of the results, None for those that have none before the call.
Marshal = Callable[[Sequence[Any], Any, Chunk], list[Any]]
Results = Callable[[Frame, list[Any]], list[Any]]  # those of a call that has ended, from these storages


def crossing(function: Function, layout: ContextLayout, symbols: Sequence[Symbol]) -> tuple[Marshal, Results]:
    """What enters a call's arguments, sizes and results into a context, and what takes the results from it. The first raises ExecutionError
    R1003 for sizes that don't fit."""
    written = _Source(function, symbols, layout)
    source = "\n".join(["def marshal(arguments, words, chunk):", *written.lines(), "def results(frame, storages):", written.last_line()])
    codes = [_format(value.type) for value in function.body.parameters] + ["q"] * (len(symbols) + function.results)
    first = HEADER_WORDS - Word.ARENA_NEXT

    def bind(arguments: Sequence[Any]) -> tuple[int, ...]:
        sizes = bind_sizes(function, arguments)
        return tuple(sizes.get(symbol, 0) for symbol in symbols)

    names: dict[str, Any] = {
        "bind": bind,
        "pack": struct.Struct("q" * first + "".join(codes)).pack_into,
        "address": address_of,
        "empty": np.empty,
        "aligned": aligned,
        "optimiser": _new_optimiser,
        "start": WORD_BYTES * Word.ARENA_NEXT,
        "threads_now": threads_now,
        "ready": PROCESS.ready,
        "types": [value.type for value in function.body.yields[: function.results]],
        **{element.value: dtype for element, dtype in DTYPES.items()},
    }
    exec(compile(source, f"<arguments of {function.name}>", "exec"), names)
    return names["marshal"], names["results"]


class _Source:
    """The lines of `marshal`: p0, p1, ... are arguments, n0, n1, ... the symbols' values, r0, r1, ... the results' storages."""

    def __init__(self, function: Function, symbols: Sequence[Symbol], layout: ContextLayout) -> None:
        self.first_result = layout.first_result
        self.parameters = [value.type for value in function.body.parameters]
        self.results = [value.type for value in function.body.yields[: function.results]]
        self.symbols = {symbol: f"n{place}" for place, symbol in enumerate(symbols)}

    def lines(self) -> Iterator[str]:
        names = [f"p{place}" for place in range(len(self.parameters))]
        if names:
            yield f"    {', '.join(names)}, = arguments"
        yield from self._sizes()
        yield from (f"    r{place} = {self._storage(kind)}" for place, kind in enumerate(self.results))
        words = [_argument(kind, name) for kind, name in zip(self.parameters, names, strict=True)]
        words += [*self.symbols.values(), *(self._result(kind, f"r{place}") for place, kind in enumerate(self.results))]
        yield "    threads, grain = threads_now()"
        call = ["chunk.start", "chunk.end", "chunk.address", str(len(names)), "threads", "ready(threads)", "grain"]
        yield f"    pack(words, start, {', '.join([*call, *words])})"
        yield f"    return [{', '.join(f'r{place}' for place in range(len(self.results)))}]"

    def last_line(self) -> str:
        """What isn't in a storage is read from its word."""
        if all(self._storage(kind) != "None" for kind in self.results):
            return "    return storages"
        found = [self._taken(kind, place) for place, kind in enumerate(self.results)]
        return f"    return [{', '.join(found)}]"

    def _taken(self, kind: Type, place: int) -> str:
        word = self.first_result + place
        match kind:
            case TensorType(Element.BOOL, ()):
                return f"frame.words[{word}] != 0"
            case TensorType(element, ()):
                return f"frame.{'numbers' if element.is_float else 'words'}[{word}]"
        return f"storages[{place}]" if self._storage(kind) != "None" else f"frame.result(types[{place}], {word})"

    def _sizes(self) -> Iterator[str]:
        """Nearly every axis is a known size or one symbol: those are read and compared here. Whatever else there is, and every failure,
        goes to `bind_sizes`, which knows all and words the errors."""
        bind = f"{', '.join(self.symbols.values())}{', ' if self.symbols else ''}"
        everything = f"    {bind}= bind(arguments)" if bind else "    bind(arguments)"
        shapes = {place: kind.axes for place, kind in enumerate(self.parameters) if isinstance(kind, TensorType) and kind.axes}
        has_data = any(isinstance(kind, DatasetType) for kind in self.parameters)
        if has_data or not all(self._is_simple(axis) for axes in shapes.values() for axis in axes):
            yield everything
            return
        bound: set[str] = set()
        for place, axes in shapes.items():
            yield f"    s{place} = p{place}.shape"
            tests = [f"len(s{place}) != {len(axes)}"]
            for axis, size in enumerate(axes):
                wanted = self._expression(size)
                if wanted in self.symbols.values() and wanted not in bound:
                    bound.add(wanted)
                    yield f"    {wanted} = s{place}[{axis}] if len(s{place}) > {axis} else -1"
                else:
                    tests.append(f"s{place}[{axis}] != {wanted}")
            yield f"    if {' or '.join(tests)}:"
            yield f"    {everything}"

    def _is_simple(self, size: Size) -> bool:
        return size.constant() is not None or self._expression(size) in self.symbols.values()

    def _expression(self, size: Size) -> str:
        """A size in Python."""
        constant = size.constant()
        if constant is not None:
            return str(constant)
        terms = [[*([] if count == 1 and monomial else [f"({count})"]), *map(self._symbol, monomial)] for monomial, count in size.terms]
        products = ["*".join(term) for term in terms]
        return products[0] if len(products) == 1 else f"({'+'.join(products)})"

    def _extent(self, axis: Size) -> str:
        """Of a result. What isn't a plain symbol may be below 0; native code finds that and fails."""
        return self._expression(axis) if self._is_simple(axis) else f"max({self._expression(axis)}, 0)"

    def _symbol(self, symbol: Symbol) -> str:
        if symbol.value is not None:
            return str(symbol.value)
        if symbol.quotient is None:
            return self.symbols[symbol]
        above, below = map(self._expression, symbol.quotient)
        return f"({above}//({below} or 1))"  # native code tests that it is exact

    def _storage(self, kind: Type) -> str:
        match kind:
            case TensorType(element, axes) if axes and not is_late(kind, self.symbols):
                return f"empty(({''.join(f'{self._extent(axis)}, ' for axis in axes)}), {element.value})"
            case ModelType():
                return f"aligned({flat_layout(kind).total})"
            case OptimiserType(name, model):
                return f"optimiser({name!r}, {slot_layout(model).total})"
        return "None"

    def _result(self, kind: Type, name: str) -> str:
        match kind:
            case TensorType(_, axes) if axes and not is_late(kind, self.symbols):
                return f"address({name})"
            case ModelType():
                return f"address({name})"
            case OptimiserType():
                return f"address({name}.block)"
        return "0"


def _format(kind: Type) -> str:
    return "d" if isinstance(kind, TensorType) and not kind.axes and kind.element.is_float else "q"


def _argument(kind: Type, name: str) -> str:
    match kind:
        case TensorType(element, ()):
            return name if element.is_float else f"int({name})"
        case TensorType() | ModelType():
            return f"address({name})"
        case OptimiserType() | DatasetType():
            return f"address({name}.block)"
        case _ if kind == MODE:
            return f"address({name}.block)"
    return "0"


def _new_optimiser(kind: str, total: int) -> OptimiserState:
    """With the slots that all of its kind have."""
    slots = KINDS[kind].slots
    state = OptimiserState(np.zeros(BLOCK_WORDS, np.int64), [None] * len(slots))
    for place, slot in enumerate(slots):
        if not slot.only_with:
            state.put(place, aligned(total))
    return state
