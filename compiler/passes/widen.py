"""bf16 is what tensors are stored in, not what is computed with: an operation on bf16 becomes one on f32, its operands converted, and its
results rounded to bf16 once. What only moves elements, chooses among them or converts them stays.

This is done before differentiation, so that the gradient of an operation is computed in f32 as a whole and rounded once where it leaves it,
and once more behind it, for what differentiation adds: sums of gradients of a tensor that is used several times.
"""

from __future__ import annotations

from collections.abc import Mapping

from shapescript.compiler.ir.nodes import Block, Function, Op, Value
from shapescript.compiler.ir.types import Element, TensorType
from shapescript.compiler.ops.build import Builder, rebuilt
from shapescript.compiler.ops.table import Control, Host, Move, View, entry

# Kernels and expressions that give elements as they are, beside all views, moves, control flow and what the host does.
KEEPS_ELEMENTS = frozenset(
    {"constant", "select", "gather", "take_along", "dataset_all", "reserve", *(f"to_{one.value}" for one in Element)}
)
COMPUTES = frozenset({"add_slice", "fold", "print"})  # among moves, and what the host can't show


def widen(function: Function) -> Function:
    return function.with_body(_block(function.body))


def _block(block: Block) -> Block:
    builder = Builder()
    for op in block.ops:
        builder.span = op.span
        if op.regions:
            op = rebuilt(op, op.operands, [_block(region) for region in op.regions], op.results)
        if is_computed(op) and any(map(_is_narrow, (*op.operands, *op.results))):
            _compute(builder, op)
        else:
            builder.ops.append(op)
    return Block(block.parameters, tuple(builder.ops), block.yields, block.symbols)


def is_computed(op: Op) -> bool:
    if op.name in COMPUTES:
        return True
    return op.name not in KEEPS_ELEMENTS and not isinstance(entry(op.name).lowering, View | Move | Host | Control)


def _is_narrow(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.element is Element.BF16


def _compute(builder: Builder, op: Op) -> None:
    wide: Mapping[Value, Value] = {operand: builder.convert(operand, Element.F32) for operand in op.operands if _is_narrow(operand)}
    found = builder.emit(op.name, *(wide.get(operand, operand) for operand in op.operands), **op.attributes)
    made = builder.ops.pop()
    results = tuple(new if _is_narrow(old) else old for old, new in zip(op.results, found, strict=True))
    builder.ops.append(rebuilt(made, made.operands, op.regions, results))
    for old, new in zip(op.results, found, strict=True):
        if _is_narrow(old):
            builder.ops.append(Op("to_bf16", (new,), {}, (old,), (), op.span))
