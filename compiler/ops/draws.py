"""Random numbers by a mode's stream: an index by its probability, tensors of random numbers. `mode_draw` gives the seed and the draw."""

from __future__ import annotations

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.types import INT, Element, TensorType, Type
from shapescript.compiler.ops.elementwise import FLOATS
from shapescript.compiler.ops.shapes import operand_type
from shapescript.compiler.ops.table import Kernel, NoDerivative, OpEntry, attribute, register, require


def _infer_categorical(op: Op) -> tuple[Type, ...]:
    require([operand.type for operand in op.operands[1:]] == [INT, INT], op, "takes logits, the seed and the draw")
    logits = operand_type(op)
    require(logits.element in FLOATS and logits.rank >= 1, op, "takes logits of floats, the choices along the last axis")
    return (TensorType(Element.I64, logits.axes[:-1]),)


def _infer_random(op: Op) -> tuple[Type, ...]:
    require([operand.type for operand in op.operands] == [INT, INT], op, "takes the seed and the draw")
    return (TensorType(Element.F32, tuple(attribute(op, "axes"))),)


# categorical(logits, seed, draw): for each row an index, with probability softmax; a draw below 0 (Eval) gives the argmax. Of no choices it
# is R1103, and by logits whose largest isn't finite R1108.
register(OpEntry("categorical", _infer_categorical, NoDerivative.ZERO, Kernel("categorical"), ordered=True))
# random_uniform, random_normal(seed, draw) {axes}: element i is a function of word i of the stream (numerics/sampling.py); a draw below 0
# (Eval) gives the mean everywhere.
register(OpEntry("random_uniform", _infer_random, NoDerivative.ZERO, Kernel("random_uniform")))
register(OpEntry("random_normal", _infer_random, NoDerivative.ZERO, Kernel("random_normal")))
