"""Models and what is done to whole gradients: packing, copies, norms, updates."""

from __future__ import annotations

from collections.abc import Sequence

from shapescript.compiler.codegen import emit
from shapescript.compiler.codegen.emit import F32, F64, I64, Builder, Value, at, constant, load, store
from shapescript.compiler.codegen.failures import NO_STEP
from shapescript.compiler.codegen.gradient_norm import not_finite
from shapescript.compiler.codegen.leaf_updates import emit_adamw_f64, emit_pairs, emit_scale, emit_square_sum
from shapescript.compiler.codegen.lowering import MEMORY_TYPES, Lowering, Site, lowers
from shapescript.compiler.codegen.optimiser import (
    Parameter,
    block_total,
    emit_adamw,
    emit_adamw_numbers,
    emit_all_finite,
    emit_norm,
    emit_square_blocks,
    norm_scratch_bytes,
)
from shapescript.compiler.codegen.storage import (
    CONSTANT_COUNT,
    CONSTANTS,
    STEP,
    clear_bytes,
    copy_bytes,
    move_into,
    new_optimiser,
    optimiser_parts,
)
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.flat import ALIGNMENT, FlatLayout, FlatLeaf, flat_layout
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.sizes import product
from shapescript.compiler.ir.types import Element, ModelType, OptimiserType, TensorType, sorted_leaves
from shapescript.compiler.ops.locations import Location, has_storage, part_offset, storage_bytes


def layout_of(value: nodes.Value) -> FlatLayout:
    assert isinstance(value.type, ModelType)
    return flat_layout(value.type)


def float_leaves(layout: FlatLayout) -> list[FlatLeaf]:
    return [part for part in layout.leaves if part.leaf.type.element.is_float]


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
    _clear_padding(low.b, layout_of(model), low.pointer(model))


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


def _clear_padding(b: Builder, layout: FlatLayout, buffer: Value) -> None:
    """What lies between tensors holds zeros."""
    for part in layout.leaves:
        used = part.count * part.leaf.type.element.bytes
        clear_bytes(b, at(b, buffer, part.offset + used, emit.I8), -used % ALIGNMENT)


# ---- norms and checks


def _parameters(leaves: Sequence[FlatLeaf]) -> list[Parameter]:
    return [Parameter(part.offset, part.count) for part in leaves]


@lowers("global_norm")
def _global_norm(low: Lowering, op: Op) -> None:
    b, (model,) = low.b, op.operands
    leaves, buffer = float_leaves(layout_of(model)), low.pointer(model)
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
    for part in float_leaves(layout_of(operand)):
        finite = emit_all_finite(b, at(b, pointer, part.offset, emit.I8), MEMORY_TYPES[part.leaf.type.element], part.count)
        low.fail_if(b.not_(finite), site, [step, b.ptrtoint(pointer, I64)])


def _step(low: Lowering, op: Op) -> Value:
    """The number of the training step that a check guards."""
    optimiser = low.guards.get(op)
    if optimiser is None or optimiser not in low.plan.locations:
        return I64(NO_STEP)
    return low.b.add(load(low.b, at(low.b, low.pointer(optimiser), STEP, I64), I64), I64(1))


# ---- updates


@lowers("scale_model")
def _scale_model(low: Lowering, op: Op) -> None:
    model, factor = op.operands
    b, buffer = low.b, low.pointer(model)
    for part in float_leaves(layout_of(model)):
        _scale(low, MEMORY_TYPES[part.leaf.type.element], at(b, buffer, part.offset, emit.I8), part.count, low.number(factor))


def _scale(low: Lowering, element: emit.ElementType, tensor: Value, count: int, factor: Value) -> None:
    number = factor if element == F32 else low.b.fpext(factor, F64)
    low.shared("scale", element, [tensor, I64(count), number], lambda b, given: emit_scale(b, element, *given))


@lowers("optimiser")
def _optimiser(low: Lowering, op: Op) -> None:
    b, kind = low.b, op.result.type
    assert isinstance(kind, OptimiserType)
    parts = new_optimiser(low, kind, low.plan.locations[op.result])
    store(b, I64(0), at(b, parts.block, STEP, I64))
    for place, operand in enumerate(op.operands[1:]):
        store(b, low.number(operand), at(b, parts.block, CONSTANTS + place, F64))
    store(b, I64(0), at(b, parts.block, CONSTANTS + CONSTANT_COUNT, I64))
    for moments in (parts.first, parts.second):
        clear_bytes(b, moments, flat_layout(kind.model).total)


@lowers("optimiser_step")
def _optimiser_step(low: Lowering, op: Op) -> None:
    low.define(op.result, load(low.b, at(low.b, low.pointer(op.operands[0]), STEP, I64), I64))


@lowers("update")
def _update(low: Lowering, op: Op) -> None:
    """AdamW; see exactness.md and codegen/optimiser.py."""
    b = low.b
    model, state, gradient, rate, factor = op.operands
    layout, values, gradients = layout_of(model), low.pointer(model), low.pointer(gradient)
    parts = optimiser_parts(b, low.pointer(state))
    step = b.add(load(b, at(b, parts.block, STEP, I64), I64), I64(1))
    store(b, step, at(b, parts.block, STEP, I64))
    constants = [load(b, at(b, parts.block, CONSTANTS + place, F64), F64) for place in range(CONSTANT_COUNT)]
    numbers = emit_adamw_numbers(b, step, low.number(rate), *constants)
    for low_, high in _float32_runs(layout):
        emit_adamw(b, values, gradients, parts.first, parts.second, low_, high, low.number(factor), numbers)
    for part in float_leaves(layout):
        if part.leaf.type.element is Element.F64:
            buffers = [at(b, buffer, part.offset, emit.I8) for buffer in (values, gradients, parts.first, parts.second)]
            factor_f64 = b.fpext(low.number(factor), F64)
            low.shared("adamw_f64", None, [*buffers, I64(part.count), factor_f64, low.number(rate), step, *constants], emit_adamw_f64)
    with b.if_then(b.fcmp_ordered("==", constants[2], constant(0.0, F64))):  # without eps, padding has become 0 / 0
        for buffer in (values, parts.first, parts.second):
            _clear_padding(b, layout, buffer)


def _float32_runs(layout: FlatLayout) -> list[tuple[int, int]]:
    """Neighbouring f32 tensors, from one element of the buffer to another, both multiples of 16."""
    runs: list[tuple[int, int]] = []
    for part in layout.leaves:
        if part.leaf.type.element is Element.F32:
            low, high = part.offset // 4, (part.offset + -(-part.count * 4 // ALIGNMENT) * ALIGNMENT) // 4
            if runs and runs[-1][1] == low:
                runs[-1] = runs[-1][0], high
            else:
                runs.append((low, high))
    return runs
