"""What a load may ask for at a name: a type gives a result, a start gives one too, any other value is restored or compared."""

from __future__ import annotations

from typing import Literal

from shapescript.compiler.records.dataclass import dataclass
from shapescript.runtime.arrays import ElementType
from shapescript.runtime.layout import Layout
from shapescript.runtime.model import Model
from shapescript.runtime.optimiser import Optimiser


@dataclass(frozen=True)
class ModelType:
    """Ask for a new model of this layout."""

    layout: Layout


@dataclass(frozen=True)
class OptimiserType:
    """Ask for a new state of this kind over models of this layout."""

    kind: type[Optimiser]
    layout: Layout


@dataclass(frozen=True)
class ScalarType:
    """Ask for a host scalar."""

    name: Literal["int", "float", "bool", "str"]


@dataclass(frozen=True)
class TensorType:
    """Ask for a tensor with these axes."""

    dtype: ElementType
    axes: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class Start:
    """Ask for a copy of this value with every parameter that the file has for it (`partial=true`)."""

    value: Model | Optimiser


RequestType = ModelType | OptimiserType | ScalarType | TensorType

# A RequestType or a Start asks for a result. A Mode or a LogSink is restored in place, a Dataset is compared; any other value must
# equal what was saved.
Request = object
