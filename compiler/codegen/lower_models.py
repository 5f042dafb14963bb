"""Models and what is done to whole gradients: packing, copies, norms, checks."""

from __future__ import annotations

from collections.abc import Sequence

from shapescript.compiler.codegen import emit
from shapescript.compiler.codegen.emit import F32, F64, I64, Builder, Value, at, load
from shapescript.compiler.codegen.failures import NO_STEP
from shapescript.compiler.codegen.gradient_norm import (
    Parameter,
    block_total,
    emit_all_finite,
    emit_norm,
    emit_square_blocks,
    norm_scratch_bytes,
    not_finite,
)
from shapescript.compiler.codegen.leaf_updates import emit_pairs, emit_scale, emit_square_sum
from shapescript.compiler.codegen.lowering import MEMORY_TYPES, Lowering, Site, lowers
from shapescript.compiler.codegen.storage import clear_bytes, copy_bytes, move_into
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.flat import ALIGNMENT, FlatLayout, FlatLeaf, flat_layout
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.sizes import product
from shapescript.compiler.ir.types import Element, ModelType, TensorType, sorted_leaves
from shapescript.compiler.numerics.optimisers import STEP
from shapescript.compiler.ops.locations import Location, has_storage, part_offset, storage_bytes


def layout_of(value: nodes.Value) -> FlatLayout:
    assert isinstance(value.type, ModelType)
    return flat_layout(value.type)


def trained_leaves(layout: FlatLayout) -> list[FlatLeaf]:
    return [part for part in layout.leaves if part.leaf.is_trained]


# ---- storage


@lowers("copy")
def _copy(low: Lowering, op: Op) -> None:
    (operand,) = op.operands
    if has_storage(op.result):
        move_into(low, operand, low.plan.locations[op.result])
    else:
        low.define(op.result, *low.values[operand])


@lowers("pack")
def _pack(low: Lowering, op: Op) -> None:
    model = op.result
    target = low.plan.locations[model]
    for leaf, operand in zip(sorted_leaves(op.attributes["model"]), op.operands, strict=True):
        _put(low, operand, target.part(part_offset(model.type, leaf.name)))
    clear_padding(low.b, layout_of(model).leaves, low.pointer(model))


@lowers("replace_submodel")
def _replace(low: Lowering, op: Op) -> None:
    model, part = op.operands
    _put(low, part, low.plan.locations[model].part(part_offset(model.type, op.attributes["path"])))


def _put(low: Lowering, value: nodes.Value, target: Location) -> None:
    """A tensor or model at its place in a larger one."""
    if not has_storage(value):
        low.store_number(low.number(value), low.address(target))
    elif low.plan.locations[value] != target:
        copy_bytes(low.b, low.address(target), low.pointer(value), low.size(storage_bytes(value.type)))


def clear_padding(b: Builder, leaves: Sequence[FlatLeaf], buffer: Value) -> None:
    """What lies behind these tensors holds zeros."""
    for part in leaves:
        used = part.count * part.leaf.type.element.bytes
        clear_bytes(b, at(b, buffer, part.offset + used, emit.I8), -used % ALIGNMENT)


# ---- norms and checks


def _parameters(leaves: Sequence[FlatLeaf]) -> list[Parameter]:
    return [Parameter(part.offset, part.count) for part in leaves]


@lowers("global_norm")
def _global_norm(low: Lowering, op: Op) -> None:
    b, (model,) = low.b, op.operands
    leaves, buffer = trained_leaves(layout_of(model)), low.pointer(model)
    if all(part.leaf.type.element is Element.F32 for part in leaves):
        parameters = _parameters(leaves)
        with low.scratch(norm_scratch_bytes(parameters)) as parts:
            if parameters:
                emit_square_blocks(b, parameters, buffer, parts, 0, block_total(parameters))
            norm = emit_norm(b, parameters, parts)
    else:
        sums = [_square_sum(low, part, at(b, buffer, part.offset, emit.I8)) for part in leaves]
        norm = emit.intrinsic(b, "sqrt", emit_pairs(b, sums))
    low.fail_if(not_finite(b, norm), Site("not finite", op), [_step(low, op), b.ptrtoint(buffer, I64)])
    low.define(op.result, norm)


def _square_sum(low: Lowering, part: FlatLeaf, tensor: Value) -> Value:
    element = MEMORY_TYPES[part.leaf.type.element]
    return low.shared("square_sum", element, [tensor, I64(part.count)], lambda b, given: emit_square_sum(b, element, *given), F64)


@lowers("check_finite")
def _check_finite(low: Lowering, op: Op) -> None:
    b, (operand,) = low.b, op.operands
    site, step = Site("not finite", op), _step(low, op)
    if not has_storage(operand):
        number = low.number(operand)
        wide = b.fpext(number, F64) if number.type == F32 else number
        low.fail_if(not_finite(b, number), site, [step, b.bitcast(wide, I64)])
        return
    pointer = low.pointer(operand)
    if isinstance(operand.type, TensorType):
        count = emit.size(low.size(product(operand.type.axes)))
        finite = emit_all_finite(b, pointer, MEMORY_TYPES[operand.type.element], count)
        low.fail_if(b.not_(finite), site, [step, b.ptrtoint(pointer, I64), count])
        return
    for part in trained_leaves(layout_of(operand)):
        finite = emit_all_finite(b, at(b, pointer, part.offset, emit.I8), MEMORY_TYPES[part.leaf.type.element], part.count)
        low.fail_if(b.not_(finite), site, [step, b.ptrtoint(pointer, I64)])


def _step(low: Lowering, op: Op) -> Value:
    """The number of the training step that a check guards."""
    optimiser = low.guards.get(op)
    if optimiser is None or optimiser not in low.plan.locations:
        return I64(NO_STEP)
    return low.b.add(load(low.b, at(low.b, low.pointer(optimiser), STEP, I64), I64), I64(1))


@lowers("scale_model")
def _scale_model(low: Lowering, op: Op) -> None:
    model, factor = op.operands
    b, buffer = low.b, low.pointer(model)
    for part in trained_leaves(layout_of(model)):
        _scale(low, MEMORY_TYPES[part.leaf.type.element], at(b, buffer, part.offset, emit.I8), part.count, low.number(factor))


def _scale(low: Lowering, element: emit.ElementType, tensor: Value, count: int, factor: Value) -> None:
    number = low.b.fpext(factor, F64) if element == F64 else factor
    low.shared("scale", element, [tensor, I64(count), number], lambda b, given: emit_scale(b, element, *given))
