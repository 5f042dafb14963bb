"""Models, their gradients and optimisers. A model is one value; its tensors lie in one flat buffer in the order of their dotted names."""

from __future__ import annotations

from shapescript.compiler.ir.flat import flat_layout
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.sizes import number
from shapescript.compiler.ir.types import (
    BOOL,
    FLOAT,
    INT,
    Element,
    ModelType,
    OptimiserType,
    TensorType,
    Type,
    member_at,
    sorted_leaves,
)
from shapescript.compiler.numerics.optimisers import KINDS
from shapescript.compiler.numerics.ranges import RANGES
from shapescript.compiler.ops.table import Host, Kernel, Move, NoDerivative, OpEntry, View, attribute, register, require


def model_type(op: Op, place: int = 0) -> ModelType:
    require(len(op.operands) > place, op, "takes a model")
    kind = op.operands[place].type
    require(isinstance(kind, ModelType), op, "takes a model")
    assert isinstance(kind, ModelType)
    return kind


def _infer_member(op: Op) -> tuple[Type, ...]:
    path = attribute(op, "path")
    try:
        found = member_at(model_type(op), path)
    except KeyError:
        found = None
    wanted = TensorType if op.name == "leaf" else ModelType
    require(isinstance(found, wanted), op, f"{path} is no {op.name}")
    assert isinstance(found, TensorType | ModelType)
    return (found,)


# leaf {path}, submodel {path}: a tensor or sub-model by its dotted path; indices of lists are numbers.
register(OpEntry("leaf", _infer_member, NoDerivative.STRUCTURAL, View("leaf")))
register(OpEntry("submodel", _infer_member, NoDerivative.STRUCTURAL, View("submodel")))


def _infer_pack(op: Op) -> tuple[Type, ...]:
    model = attribute(op, "model")
    require(
        [operand.type for operand in op.operands] == [leaf.type for leaf in sorted_leaves(model)], op, "operands are not the model's leaves"
    )
    return (model,)


# pack {model, absent?}: a model's value from its tensors, in the order of their dotted names. Of a gradient, `absent` names the trained
# parameters that no gradient reaches.
register(OpEntry("pack", _infer_pack, NoDerivative.STRUCTURAL, Move("pack")))


def flat_type(model: ModelType) -> TensorType | None:
    """A model's buffer as a tensor: that of one whose tensors are all floats of one type."""
    elements = {leaf.type.element for leaf in sorted_leaves(model)}
    if len(elements) != 1 or not all(element.is_float for element in elements):
        return None
    (element,) = elements
    return TensorType(element, (number(flat_layout(model).total // element.bytes),))


def _infer_flat(op: Op) -> tuple[Type, ...]:
    found = flat_type(model_type(op))
    require(found is not None, op, "the model's tensors are not floats of one type")
    assert found is not None
    return (found,)


def _infer_pack_flat(op: Op) -> tuple[Type, ...]:
    model = attribute(op, "model")
    require([operand.type for operand in op.operands] == [flat_type(model)], op, "the operand is not the model's buffer")
    return (model,)


# flat: a model's buffer, with what lies between its tensors. pack_flat {model}: a model of such a buffer; there are zeros between its
# tensors again. Both are made when gradients are.
register(OpEntry("flat", _infer_flat, NoDerivative.FORBIDDEN, View("flat")))
register(OpEntry("pack_flat", _infer_pack_flat, NoDerivative.FORBIDDEN, Move("pack")))


def _infer_copy(op: Op) -> tuple[Type, ...]:
    (operand,) = op.operands
    return (operand.type,)


def _infer_replace(op: Op) -> tuple[Type, ...]:
    require(len(op.operands) == 2, op, "takes a model and its new part")
    try:
        found = member_at(model_type(op), attribute(op, "path"))
    except KeyError:
        found = None
    require(found == op.operands[1].type, op, "the path is no part of that type")
    return (op.operands[0].type,)


# replace_submodel(m, part) {path}: m with the sub-model (or tensor) at the path replaced.
register(OpEntry("replace_submodel", _infer_replace, NoDerivative.STRUCTURAL, Move("replace"), consumes=(0,)))


# copy: the same value in storage of its own, put where an operation would take over storage that is still needed.
register(OpEntry("copy", _infer_copy, lambda b, op, gradients: list(gradients), Move("copy")))


def _infer_norm(op: Op) -> tuple[Type, ...]:
    model_type(op)
    return (FLOAT,)


# global_norm(g): over the parameters that are trained (numerics/norms.py). It is finite exactly where all their elements are.
register(OpEntry("global_norm", _infer_norm, NoDerivative.FORBIDDEN, Kernel("global_norm")))

FACTORS = (TensorType(Element.F32), FLOAT)


def _infer_scale(op: Op) -> tuple[Type, ...]:
    model = model_type(op)
    require(op.operands[1].type in FACTORS, op, "takes an f32 factor, or an f64 one")
    return (model,)


# scale_model(g, factor): the gradients of the parameters that are trained, times the factor; the others as they are. An f64 factor is
# rounded, or split in two where it is small (numerics/norms.py).
register(OpEntry("scale_model", _infer_scale, NoDerivative.FORBIDDEN, Kernel("scale_model"), consumes=(0,)))


def _infer_check(op: Op) -> tuple[Type, ...]:
    attribute(op, "what")
    operand, *norm = op.operands
    require(isinstance(operand.type, ModelType | TensorType), op, "takes a tensor or a model")
    require([value.type for value in norm] in ([], [FLOAT]), op, "takes a norm beside it")
    return ()


# check_finite(x, norm?) {what: loss|gradient}: R1104 or R1105 where an element isn't finite, before anything changes; of a model, an
# element of a parameter that is trained. With a norm, that of x, only this number is looked at.
register(OpEntry("check_finite", _infer_check, NoDerivative.ZERO, Kernel("check_finite"), ordered=True))


def _infer_all_finite(op: Op) -> tuple[Type, ...]:
    (operand,) = op.operands
    require(operand.type == FLOAT or isinstance(operand.type, ModelType), op, "takes a model or a number")
    return (BOOL,)


# all_finite(x): whether check_finite would let it pass.
register(OpEntry("all_finite", _infer_all_finite, NoDerivative.ZERO, Kernel("all_finite")))


def _infer_range(op: Op) -> tuple[Type, ...]:
    require(attribute(op, "rule") in RANGES, op, "there is no such range")
    require([operand.type for operand in op.operands] == [FLOAT], op, "takes a number")
    return ()


# check_range(x) {rule}: R1109 for a number outside of its range (numerics/ranges.py), before anything changes.
register(OpEntry("check_range", _infer_range, NoDerivative.ZERO, Kernel("check_range"), ordered=True))


def _infer_update(op: Op) -> tuple[Type, ...]:
    model = model_type(op)
    require(len(op.operands) == 5 and op.operands[1].type == OptimiserType(attribute(op, "kind"), model), op, "takes the model's optimiser")
    require(op.operands[2].type == model, op, "takes a gradient of the model's type")
    rate, factor = op.operands[3:]
    require(rate.type == FLOAT and factor.type in FACTORS, op, "takes a rate and a factor")
    return model, op.operands[1].type


# update(m, opt, g, rate, factor) {kind, untouched?}: one step with the gradient g, scaled by the factor as `scale_model` does, for the
# parameters that are trained, but those whose names are in `untouched`; gives the new model and optimiser.
register(OpEntry("update", _infer_update, NoDerivative.FORBIDDEN, Kernel("update"), consumes=(0, 1)))


def _infer_optimiser(op: Op) -> tuple[Type, ...]:
    model = model_type(op)
    kind = KINDS.get(attribute(op, "kind"))
    require(kind is not None, op, "there is no such optimiser")
    assert kind is not None
    constants = [constant.name for constant in kind.constants]
    require([operand.type for operand in op.operands[1:]] == [FLOAT] * len(constants), op, f"takes {', '.join(constants)}")
    return (OptimiserType(kind.name, model),)


# optimiser(m, constants...) {kind}: slots of 0, step 0; flags are 0.0 or 1.0. The model gives the type only.
register(OpEntry("optimiser", _infer_optimiser, NoDerivative.ZERO, Kernel("optimiser")))


def _infer_step(op: Op) -> tuple[Type, ...]:
    require(isinstance(op.operands[0].type, OptimiserType), op, "takes an optimiser")
    return (INT,)


register(OpEntry("optimiser_step", _infer_step, NoDerivative.ZERO, Kernel("optimiser_step")))


def _infer_start(op: Op) -> tuple[Type, ...]:
    require([operand.type for operand in op.operands] == [INT], op, "takes the seed")
    return (attribute(op, "model"),)


# model_start(seed) {model}: rule 6; a seed outside 0..2**63-1 is R1004.
register(OpEntry("model_start", _infer_start, NoDerivative.ZERO, Host("model_start"), ordered=True))
