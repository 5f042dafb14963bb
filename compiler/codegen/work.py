"""How much an operation does, as sizes: arithmetic on floating-point and other numbers, and bytes of memory that must be read or written.

Both are counted by what the operation means, not by what its kernel happens to do: a tensor that is read counts once, one that is written
counts once, and one that is changed in place twice, however often a kernel comes back to it.
"""

from __future__ import annotations

from collections.abc import Iterable

from shapescript.compiler.ir.flat import slot_layout
from shapescript.compiler.ir.nodes import Block, Op, Value
from shapescript.compiler.ir.sizes import ZERO, Size, number, product, sum_of
from shapescript.compiler.ir.types import ModelType, OptimiserType, TensorType, sorted_leaves
from shapescript.compiler.numerics.optimisers import KINDS
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.ops.fused import varies
from shapescript.compiler.ops.locations import OPTIMISER_BLOCK_BYTES, Location, Plan, has_storage, part_offset, storage_bytes
from shapescript.compiler.ops.reduced_contraction import product_op, reduction_op
from shapescript.compiler.ops.rows_product import last_op, reduced_op
from shapescript.compiler.ops.table import Contraction, Control, Host, Reduction, Scalar, View, entry
from shapescript.compiler.ops.window_products import contraction_op

WITHOUT_WORK = frozenset({"reserve", "bind_size", "check_index", "check_slice", "optimiser_step", "mode_eval", "string"})
PER_SQUARE = 2


def does_work(op: Op) -> bool:
    """Whether an operation is worth a row: control flow, what the host does, and what goes through memory."""
    lowering = entry(op.name).lowering
    if op.name in WITHOUT_WORK or isinstance(lowering, View):
        return False
    return isinstance(lowering, Control | Host) or any(has_storage(value) for value in (*op.operands, *op.results))


# ---- arithmetic


def flops(op: Op) -> Size:
    """A product of two numbers and its addition to a sum are two; any other operation on an element is one, `exp` too."""
    match entry(op.name).lowering:
        case Contraction():
            return _multiplied(op)
        case Scalar():
            return elements(op.result)
        case Reduction():
            return elements(op.operands[0])
    match op.name:
        case "windows_contraction":
            return flops(contraction_op(op))
        case "contraction_fold":
            return _multiplied(contraction_op(op)) + elements(contraction_op(op).result)
        case "reduced_contraction":
            return flops(product_op(op)) + flops(reduction_op(op))
        case "rows_product":
            reduced = reduced_op(op)
            return flops(reduced) + _multiplied(last_op(op, reduced.results[op.attributes["rows"]]))
        case "fused_contraction":
            return _multiplied(op) + elements(op.results[0]) * _scalar_operations(op.regions[0])
        case "kernel":
            return product(op.attributes["space"]) * _scalar_operations(op.regions[0])
        case "fused_reduction":
            return _of_fused_reduction(op)
        case "global_norm":
            return elements(op.operands[0]) * number(PER_SQUARE)
        case "dropout" | "cumsum" | "scatter_rows" | "scale_model":
            return elements(op.operands[0])
        case "add_rows" | "add_slice":
            return elements(op.operands[1])
    return ZERO


def elements(value: Value) -> Size:
    """How many numbers a tensor or a model has."""
    match value.type:
        case TensorType(_, axes):
            return product(axes)
        case ModelType():
            return sum_of(product(leaf.type.axes) for leaf in sorted_leaves(value.type))
    return ZERO


def _multiplied(op: Op) -> Size:
    """Over all axes of a contraction, each once."""
    sizes: dict[int, Size] = {}
    for operand, names in zip(op.operands, (op.attributes["left"], op.attributes["right"]), strict=False):
        sizes.update(zip(names, result_type(operand).axes, strict=True))
    return product(sizes.values()) * number(2)


def _is_arithmetic(op: Op) -> bool:
    return isinstance(entry(op.name).lowering, Scalar) or op.name in ("dropout", "reduce")


def _scalar_operations(region: Block) -> Size:
    return number(sum(map(_is_arithmetic, region.ops)))


def _of_fused_reduction(op: Op) -> Size:
    """What is the same along the reduced axes is done once for all of their points."""
    space, positions, (region,) = op.attributes["space"], op.attributes["positions"], op.regions
    points = varies(op)
    short = product(size for place, size in enumerate(space) if place not in positions)
    at_each = [inner.name == "reduce" or inner.result in points for inner in region.ops if _is_arithmetic(inner)]
    return product(space) * number(sum(at_each)) + short * number(len(at_each) - sum(at_each))


# ---- memory


def moved_bytes(op: Op, plan: Plan) -> Size:
    """Bytes of the tensors, models and states that the operation reads or writes; numbers in registers count nothing."""
    match op.name:
        case "pack":
            leaves = sorted_leaves(op.attributes["model"])
            places = (plan.locations[op.result].part(part_offset(op.result.type, leaf.name)) for leaf in leaves)
            return sum_of(_moved(value, place, plan) for value, place in zip(op.operands, places, strict=True))
        case "pack_flat":
            return _moved(op.operands[0], plan.locations[op.result], plan)
        case "replace_submodel":
            model, part = op.operands
            return _moved(part, plan.locations[model].part(part_offset(model.type, op.attributes["path"])), plan)
        case "copy":
            (operand,) = op.operands
            return _moved(operand, plan.locations[op.result], plan) if has_storage(operand) else ZERO
        case "slice" | "gather":
            return _total(plan, op.operands[1:], op.results, op.results)
        case "put":
            return _total(plan, op.operands[1:2], op.operands[1:2])
        case "add_slice" | "add_rows":
            return _total(plan, op.operands[1:], op.operands[1:2], op.operands[1:2])
    if isinstance(entry(op.name).lowering, Control | Host):
        return ZERO
    return _total(plan, dict.fromkeys(op.operands), op.results)


def _total(plan: Plan, *values: Iterable[Value]) -> Size:
    return sum_of(_bytes(value) for some in values for value in some if value in plan.locations)


def _moved(value: Value, target: Location, plan: Plan) -> Size:
    """Read and written, unless the value lies there."""
    lies_there = value in plan.locations and plan.locations[value] == target
    return ZERO if lies_there or not has_storage(value) else _bytes(value) * number(2)


def _bytes(value: Value) -> Size:
    kind = value.type
    if isinstance(kind, OptimiserType):  # without the slots that it may lack
        slots = KINDS[kind.kind].slots_with(False)
        return number(OPTIMISER_BLOCK_BYTES + len(slots) * slot_layout(kind.model).total)
    return storage_bytes(kind)
