"""Where stored values are put: what the memory plan (passes/plan.py) says, as data that an engine with pointers follows.

ops/storage.py says which values share a place. Each place is in the caller's storage (a parameter, a result), in a dataset's, or in a slot.
A slot belongs to a block, is made anew each time the block is entered, and serves one value after another.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from shapescript.compiler.ir.flat import flat_layout, slot_layout
from shapescript.compiler.ir.nodes import Block, Function, Value
from shapescript.compiler.ir.sizes import Size, Symbol, number, product
from shapescript.compiler.ir.types import DatasetType, ModelType, OptimiserType, TensorType, Type
from shapescript.compiler.numerics.optimisers import BLOCK_WORDS, KINDS
from shapescript.compiler.ops.storage import is_stored
from shapescript.compiler.records.dataclass import dataclass

OPTIMISER_BLOCK_BYTES = 8 * BLOCK_WORDS


@dataclass(frozen=True, slots=True)
class ParameterStorage:
    """The caller's argument with this number."""

    index: int


@dataclass(frozen=True, slots=True)
class ResultStorage:
    """What the caller provides for the declared result with this number."""

    index: int


@dataclass(frozen=True, slots=True)
class Borrowed:
    """Elements that belong to a dataset, whole fields or the rows of a batch that follow each other in one; where a dataset's rows don't
    lie one behind the other, a copy of them. The value's own place."""

    value: Value


@dataclass(frozen=True, slots=True)
class SlotStorage:
    """A slot of the plan, by number."""

    slot: int


@dataclass(frozen=True, slots=True)
class RowStorage:
    """So many places along the first axis of the tensor `whole`, from the number `start` on: the nearest ones that are inside."""

    whole: Value
    start: Value
    places: Size


Storage = ParameterStorage | ResultStorage | Borrowed | SlotStorage | RowStorage


@dataclass(frozen=True, slots=True)
class Location:
    """Where a value begins: a storage, and bytes from its start."""

    storage: Storage
    offset: int = 0

    def part(self, offset: int) -> Location:
        return Location(self.storage, self.offset + offset)


@dataclass(frozen=True, slots=True)
class Slot:
    """`size` is in bytes; the slot begins where the last of the slots `above` which it lies ends, of those whose sizes are known with its
    own."""

    number: int
    size: Size
    above: tuple[int, ...] = ()


@dataclass(frozen=True)
class Plan:
    """locations: of every stored value but those that nobody reads and whose operation can leave them out.

    slots: each block's, those before that others lie above; the symbols of a size are bound before the first operation that writes to the
    slot.
    """

    locations: Mapping[Value, Location]
    slots: Mapping[Block, tuple[Slot, ...]]


def argument_symbols(function: Function) -> tuple[Symbol, ...]:
    """The symbols that arguments give values to, in the order of their first mention."""
    found: dict[Symbol, None] = {}

    def note(sizes: Sequence[Size]) -> None:
        for size in sizes:
            found.update((symbol, None) for symbol in size.symbols() if symbol.value is None and symbol.quotient is None)

    for value in function.body.parameters:
        match value.type:
            case TensorType(_, axes):
                note(axes)
            case DatasetType():
                note((value.type.rows, *(axis for _, kind in value.type.record.fields for axis in kind.axes)))
    return tuple(found)


def is_late(result: Type, symbols: Collection[Symbol]) -> bool:
    """Whether a result's sizes are known only when the function has run: the rows of a dataset that it loads."""
    if not isinstance(result, TensorType):
        return False
    unknown = (symbol for axis in result.axes for symbol in axis.symbols() if symbol.value is None and symbol.quotient is None)
    return any(symbol not in symbols for symbol in unknown)


def has_storage(value: Value) -> bool:
    """Whether the value has a location."""
    return is_stored(value)


def storage_bytes(type_: Type) -> Size:
    """Bytes of a storage for the type. An optimiser's is its block, then its slots, also those that it may lack."""
    match type_:
        case TensorType(element, axes):
            return product(axes) * number(element.bytes)
        case ModelType():
            return number(flat_layout(type_).total)
        case OptimiserType(kind, model):
            return number(OPTIMISER_BLOCK_BYTES + len(KINDS[kind].slots) * slot_layout(model).total)
    raise ValueError(f"{type_} lies in no storage")


def part_offset(model: Type, path: str) -> int:
    """Where a part begins in its model. Names with one prefix follow each other, so a sub-model lies as it does in a buffer of its own."""
    if not path:
        return 0
    assert isinstance(model, ModelType)
    inside = (leaf.offset for leaf in flat_layout(model).leaves if leaf.leaf.name == path or leaf.leaf.name.startswith(path + "."))
    return next(inside, 0)
