"""Whole models as vectors of their parameters. The pass of this name makes each of these into operations on leaves, so that everything
after it, gradients too, sees ordinary ones."""

from __future__ import annotations

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.types import FLOAT, ModelType, Type
from shapescript.compiler.ops.models import model_type
from shapescript.compiler.ops.table import Control, NoDerivative, OpEntry, attribute, register, require


def models_of(op: Op) -> list[ModelType]:
    return [operand.type for operand in op.operands if isinstance(operand.type, ModelType)]


def _infer_zip(op: Op) -> tuple[Type, ...]:
    attribute(op, "op")
    models = models_of(op)
    require(bool(models) and all(model == models[0] for model in models), op, "takes models of one type")
    others = [operand.type for operand in op.operands if not isinstance(operand.type, ModelType)]
    require(all(kind == FLOAT for kind in others), op, "takes host floats beside models")
    return (models[0],)


# zip_leaves(operands...) {op}: the elementwise operation `op` on each parameter of models of one type; a host float takes part with its
# number, rounded to the parameter's type. Buffers are those of the first model. Further attributes are the operation's.
register(OpEntry("zip_leaves", _infer_zip, NoDerivative.STRUCTURAL, Control("zip_leaves")))

FILLINGS = ("zeros", "rates", "decays")


def _infer_fill(op: Op) -> tuple[Type, ...]:
    require(attribute(op, "what") in FILLINGS, op, f"`what` is one of {FILLINGS}")
    return (model_type(op),)


# fill_leaves(m) {what}: a model of m's type. zeros: 0 everywhere; rates: in each parameter its factor of the rate, 0 where it is frozen;
# decays: in each parameter 1 where the decay is on it, else 0. Buffers are 0. The model gives the type only.
register(OpEntry("fill_leaves", _infer_fill, NoDerivative.ZERO, Control("fill_leaves")))


def _infer_dot(op: Op) -> tuple[Type, ...]:
    models = models_of(op)
    require(len(models) == len(op.operands) == 2 and models[0] == models[1], op, "takes two models of one type")
    return (FLOAT,)


# dot_leaves(a, b): the sum of the products of all trained parameters, in f64: a reduction for each, then the block tree in the order of
# their names.
register(OpEntry("dot_leaves", _infer_dot, NoDerivative.STRUCTURAL, Control("dot_leaves")))
