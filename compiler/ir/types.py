"""The types of IR values. Host scalars (`int`, `float`, `bool`) are tensors without axes; names of axes belong to the checker, and
here an axis is its size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import Enum

from shapescript.compiler.ir.groups import fits
from shapescript.compiler.ir.sizes import Size, Symbol
from shapescript.compiler.ir.starts import StartRule, substitute_start
from shapescript.compiler.records.dataclass import dataclass


class Element(Enum):
    F32 = "f32"
    F64 = "f64"
    BF16 = "bf16"
    I64 = "i64"
    BOOL = "bool"

    def __init__(self, name: str) -> None:
        self.is_float = name in ("f32", "f64", "bf16")
        self.bytes = {"f32": 4, "f64": 8, "bf16": 2, "i64": 8, "bool": 1}[name]


@dataclass(frozen=True, slots=True)
class TensorType:
    """Elements in row-major order of the axes."""

    element: Element
    axes: tuple[Size, ...] = ()

    @property
    def rank(self) -> int:
        return len(self.axes)

    def __str__(self) -> str:
        return f"{self.element.value}[{' '.join(map(str, self.axes))}]"


@dataclass(frozen=True, slots=True)
class Member:
    """A parameter or buffer (a tensor with its start), a sub-model or a list of sub-models. A sub-model's start, where it has one, is that
    of every tensor in it."""

    name: str
    type: TensorType | ModelType | ListType
    start: StartRule | None = None
    is_buffer: bool = False


@dataclass(frozen=True, slots=True)
class Treatment:
    """How optimisers treat a parameter: whether the decay is on it, a factor of the rate, and whether it stays as it is."""

    decay: bool = True
    rate: float = 1.0
    frozen: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """The parameters of a model whose dotted names, as seen from it, fit one of the patterns; None leaves a part of their treatment as
    it is."""

    patterns: tuple[str, ...]
    decay: bool | None = None
    rate: float | None = None
    frozen: bool | None = None

    def treated(self, leaf: LeafType) -> LeafType:
        if leaf.is_buffer or not any(fits(pattern, leaf.name) for pattern in self.patterns):
            return leaf
        said = {name: value for name in ("decay", "rate", "frozen") if (value := getattr(self, name)) is not None}
        return replace(leaf, treatment=replace(leaf.treatment, **said))


@dataclass(frozen=True, slots=True)
class ModelType:
    """A model, its dim parameters filled in. Two are the same where declaration, sizes and elements are.

    A type parameter (`M: model`) is a model without members; it stands only in what the checker makes of a generic function by itself.
    """

    name: str
    module: str
    arguments: tuple[Size, ...]
    members: tuple[Member, ...]
    is_parameter: bool = False
    models: tuple[ModelType, ...] = ()  # what stands for its type parameters
    groups: tuple[Group, ...] = ()  # a later one wins, and those of the model around win over its own
    elements: tuple[tuple[str, Element], ...] = ()  # its element parameters by name, those that aren't their default

    def __str__(self) -> str:
        inside = (*self.arguments, *self.models, *(f"{name}={element.value}" for name, element in self.elements))
        return self.name + (f"[{', '.join(map(str, inside))}]" if inside else "")

    @property
    def is_open(self) -> bool:
        """Whether it is a type parameter, or made for one."""
        return self.is_parameter or any(model.is_open for model in self.models)

    def sizes(self) -> Iterator[Size]:
        """Its own dims, and those of the models that it is made for."""
        yield from self.arguments
        for model in self.models:
            yield from model.sizes()


@dataclass(frozen=True, slots=True)
class ListType:
    element: ModelType
    count: Size

    def __str__(self) -> str:
        return f"{self.element} * {self.count}"


@dataclass(frozen=True, slots=True)
class OptimiserType:
    """The state of an optimiser (`AdamW`) over a model."""

    kind: str
    model: ModelType

    def __str__(self) -> str:
        return f"{self.kind}[{self.model}]"


@dataclass(frozen=True, slots=True)
class RecordType:
    """A record of data: fields in the order of their declaration; a field's type is that of one example."""

    name: str
    fields: tuple[tuple[str, TensorType], ...]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class DatasetType:
    """Examples of a record; `rows` is the dataset's own axis."""

    record: RecordType
    rows: Size

    def __str__(self) -> str:
        return f"Dataset[{self.record}; {self.rows}]"


@dataclass(frozen=True, slots=True)
class OrderedType:
    """A dataset's examples in a permuted order, or with `repeats` some of them, each drawn from all; of either, a part."""

    dataset: DatasetType
    repeats: bool = False

    def __str__(self) -> str:
        return f"Ordered[{self.dataset.record}; {self.dataset.rows}]"


@dataclass(frozen=True, slots=True)
class HandleType:
    """`Mode`, `LogSink`, `Vocabulary` or `str`: what it stands for is outside the IR's values."""

    name: str

    def __str__(self) -> str:
        return self.name


MODE, SINK, VOCABULARY, STRING = HandleType("Mode"), HandleType("LogSink"), HandleType("Vocabulary"), HandleType("str")
INT, FLOAT, BOOL = TensorType(Element.I64), TensorType(Element.F64), TensorType(Element.BOOL)

Type = TensorType | ModelType | OptimiserType | DatasetType | OrderedType | HandleType


@dataclass(frozen=True, slots=True)
class LeafType:
    """One tensor of a model, by its dotted name. A buffer is no parameter: its gradient is 0, and optimisers leave it alone."""

    name: str
    type: TensorType
    start: StartRule | None
    treatment: Treatment = Treatment()
    is_buffer: bool = False

    @property
    def is_trained(self) -> bool:
        return not (self.is_buffer or self.treatment.frozen) and self.type.element.is_float


def leaves(model: ModelType, prefix: str = "", start: StartRule | None = None) -> Iterator[LeafType]:
    """The tensors of a model in declaration order; the counts of lists must be known. `start` is how all of them begin, where given."""
    for leaf in _members_leaves(model, start):
        for group in model.groups:
            leaf = group.treated(leaf)
        yield replace(leaf, name=prefix + leaf.name) if prefix else leaf


def _members_leaves(model: ModelType, start: StartRule | None) -> Iterator[LeafType]:
    for member in model.members:
        begun = start or member.start
        match member.type:
            case TensorType():
                yield LeafType(member.name, member.type, begun, is_buffer=member.is_buffer)
            case ModelType():
                yield from leaves(member.type, member.name + ".", begun)
            case ListType(element, length):
                count = length.constant()
                if count is None:
                    raise ValueError(f"the length of {member.name} is not known here")
                for index in range(count):
                    yield from leaves(element, f"{member.name}.{index}.", begun)


def sorted_leaves(model: ModelType) -> tuple[LeafType, ...]:
    """The tensors of a model in the bytewise order of their dotted names: the order in flat buffers and of norms."""
    return tuple(sorted(leaves(model), key=lambda leaf: leaf.name.encode()))


def member_at(model: ModelType, path: str) -> TensorType | ModelType | ListType:
    """The member at a dotted path; a number steps into a list, as far as its length is known. Raises KeyError."""
    found: TensorType | ModelType | ListType = model
    for step in path.split("."):
        if isinstance(found, ModelType):
            found = next((m.type for m in found.members if m.name == step), None) or _missing(path)
        elif isinstance(found, ListType):
            count = found.count.constant()
            found = found.element if step.isdigit() and (count is None or int(step) < count) else _missing(path)
        else:
            _missing(path)
    return found


def _missing(path: str) -> ModelType:
    raise KeyError(path)


def substitute(type_: Type, values: Mapping[Symbol, Size]) -> Type:
    """The type with sizes in the place of symbols; raises sizes.InexactDivision."""
    match type_:
        case TensorType(element, axes):
            return TensorType(element, tuple(axis.substitute(values) for axis in axes))
        case ModelType():
            return substitute_model(type_, values)
        case OptimiserType(kind, model):
            return OptimiserType(kind, substitute_model(model, values))
        case DatasetType():
            return substitute_dataset(type_, values)
        case OrderedType(dataset, repeats):
            return OrderedType(substitute_dataset(dataset, values), repeats)
        case HandleType():
            return type_


def substitute_dataset(dataset: DatasetType, values: Mapping[Symbol, Size]) -> DatasetType:
    fields = tuple(
        (name, TensorType(kind.element, tuple(axis.substitute(values) for axis in kind.axes))) for name, kind in dataset.record.fields
    )
    return DatasetType(RecordType(dataset.record.name, fields), dataset.rows.substitute(values))


def substitute_model(model: ModelType, values: Mapping[Symbol, Size]) -> ModelType:
    if not values:
        return model
    members = tuple(
        Member(m.name, _substitute_member(m.type, values), substitute_start(m.start, values), m.is_buffer) for m in model.members
    )
    arguments = tuple(argument.substitute(values) for argument in model.arguments)
    return replace(model, arguments=arguments, members=members, models=tuple(substitute_model(inner, values) for inner in model.models))


def replace_models(model: ModelType, given: Mapping[ModelType, ModelType]) -> ModelType:
    """The model with others in the place of type parameters, wherever they stand in it."""
    if model in given:
        return given[model]
    if not model.models:
        return model

    def member(kind: TensorType | ModelType | ListType) -> TensorType | ModelType | ListType:
        match kind:
            case ModelType():
                return replace_models(kind, given)
            case ListType(element, count):
                return ListType(replace_models(element, given), count)
        return kind

    members = tuple(replace(one, type=member(one.type)) for one in model.members)
    return replace(model, members=members, models=tuple(replace_models(inner, given) for inner in model.models))


def _substitute_member(type_: TensorType | ModelType | ListType, values: Mapping[Symbol, Size]) -> TensorType | ModelType | ListType:
    match type_:
        case TensorType(element, axes):
            return TensorType(element, tuple(axis.substitute(values) for axis in axes))
        case ModelType():
            return substitute_model(type_, values)
        case ListType(element, count):
            return ListType(substitute_model(element, values), count.substitute(values))
