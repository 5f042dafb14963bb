"""Makes operations: their results' types come from the op table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from shapescript.compiler.diagnostics.model import Span
from shapescript.compiler.ir.nodes import Block, Op, Value
from shapescript.compiler.ir.sizes import Size, Symbol
from shapescript.compiler.ir.types import FLOAT, Element, TensorType, Type
from shapescript.compiler.ops.table import entry


class Builder:
    """Collects operations of one block. `span` is given to each operation made."""

    def __init__(self, span: Span | None = None) -> None:
        self.ops: list[Op] = []
        self.span = span

    def emit(
        self, name: str, /, *operands: Value, regions: Sequence[Block] = (), hints: Sequence[str] = (), **attributes: Any
    ) -> tuple[Value, ...]:
        """Append an operation; gives its results."""
        bare = Op(name, operands, attributes, (), tuple(regions), self.span)
        types = entry(name).infer(bare)
        names = list(hints) + [""] * (len(types) - len(hints))
        results = tuple(Value(type_, hint) for type_, hint in zip(types, names, strict=True))
        self.ops.append(Op(name, operands, attributes, results, tuple(regions), self.span))
        return results

    def op(self, name: str, /, *operands: Value, hint: str = "", **attributes: Any) -> Value:
        """Append an operation with one result; gives it."""
        (result,) = self.emit(name, *operands, hints=(hint,), **attributes)
        return result

    def rename_last(self, hint: str) -> tuple[Value, ...]:
        """The last operation's only result, not used yet, under a name for printing."""
        last = self.ops.pop()
        named = (Value(last.result.type, hint),)
        self.ops.append(Op(last.name, last.operands, last.attributes, named, last.regions, last.span))
        return named

    @contextmanager
    def at(self, span: Span | None) -> Iterator[None]:
        """Operations made inside belong to this place in the source."""
        before, self.span = self.span, span
        yield
        self.span = before

    # ---- short forms that several rules share

    def constant(self, value: float | int | bool, element: Element) -> Value:
        return self.op("constant", value=value, element=element)

    def full(self, value: float | int | bool, type_: TensorType) -> Value:
        return self.spread(self.constant(value, type_.element), type_)

    def spread(self, scalar: Value, type_: TensorType) -> Value:
        """A tensor without axes, at every place of the type's axes."""
        return self.broadcast(scalar, type_.axes, ())

    def broadcast(self, value: Value, axes: Sequence[Size], positions: Sequence[int]) -> Value:
        """`positions[i]` is the place among `axes` of the operand's axis i; nothing is made where nothing changes."""
        if len(axes) == len(positions) and tuple(positions) == tuple(range(len(axes))):
            return value
        return self.op("broadcast", value, axes=tuple(axes), positions=tuple(positions))

    def convert(self, value: Value, element: Element) -> Value:
        assert isinstance(value.type, TensorType)
        return value if value.type.element is element else self.op(f"to_{element.value}", value)

    def size(self, size: Size, element: Element = Element.I64) -> Value:
        """The number of places along an axis, as a host int or rounded to a float type."""
        count = self.op("size", size=size)
        return self.convert(count, element)

    def float_constant(self, value: float) -> Value:
        return self.constant(value, FLOAT.element)

    def block(self, parameters: Iterable[Value], yields: Iterable[Value], symbols: Iterable[Symbol] = ()) -> Block:
        """What was collected, as a block."""
        return Block(tuple(parameters), tuple(self.ops), tuple(yields), tuple(symbols))


def rebuilt(
    op: Op, operands: Sequence[Value], regions: Sequence[Block], results: Sequence[Value], attributes: Mapping[str, Any] | None = None
) -> Op:
    """The operation with other parts; a pass that keeps types uses this instead of inferring again."""
    return Op(op.name, tuple(operands), op.attributes if attributes is None else attributes, tuple(results), tuple(regions), op.span)


def result_type(value: Value) -> TensorType:
    assert isinstance(value.type, TensorType)
    return value.type


def same_types(values: Iterable[Value]) -> tuple[Type, ...]:
    return tuple(value.type for value in values)
