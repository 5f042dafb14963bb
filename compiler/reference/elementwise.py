"""Operations element by element: the table's scalar expressions, index kernels, host numbers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.types import Element, TensorType
from shapescript.compiler.numerics.bfloat16 import bits_of_number
from shapescript.compiler.numerics.elementary import division_fails, floor_divide, modulo
from shapescript.compiler.numerics.scalar import I64, Argument, Expr
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.ops.elementwise import KINDS
from shapescript.compiler.ops.protocol import failed_check, integer_division
from shapescript.compiler.ops.table import Scalar, entries, entry
from shapescript.compiler.reference.frame import HANDLERS, Frame, handles
from shapescript.compiler.reference.layouts import DTYPES, Array
from shapescript.compiler.reference.scalars import evaluate, evaluate_all


@cache
def expression(name: str, elements: tuple[Element, ...]) -> Expr:
    """The scalar expression of an operation on these element types."""
    lowering = entry(name).lowering
    assert isinstance(lowering, Scalar)
    return lowering.build([Argument(place, KINDS[element]) for place, element in enumerate(elements)])


def elementwise(name: str, element: Element, *operands: Array) -> Array:
    """An operation of the table whose operands all have one element type; arrays broadcast against each other."""
    return evaluate(expression(name, (element,) * len(operands)), operands)


def _scalar(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    elements = tuple(operand.type.element for operand in op.operands if isinstance(operand.type, TensorType))
    return (evaluate(expression(op.name, elements), operands),)


for _name, _entry in entries().items():
    if isinstance(_entry.lowering, Scalar):
        HANDLERS[_name] = _scalar


@handles("iota")
def _iota(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    shape = frame.shape(op.attributes["axes"], op.span) if frame.space is None else frame.space
    place = op.attributes["position"]
    along = np.arange(shape[place], dtype=np.int64).reshape(-1, *[1] * (len(shape) - place - 1))
    return (np.broadcast_to(along, shape) if frame.space is None else along,)


@handles("by_leaf")
def _by_leaf(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    ends = op.attributes["ends"]
    parts = zip(op.attributes["choice"], (0, *ends), ends, strict=False)
    return (np.concatenate([np.full(end - start, operands[number]) for number, start, end in parts]),)


# ---- host numbers


@cache
def _integer_division(name: str) -> tuple[Expr, Expr]:
    left, right = Argument(0, I64), Argument(1, I64)
    return division_fails(left, right), {"floordiv": floor_divide, "mod": modulo}[name](left, right)


@handles("floordiv", "mod")
def _divide_integers(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    fails, result = evaluate_all(_integer_division(op.name), operands)
    if fails:
        left, right = operands
        raise integer_division(op, int(left), int(right))
    return (result,)


def known_number(value: float, element: Element) -> Array:
    """A number as arrays of its element type hold it."""
    return np.asarray(bits_of_number(value) if element is Element.BF16 else value, DTYPES[element])


@handles("constant")
def _constant(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    return (known_number(op.attributes["value"], result_type(op.result).element),)


@handles("size")
def _size(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    return (np.asarray(frame.size(op.attributes["size"], op.span), np.int64),)


@handles("check")
def _check(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    if not operands[0]:
        raise failed_check(op)
    return ()
