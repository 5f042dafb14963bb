"""Parameters that take objects of the runtime: models, optimisers, batches, datasets, modes and sinks."""

from __future__ import annotations

from typing import Any

from shapescript.axes import Shape, Sizes
from shapescript.compiler.check import types as check
from shapescript.handles import DatasetHandle, optimiser_state
from shapescript.layouts import Layouts
from shapescript.model_sizes import ModelRule
from shapescript.rule import Rule
from shapescript.runtime.arrays import engine_array
from shapescript.runtime.dataset import Dataset
from shapescript.runtime.errors import ArgumentError
from shapescript.runtime.mode import Mode
from shapescript.runtime.model import Model, SubModel
from shapescript.runtime.optimiser import Optimiser
from shapescript.runtime.orders import Ordered
from shapescript.runtime.record import Batch, Field, RecordType
from shapescript.runtime.sinks import LogSink
from shapescript.runtime.vocabulary import Vocabulary


class ModelArgument(Rule):
    __slots__ = ("model",)

    def __init__(self, name: str, type_: check.Model, layouts: Layouts) -> None:
        super().__init__(name, type_)
        self.model = ModelRule(name, type_.model, layouts)

    def take(self, value: Any, sizes: Sizes, arguments: list[Any]) -> None:
        if not isinstance(value, Model):
            if isinstance(value, SubModel):
                raise ArgumentError("R1004", f"{self.name}: expected a model {self.type}, got a part of one; Python gives whole models")
            raise self.wrong_type(f"a model {self.type}", value)
        shown = self.model.shown(value.layout)
        if shown:
            sizes.bind_all(shown)
        arguments.append(value.buffer)

    def seen(self, value: Any) -> str:
        return f"{self.name}: {self.type} is {self.model.described(value.layout)}"


class OptimiserArgument(Rule):
    __slots__ = ("kind", "model")

    def __init__(self, name: str, type_: check.Optimiser, layouts: Layouts) -> None:
        super().__init__(name, type_)
        self.kind = type_.kind
        self.model = ModelRule(name, type_.model, layouts)

    def take(self, value: Any, sizes: Sizes, arguments: list[Any]) -> None:
        if not isinstance(value, Optimiser) or value.kind.name != self.kind:
            raise self.wrong_type(f"{self.type}, as shapescript.{self.kind}(model) makes", value)
        sizes.bind_all(self.model.shown(value.layout))
        arguments.append(optimiser_state(value))

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
        arguments.extend([engine_array(value.columns[field]) for field in self.fields])

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
    """`Mode`, `LogSink` or `Vocabulary`."""

    __slots__ = ("kind", "wanted")

    def __init__(self, name: str, type_: check.Handle) -> None:
        super().__init__(name, type_)
        self.kind, self.wanted = _HANDLES[type_]

    def take(self, value: Any, sizes: Sizes, arguments: list[Any]) -> None:
        if not isinstance(value, self.kind):
            raise self.wrong_type(self.wanted, value)
        arguments.append(value)


_HANDLES: dict[check.Handle, tuple[type, str]] = {
    check.MODE: (Mode, "a mode (shapescript.Eval or shapescript.Train(seed=…))"),
    check.VOCABULARY: (Vocabulary, "a vocabulary (shapescript.Vocabulary(…))"),
    check.SINK: (LogSink, "a log sink (shapescript.MemorySink() or shapescript.jsonl(…))"),
}


def check_record(name: str, wanted: RecordType, found: RecordType) -> None:
    """Raise ArgumentError R1004, naming the field that differs, unless both records have the same name and fields."""
    if found is wanted or (found.name == wanted.name and list(map(_essence, found.fields)) == list(map(_essence, wanted.fields))):
        return
    known = {field.name: field for field in found.fields}
    differing = [f"{field} (found {known.get(field.name, 'none')})" for field in wanted.fields if known.get(field.name) != field]
    why = f": {'; '.join(differing)}" if differing else ""
    raise ArgumentError("R1004", f"{name}: expected examples of {wanted.name}, got examples of {found.name}{why}")


def _essence(field: Field) -> tuple[str, str, tuple[int, ...]]:
    return field.name, field.dtype, field.shape
