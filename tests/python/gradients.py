"""Builds gradients by hand and runs them in the reference evaluator."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from evaluating import RecordingHost, function_of, type_of

from shapescript.compiler.ir.nodes import Function, Value
from shapescript.compiler.ir.sizes import Size, number
from shapescript.compiler.ir.verifier import verify_function
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.ops.table import infer
from shapescript.compiler.passes.differentiate import differentiate
from shapescript.compiler.passes.expand import expand
from shapescript.compiler.reference.engine import Evaluator

Make = Callable[[Builder, Value], Value]


def sizes(*values: int) -> tuple[Size, ...]:
    return tuple(number(value) for value in values)


def total(b: Builder, value: Value) -> Value:
    """The sum of all elements."""
    positions = tuple(range(result_type(value).rank))
    return b.op("sum", value, positions=positions) if positions else value


def gradient(b: Builder, wrt: Value, make: Make) -> tuple[Value, Value]:
    """value_and_grad of the sum of what `make` gives."""
    inner, inside = Builder(b.span), Value(wrt.type, wrt.hint)
    value = total(inner, make(inner, inside))
    found = b.emit("value_and_grad", wrt, regions=[inner.block([inside], [value])])
    return found[0], found[1]


def ready(function: Function) -> Function:
    found = expand(differentiate(function))
    verify_function(found, infer)
    return found


class Gradient:
    """The value and the gradient of the sum of what `make` gives, for arguments of one type."""

    def __init__(self, make: Make, x: np.ndarray) -> None:
        self.function = ready(function_of([type_of(x)], lambda b, p: gradient(b, p, make), hints=["x"]))

    def at(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        value, found = Evaluator(self.function).run([x], RecordingHost())
        return value, np.asarray(found)  # type: ignore[return-value]
