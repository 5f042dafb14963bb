"""Scalar expressions (numerics/scalar.py) as LLVM values: scalars, or vectors of any number of lanes.

A bool is I1 here, not I8; unsigned kinds share the types of signed ones. The intrinsics used are those of emit.intrinsic, each one
instruction on every target; there is no fast-math flag and no library call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from shapescript.compiler.codegen import emit as e
from shapescript.compiler.codegen.emit import F32, F64, I1, I16, I32, I64, Builder, Value, intrinsic
from shapescript.compiler.numerics.scalar import Apply, Argument, Constant, Expr, Kind, in_order

TYPES: dict[Kind, Any] = {
    Kind.F32: F32,
    Kind.F64: F64,
    Kind.I32: I32,
    Kind.U16: I16,
    Kind.U32: I32,
    Kind.I64: I64,
    Kind.U64: I64,
    Kind.BOOL: I1,
}


def emit(b: Builder, expr: Expr, arguments: Sequence[Value], lanes: int | None = None) -> Value:
    """The expression's value for the arguments, in as many lanes as they have; see `emit_all`."""
    return emit_all(b, [expr], arguments, lanes)[0]


def emit_all(b: Builder, roots: Sequence[Expr], arguments: Sequence[Value], lanes: int | None = None) -> list[Value]:
    """Several expressions of the same arguments; what they share is computed once.

    Arguments are of their kinds' types. If any is a vector, or `lanes` is given, results are vectors and scalar arguments are spread.
    """
    widths = {argument.type.count for argument in arguments if isinstance(argument.type, ir.VectorType)} | ({lanes} if lanes else set())
    if len(widths) > 1:
        raise ValueError(f"arguments of different numbers of lanes: {sorted(widths)}")
    width = widths.pop() if widths else None
    values: dict[Expr, Value] = {}
    for node in in_order(roots):
        values[node] = _value(b, node, arguments, values, width)
    return [values[root] for root in roots]


def _type(kind: Kind, width: int | None) -> Any:
    return TYPES[kind] if width is None else e.vector_of(TYPES[kind], width)


def _value(b: Builder, node: Expr, arguments: Sequence[Value], values: dict[Expr, Value], width: int | None) -> Value:
    if isinstance(node, Argument):
        argument = arguments[node.index]
        spread = width is not None and not isinstance(argument.type, ir.VectorType)
        return e.splat(b, argument, width or 0) if spread else argument
    if isinstance(node, Constant):
        number = node.value if node.kind.is_float else _signed(int(node.value), node.kind)
        return e.constant(number, _type(node.kind, width))
    assert isinstance(node, Apply)
    operands = [values[operand] for operand in node.operands]
    return _apply(b, node, operands, _type(node.kind, width))


def _signed(value: int, kind: Kind) -> int:
    """LLVM's integers have no sign: the number with the same bits that fits a signed type."""
    return value - (1 << kind.bits) if kind is not Kind.BOOL and value >> (kind.bits - 1) == 1 else value


_INTRINSICS = {
    "fma": "fma",
    "sqrt": "sqrt",
    "abs": "fabs",
    "copysign": "copysign",
    "roundeven": "roundeven",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
}
_COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_FLOAT: dict[str, Callable[..., Value]] = {
    "add": lambda b, x, y: b.fadd(x, y),
    "sub": lambda b, x, y: b.fsub(x, y),
    "mul": lambda b, x, y: b.fmul(x, y),
    "div": lambda b, x, y: b.fdiv(x, y),
    "neg": lambda b, x: b.fneg(x),
    "is_nan": lambda b, x: b.fcmp_unordered("uno", x, x),
}
_INTEGER: dict[str, Callable[..., Value]] = {
    "add": lambda b, x, y: b.add(x, y),
    "sub": lambda b, x, y: b.sub(x, y),
    "mul": lambda b, x, y: b.mul(x, y),
    "and": lambda b, x, y: b.and_(x, y),
    "or": lambda b, x, y: b.or_(x, y),
    "xor": lambda b, x, y: b.xor(x, y),
    "not": lambda b, x: b.xor(x, e.constant(-1 if e.scalar_of(x.type) != I1 else 1, x.type)),
    "shl": lambda b, x, y: b.shl(x, y),
    "lshr": lambda b, x, y: b.lshr(x, y),
    "ashr": lambda b, x, y: b.ashr(x, y),
}


def _apply(b: Builder, node: Apply, operands: Sequence[Value], result: Any) -> Value:
    op, source = node.op, node.operands[0].kind
    if op == "select":
        return b.select(*operands)
    if op == "umul_wide":
        return b.mul(b.zext(operands[0], result), b.zext(operands[1], result))
    if op in _COMPARISONS:
        return _compare(b, op, source, *operands)
    if op in ("quotient", "remainder"):
        return _divide(b, op, source, *operands)
    if op in ("int_to_float", "to_int_in_range", "widen", "narrow", "bitcast"):
        return _convert(b, op, source, node.kind, operands[0], result)
    if op in _INTRINSICS:
        return intrinsic(b, _INTRINSICS[op], *operands)
    return (_FLOAT if source.is_float else _INTEGER)[op](b, *operands)


def _compare(b: Builder, op: str, kind: Kind, x: Value, y: Value) -> Value:
    sign = _COMPARISONS[op]
    if kind.is_float:
        return b.fcmp_unordered("!=", x, y) if op == "ne" else b.fcmp_ordered(sign, x, y)
    return b.icmp_signed(sign, x, y) if kind.is_signed else b.icmp_unsigned(sign, x, y)


def _divide(b: Builder, op: str, kind: Kind, x: Value, y: Value) -> Value:
    """Division traps on x86 where it has no result: a lane that is masked or not selected must not, so it divides by 1."""
    without_result = b.icmp_signed("==", y, e.constant(0, y.type))
    if kind.is_signed:
        least = e.constant(-(1 << (kind.bits - 1)), x.type)
        overflow = b.and_(b.icmp_signed("==", x, least), b.icmp_signed("==", y, e.constant(-1, y.type)))
        without_result = b.or_(without_result, overflow)
    y = b.select(without_result, e.constant(1, y.type), y)
    if op == "quotient":
        return b.sdiv(x, y) if kind.is_signed else b.udiv(x, y)
    return b.srem(x, y) if kind.is_signed else b.urem(x, y)


def _convert(b: Builder, op: str, source: Kind, to: Kind, x: Value, result: Any) -> Value:
    if op == "bitcast":
        return x if x.type == result else b.bitcast(x, result)
    if op == "int_to_float":
        return b.sitofp(x, result) if source.is_signed else b.uitofp(x, result)
    if op == "to_int_in_range":
        return b.fptosi(x, result) if to.is_signed else b.fptoui(x, result)
    if op == "widen":
        if source.is_float:
            return b.fpext(x, result)
        return b.sext(x, result) if source.is_signed else b.zext(x, result)
    return b.fptrunc(x, result) if source.is_float else b.trunc(x, result)
