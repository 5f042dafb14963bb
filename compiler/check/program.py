"""What checking gives: everything that a host (the Python API, the command line) needs to know of a program, as data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from itertools import product
from typing import Protocol

from shapescript.compiler.check.types import Record, Tensor, Type
from shapescript.compiler.diagnostics.model import Diagnostic, Span
from shapescript.compiler.ir.nodes import Module
from shapescript.compiler.ir.sizes import Size, Symbol
from shapescript.compiler.ir.types import Element, ModelType
from shapescript.compiler.records.dataclass import dataclass

DefaultValue = int | float | bool | str


TypeParameter = ModelType | Record


class Generics(Protocol):
    """Makes instances of a program's generic functions."""

    def instantiate(self, signature: Signature, given: Mapping[TypeParameter, TypeParameter]) -> Signature:
        """The instance with these types, its IR and that of what it calls added to the program's module. Raises CompileError."""

    def complete(self, key: str) -> None:
        """Adds the IR of an imported function for further types of elements, and of what it calls. Raises CompileError."""


@dataclass(frozen=True)
class SignatureParameter:
    """A parameter of a function. A batch or record is several of the IR function's parameters, in the order of its fields (types.lower)."""

    name: str
    type: Type
    mutable: bool
    default: DefaultValue | None
    span: Span


@dataclass(frozen=True)
class Signature:
    """A function as callers see it. `key` names its IR in the module; dims are its dim parameters, `axes` its axis variables.

    Axis variables and dims are symbols without a value inside the parameters' types; a call binds them from the arguments' shapes.
    A generic function has type parameters too (models and records without members) and requirements: functions that the types' module, or
    the caller's, has to declare. Its IR exists for instances only: `Program.generics` makes them.
    """

    name: str
    key: str
    dims: tuple[Symbol, ...]
    axes: tuple[Symbol, ...]
    parameters: tuple[SignatureParameter, ...]
    result: Type
    span: Span
    types: tuple[TypeParameter, ...] = ()
    requirements: tuple[Signature, ...] = ()
    defaults: Mapping[Symbol, Size] = field(default_factory=dict)  # of dims, by those before them


@dataclass(frozen=True)
class Program:
    """A checked file with what it imports. Names are those that the file declares (functions: all overloads, in order).

    `module` holds the IR of every function of every module reached, None where an error was found. `sources` are the paths of these
    modules; `texts` is what stands in them, what is imported before what imports it. `imports` are the functions of the modules that the
    file imports, by the names that it gives them.
    """

    path: str
    diagnostics: tuple[Diagnostic, ...]
    dims: Mapping[str, int]
    constants: Mapping[str, DefaultValue]
    models: Mapping[str, ModelDeclaration]
    records: Mapping[str, Record]
    functions: Mapping[str, tuple[Signature, ...]]
    module: Module | None
    sources: tuple[str, ...]
    texts: tuple[str, ...]
    generics: Generics
    imports: Mapping[str, Mapping[str, tuple[Signature, ...]]]


FLOATS = (Element.F32, Element.F64, Element.BF16)
Elements = Mapping[str, Element]


@dataclass(frozen=True)
class ElementParameter:
    """`F: float = f32` of a model."""

    name: str
    default: Element | None = None


ModelParameter = Symbol | ModelType | ElementParameter


@dataclass(frozen=True)
class ModelDeclaration:
    """A model. With parameters, dims and models in the order of their declaration, `type` holds them as arguments; its elements are the
    defaults, f32 where there is none.

    `defaults` are sizes made of the dims before; `with_elements` gives the type for others.
    """

    name: str
    type: ModelType
    parameters: tuple[ModelParameter, ...]
    span: Span
    defaults: Mapping[Symbol, Size] = field(default_factory=dict)
    with_elements: Callable[[Elements], ModelType] | None = None
    _made: dict[tuple[Element, ...], ModelType] = field(default_factory=dict)

    def made_of(self, elements: Elements) -> ModelType:
        """The type with these elements for all its element parameters; dims and models are open, as in `type`."""
        if self.with_elements is None:
            return self.type
        key = tuple(elements[parameter.name] for parameter in self.elements)
        if key not in self._made:
            self._made[key] = self.with_elements(elements)
        return self._made[key]

    def variants(self) -> Iterator[ModelType]:
        """The types with each choice of elements."""
        names = [parameter.name for parameter in self.elements]
        for chosen in product(FLOATS, repeat=len(names)):
            yield self.made_of(dict(zip(names, chosen, strict=True)))

    @property
    def optional(self) -> frozenset[str]:
        """The parameters that have a default."""
        return frozenset(symbol.name for symbol in self.defaults) | {one.name for one in self.elements if one.default is not None}

    @property
    def elements(self) -> tuple[ElementParameter, ...]:
        return tuple(parameter for parameter in self.parameters if isinstance(parameter, ElementParameter))

    @property
    def dims(self) -> tuple[Symbol, ...]:
        return tuple(parameter for parameter in self.parameters if isinstance(parameter, Symbol))

    @property
    def models(self) -> tuple[ModelType, ...]:
        return tuple(parameter for parameter in self.parameters if isinstance(parameter, ModelType))


__all__ = ["DefaultValue", "ModelDeclaration", "Program", "Record", "Signature", "SignatureParameter", "Tensor"]
