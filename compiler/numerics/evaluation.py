"""Scalar expressions evaluated on NumPy arrays, by operations that IEEE and two's complement fix to the bit."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shapescript.compiler.numerics.fma import fma
from shapescript.compiler.numerics.operations import BOOL, F32, F64, I32, I64, U16, U32, U64, Kind
from shapescript.compiler.numerics.scalar import Apply, Argument, Constant, Expr, in_order

Array = NDArray[Any]

DTYPES: dict[Kind, np.dtype[Any]] = {
    F32: np.dtype(np.float32),
    F64: np.dtype(np.float64),
    I32: np.dtype(np.int32),
    I64: np.dtype(np.int64),
    U16: np.dtype(np.uint16),
    U32: np.dtype(np.uint32),
    U64: np.dtype(np.uint64),
    BOOL: np.dtype(np.bool_),
}
SIGNED: dict[int, np.dtype[Any]] = {32: DTYPES[I32], 64: DTYPES[I64]}
UNSIGNED: dict[int, np.dtype[Any]] = {32: DTYPES[U32], 64: DTYPES[U64]}


def _logical_shift(x: Array, amount: Array) -> Array:
    unsigned = UNSIGNED[x.dtype.itemsize * 8]
    shifted: Array = np.right_shift(x.view(unsigned), amount.view(unsigned))
    return shifted.view(x.dtype)


def _arithmetic_shift(x: Array, amount: Array) -> Array:
    signed = SIGNED[x.dtype.itemsize * 8]
    shifted: Array = np.right_shift(x.view(signed), amount.view(signed))
    return shifted.view(x.dtype)


def _quotient(a: Array, b: Array) -> Array:
    return (a - np.fmod(a, b)) // b


def _wide_product(a: Array, b: Array) -> Array:
    return a.astype(np.uint64) * b.astype(np.uint64)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "fma": fma,
    "sqrt": np.sqrt,
    "neg": np.negative,
    "abs": np.abs,
    "copysign": np.copysign,
    "roundeven": np.rint,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "is_nan": np.isnan,
    "select": np.where,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "shl": np.left_shift,
    "lshr": _logical_shift,
    "ashr": _arithmetic_shift,
    "quotient": _quotient,
    "remainder": np.fmod,
    "umul_wide": _wide_product,
}
_CONVERSIONS = frozenset({"int_to_float", "to_int_in_range", "widen", "narrow"})


def evaluate(expr: Expr, arguments: Sequence[Any]) -> Array:
    """The expression's value for each element of the arguments.

    The arguments are arrays of the expression's own kinds, broadcast against each other; the result has their common shape. Raises
    `TypeError` for an argument of another element type.
    """
    return evaluate_all([expr], arguments)[0]


def evaluate_all(roots: Sequence[Expr], arguments: Sequence[Any]) -> list[Array]:
    """Several expressions of the same arguments, computing what they share once."""
    arrays = [np.asarray(argument) for argument in arguments]
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    nodes = in_order(roots)
    last_use = {operand: node for node in nodes if isinstance(node, Apply) for operand in node.operands}
    values: dict[Expr, Any] = {}
    kept = set(roots)
    with np.errstate(all="ignore"):
        for node in nodes:
            values[node] = _value(node, arrays, values)
            if isinstance(node, Apply):
                for operand in set(node.operands) - kept:
                    if last_use[operand] is node:
                        del values[operand]
    return [_shaped(values[root], shape) for root in roots]


def _value(node: Expr, arguments: Sequence[Array], values: dict[Expr, Any]) -> Any:
    dtype = DTYPES[node.kind]
    if isinstance(node, Argument):
        if arguments[node.index].dtype != dtype:
            raise TypeError(f"argument {node.index} has element type {arguments[node.index].dtype}, not {dtype}")
        return arguments[node.index]
    if isinstance(node, Constant):
        return dtype.type(node.value)
    assert isinstance(node, Apply)
    operands = [values[operand] for operand in node.operands]
    if node.op == "bitcast":
        return operands[0].view(dtype)
    if node.op in _CONVERSIONS:
        return operands[0].astype(dtype)
    return _FUNCTIONS[node.op](*operands)


def _shaped(value: Any, shape: tuple[int, ...]) -> Array:
    array = np.asarray(value)
    return array if array.shape == shape else np.broadcast_to(array, shape).copy()
