"""The kinds and operations that scalar expressions are made of.

Every operation rounds once, to nearest even, and none is fused but `fma`.
"""

import math
import struct
from collections.abc import Sequence
from enum import Enum
from typing import TypeAlias

from shapescript.compiler.records.dataclass import dataclass


class Kind(Enum):
    """The element kind of a scalar value. `U16` is for what is stored: it is widened, narrowed and chosen, and not computed with."""

    F32 = "f32"
    F64 = "f64"
    I32 = "i32"
    I64 = "i64"
    U16 = "u16"
    U32 = "u32"
    U64 = "u64"
    BOOL = "bool"

    @property
    def bits(self) -> int:
        """Width in bits; 1 for `BOOL`."""
        return 1 if self is Kind.BOOL else int(self.value[1:])

    @property
    def is_float(self) -> bool:
        return self in FLOATS

    @property
    def is_integer(self) -> bool:
        return self in INTEGERS or self is U16

    @property
    def is_signed(self) -> bool:
        """True for `I32` and `I64`."""
        return self in (Kind.I32, Kind.I64)


F32, F64, I32, I64, U16, U32, U64, BOOL = Kind.F32, Kind.F64, Kind.I32, Kind.I64, Kind.U16, Kind.U32, Kind.U64, Kind.BOOL
FLOATS = frozenset({F32, F64})
INTEGERS = frozenset({I32, I64, U32, U64})
NUMBERS = FLOATS | INTEGERS

Number: TypeAlias = int | float | bool


class KindError(TypeError):
    """A scalar expression was built from operands that its operation doesn't take."""


@dataclass(frozen=True)
class Operation:
    """What an operation takes and gives. "T" is one kind out of `kinds`, the same at every "T".

    A conversion gives the kind asked for; `conversions` holds its allowed (from, to) pairs.
    """

    operands: tuple[str | Kind, ...]
    result: str | Kind
    kinds: frozenset[Kind] = frozenset()
    conversions: frozenset[tuple[Kind, Kind]] = frozenset()


def _each(operands: int, result: str | Kind, kinds: frozenset[Kind]) -> Operation:
    return Operation(("T",) * operands, result, kinds)


def _conversion(pairs: set[tuple[Kind, Kind]]) -> Operation:
    return Operation(("T",), "to", frozenset(source for source, _ in pairs), frozenset(pairs))


OPERATIONS: dict[str, Operation] = {
    # Floats: IEEE 754, round to nearest even. Integers: wrapping, two's complement.
    "add": _each(2, "T", NUMBERS),
    "sub": _each(2, "T", NUMBERS),
    "mul": _each(2, "T", NUMBERS),
    "div": _each(2, "T", FLOATS),
    "fma": _each(3, "T", FLOATS),
    "sqrt": _each(1, "T", FLOATS),
    # Sign-bit operations: they hold for NaN, ±0 and infinities alike.
    "neg": _each(1, "T", FLOATS),
    "abs": _each(1, "T", FLOATS),
    "copysign": _each(2, "T", FLOATS),
    # To an integral float: to nearest even, down, up, toward zero.
    "roundeven": _each(1, "T", FLOATS),
    "floor": _each(1, "T", FLOATS),
    "ceil": _each(1, "T", FLOATS),
    "trunc": _each(1, "T", FLOATS),
    # Comparisons: signed or unsigned by kind. With a NaN all are false but `ne`.
    "lt": _each(2, BOOL, NUMBERS),
    "le": _each(2, BOOL, NUMBERS),
    "gt": _each(2, BOOL, NUMBERS),
    "ge": _each(2, BOOL, NUMBERS),
    "eq": _each(2, BOOL, NUMBERS),
    "ne": _each(2, BOOL, NUMBERS),
    "is_nan": _each(1, BOOL, FLOATS),
    # Both branches are computed; the value of the one not taken is ignored.
    "select": Operation((BOOL, "T", "T"), "T", NUMBERS | {U16, BOOL}),
    "and": _each(2, "T", INTEGERS | {BOOL}),
    "or": _each(2, "T", INTEGERS | {BOOL}),
    "xor": _each(2, "T", INTEGERS | {BOOL}),
    "not": _each(1, "T", INTEGERS | {BOOL}),
    # The builder guarantees 0 <= amount < bits. `lshr` shifts in zeros and `ashr` the top bit, whatever the kind.
    "shl": _each(2, "T", INTEGERS),
    "lshr": _each(2, "T", INTEGERS),
    "ashr": _each(2, "T", INTEGERS),
    # Toward zero; unsigned for U32 and U64. The builder guarantees a divisor that is not 0 and no overflow.
    "quotient": _each(2, "T", INTEGERS),
    "remainder": _each(2, "T", INTEGERS),
    # The whole 64-bit product of two 32-bit numbers.
    "umul_wide": Operation((U32, U32), U64),
    # Rounds to nearest even.
    "int_to_float": _conversion({(i, f) for i in INTEGERS for f in FLOATS}),
    # Toward zero. The builder guarantees a number whose integral part fits; see elementary.to_integer for one that takes all.
    "to_int_in_range": _conversion({(f, i) for i in INTEGERS for f in FLOATS}),
    # Exact: f32 to f64, sign extension, zero extension.
    "widen": _conversion({(F32, F64), (I32, I64), (U32, U64), (U16, U32)}),
    # f64 to f32 rounds to nearest even; integers keep their low bits.
    "narrow": _conversion({(F64, F32), (I64, I32), (U64, U32), (U32, U16)}),
    # The same bits under another kind of equal width.
    "bitcast": _conversion({(a, b) for a in NUMBERS for b in NUMBERS if a != b and a.bits == b.bits}),
}


def representable(value: Number, kind: Kind) -> Number:
    """The value as a number of the kind: a float rounded to it, an integer or bool as it is; raises `KindError` where it doesn't fit."""
    if kind is BOOL:
        if value not in (0, 1):
            raise KindError(f"{value!r} is not a bool")
        return bool(value)
    if kind.is_integer:
        low, high = (-(1 << kind.bits - 1), (1 << kind.bits - 1) - 1) if kind.is_signed else (0, (1 << kind.bits) - 1)
        if int(value) != value or not low <= value <= high:
            raise KindError(f"{value!r} is not a number of kind {kind.value}")
        return int(value)
    if math.isnan(value):
        return math.nan
    if kind is F64:
        return float(value)
    return round_to_f32(float(value))


def round_to_f32(value: float) -> float:
    """The f32 nearest to a float (ties to even), as a float; beyond the range an infinity, as IEEE says."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def fits(operation: Operation, found: Sequence[Kind], result: Kind) -> bool:
    """Whether the operation takes operands of the kinds found to the result's kind."""
    if len(found) != len(operation.operands):
        return False
    generic = {kind for kind, wanted in zip(found, operation.operands, strict=True) if wanted == "T"}
    if any(kind is not wanted for kind, wanted in zip(found, operation.operands, strict=True) if wanted != "T"):
        return False
    if len(generic) > 1 or not generic <= operation.kinds:
        return False
    if operation.result == "to":
        return (found[0], result) in operation.conversions
    return {result} == generic if operation.result == "T" else result is operation.result
