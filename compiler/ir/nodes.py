"""The nodes of the typed IR: values, operations, blocks, functions. There are no others.

A value is defined once: by an operation, or as a block's parameter. An operation's meaning is its name's entry in the op table; what
varies beside operands stands in `attributes`. Structured control flow is operations with regions. Nodes are compared by identity and never
changed: a pass builds new ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

from shapescript.compiler.diagnostics.model import Span
from shapescript.compiler.ir.sizes import Symbol
from shapescript.compiler.ir.types import Type
from shapescript.compiler.records.dataclass import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """A result; `hint` is the name that the program gave it, for printing and messages."""

    type: Type
    hint: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class Op:
    name: str
    operands: tuple[Value, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    results: tuple[Value, ...] = ()
    regions: tuple[Block, ...] = ()
    span: Span | None = None

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value


@dataclass(frozen=True, eq=False, slots=True)
class Block:
    """Operations in order; `symbols` are the sizes that entering the block binds (the rows of a batch)."""

    parameters: tuple[Value, ...]
    ops: tuple[Op, ...]
    yields: tuple[Value, ...]
    symbols: tuple[Symbol, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Function:
    """A function: `dims` are its dim parameters; the body yields the results, then the new value of each `mut` parameter in order.

    Axis variables are the symbols in the parameters' types that are neither dims with a value nor in `dims`.
    `mutable` says for each parameter of the body whether it is `mut`; `results` counts the declared ones.
    """

    name: str
    dims: tuple[Symbol, ...]
    body: Block
    mutable: tuple[bool, ...]
    results: int
    span: Span | None = None

    def with_body(self, body: Block) -> Function:
        return Function(self.name, self.dims, body, self.mutable, self.results, self.span)


@dataclass(frozen=True, eq=False, slots=True)
class Module:
    """Checked functions by their key: the declaring module, the name and the number among its overloads."""

    functions: Mapping[str, Function]


def walk(block: Block) -> Iterator[Op]:
    """Every operation, those in regions too, outer before inner."""
    return walk_ops(block.ops)


def walk_ops(ops: Iterable[Op]) -> Iterator[Op]:
    for op in ops:
        yield op
        for region in op.regions:
            yield from walk_ops(region.ops)


def free_values(block: Block) -> tuple[Value, ...]:
    """What a region uses from outside, in order of first use."""
    defined: set[Value] = set(block.parameters)
    found: dict[Value, None] = {}

    def use(value: Value) -> None:
        if value not in defined:
            found.setdefault(value)

    for op in block.ops:
        for operand in op.operands:
            use(operand)
        for region in op.regions:
            for value in free_values(region):
                use(value)
        defined.update(op.results)
    for value in block.yields:
        use(value)
    return tuple(found)


def values_read(op: Op) -> tuple[Value, ...]:
    """What an operation reads: its operands, then what its regions use from outside."""
    return (*op.operands, *(value for region in op.regions for value in free_values(region)))


def use_counts(block: Block) -> Counter[Value]:
    """How often operations and the ends of blocks read each value, in regions too."""
    found = Counter(block.yields)
    for op in walk(block):
        found.update(op.operands)
        for region in op.regions:
            found.update(region.yields)
    return found


def used_values(block: Block) -> frozenset[Value]:
    """Every value that an operation or the end of a block reads, in regions too."""
    found = set(block.yields)
    for op in walk(block):
        found.update(op.operands)
        found.update(value for region in op.regions for value in region.yields)
    return frozenset(found)
