"""Arguments and results as words of a call's context: sizes bound and checked, addresses taken, results made."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from shapescript.compiler.codegen.callbacks import OPTIMISER_WORDS, Frame
from shapescript.compiler.codegen.context import ContextLayout
from shapescript.compiler.codegen.memory import aligned
from shapescript.compiler.codegen.pointers import DTYPES, address_of
from shapescript.compiler.codegen.storage import FIRST, SECOND
from shapescript.compiler.ir.flat import flat_layout
from shapescript.compiler.ir.nodes import Function
from shapescript.compiler.ir.sizes import Size, Symbol, evaluate
from shapescript.compiler.ir.types import (
    MODE,
    DatasetType,
    ModelType,
    OptimiserType,
    OrderedType,
    TensorType,
    Type,
)
from shapescript.compiler.ops.binding import bind_sizes
from shapescript.compiler.ops.protocol import OptimiserState
from shapescript.compiler.passes.plan import is_late

Word = Callable[[Any], Any]


class Binder:
    """Binds symbols to the sizes of a call's arguments.

    Nearly every axis is a known size or one symbol: those are read and compared here. Whatever else there is, and every failure, goes to
    `bind_sizes`, which knows all and words the errors.
    """

    def __init__(self, function: Function, symbols: Sequence[Symbol]) -> None:
        self._function, self._symbols = function, tuple(symbols)
        self._known: list[tuple[int, int, tuple[tuple[int, int], ...]]] = []  # argument, rank, (axis, size)
        self._first: dict[Symbol, tuple[int, int]] = {}
        self._again: list[tuple[Symbol, int, int]] = []
        self._is_simple = True
        for place, value in enumerate(function.body.parameters):
            match value.type:
                case TensorType(_, axes) if axes:
                    self._tensor(place, axes)
                case DatasetType() | OrderedType():
                    self._is_simple = False

    def _tensor(self, place: int, axes: Sequence[Size]) -> None:
        constants = []
        for axis, size in enumerate(axes):
            number = size.constant()
            if number is not None:
                constants.append((axis, number))
            elif len(size.terms) == 1 and size.terms[0][1] == 1 and len(size.terms[0][0]) == 1 and size.terms[0][0][0] in self._symbols:
                (symbol,) = size.terms[0][0]
                if symbol in self._first:
                    self._again.append((symbol, place, axis))
                else:
                    self._first[symbol] = place, axis
            else:
                self._is_simple = False
        self._known.append((place, len(axes), tuple(constants)))

    def sizes(self, arguments: Sequence[Any]) -> dict[Symbol, int]:
        """Raises ExecutionError R1003."""
        if self._is_simple:
            if not self._known:
                return {}
            shapes = {place: arguments[place].shape for place, _, _ in self._known}
            fits = all(len(shapes[place]) == rank and all(shapes[place][axis] == size for axis, size in constants)
                       for place, rank, constants in self._known)
            if fits:
                found = {symbol: shapes[place][axis] for symbol, (place, axis) in self._first.items()}
                if all(shapes[place][axis] == found[symbol] for symbol, place, axis in self._again):
                    return found
        return bind_sizes(self._function, arguments)


def _identity(value: Any) -> Any:
    return value


def _block_address(value: Any) -> int:
    return address_of(value.block)


def _no_word(_: Any) -> int:
    return 0


def argument_word(kind: Type) -> tuple[str, Word]:
    """The struct format of a parameter's word, and how it is made of the argument."""
    match kind:
        case TensorType(element, ()):
            return ("d", _identity) if element.is_float else ("q", int)
        case TensorType() | ModelType():
            return "q", address_of
        case OptimiserType() | DatasetType():
            return "q", _block_address
        case _ if kind == MODE:
            return "q", _block_address
    return "q", _no_word


class Result:
    """One declared result: where native code writes it, and the value for the caller."""

    def __init__(self, kind: Type, place: int, symbols: Sequence[Symbol]) -> None:
        self.kind, self.place, self.is_late = kind, place, is_late(kind, symbols)

    def prepare(self, frame: Frame, sizes: dict[Symbol, int]) -> Any:
        """Make the storage, enter its address, and give it; None for what has none."""
        match self.kind:
            case TensorType(_, ()):
                return None
            case TensorType(element, axes) if not self.is_late:
                array = np.empty([_number(axis, sizes) for axis in axes], DTYPES[element])
                frame.words[self.place] = address_of(array)
                return array
            case ModelType():
                buffer = aligned(flat_layout(self.kind).total)
                frame.words[self.place] = address_of(buffer)
                return buffer
            case OptimiserType(_, model):
                total = flat_layout(model).total
                state = OptimiserState(np.zeros(OPTIMISER_WORDS, np.int64), aligned(total), aligned(total))
                state.block[FIRST], state.block[SECOND] = address_of(state.first), address_of(state.second)
                frame.words[self.place] = address_of(state.block)
                return state
        return None

    def value(self, frame: Frame, prepared: Any) -> Any:
        match self.kind:
            case TensorType(element, ()):
                return frame.read_number(element, self.place)
            case TensorType() if self.is_late:
                return frame.late[self.place]
            case TensorType() | ModelType() | OptimiserType():
                return prepared
        return frame.object(frame.words[self.place])


def _number(size: Size, sizes: dict[Symbol, int]) -> int:
    value = evaluate(size, lambda symbol: sizes.get(symbol, symbol.value))
    assert value is not None, f"the size {size} of a result is not bound by the arguments"
    return value


class ArgumentWriter:
    """Writes a call's arguments and sizes into a context at once."""

    def __init__(self, function: Function, layout: ContextLayout, symbols: Sequence[Symbol]) -> None:
        words = [argument_word(value.type) for value in function.body.parameters]
        self._makers = [maker for _, maker in words]
        self._symbols = tuple(symbols)
        self._struct = struct.Struct("".join(code for code, _ in words) + "q" * len(self._symbols))
        self._start = 8 * (layout.first_symbol - layout.parameters)

    def write(self, frame: Frame, arguments: Sequence[Any], sizes: dict[Symbol, int]) -> None:
        words = [maker(argument) for maker, argument in zip(self._makers, arguments, strict=True)]
        self._struct.pack_into(frame.block, self._start, *words, *(sizes.get(symbol, 0) for symbol in self._symbols))
