"""What a parameter takes from Python: one rule for each kind of type, prepared once, applied at every call.

A rule checks a value, binds the sizes that it shows, and appends what the engine gets (compiler/ops/protocol.py). Only models and
optimisers can be `mut`: the checker sees to that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from shapescript.axes import Shape, Sizes
from shapescript.compiler.check import types as check
from shapescript.compiler.check.program import SignatureParameter
from shapescript.compiler.ir.types import Element
from shapescript.compiler.ops.protocol import OptimiserState
from shapescript.handles import DatasetHandle
from shapescript.layouts import Layouts
from shapescript.model_sizes import ModelRule
from shapescript.runtime.arrays import NUMPY_DTYPES, Array, check_dtype, usable_array
from shapescript.runtime.arrays import sizes as shape_text
from shapescript.runtime.dataset import Dataset, Ordered
from shapescript.runtime.errors import ArgumentError, did_you_mean
from shapescript.runtime.mode import Mode, Train
from shapescript.runtime.model import Model
from shapescript.runtime.optimiser import AdamW
from shapescript.runtime.record import Batch, RecordType
from shapescript.runtime.sinks import LogSink
from shapescript.scalars import ELEMENTS, HOST, Take


class Rule(ABC):
    """`seen` tells, for messages, what a value that was taken looks like."""

    __slots__ = ("name", "type")

    def __init__(self, name: str, type_: check.Type) -> None:
        self.name, self.type = name, type_

    @abstractmethod
    def take(self, value: Any, sizes: Sizes, arguments: list[Any]) -> None:
        """Raises ArgumentError R1001 to R1006, or Disagreement."""

    def seen(self, value: Any) -> str | None:
        """None for a value that shows no sizes."""
        return None

    def wrong_type(self, wanted: str, value: Any) -> ArgumentError:
        if isinstance(value, type):
            hint = "; a value is needed, not the class" + (": Train(seed=0)" if value is Train else "")
            return ArgumentError("R1004", f"{self.name}: expected {wanted}, got the class {value.__name__}{hint}")
        return ArgumentError("R1004", f"{self.name}: expected {wanted}, got {type(value).__name__}")


class ArrayRule(Rule):
    """A tensor with axes."""

    __slots__ = ("dtype", "element", "shape")

    def __init__(self, name: str, type_: check.Tensor) -> None:
        super().__init__(name, type_)
        self.element, self.dtype, self.shape = type_.element, NUMPY_DTYPES[type_.element.value], Shape(name, type_.axes)

    def take(self, value: Any, sizes: Sizes, arguments: list[Any]) -> None:
        array = value if type(value) is np.ndarray and value.dtype is self.dtype else self._converted(value)
        flags = array.flags
        if not (flags.c_contiguous and flags.aligned):
            array = np.array(array, order="C")
        if self.element is Element.BOOL:
            array = array.view(np.uint8) != 0  # an array that was made as a view of bytes may hold others than 0 and 1
        if self.shape.leading is None:
            self.shape.bind(array.shape, sizes)
        else:
            collapsed = self.shape.collapsed(array.shape, sizes)
            self.shape.bind(collapsed, sizes)
            array = array.reshape(collapsed)
        arguments.append(array)

    def _converted(self, value: Any) -> Array:
        array = usable_array(self.name, value)
        if self.shape.leading is None and array.ndim != len(self.shape.axes):
            raise self.shape.wrong_rank(array.shape)
        check_dtype(self.name, array, self.element.value)
        return array

    def seen(self, value: Any) -> str:
        return f"{self.name}: {self.type} has shape {shape_text(np.shape(value))}"


class NumberRule(Rule):
    """A host scalar or a tensor without axes."""

    __slots__ = ("convert",)

    def __init__(self, name: str, type_: check.Scalar | check.Tensor) -> None:
        super().__init__(name, type_)
        self.convert: Take = ELEMENTS[type_.element] if isinstance(type_, check.Tensor) else HOST[type_.name]

    def take(self, value: Any, sizes: Sizes, arguments: list[Any]) -> None:
        arguments.append(self.convert(self.name, value))


class RecordRule(Rule):
    """One example of a record, given as a mapping of its fields: the engine gets each field."""

    __slots__ = ("fields",)

    def __init__(self, name: str, type_: check.Record) -> None:
        super().__init__(name, type_)
        self.fields: dict[str, Rule] = {field: tensor_rule(f"{name}.{field}", kind) for field, kind in type_.fields}

    def take(self, value: Any, sizes: Sizes, arguments: list[Any]) -> None:
        if not isinstance(value, Mapping):
            raise self.wrong_type(f"the fields of {self.type} as a dict", value)
        unexpected = [str(name) for name in value if name not in self.fields]
        missing = [name for name in self.fields if name not in value]
        if unexpected:
            raise ArgumentError("R1005", f"{self.name}: {self.type} has no field {unexpected[0]!r}{did_you_mean(unexpected[0], missing or self.fields)}")
        if missing:
            raise ArgumentError("R1005", f"{self.name}: no value for the field {', '.join(missing)} of {self.type}")
        for name, rule in self.fields.items():
            rule.take(value[name], sizes, arguments)


class ModelArgument(Rule):
    __slots__ = ("model",)

    def __init__(self, name: str, type_: check.Model, layouts: Layouts) -> None:
        super().__init__(name, type_)
        self.model = ModelRule(name, type_.model, layouts)

    def take(self, value: Any, sizes: Sizes, arguments: list[Any]) -> None:
        if not isinstance(value, Model):
            raise self.wrong_type(f"a model {self.type}", value)
        self.model.bind(value.layout, sizes)
        arguments.append(value.buffer)

    def seen(self, value: Any) -> str:
        return f"{self.name}: {self.type} is {self.model.described(value.layout)}"


class OptimiserArgument(Rule):
    __slots__ = ("model",)

    def __init__(self, name: str, type_: check.Optimiser, layouts: Layouts) -> None:
        super().__init__(name, type_)
        self.model = ModelRule(name, type_.model, layouts)

    def take(self, value: Any, sizes: Sizes, arguments: list[Any]) -> None:
        if not isinstance(value, AdamW):
            raise self.wrong_type(f"{self.type}, as shapescript.AdamW(model) makes", value)
        self.model.bind(value.layout, sizes)
        arguments.append(OptimiserState(value.block, value.first, value.second))

    def seen(self, value: Any) -> str:
        return f"{self.name}: {self.type} is for {self.model.described(value.layout)}"


class BatchRule(Rule):
    """`Digit[b]`: the engine gets each field."""

    __slots__ = ("fields", "record", "shape")

    def __init__(self, name: str, type_: check.Batch, layouts: Layouts) -> None:
        super().__init__(name, type_)
        self.record = layouts.declared_record(type_.record)
        self.fields = self.record.field_names
        self.shape = Shape(name, (type_.axis,))

    def take(self, value: Any, sizes: Sizes, arguments: list[Any]) -> None:
        if not isinstance(value, Batch):
            raise self.wrong_type(f"a batch {self.type}, as program.{self.record.name}.batch(…) makes", value)
        check_record(self.name, self.record, value.record_type)
        self.shape.bind((len(value),), sizes)
        arguments.extend([value[field] for field in self.fields])

    def seen(self, value: Any) -> str:
        return f"{self.name}: {self.type} has {len(value)} examples"


class DatasetRule(Rule):
    __slots__ = ("record", "shape")

    def __init__(self, name: str, type_: check.Dataset, layouts: Layouts) -> None:
        super().__init__(name, type_)
        self.record = layouts.declared_record(type_.record)
        self.shape = Shape(name, (type_.rows,))

    def take(self, value: Any, sizes: Sizes, arguments: list[Any]) -> None:
        if isinstance(value, Ordered):
            raise ArgumentError("R1004", f"{self.name}: expected a dataset, got one in another order; the program orders it itself")
        if not isinstance(value, Dataset):
            raise self.wrong_type(f"a dataset, as program.{self.record.name}.dataset(…) makes", value)
        check_record(self.name, self.record, value.record)
        self.shape.bind((len(value),), sizes)
        arguments.append(DatasetHandle(value))

    def seen(self, value: Any) -> str:
        return f"{self.name}: {self.type} has {len(value)} examples"


class HandleRule(Rule):
    """`Mode` or `LogSink`."""

    __slots__ = ("kind", "wanted")

    def __init__(self, name: str, type_: check.Handle) -> None:
        super().__init__(name, type_)
        mode = type_ == check.MODE
        self.kind: type = Mode if mode else LogSink
        self.wanted = "a mode (shapescript.Eval or shapescript.Train(seed=…))" if mode else "a log sink (shapescript.MemorySink() or shapescript.jsonl(…))"

    def take(self, value: Any, sizes: Sizes, arguments: list[Any]) -> None:
        if not isinstance(value, self.kind):
            raise self.wrong_type(self.wanted, value)
        arguments.append(value)


def rule_for(parameter: SignatureParameter, layouts: Layouts) -> Rule:
    """Raises ArgumentError R1004 for a type that no Python value stands for."""
    name = parameter.name
    match parameter.type:
        case check.Tensor() | check.Scalar() as kind:
            return tensor_rule(name, kind)
        case check.Model() as model:
            return ModelArgument(name, model, layouts)
        case check.Optimiser() as optimiser:
            return OptimiserArgument(name, optimiser, layouts)
        case check.Batch() as batch:
            return BatchRule(name, batch, layouts)
        case check.Record() as record:
            return RecordRule(name, record)
        case check.Dataset() as dataset if not dataset.ordered:
            return DatasetRule(name, dataset, layouts)
        case check.Handle() as handle:
            return HandleRule(name, handle)
    raise ArgumentError("R1004", f"{name}: {parameter.type} can't be given from Python")


def tensor_rule(name: str, kind: check.Tensor | check.Scalar) -> Rule:
    return ArrayRule(name, kind) if isinstance(kind, check.Tensor) and kind.axes else NumberRule(name, kind)


def check_record(name: str, wanted: RecordType, found: RecordType) -> None:
    """Raise ArgumentError R1004, naming the field that differs, unless both records have the same fields."""
    if found is wanted or found == wanted:
        return
    if [(f.name, f.dtype, f.shape) for f in found.fields] == [(f.name, f.dtype, f.shape) for f in wanted.fields] and found.name == wanted.name:
        return
    known = {field.name: field for field in found.fields}
    differing = [f"{field} (found {known.get(field.name, 'no such field')})" for field in wanted.fields if known.get(field.name) != field]
    raise ArgumentError("R1004", f"{name}: expected examples of {wanted.name}, got examples of {found.name}: {'; '.join(differing) or 'more fields'}")

