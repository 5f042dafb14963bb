"""The checker's types: the IR's, with the names of axes, and with the structure of records and batches.

Two axes are the same where name and size are. A name is what the program reads: `b`, `Hidden`, `3*D`, `(H Dh)`; the size tells apart
what has the same name in different functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from shapescript.compiler.ir import types as ir
from shapescript.compiler.ir.sizes import Size, Symbol, product
from shapescript.compiler.ir.types import Element
from shapescript.compiler.records.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis. A group `(H Dh)` has parts, the outermost first; leading axes `..s` are one axis here, of any size."""

    name: str
    size: Size
    parts: tuple[Axis, ...] = ()
    leading: bool = False

    def __str__(self) -> str:
        return self.name


def single(size: Size) -> Axis:
    return Axis(str(size), size)


def group(parts: tuple[Axis, ...]) -> Axis:
    return Axis(f"({' '.join(part.name for part in parts)})", product(part.size for part in parts), parts)


@dataclass(frozen=True, slots=True)
class Tensor:
    element: Element
    axes: tuple[Axis, ...] = ()

    def __str__(self) -> str:
        prefix = {Element.F32: "", Element.F64: "f64", Element.BF16: "bf16", Element.I64: "int", Element.BOOL: "bool"}[self.element]
        return f"{prefix}[{' '.join(axis.name for axis in self.axes)}]"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A host value: int, float, bool or str."""

    name: str

    def __str__(self) -> str:
        return self.name


INT, FLOAT, BOOL, STR = Scalar("int"), Scalar("float"), Scalar("bool"), Scalar("str")
HOST_ELEMENTS = {"int": Element.I64, "float": Element.F64, "bool": Element.BOOL}


@dataclass(frozen=True, slots=True)
class Model:
    """A model, with the names of its parameters' axes inside the IR's type (sizes carry them)."""

    model: ir.ModelType

    def __str__(self) -> str:
        return str(self.model)


@dataclass(frozen=True, slots=True)
class ModelList:
    """`m.blocks`: to be iterated or indexed."""

    list: ir.ListType

    def __str__(self) -> str:
        return str(self.list)


@dataclass(frozen=True, slots=True)
class Record:
    """A record declared with `data`: the type of one example. `fields` in the order of declaration, Tensor or Scalar.

    A type parameter (`E: data`) is a record without fields.
    """

    name: str
    module: str
    fields: tuple[tuple[str, Tensor | Scalar], ...]
    is_parameter: bool = False

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Batch:
    """`Digit[b]`: each field with a leading axis."""

    record: Record
    axis: Axis

    def __str__(self) -> str:
        return f"{self.record.name}[{self.axis.name}]"

    def field(self, name: str) -> Tensor | None:
        found = dict(self.record.fields).get(name)
        return None if found is None else batched(found, self.axis)


def batched(field: Tensor | Scalar, axis: Axis) -> Tensor:
    """A field of many examples; host numbers become tensors."""
    if isinstance(field, Tensor):
        return Tensor(field.element, (axis, *field.axes))
    element = {"int": Element.I64, "float": Element.F32, "bool": Element.BOOL}[field.name]
    return Tensor(element, (axis,))


@dataclass(frozen=True, slots=True)
class Dataset:
    """`Dataset[Digit]`. `rows` is the dataset's own axis; a parameter's is bound by the call. `ordered` after `shuffle` and `sample`, and
    then `repeats` says which."""

    record: Record
    rows: Axis
    ordered: bool = False
    repeats: bool = False

    def __str__(self) -> str:
        return f"{('sampled ' if self.repeats else 'shuffled ') if self.ordered else ''}Dataset[{self.record.name}]"


@dataclass(frozen=True, slots=True)
class Batches:
    """What `batches` gives, to be iterated."""

    dataset: Dataset

    def __str__(self) -> str:
        return f"batches of {self.dataset.record.name}"


@dataclass(frozen=True, slots=True)
class Optimiser:
    kind: str
    model: ir.ModelType

    def __str__(self) -> str:
        return f"{self.kind}[{self.model}]"


@dataclass(frozen=True, slots=True)
class Handle:
    """`Mode`, `LogSink` or `Vocabulary`."""

    name: str

    def __str__(self) -> str:
        return self.name


MODE, SINK, VOCABULARY = Handle("Mode"), Handle("LogSink"), Handle("Vocabulary")


@dataclass(frozen=True, slots=True)
class Tuple:
    """Several results; an empty one is the result of a function without any."""

    elements: tuple[Type, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.elements))})" if self.elements else "nothing"


NOTHING = Tuple(())

Type = Tensor | Scalar | Model | ModelList | Record | Batch | Dataset | Batches | Optimiser | Handle | Tuple


def lower(type_: Type) -> tuple[ir.Type, ...]:
    """The IR types of a value's parts: one, but for batches (a field each), records and tuples."""
    match type_:
        case Tensor(element, axes):
            return (ir.TensorType(element, tuple(axis.size for axis in axes)),)
        case Scalar("str"):
            return (ir.STRING,)
        case Scalar(name):
            return (ir.TensorType(HOST_ELEMENTS[name]),)
        case Model(model):
            return (model,)
        case Optimiser(kind, model):
            return (ir.OptimiserType(kind, model),)
        case Handle(name):
            return ({"Mode": ir.MODE, "LogSink": ir.SINK, "Vocabulary": ir.VOCABULARY}[name],)
        case Record(_, _, fields):
            return tuple(part for _, field in fields for part in lower(field))
        case Batch(record, axis):
            return tuple(part for _, field in record.fields for part in lower(batched(field, axis)))
        case Dataset():
            return (lower_dataset(type_),)
        case Tuple(elements):
            return tuple(part for element in elements for part in lower(element))
    raise ValueError(f"{type_} has no value")


def lower_dataset(dataset: Dataset) -> ir.DatasetType | ir.OrderedType:
    fields = []
    for name, field in dataset.record.fields:
        (kind,) = lower(batched(field, dataset.rows))
        assert isinstance(kind, ir.TensorType)
        fields.append((name, ir.TensorType(kind.element, kind.axes[1:])))
    lowered = ir.DatasetType(ir.RecordType(dataset.record.name, tuple(fields)), dataset.rows.size)
    return ir.OrderedType(lowered, dataset.repeats) if dataset.ordered else lowered


AxisMap = Callable[[Axis], Axis]


def map_axes(type_: Type, change: AxisMap, sizes: Mapping[Symbol, Size]) -> Type:
    """The type with each axis changed and, inside models, sizes substituted."""
    match type_:
        case Tensor(element, axes):
            return Tensor(element, tuple(change(axis) for axis in axes))
        case Model(model):
            return Model(ir.substitute_model(model, sizes))
        case Optimiser(kind, model):
            return Optimiser(kind, ir.substitute_model(model, sizes))
        case Batch(record, axis):
            return Batch(record, change(axis))
        case Dataset():
            return replace(type_, rows=change(type_.rows))
        case Tuple(elements):
            return Tuple(tuple(map_axes(element, change, sizes) for element in elements))
    return type_


TypeMap = Mapping[ir.ModelType | Record, ir.ModelType | Record]


def instantiate(type_: Type, given: TypeMap) -> Type:
    """The type with models and records in the place of type parameters."""
    match type_:
        case Model(model):
            return Model(_given_model(model, given))
        case Optimiser(kind, model):
            return Optimiser(kind, _given_model(model, given))
        case Record():
            return _given_record(type_, given)
        case Batch(record, axis):
            return Batch(_given_record(record, given), axis)
        case Dataset():
            return replace(type_, record=_given_record(type_.record, given))
        case Tuple(elements):
            return Tuple(tuple(instantiate(element, given) for element in elements))
    return type_


def _given_model(model: ir.ModelType, given: TypeMap) -> ir.ModelType:
    models = {one: other for one, other in given.items() if isinstance(one, ir.ModelType) and isinstance(other, ir.ModelType)}
    return ir.replace_models(model, models)


def _given_record(record: Record, given: TypeMap) -> Record:
    found = given.get(record, record)
    assert isinstance(found, Record)
    return found
