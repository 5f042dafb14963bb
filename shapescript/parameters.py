"""The rule of every kind of parameter. Only models, optimisers and tensors can be `mut`: the checker sees to that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy import ndarray

from shapescript.axes import Shape, Sizes
from shapescript.compiler.check import types as check
from shapescript.compiler.check.program import SignatureParameter
from shapescript.compiler.ir.types import Element
from shapescript.layouts import Layouts
from shapescript.object_rules import BatchRule, DatasetRule, HandleRule, ModelArgument, OptimiserArgument
from shapescript.rule import Rule
from shapescript.runtime.arrays import NUMPY_DTYPES, Array, engine_array, of_element_type, usable_array
from shapescript.runtime.arrays import sizes as shape_text
from shapescript.runtime.errors import ArgumentError, did_you_mean
from shapescript.scalars import ELEMENTS, HOST, Take


class ArrayRule(Rule):
    """A tensor with axes."""

    __slots__ = ("dtype", "element", "is_bool", "shape")

    def __init__(self, name: str, type_: check.Tensor) -> None:
        super().__init__(name, type_)
        self.element, self.dtype, self.shape = type_.element, NUMPY_DTYPES[type_.element.value], Shape(name, type_.axes)
        self.is_bool = type_.element is Element.BOOL

    def take(self, value: Any, sizes: Sizes, arguments: list[Any]) -> None:
        array = value if type(value) is ndarray and value.dtype is self.dtype else engine_array(self._converted(value))
        flags = array.flags
        if not (flags.c_contiguous and flags.aligned):
            array = np.array(array, order="C")
        if self.is_bool:
            array = array.view(np.uint8) != 0  # an array that was made as a view of bytes may hold others than 0 and 1
        if self.shape.leading is None:
            self.shape.bind(array.shape, sizes)
        else:
            collapsed = self.shape.collapsed(array.shape, sizes)
            self.shape.bind(collapsed, sizes)
            array = array.reshape(collapsed)
        arguments.append(array)

    def _converted(self, value: Any) -> Array:
        array = usable_array(self.name, value)
        if self.shape.leading is None and array.ndim != len(self.shape.axes):
            raise self.shape.wrong_rank(array.shape)
        return of_element_type(self.name, array, self.element.value)

    def seen(self, value: Any) -> str:
        return f"{self.name}: {self.type} has shape {shape_text(np.shape(value))}"


class ChangedArrayRule(ArrayRule):
    """A tensor with axes that the call changes: the caller's own array, so nothing is copied."""

    __slots__ = ()

    def take(self, value: Any, sizes: Sizes, arguments: list[Any]) -> None:
        if not isinstance(value, ndarray) or isinstance(value, np.ma.MaskedArray):
            raise self.wrong_type("a NumPy array, which the call changes in place", value)
        if self.element is Element.BF16 and value.dtype == np.float32:
            mend = "an array of ml_dtypes.bfloat16 will do, or a function that returns the tensor"
            raise ArgumentError("R1001", f"{self.name}: float32 can't take what the call puts into a tensor of bfloat16; {mend}")
        array = engine_array(self._converted(value))
        if not array.flags.writeable:
            raise ArgumentError("R1006", f"{self.name}: the array is read-only, and the call changes it; give it a copy: array.copy()")
        if not (array.flags.c_contiguous and array.flags.aligned):
            mend = "give it numpy.ascontiguousarray(array), and copy back"
            raise ArgumentError("R1006", f"{self.name}: the array doesn't lie in one piece, and the call changes it in place; {mend}")
        if self.is_bool:
            np.not_equal(array.view(np.uint8), 0, out=array)  # a view of bytes may hold others than 0 and 1
        collapsed = self.shape.collapsed(array.shape, sizes)
        self.shape.bind(collapsed, sizes)
        arguments.append(array.reshape(collapsed))


class NumberRule(Rule):
    """A host scalar or a tensor without axes."""

    __slots__ = ("convert",)

    def __init__(self, name: str, type_: check.Scalar | check.Tensor) -> None:
        super().__init__(name, type_)
        self.convert: Take = ELEMENTS[type_.element] if isinstance(type_, check.Tensor) else HOST[type_.name]

    def take(self, value: Any, sizes: Sizes, arguments: list[Any]) -> None:
        arguments.append(self.convert(self.name, value))


class RecordRule(Rule):
    """One example of a record, given as a mapping of its fields: the engine gets each field."""

    __slots__ = ("fields",)

    def __init__(self, name: str, type_: check.Record) -> None:
        super().__init__(name, type_)
        self.fields: dict[str, Rule] = {field: tensor_rule(f"{name}.{field}", kind) for field, kind in type_.fields}

    def take(self, value: Any, sizes: Sizes, arguments: list[Any]) -> None:
        if not isinstance(value, Mapping):
            raise self.wrong_type(f"the fields of {self.type} as a dict", value)
        unexpected = [str(name) for name in value if name not in self.fields]
        missing = [name for name in self.fields if name not in value]
        if unexpected:
            hint = did_you_mean(unexpected[0], missing or self.fields)
            raise ArgumentError("R1005", f"{self.name}: {self.type} has no field {unexpected[0]!r}{hint}")
        if missing:
            raise ArgumentError("R1005", f"{self.name}: no value for the field {', '.join(missing)} of {self.type}")
        for name, rule in self.fields.items():
            rule.take(value[name], sizes, arguments)


def rule_for(parameter: SignatureParameter, layouts: Layouts) -> Rule:
    """Raises ArgumentError R1004 for a type that no Python value stands for."""
    name = parameter.name
    match parameter.type:
        case check.Tensor() as kind if parameter.mutable and kind.axes:
            return ChangedArrayRule(name, kind)
        case check.Tensor() if parameter.mutable:
            raise ArgumentError("R1004", f"{name}: a `mut` number can't be given from Python, where numbers don't change")
        case check.Tensor() | check.Scalar() as kind:
            return tensor_rule(name, kind)
        case check.Model() as model:
            return ModelArgument(name, model, layouts)
        case check.Optimiser() as optimiser:
            return OptimiserArgument(name, optimiser, layouts)
        case check.Batch() as batch:
            return BatchRule(name, batch, layouts)
        case check.Record() as record:
            return RecordRule(name, record)
        case check.Dataset() as dataset if not dataset.ordered:
            return DatasetRule(name, dataset, layouts)
        case check.Handle() as handle:
            return HandleRule(name, handle)
    raise ArgumentError("R1004", f"{name}: {parameter.type} can't be given from Python")


def tensor_rule(name: str, kind: check.Tensor | check.Scalar) -> Rule:
    return ArrayRule(name, kind) if isinstance(kind, check.Tensor) and kind.axes else NumberRule(name, kind)
