"""What a call gives back to Python: each result as a value of its own that nothing in the engine changes later. NaNs are the
positive quiet one: so do engines give them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from shapescript.axes import Sizes, plain_symbol
from shapescript.compiler.check import types as check
from shapescript.compiler.ir.types import Element, ModelType, substitute_model
from shapescript.handles import optimiser_copy
from shapescript.layouts import Layouts
from shapescript.runtime.arrays import BF16, Array, widened
from shapescript.runtime.layout import Layout
from shapescript.runtime.model import Model
from shapescript.runtime.record import Batch
from shapescript.runtime.sinks import LogRecord

Give = Callable[[Iterator[Any], Sizes], Any]  # takes the engine's values that make up one result


def giver_for(type_: check.Type, layouts: Layouts) -> Give:
    """How a result of this type is made. A function without results gives None, one with several a tuple."""
    match type_:
        case check.Tensor() | check.Scalar():
            return _tensor(type_)
        case check.Model(model):
            models = _Concrete(model, layouts)
            return lambda values, sizes: Model(models.layout(sizes), next(values))
        case check.Optimiser(kind, model):
            models = _Concrete(model, layouts)
            return lambda values, sizes: optimiser_copy(kind, models.layout(sizes), next(values))
        case check.Batch(record, axis):
            made = layouts.declared_record(record)
            fields = [(name, _column(check.batched(field, axis))) for name, field in record.fields]
            return lambda values, sizes: Batch.of_checked(made, {name: give(values, sizes) for name, give in fields})
        case check.Record(name, _, fields):
            parts = [(field, _tensor(kind)) for field, kind in fields]
            return lambda values, sizes: LogRecord(name, {field: give(values, sizes) for field, give in parts})
        case check.Dataset():
            return lambda values, sizes: next(values).dataset
        case check.Handle():
            return lambda values, sizes: next(values)
        case check.Tuple(elements):
            givers = [giver_for(element, layouts) for element in elements]
            return (lambda values, sizes: tuple([give(values, sizes) for give in givers])) if givers else (lambda values, sizes: None)
    raise ValueError(f"no result of type {type_}")


def _tensor(type_: check.Tensor | check.Scalar) -> Give:
    """An array, or Python's number for one without axes."""
    if given_as_it_is(type_):
        return lambda values, sizes: next(values)
    assert isinstance(type_, check.Tensor)
    finished = _widened if type_.element is Element.BF16 else _unchanged
    leading = next((axis for axis in type_.axes if axis.leading), None)
    symbol = plain_symbol(leading.size) if leading else None
    if symbol is None:
        return lambda values, sizes: finished(next(values))
    return lambda values, sizes: _expanded(finished(next(values)), sizes.leading.get(symbol))


def given_as_it_is(type_: check.Type) -> bool:
    """Whether a result of this type is for Python what it is for the engine."""
    if isinstance(type_, check.Tensor):
        return not type_.axes or not (type_.element is Element.BF16 or any(axis.leading for axis in type_.axes))
    return isinstance(type_, check.Scalar)


def _column(type_: check.Tensor) -> Give:
    """A field of a batch: of bf16 its bits, as batches hold it."""
    return (lambda values, sizes: next(values).view(BF16)) if type_.element is Element.BF16 else _tensor(type_)


def _widened(value: Array) -> Array:
    return widened(value.view(BF16))


def _unchanged(value: Array) -> Array:
    return value


def _expanded(array: Array, leading: tuple[int, ...] | None) -> Array:
    return array if leading is None else array.reshape(*leading, *array.shape[1:])


class _Concrete:
    """The layouts of a result's model, one for each choice of its dims."""

    def __init__(self, model: ModelType, layouts: Layouts) -> None:
        self.model, self.layouts = model, layouts
        self._made: dict[tuple[int | None, ...], Layout] = {}

    def layout(self, sizes: Sizes) -> Layout:
        key = tuple([sizes.evaluate(argument) for argument in self.model.sizes()])
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = self.layouts.layout(substitute_model(self.model, sizes.as_dims()))
        return found
