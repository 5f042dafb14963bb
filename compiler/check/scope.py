"""What names stand for in a module."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from pathlib import Path

from shapescript.compiler.check.program import DefaultValue, ModelDeclaration, Signature
from shapescript.compiler.check.types import Axis, Record, Type
from shapescript.compiler.diagnostics.model import Source, Span
from shapescript.compiler.ir.sizes import Symbol
from shapescript.compiler.records.dataclass import dataclass
from shapescript.compiler.syntax import tree


@dataclass(frozen=True)
class DimEntity:
    symbol: Symbol
    span: Span


@dataclass(frozen=True)
class ConstEntity:
    value: DefaultValue
    span: Span


@dataclass(frozen=True)
class RecordEntity:
    record: Record
    span: Span


@dataclass(frozen=True)
class ModelEntity:
    declaration: ModelDeclaration
    span: Span


@dataclass(frozen=True)
class FunctionInfo:
    """One function: its signature, its tree, the module it stands in, and the axes that its signature names.

    For a generic function `types` says what its type parameters stand for, and `required` what its requirements do: themselves while it is
    checked by itself, what a call gave in an instance. `choice` numbers the choices of its element parameters.
    """

    signature: Signature
    declaration: tree.FunctionDeclaration
    scope: ModuleScope
    axes: dict[str, Axis]
    types: dict[str, Type] = field(default_factory=dict)
    required: tuple[FunctionInfo, ...] = ()
    choice: int = 0


@dataclass(frozen=True)
class FunctionEntity:
    """All overloads of a name, in order."""

    overloads: tuple[FunctionInfo, ...]
    span: Span


@dataclass(frozen=True)
class ModuleEntity:
    scope: ModuleScope
    span: Span


@dataclass(frozen=True)
class BrokenEntity:
    """A declaration with a mistake: its uses are not reported again."""

    span: Span


Entity = DimEntity | ConstEntity | RecordEntity | ModelEntity | FunctionEntity | ModuleEntity | BrokenEntity


@dataclass(eq=False)
class ModuleScope:
    """A module: `name` tells it apart from every other (its path); `entities` fills while declarations are read. `data_folder` is the
    program's, where its data files are looked for first. `is_standard`: it is one of the standard library's."""

    name: str
    source: Source
    module: tree.Module
    entities: dict[str, Entity] = field(default_factory=dict)
    imported: dict[str, Span] = field(default_factory=dict)
    data_folder: Path = Path()
    is_standard: bool = False

    def exported(self, name: str) -> Entity | None:
        """What an importing module finds under the name: a module doesn't hand on what it imports."""
        return None if name in self.imported else self.entities.get(name)

    def seen_from(self, module: ModuleScope, name: str) -> Entity | None:
        """What a module finds under the name here: everything in itself, what is exported elsewhere."""
        return self.entities.get(name) if module is self else self.exported(name)

    def dims(self) -> Iterator[tuple[str, Symbol]]:
        for name, entity in self.entities.items():
            if isinstance(entity, DimEntity):
                yield name, entity.symbol
