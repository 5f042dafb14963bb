"""Scalar expressions: a function of a few numbers as a small graph of IEEE and integer operations, read by both engines.

An `Expr` is an `Argument`, a `Constant` or an `Apply` of one entry of `OPERATIONS`. Nodes compare by identity; a node used twice is
computed once. Building checks kinds, so an `Expr` that exists is well typed.
"""

import struct
from collections.abc import Sequence
from typing import TypeAlias

from shapescript.compiler.numerics.operations import (
    BOOL,
    F32,
    F64,
    FLOATS,
    I32,
    I64,
    INTEGERS,
    NUMBERS,
    OPERATIONS,
    U16,
    U32,
    U64,
    Kind,
    KindError,
    Number,
    Operation,
    fits,
    representable,
    round_to_f32,
)
from shapescript.compiler.records.dataclass import dataclass

__all__ = [
    "BOOL",
    "F32",
    "F64",
    "FLOATS",
    "I32",
    "I64",
    "INTEGERS",
    "NUMBERS",
    "OPERATIONS",
    "U16",
    "U32",
    "U64",
    "Apply",
    "Argument",
    "Constant",
    "Expr",
    "Kind",
    "KindError",
    "Number",
    "Operand",
    "Operation",
    "apply",
    "bitcast",
    "ceil",
    "copysign",
    "floor",
    "fma",
    "in_order",
    "int_to_float",
    "is_nan",
    "narrow",
    "round_to_f32",
    "roundeven",
    "select",
    "sqrt",
    "to_int_in_range",
    "umul_wide",
    "widen",
]

Operand: TypeAlias = "Expr | Number"


class Expr:
    """A node of a scalar expression. Operators take another `Expr` of the same kind, or a Python number.

    `>>` is `ashr` for signed kinds and `lshr` for unsigned ones. Equality of values is `eq` and `ne`: `==` compares nodes.
    """

    __slots__ = ()
    kind: Kind

    def __add__(self, other: Operand) -> "Expr":
        return apply("add", self, other)

    def __radd__(self, other: Number) -> "Expr":
        return apply("add", other, self)

    def __sub__(self, other: Operand) -> "Expr":
        return apply("sub", self, other)

    def __rsub__(self, other: Number) -> "Expr":
        return apply("sub", other, self)

    def __mul__(self, other: Operand) -> "Expr":
        return apply("mul", self, other)

    def __rmul__(self, other: Number) -> "Expr":
        return apply("mul", other, self)

    def __truediv__(self, other: Operand) -> "Expr":
        return apply("div", self, other)

    def __rtruediv__(self, other: Number) -> "Expr":
        return apply("div", other, self)

    def __neg__(self) -> "Expr":
        return apply("neg", self)

    def __abs__(self) -> "Expr":
        return apply("abs", self)

    def __lt__(self, other: Operand) -> "Expr":
        return apply("lt", self, other)

    def __le__(self, other: Operand) -> "Expr":
        return apply("le", self, other)

    def __gt__(self, other: Operand) -> "Expr":
        return apply("gt", self, other)

    def __ge__(self, other: Operand) -> "Expr":
        return apply("ge", self, other)

    def eq(self, other: Operand) -> "Expr":
        return apply("eq", self, other)

    def ne(self, other: Operand) -> "Expr":
        return apply("ne", self, other)

    def __and__(self, other: Operand) -> "Expr":
        return apply("and", self, other)

    def __or__(self, other: Operand) -> "Expr":
        return apply("or", self, other)

    def __xor__(self, other: Operand) -> "Expr":
        return apply("xor", self, other)

    def __invert__(self) -> "Expr":
        return apply("not", self)

    def __lshift__(self, amount: Operand) -> "Expr":
        return apply("shl", self, amount)

    def __rshift__(self, amount: Operand) -> "Expr":
        return apply("ashr" if self.kind.is_signed else "lshr", self, amount)

    def __bool__(self) -> bool:
        raise KindError("a scalar expression has no truth value while it is built; use select")


@dataclass(frozen=True, eq=False, slots=True)
class Argument(Expr):
    """The function's argument number `index`, from 0."""

    index: int
    kind: Kind


@dataclass(frozen=True, eq=False, slots=True)
class Constant(Expr):
    """A number of the kind, rounded to it when built; an integer must fit. A NaN is the canonical one."""

    value: Number
    kind: Kind

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", representable(self.value, self.kind))

    @property
    def pattern(self) -> int:
        """The value's bits as an unsigned integer."""
        if self.kind is F32:
            return int.from_bytes(struct.pack("<f", self.value), "little")
        if self.kind is F64:
            return int.from_bytes(struct.pack("<d", self.value), "little")
        return int(self.value) & ((1 << self.kind.bits) - 1)


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Apply(Expr):
    """The operation named `op` of `OPERATIONS` on operands, giving `kind`; raises `KindError` where the table doesn't allow it."""

    op: str
    operands: tuple[Expr, ...]
    kind: Kind

    def __post_init__(self) -> None:
        operation = OPERATIONS.get(self.op)
        if operation is None:
            raise KindError(f"there is no scalar operation '{self.op}'")
        found = tuple(operand.kind for operand in self.operands)
        if not fits(operation, found, self.kind):
            kinds = ", ".join(kind.value for kind in found)
            raise KindError(f"scalar operation '{self.op}' doesn't take ({kinds}) to {self.kind.value}")

    def __repr__(self) -> str:
        return f"Apply({self.op!r}, {len(self.operands)} operands, {self.kind.value})"  # operands are shared: a tree of them could be vast


def apply(op: str, *operands: Operand) -> Expr:
    """An operation whose result kind follows from its operands; Python numbers become constants of the other operands' kind."""
    kinds = [operand.kind for operand in operands if isinstance(operand, Expr)]
    if not kinds:
        raise KindError(f"scalar operation '{op}' needs one operand that is an expression")
    lifted = tuple(operand if isinstance(operand, Expr) else Constant(operand, kinds[-1]) for operand in operands)
    result = OPERATIONS[op].result
    return Apply(op, lifted, result if isinstance(result, Kind) else lifted[-1].kind)


def fma(a: Operand, b: Operand, c: Operand) -> Expr:
    """a * b + c, rounded once."""
    return apply("fma", a, b, c)


def sqrt(x: Expr) -> Expr:
    return apply("sqrt", x)


def copysign(size: Operand, sign: Operand) -> Expr:
    return apply("copysign", size, sign)


def roundeven(x: Expr) -> Expr:
    return apply("roundeven", x)


def floor(x: Expr) -> Expr:
    return apply("floor", x)


def ceil(x: Expr) -> Expr:
    return apply("ceil", x)


def is_nan(x: Expr) -> Expr:
    return apply("is_nan", x)


def select(condition: Expr, then: Operand, otherwise: Operand) -> Expr:
    """`then` where the condition holds, else `otherwise`; at least one of the two must be an expression."""
    branches = [branch for branch in (then, otherwise) if isinstance(branch, Expr)]
    if not branches:
        raise KindError("select needs one branch that is an expression")
    kind = branches[0].kind
    return apply("select", condition, *(branch if isinstance(branch, Expr) else Constant(branch, kind) for branch in (then, otherwise)))


def umul_wide(a: Expr, b: Expr) -> Expr:
    return apply("umul_wide", a, b)


def int_to_float(x: Expr, kind: Kind) -> Expr:
    return Apply("int_to_float", (x,), kind)


def to_int_in_range(x: Expr, kind: Kind) -> Expr:
    return Apply("to_int_in_range", (x,), kind)


def widen(x: Expr) -> Expr:
    return Apply("widen", (x,), {F32: F64, I32: I64, U16: U32, U32: U64}.get(x.kind, x.kind))


def narrow(x: Expr) -> Expr:
    return Apply("narrow", (x,), {F64: F32, I64: I32, U64: U32, U32: U16}.get(x.kind, x.kind))


def bitcast(x: Expr, kind: Kind) -> Expr:
    return Apply("bitcast", (x,), kind)


def in_order(roots: Sequence[Expr]) -> list[Expr]:
    """Every node that the roots need, once each, operands before their users."""
    done: dict[Expr, None] = {}
    stack = list(reversed(roots))
    while stack:
        node = stack[-1]
        waiting = [] if not isinstance(node, Apply) else [operand for operand in node.operands if operand not in done]
        if node not in done and waiting:
            stack.extend(reversed(waiting))
        else:
            done.setdefault(node)
            stack.pop()
    return list(done)
