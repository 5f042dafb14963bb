"""Elementwise operations, moves of elements, views, and host numbers."""

from __future__ import annotations

from functools import cache

from shapescript.compiler.codegen import scalars
from shapescript.compiler.codegen.elements import constant, emit_scalar_op
from shapescript.compiler.codegen.elementwise import ElementwiseKernel, as_kernel, lower_kernel
from shapescript.compiler.codegen.emit import size
from shapescript.compiler.codegen.lowering import RULES, Lowering, Site, lowers
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.types import TensorType
from shapescript.compiler.numerics.elementary import division_fails, floor_divide, modulo
from shapescript.compiler.numerics.scalar import I64, Argument, Expr
from shapescript.compiler.ops.locations import has_storage
from shapescript.compiler.ops.table import Scalar, entries


@lowers("constant")
def _constant(low: Lowering, op: Op) -> None:
    low.define(op.result, constant(op))


@lowers("size")
def _size(low: Lowering, op: Op) -> None:
    low.define(op.result, size(low.size(op.attributes["size"])))


def _elementwise(low: Lowering, op: Op) -> None:
    if has_storage(op.result):
        lower_kernel(low, as_kernel(op))
    else:
        low.define(op.result, emit_scalar_op(low.b, op, [low.number(operand) for operand in op.operands]))


for _name, _entry in entries().items():
    if isinstance(_entry.lowering, Scalar):
        RULES[_name] = _elementwise


@lowers("iota", "dropout", "broadcast", "transpose")
def _alone(low: Lowering, op: Op) -> None:
    lower_kernel(low, as_kernel(op))


@lowers("kernel")
def _kernel(low: Lowering, op: Op) -> None:
    results = tuple(result if not has_storage(result) or low.has_place(result) else None for result in op.results)
    space, maps = tuple(op.attributes["space"]), tuple(map(tuple, op.attributes["maps"]))
    lower_kernel(low, ElementwiseKernel(space, op.operands, maps, op.regions[0], results))


@lowers("reshape", "leaf", "submodel", "flat", "stop_gradient")
def _view(low: Lowering, op: Op) -> None:
    """No code, but where the view is a number: it is read from the tensor or model."""
    operand, result = op.operands[0], op.result
    if has_storage(result):
        if not has_storage(operand):
            low.store_number(low.number(operand), low.pointer(result))
        return
    assert isinstance(result.type, TensorType)
    if not has_storage(operand):
        low.define(result, *low.values[operand])
        return
    low.define(result, low.load_number(low.part(operand, op.attributes.get("path", "")), result.type.element))


@cache
def _integer_division(name: str) -> tuple[Expr, Expr]:
    left, right = Argument(0, I64), Argument(1, I64)
    return division_fails(left, right), {"floordiv": floor_divide, "mod": modulo}[name](left, right)


@lowers("floordiv", "mod")
def _divide_integers(low: Lowering, op: Op) -> None:
    fails, result = _integer_division(op.name)
    operands = [low.number(operand) for operand in op.operands]
    low.fail_if(scalars.emit(low.b, fails, operands), Site("integer division", op), operands)
    low.define(op.result, scalars.emit(low.b, result, operands))


@lowers("check")
def _check(low: Lowering, op: Op) -> None:
    low.fail_if(low.b.not_(low.number(op.operands[0])), Site("check", op))
