"""Random functions of tensors of all element types, over the axes of random_tensor_programs."""

from __future__ import annotations

import numpy as np
from evaluating import DTYPES, function_of
from random_tensor_programs import SHAPES, UNARY, B, D, N, TensorWriter

from shapescript.compiler.ir.nodes import Function, Value
from shapescript.compiler.ir.sizes import Size
from shapescript.compiler.ir.types import Element, TensorType
from shapescript.compiler.ops.build import Builder, result_type

ELEMENTS = (Element.F32, Element.F64, Element.I64, Element.BOOL)
TYPES = [TensorType(element, axes) for axes in SHAPES for element in ELEMENTS]
KINDS = ("convert", "transpose", "spread", "reshape", "reduce", "extreme", "binary", "compare", "select", "contract", "unary")


class MixedWriter(TensorWriter):
    def pick(self, values: list[Value], axes: tuple[Size, ...] | None = None, element: Element | None = None) -> Value:
        """A value of the shape and element type, recent ones more often."""
        fitting = [v for v in values if element in (None, result_type(v).element) and axes in (None, result_type(v).axes)]
        return self.random.choice(fitting[-5:] if self.random.random() < 0.7 else fitting)

    def operation(self, b: Builder, values: list[Value]) -> None:
        r, x = self.random, self.pick(values)
        kind = result_type(x)
        y, number = self.pick(values, kind.axes, kind.element), kind.element is not Element.BOOL
        match r.choice(KINDS):
            case "convert":
                values.append(b.convert(x, r.choice(ELEMENTS)))
            case "transpose":
                values.append(b.op("transpose", x, permutation=tuple(r.sample(range(kind.rank), kind.rank))))
            case "spread":
                self.spread(b, values)
            case "reshape":
                self.reshape(b, values, x)
            case "reduce" if number and kind.axes:
                positions = tuple(sorted(r.sample(range(kind.rank), r.randint(1, kind.rank))))
                values.append(b.op("mean" if kind.element.is_float and r.random() < 0.3 else "sum", x, positions=positions))
            case "extreme" if number and kind.axes:
                values.append(b.op(r.choice(("max", "min", "argmax", "argmin")), x, positions=(r.randrange(kind.rank),)))
            case "binary":
                values.append(b.op(r.choice(("add", "sub", "mul") if number else ("and", "or")), x, y))
            case "compare" if number:
                values.append(b.op(r.choice(("lt", "ge", "eq", "ne")), x, y))
            case "select" if any(result_type(v) == TensorType(Element.BOOL, kind.axes) for v in values):
                values.append(b.op("select", self.pick(values, kind.axes, Element.BOOL), x, y))
            case "contract" if kind.element.is_float:
                same = [value for value in values if result_type(value).element is kind.element]
                before = len(same)
                self.contract(b, same)
                values += same[before:]
            case "unary" if kind.element.is_float:
                values.append(b.op(r.choice(UNARY), x))

    def function(self) -> Function:
        def build(b: Builder, *parameters: Value) -> list[Value]:
            values = list(parameters)
            for _ in range(self.random.randint(6, 16)):
                self.operation(b, values)
            return values[-3:]

        return function_of(TYPES, build)


def arguments(b: int, n: int) -> list[np.ndarray]:
    generator = np.random.default_rng(b * 10 + n)
    sizes = {B: b, N: n, D: 4, B * N: b * n}
    return [generator.normal(0, 2, [sizes[axis] for axis in kind.axes]).astype(DTYPES[kind.element]) for kind in TYPES]
