"""Functions after simplification, and what is looked at in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from evaluating import function_of, linear, tensor

from shapescript.compiler.ir.nodes import Function, Value, walk
from shapescript.compiler.ir.sizes import number
from shapescript.compiler.ir.types import Member, ModelType, Type
from shapescript.compiler.ir.verifier import verify_function
from shapescript.compiler.ops.table import infer
from shapescript.compiler.passes.simplify import simplify

PAIR = ModelType("Pair", "main", (), (Member("one", linear(number(2), number(2))), Member("two", linear(number(2), number(2)))))
F32_SCALAR = tensor()


def simplified(types: Sequence[Type], build: Callable[..., Value | Sequence[Value]], mutable: Sequence[int] = ()) -> Function:
    found = simplify(function_of(types, build, mutable))
    verify_function(found, infer)
    return found


def names(function: Function) -> list[str]:
    return [op.name for op in walk(function.body)]


def constant_of(function: Function) -> object:
    (value,) = function.body.yields
    (op,) = [op for op in walk(function.body) if value in op.results]
    assert op.name == "constant"
    return op.attributes["value"]


def bits(values: Sequence[object]) -> list[tuple[object, ...]]:
    """What must be equal: shape, type and bytes, NaNs taken as one."""
    arrays = [np.asarray(value) for value in values]
    return [(a.shape, a.dtype, np.where(np.isnan(a), np.nan, a).astype(a.dtype).tobytes()) for a in arrays]
