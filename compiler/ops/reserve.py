"""Storage that is filled later: what a loop keeps of each turn for its gradient."""

from __future__ import annotations

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.types import TensorType, Type
from shapescript.compiler.ops.table import Kernel, NoDerivative, OpEntry, attribute, register, require


def _infer_reserve(op: Op) -> tuple[Type, ...]:
    axes = tuple(attribute(op, "axes"))
    require(not op.operands and bool(axes), op, "takes no operands, and has axes")
    return (TensorType(attribute(op, "element"), axes),)


# reserve {element, axes}: a tensor each element of which is written before it is read, so what it holds doesn't matter. Each one is a
# storage of its own: two are never made one, and none moves out of the loop in which it stands.
register(OpEntry("reserve", _infer_reserve, NoDerivative.ZERO, Kernel("reserve")))
