"""Sizes in the place of symbols, in every kind of thing that an operation's attributes and types hold."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Set
from typing import Any

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.sizes import Size, Symbol
from shapescript.compiler.ir.types import (
    DatasetType,
    HandleType,
    ListType,
    ModelType,
    OptimiserType,
    OrderedType,
    RecordType,
    TensorType,
    Type,
    substitute,
    substitute_model,
)

Sizes = Mapping[Symbol, Size]

# Each has the attribute `dataset`, whose rows it binds; that of `dataset_split` is two.
MAKES_DATASET = frozenset({"load_data", "load_text", "dataset_part", "dataset_concat", "dataset_split", "dataset_filter"})


def substitute_type(type_: Type, sizes: Sizes) -> Type:
    """Raises sizes.InexactDivision."""
    return substitute(type_, sizes) if sizes else type_


def substitute_attribute(value: Any, sizes: Sizes) -> Any:
    """An attribute of any operation with its sizes substituted: sizes, types, and tuples and mappings of them; all else stays.

    Symbols as keys (the callee's, in `sizes` of a call) stay. Raises sizes.InexactDivision.
    """
    match value:
        case Size():
            return value.substitute(sizes)
        case TensorType() | ModelType() | OptimiserType() | DatasetType() | OrderedType() | HandleType():
            return substitute_type(value, sizes)
        case ListType(element, count):
            return ListType(substitute_model(element, sizes), count.substitute(sizes))
        case RecordType(name, fields):
            return RecordType(name, tuple((field, substitute_attribute(kind, sizes)) for field, kind in fields))
        case tuple():
            return tuple(substitute_attribute(part, sizes) for part in value)
        case list():
            return [substitute_attribute(part, sizes) for part in value]
        case dict():
            return {key: substitute_attribute(part, sizes) for key, part in value.items()}
    return value


def bind(declared: Type, actual: Type, sizes: dict[Symbol, Size]) -> None:
    """Give the symbols that stand alone as an axis of `declared` and have no size yet the sizes that `actual` has there."""
    match declared, actual:
        case TensorType(), TensorType():
            _bind_sizes(declared.axes, actual.axes, sizes)
        case ModelType(), ModelType():
            _bind_sizes(tuple(declared.sizes()), tuple(actual.sizes()), sizes)
        case OptimiserType(), OptimiserType():
            bind(declared.model, actual.model, sizes)
        case OrderedType(), OrderedType():
            bind(declared.dataset, actual.dataset, sizes)
        case DatasetType(), DatasetType():
            _bind_sizes((declared.rows,), (actual.rows,), sizes)
            for (_, mine), (_, theirs) in zip(declared.record.fields, actual.record.fields, strict=True):
                _bind_sizes(mine.axes, theirs.axes, sizes)


def _bind_sizes(declared: tuple[Size, ...], actual: tuple[Size, ...], sizes: dict[Symbol, Size]) -> None:
    for mine, theirs in zip(declared, actual, strict=True):
        symbol = _alone(mine)
        if symbol is not None and symbol not in sizes and mine != theirs:
            sizes[symbol] = theirs


def _alone(size: Size) -> Symbol | None:
    """The unknown symbol that the size is, if it is one."""
    match size.terms:
        case (((symbol,), 1),) if symbol.value is None and symbol.quotient is None:
            return symbol
    return None


def attribute_key(value: Any) -> Hashable:
    """Equal for attributes that mean the same: numbers with type and bits, so that 0.0, -0.0, 0 and false differ.

    Raises TypeError for one that can't be compared.
    """
    if type(value) in (Size, TensorType):  # most of them
        return value  # type: ignore[no-any-return]
    match value:
        case float():
            return "float", value.hex()
        case bool() | int():
            return type(value).__name__, value
        case tuple() | list():
            return tuple(attribute_key(part) for part in value)
        case dict():
            return tuple((key, attribute_key(part)) for key, part in value.items())
    hash(value)
    key: Hashable = value
    return key


def mentions(op: Op, symbols: Set[Symbol]) -> bool:
    """Whether one of the symbols is in the sizes of the operation's attributes or results."""
    found = [*op.attributes.values(), *(result.type for result in op.results)]
    return any(symbol in symbols for part in found for symbol in symbols_in(part))


def symbols_in(part: Any) -> Iterator[Symbol]:
    """The symbols in a size, a type, or a tuple of them."""
    match part:
        case Size():
            yield from part.symbols()
        case TensorType(_, axes):
            yield from symbols_in(axes)
        case DatasetType(record, rows):
            yield from symbols_in((rows, *(kind for _, kind in record.fields)))
        case OrderedType(dataset):
            yield from symbols_in(dataset)
        case tuple():
            for inner in part:
                yield from symbols_in(inner)


def is_doubtful(size: Size) -> bool:
    """Whether the size may be no number or one below 0: it has a quotient or a difference of sizes that aren't known."""
    return size.constant() is None and (any(count < 0 for _, count in size.terms) or any(symbol.quotient for symbol in size.symbols()))


def doubtful_sizes_of(op: Op) -> Iterator[Size]:
    """The doubtful sizes that the operation makes: it fails where one is none. What its operands have is checked by then."""
    known = {size for operand in op.operands for size in _sizes_in(operand.type)}
    made = (size for part in (*op.attributes.values(), *(result.type for result in op.results)) for size in _sizes_in(part))
    return (size for size in made if size not in known and is_doubtful(size))


def _sizes_in(part: Any) -> Iterator[Size]:
    match part:
        case Size():
            yield part
        case TensorType(_, axes):
            yield from axes
        case tuple():
            for inner in part:
                yield from _sizes_in(inner)


def rows_bound(op: Op) -> frozenset[Symbol]:
    """The symbols that get their sizes when the operation is executed: the rows of a dataset that it makes, what `bind_size` names."""
    attribute = "size" if op.name == "bind_size" else "dataset" if op.name in MAKES_DATASET else None
    if attribute is None:
        return frozenset()
    return frozenset(symbol for symbol in symbols_in(op.attributes[attribute]) if symbol.value is None)
