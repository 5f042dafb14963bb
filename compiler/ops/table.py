"""The op table: one entry an operation, with its type rule, its derivative and its lowering as data.

The modules of this room fill the table; `entry(name)` reads it. A test walks it and fails for an entry that lacks a part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

from shapescript.compiler.ir.nodes import Op, Value
from shapescript.compiler.ir.types import Type
from shapescript.compiler.ir.verifier import InvalidIR
from shapescript.compiler.records.dataclass import dataclass

if TYPE_CHECKING:
    from shapescript.compiler.numerics.scalar import Expr
    from shapescript.compiler.ops.build import Builder


# ---- lowering, as data ------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scalar:
    """Elementwise: operands and results have the same axes; the value at a place is the expression of the operands' values there."""

    build: Callable[[Sequence[Expr]], Expr]


@dataclass(frozen=True)
class Indexed:
    """Elementwise, with the row-major index of the element in its own tensor: a dropout mask, `arange`."""

    kernel: str


@dataclass(frozen=True)
class Reduction:
    """Over the axes at the attribute `positions`, in the order that docs/exactness.md defines. kind: sum, max, min."""

    kind: str


@dataclass(frozen=True)
class Contraction:
    """A sum of products by the attributes `left`, `right`, `out` (a number for each axis; equal numbers are one axis)."""


@dataclass(frozen=True)
class View:
    """The same elements in the same order under another type: no code. kind: reshape, leaf, submodel, identity."""

    kind: str


@dataclass(frozen=True)
class Move:
    """Elements in another place, unchanged. kind: broadcast, transpose, copy, pack, replace."""

    kind: str


@dataclass(frozen=True)
class Kernel:
    """A kernel of its own in both engines, named here."""

    name: str


@dataclass(frozen=True)
class Host:
    """Done by the host: files, logs, prints, starts of models, the making of handles."""

    name: str


@dataclass(frozen=True)
class Control:
    """Structured control flow and what the early passes remove. name: as the operation."""

    name: str


@dataclass(frozen=True)
class Composite:
    """Replaced by other operations after differentiation: `expand(builder, op)` gives its results."""

    expand: Callable[[Builder, Op], tuple[Value, ...]]


Lowering = Scalar | Indexed | Reduction | Contraction | View | Move | Kernel | Host | Control | Composite


# ---- derivatives ------------------------------------------------------------------------------------------------------------------------

# Given the builder, the operation and the gradient of each result (None: nothing flows there), the gradient of each operand (None: none).
Rule = Callable[["Builder", Op, Sequence[Value | None]], Sequence[Value | None]]


class NoDerivative(Enum):
    """Why an operation has no rule."""

    ZERO = "its result doesn't vary smoothly: nothing flows back"  # comparisons, indices, sizes
    FORBIDDEN = "it can't be differentiated"  # an error of the program where a gradient reaches it
    STRUCTURAL = "the differentiation pass follows the structure itself"  # leaves of models, control flow


@dataclass(frozen=True)
class OpEntry:
    """`infer` gives the results' types and raises InvalidIR where operands or attributes don't fit.

    An ordered operation has an effect or depends on one: it is neither moved past another ordered one, nor dropped, nor done twice.
    `consumes` are the operands whose storage the first results take over (in order): a pass copies where they are still needed.
    """

    name: str
    infer: Callable[[Op], tuple[Type, ...]]
    derivative: Rule | NoDerivative
    lowering: Lowering
    ordered: bool = False
    consumes: tuple[int, ...] = ()


_table: dict[str, OpEntry] = {}


def register(entry_: OpEntry) -> OpEntry:
    if entry_.name in _table:
        raise InvalidIR(f"operation {entry_.name} has two entries")
    _table[entry_.name] = entry_
    return entry_


def entry(name: str) -> OpEntry:
    if name not in _table:
        raise InvalidIR(f"no operation {name}")
    return _table[name]


def entries() -> Mapping[str, OpEntry]:
    return _table


def infer(op: Op) -> tuple[Type, ...]:
    """For the verifier."""
    return entry(op.name).infer(op)


def require(condition: bool, op: Op, message: str) -> None:
    if not condition:
        operands = ", ".join(str(operand.type) for operand in op.operands)
        raise InvalidIR(f"{op.name}({operands}) {dict(op.attributes)}: {message}")


def attribute(op: Op, name: str) -> Any:
    require(name in op.attributes, op, f"needs the attribute {name}")
    return op.attributes[name]
