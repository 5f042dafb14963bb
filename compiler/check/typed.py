"""Checked expressions: a type, the IR values that hold it, and variables."""

from __future__ import annotations

from collections.abc import Mapping

from shapescript.compiler.check import types
from shapescript.compiler.check.types import Axis, Type
from shapescript.compiler.diagnostics.model import Span
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.sizes import Size
from shapescript.compiler.records.dataclass import dataclass

Constant = int | float | bool | str


@dataclass(frozen=True)
class Typed:
    """`values` as types.lower says. `constant` where the value is known; `path` is a list's place in its model, values[0]."""

    type: Type
    values: tuple[Value, ...] = ()
    constant: Constant | None = None
    path: str = ""
    batches: tuple[Value, ...] = ()

    @property
    def value(self) -> Value:
        (value,) = self.values
        return value


@dataclass(frozen=True)
class Variable:
    """A name in force. `depth` counts the blocks around its binding. A broken one had a mistake there; a loop's isn't rebindable."""

    name: str
    typed: Typed
    mutable: bool
    depth: int
    span: Span
    broken: bool = False
    rebindable: bool = True


class Environment(dict[str, Variable]):
    """The variables in force. `held` are the values that any of them has held, in inner blocks too.

    `lengths` are the axes of slices whose length a run decides, by the name of the axis and the length.
    """

    def __init__(self, variables: Mapping[str, Variable] | None = None, held: set[Value] | None = None) -> None:
        super().__init__(variables or {})
        self.held: set[Value] = set() if held is None else held
        self.lengths: dict[tuple[str, Size], Axis] = {}

    def __setitem__(self, name: str, variable: Variable) -> None:
        super().__setitem__(name, variable)
        self.held.update(variable.typed.values)

    def inner(self) -> Environment:
        """The same variables, for a block whose own bindings end with it."""
        inside = Environment(self, self.held)
        inside.lengths.update(self.lengths)
        return inside


@dataclass(frozen=True)
class Place:
    """What a `mut` argument names: a variable, or a member of it by its dotted path."""

    variable: Variable
    path: str


def split(type_: Type, values: tuple[Value, ...]) -> tuple[Typed, ...]:
    """The elements of a tuple."""
    assert isinstance(type_, types.Tuple)
    found: list[Typed] = []
    start = 0
    for element in type_.elements:
        width = len(types.lower(element))
        found.append(Typed(element, values[start : start + width]))
        start += width
    return tuple(found)
