"""Models and what is done to whole gradients: packing, copies, norms, checks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.emit import F32, F64, I64, Builder, Value, at, constant, element_bytes, load, store
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
from shapescript.compiler.codegen.leaf_updates import Factors, emit_pairs, emit_scale, emit_square_sum, with_factors
from shapescript.compiler.codegen.lowering import MEMORY_TYPES, Lowering, Site, lowers
from shapescript.compiler.codegen.split import PICOSECONDS_A_BYTE, Part, shares_of, split, split_elements
from shapescript.compiler.codegen.storage import clear_bytes, copy_storage, move_into
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.flat import ALIGNMENT, FlatLayout, FlatLeaf, flat_layout
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.sizes import product
from shapescript.compiler.ir.types import Element, ModelType, TensorType, sorted_leaves
from shapescript.compiler.numerics.norms import LARGER, LARGEST_NORM, LARGEST_SQUARES, SMALLER, SMALLEST_SQUARES
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


@lowers("pack_flat")
def _pack_flat(low: Lowering, op: Op) -> None:
    (operand,), model = op.operands, op.result
    _put(low, operand, low.plan.locations[model])
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
        copy_storage(low, low.address(target), low.pointer(value), low.size(storage_bytes(value.type)))


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
                _square_blocks(low, parameters, buffer, parts)
            low.define(op.result, emit_norm(b, parameters, parts))
        return
    squares = _square_sum(low, leaves, buffer)
    if all(part.leaf.type.element is not Element.F64 for part in leaves):  # squares of smaller types stay in range
        low.define(op.result, emit.intrinsic(b, "sqrt", squares))
        return
    fits = b.and_(
        b.fcmp_ordered(">=", squares, constant(SMALLEST_SQUARES, F64)), b.fcmp_ordered("<", squares, constant(LARGEST_SQUARES, F64))
    )
    plain, scaled = lambda: [emit.intrinsic(b, "sqrt", squares)], lambda: [_scaled_norm(low, leaves, buffer, squares)]
    low.define(op.result, *emit.choose(b, fits, plain, scaled))


def _square_blocks(low: Lowering, parameters: Sequence[Parameter], buffer: Value, parts: Value) -> None:
    """The sums of squares of all blocks: units that threads share out."""
    units = block_total(parameters)
    work = 4 * PICOSECONDS_A_BYTE * sum(parameter.count for parameter in parameters)

    def body(b: Builder, given: Sequence[Value], part: Part) -> None:
        emit_square_blocks(b, parameters, given[0], given[1], part.low, part.high)

    split(low, "square_sums", tuple(parameters), [buffer, parts], units, shares_of(low, units, work), body)


def _scaled_norm(low: Lowering, leaves: Sequence[FlatLeaf], buffer: Value, squares: Value) -> Value:
    """See numerics/norms.py."""
    b, smaller, larger = low.b, constant(SMALLER, F64), constant(LARGER, F64)
    is_small = b.fcmp_ordered("<", squares, constant(SMALLEST_SQUARES, F64))
    root = emit.intrinsic(b, "sqrt", _square_sum(low, leaves, buffer, b.select(is_small, larger, smaller)))
    norm = b.fmul(root, b.select(is_small, smaller, larger))
    return b.select(b.and_(not_finite(b, norm), b.not_(not_finite(b, root))), constant(LARGEST_NORM, F64), norm)


def _square_sum(low: Lowering, leaves: Sequence[FlatLeaf], buffer: Value, scale: Value | None = None) -> Value:
    """The sum of all squares, of elements times `scale`, in f64."""
    name, given = ("square_sum", []) if scale is None else ("scaled_square_sum", [scale])
    sums = []
    for part in leaves:
        element = MEMORY_TYPES[part.leaf.type.element]
        arguments = [at(low.b, buffer, part.offset, emit.I8), I64(part.count), *given]
        sums.append(low.shared(name, element, arguments, partial(_emit_square_sum, element), F64))
    return emit_pairs(low.b, sums)


def _emit_square_sum(element: emit.ElementType, b: Builder, given: Sequence[Value]) -> Value:
    return emit_square_sum(b, element, *given)


@lowers("check_finite")
def _check_finite(low: Lowering, op: Op) -> None:
    b, (operand, *norm) = low.b, op.operands
    site, step = Site("not finite", op), _step(low, op)
    if norm:
        low.fail_if(not_finite(b, low.number(norm[0])), site, [step, b.ptrtoint(low.pointer(operand), I64)])
    elif not has_storage(operand):
        number = low.number(operand)
        wide = b.fpext(number, F64) if number.type == F32 else number
        low.fail_if(not_finite(b, number), site, [step, b.bitcast(wide, I64)])
    elif isinstance(operand.type, TensorType):
        pointer, count = low.pointer(operand), emit.size(low.size(product(operand.type.axes)))
        finite = _all_are_finite(low, [(pointer, MEMORY_TYPES[operand.type.element], count)])
        low.fail_if(b.not_(finite), site, [step, b.ptrtoint(pointer, I64), count])
    else:
        low.fail_if(b.not_(_model_is_finite(low, operand)), site, [step, b.ptrtoint(low.pointer(operand), I64)])


def _model_is_finite(low: Lowering, model: nodes.Value) -> Value:
    buffer = low.pointer(model)
    return _all_are_finite(
        low,
        [
            (at(low.b, buffer, part.offset, emit.I8), MEMORY_TYPES[part.leaf.type.element], part.count)
            for part in trained_leaves(layout_of(model))
        ],
    )


def _all_are_finite(low: Lowering, tensors: Sequence[tuple[Value, emit.ElementType, emit.Size]]) -> Value:
    """Whether all elements of these addresses, types and counts are (I1)."""
    b = low.b
    found = emit.stack(b, I64, 1)  # not 0 where one isn't
    store(b, I64(0), found)
    for pointer, element, count in tensors:
        split_elements(
            low, "all_finite", element, [pointer, found], count, PICOSECONDS_A_BYTE * element_bytes(element), partial(_look, element)
        )
    return b.icmp_signed("==", load(b, found, I64), I64(0))


def _look(element: emit.ElementType, b: Builder, given: Sequence[Value], start: emit.Size, end: emit.Size) -> None:
    tensor, found = given
    finite = emit_all_finite(b, at(b, tensor, start, element), element, extents.minus(b, end, start))
    with b.if_then(b.not_(finite), likely=False):
        b.atomic_rmw("or", found, I64(1), "monotonic")


@lowers("all_finite")
def _all_finite(low: Lowering, op: Op) -> None:
    b, (operand,) = low.b, op.operands
    if not has_storage(operand):
        low.define(op.result, b.not_(not_finite(b, low.number(operand))))
        return
    low.define(op.result, _model_is_finite(low, operand))


def _step(low: Lowering, op: Op) -> Value:
    """The number of the training step that a check guards."""
    optimiser = low.guards.get(op)
    if optimiser is None or optimiser not in low.plan.locations:
        return I64(NO_STEP)
    return low.b.add(load(low.b, at(low.b, low.pointer(optimiser), STEP, I64), I64), I64(1))


@lowers("scale_model")
def _scale_model(low: Lowering, op: Op) -> None:
    model, factor = op.operands
    leaves, buffer = trained_leaves(layout_of(model)), low.pointer(model)

    def scaled(factors: Factors, is_split: bool) -> None:
        for part in leaves:
            element = MEMORY_TYPES[part.leaf.type.element]
            arguments = [at(low.b, buffer, part.offset, emit.I8), factors[element]]
            work = 2 * PICOSECONDS_A_BYTE * element_bytes(element)
            split_elements(low, "scale", (element, is_split), arguments, part.count, work, partial(_emit_scale, element, is_split))

    with_factors(low.b, low.number(factor), scaled)


def _emit_scale(element: emit.ElementType, is_split: bool, b: Builder, given: Sequence[Value], start: emit.Size, end: emit.Size) -> None:
    tensor, factor = given
    emit_scale(b, element, at(b, tensor, start, element), extents.minus(b, end, start), factor, is_split)
