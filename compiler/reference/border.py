"""Values as they cross to the host and back (ops/protocol.py says how), and the end of a call: results and changed arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shapescript.compiler.ir.nodes import Function, Op
from shapescript.compiler.ir.sizes import Symbol
from shapescript.compiler.ir.types import DatasetType, Element, ModelType, OptimiserType, TensorType, Type
from shapescript.compiler.numerics.bfloat16 import bits_of_number, number_of_bits
from shapescript.compiler.numerics.bfloat16_arrays import bits_of, numbers_of
from shapescript.compiler.numerics.optimisers import FIRST_CONSTANT, STEP
from shapescript.compiler.ops.protocol import OptimiserState
from shapescript.compiler.reference.frame import Frame
from shapescript.compiler.reference.layouts import DTYPES, aligned_copy


def from_host(type_: Type, value: Any) -> Any:
    """A value of the host as handlers take it: a tensor without axes becomes an array without axes."""
    if isinstance(type_, TensorType):
        if type_.element is Element.BF16 and not type_.axes:
            return np.asarray(bits_of_number(value), DTYPES[type_.element])
        return np.asarray(value, DTYPES[type_.element])
    return value


def to_host(type_: Type, value: Any) -> Any:
    """A value for the host to look at; it may share memory with others."""
    match type_:
        case TensorType(Element.BF16, ()):
            return number_of_bits(int(value))
        case TensorType(_, axes):
            return np.ascontiguousarray(value) if axes else value.item()
    return value


def perform(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    """Have the host do an operation; a dataset that it gives binds the size of its rows."""
    shown = [to_host(operand.type, value) for operand, value in zip(op.operands, operands, strict=True)]
    results = frame.host.perform(op, shown)
    for value, result in zip(op.results, results, strict=True):
        if isinstance(value.type, DatasetType):
            bind_rows(value.type, result, frame.sizes)
    return [from_host(value.type, result) for value, result in zip(op.results, results, strict=True)]


def bind_rows(type_: DatasetType, dataset: Any, sizes: dict[Symbol, int]) -> None:
    """Each time that the operation is done the dataset may have another length."""
    for symbol in type_.rows.symbols():
        if symbol.value is None:
            sizes[symbol] = int(dataset.block[0])


# ---- the end of a call


def owned(type_: Type, value: Any) -> Any:
    """A result in memory of its own. NaNs of tensors become the canonical one: sign and payload are not exact."""
    match type_:
        case TensorType(Element.BF16, ()):
            return number_of_bits(int(value))
        case TensorType(Element.BF16):
            return bits_of(numbers_of(value))
        case TensorType(_, axes):
            canonical = np.where(np.isnan(value), value.dtype.type(np.nan), value) if value.dtype.kind == "f" else value
            return np.array(canonical, order="C") if axes else canonical.item()
        case ModelType():
            return aligned_copy(value)
        case OptimiserType():
            return copied_state(value)
    return value


def copied_state(state: OptimiserState) -> OptimiserState:
    """The same state in memory of its own."""
    copy = OptimiserState(state.block.copy(), list(state.slots))
    for place, slot in enumerate(state.slots):
        copy.put(place, None if slot is None else aligned_copy(slot))
    return copy


def finish(function: Function, arguments: Sequence[Any], yields: Sequence[Any]) -> list[Any]:
    """The results; then, when nothing can fail any more, each `mut` argument is given its last value."""
    values = [owned(value.type, last) for value, last in zip(function.body.yields, yields, strict=True)]
    changed = [argument for argument, mutable in zip(arguments, function.mutable, strict=True) if mutable]
    for value, argument, last in zip(function.body.yields[function.results :], changed, values[function.results :], strict=True):
        overwrite(value.type, argument, last)
    return values[: function.results]


def overwrite(type_: Type, argument: Any, value: Any) -> None:
    """Host numbers can't be overwritten: a caller sees no change of one."""
    match type_:
        case TensorType(_, axes) if axes:
            np.copyto(argument, value)
        case ModelType():
            np.copyto(argument, value)
        case OptimiserType():
            for place, slot in enumerate(value.slots):
                if slot is not None and argument.slots[place] is None:
                    argument.put(place, slot)
                elif slot is not None:
                    np.copyto(argument.slots[place], slot)
            argument.block[STEP] = value.block[STEP]
            argument.block[FIRST_CONSTANT:] = value.block[FIRST_CONSTANT:]
