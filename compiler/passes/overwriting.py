"""Operations whose result may lie upon an operand."""

from __future__ import annotations

from shapescript.compiler.ir.nodes import Op, Value
from shapescript.compiler.ir.types import TensorType, Type
from shapescript.compiler.ops.table import Scalar, entry
from shapescript.compiler.passes.reduction_walks import overwritable_operands

VECTOR, SHORT_ROW = 16, 64  # elements


def overwritable(op: Op) -> tuple[int, ...]:
    """Operands that the operation's result may lie upon: each element is read before the one at its place is written, and not again.

    Rows that end within a vector stay apart: loading a row would wait for the masked store of the one before (measured: twice the time).
    """
    if op.name == "cumsum":
        return (0,)
    if op.name == "fused_reduction":
        points = (result.type for result in op.results if has_all_points(op, result))
        return () if any(map(_ends_within_a_vector, points)) else overwritable_operands(op)
    if op.name == "kernel":
        first, rank = 0, len(op.attributes["space"])
        if rank > 1 and _ends_within_a_vector(op.results[0].type) and not _is_one_row(op):
            return ()
    elif op.name in ("fused_contraction", "windows_contraction"):
        first, rank = 2, len(op.attributes["out"])
    elif isinstance(entry(op.name).lowering, Scalar):
        return tuple(range(len(op.operands)))
    else:
        return ()
    here = tuple(range(rank))
    return tuple(first + place for place, positions in enumerate(op.attributes["maps"]) if tuple(positions) == here)


def has_all_points(op: Op, result: Value) -> bool:
    """Whether a result has every point of the operation's space, and not only those that a reduction leaves."""
    if op.name != "fused_reduction":
        return True
    return isinstance(result.type, TensorType) and len(result.type.axes) == len(op.attributes["space"])


def _is_one_row(op: Op) -> bool:
    """Whether a kernel goes along all axes as along one."""
    here = tuple(range(len(op.attributes["space"])))
    return all(tuple(map_) in ((), here) for map_ in op.attributes["maps"]) and all(inner.name != "iota" for inner in op.regions[0].ops)


def _ends_within_a_vector(kind: Type) -> bool:
    """Whether the last axis is short and no multiple of the vectors that it is walked along in."""
    assert isinstance(kind, TensorType)
    last = kind.axes[-1].constant()
    return last is not None and last < SHORT_ROW and last % VECTOR != 0
