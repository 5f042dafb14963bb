"""What the compiler says of models and records, as the layouts and record types of the runtime."""

from __future__ import annotations

from typing import Literal

from shapescript.compiler.check import types as check
from shapescript.compiler.ir.sizes import Size, fresh, of
from shapescript.compiler.ir.starts import StartRule, evaluate_number
from shapescript.compiler.ir.types import (
    DatasetType,
    LeafType,
    ModelType,
    OrderedType,
    TensorType,
    sorted_leaves,
)
from shapescript.compiler.ir.types import RecordType as IrRecord
from shapescript.runtime.groups import Treatment
from shapescript.runtime.layout import Layout, Leaf, Start
from shapescript.runtime.record import Field, RecordType

_ZEROS = Start("zeros")


class Layouts:
    """The layouts and record types of one program, each made once."""

    def __init__(self) -> None:
        self._layouts: dict[ModelType, Layout] = {}
        self._records: dict[IrRecord, RecordType] = {}
        self._models: dict[Layout, ModelType] = {}

    def layout(self, model: ModelType) -> Layout:
        """All sizes of the model must be known; axes are named as their sizes are written."""
        found = self._layouts.get(model)
        if found is None:
            dims = [known_size(size) for size in model.arguments]
            found = self._layouts.setdefault(model, Layout(model.name, [_leaf(leaf) for leaf in sorted_leaves(model)], dims))
            self._models.setdefault(found, model)
        return found

    def model(self, layout: Layout) -> ModelType | None:
        """A model that has been given this layout here."""
        return self._models.get(layout)

    def record(self, record: IrRecord) -> RecordType:
        """A record's fields as those of one example; all sizes must be known."""
        found = self._records.get(record)
        if found is None:
            fields = tuple(Field(name, kind.element.value, _axes(kind), _shape(kind)) for name, kind in record.fields)
            found = self._records.setdefault(record, RecordType(record.name, fields))
        return found

    def dataset(self, kind: DatasetType | OrderedType) -> RecordType:
        return self.record(kind.dataset.record if isinstance(kind, OrderedType) else kind.record)

    def declared_record(self, record: check.Record) -> RecordType:
        """The record of a `data` declaration. Raises ValueError for one with a field that no array holds (a string)."""
        if any(str(field) == "str" for _, field in record.fields):
            raise ValueError(f"{record.name} has a field of strings, so it is no record of a dataset")
        rows = check.Axis("b", of(fresh("b")))
        return self.dataset(check.lower_dataset(check.Dataset(record, rows)))


def known_size(size: Size) -> int:
    """A size whose symbols all have values, as a number."""
    value = size.constant()
    if value is None:
        raise ValueError(f"the size {size} is not known here")
    return value


def _leaf(leaf: LeafType) -> Leaf:
    treated = Treatment(leaf.treatment.decay, leaf.treatment.rate, leaf.treatment.frozen)
    kind: Literal["parameter", "buffer"] = "buffer" if leaf.is_buffer else "parameter"
    return Leaf(leaf.name, _axes(leaf.type), _shape(leaf.type), leaf.type.element.value, kind, _start(leaf.start), treated)


def _axes(kind: TensorType) -> tuple[str, ...]:
    return tuple(str(size) for size in kind.axes)


def _shape(kind: TensorType) -> tuple[int, ...]:
    return tuple(known_size(size) for size in kind.axes)


def _start(rule: StartRule | None) -> Start:
    if rule is None:
        return _ZEROS
    numbers = [evaluate_number(number) for number in rule.numbers]
    match rule.kind, numbers:
        case "constant", [value]:
            return Start("constant", value)
        case ("uniform" | "normal") as kind, [first, second]:
            return Start(kind, first, second)
    raise ValueError(f"no start {rule.kind} of {len(numbers)} numbers")
