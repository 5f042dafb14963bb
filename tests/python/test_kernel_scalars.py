"""Scalar expressions in native code, scalars and vectors, against their evaluation in NumPy."""

from typing import Any

import numpy as np
import pytest
from kernel_harness import WIDTHS, Array, native, same_bytes
from llvmlite import ir

from shapescript.compiler.codegen import emit, scalars
from shapescript.compiler.codegen.emit import PTR
from shapescript.compiler.codegen.target import Target
from shapescript.compiler.numerics import elementary
from shapescript.compiler.numerics.evaluation import DTYPES, evaluate_all
from shapescript.compiler.numerics.operations import OPERATIONS
from shapescript.compiler.numerics.scalar import (
    BOOL,
    F32,
    F64,
    I32,
    I64,
    U32,
    U64,
    Apply,
    Argument,
    Constant,
    Expr,
    Kind,
    select,
)

each_target = pytest.mark.parametrize("level", WIDTHS, ids=lambda level: level.name)
RNG = np.random.default_rng(11)
COUNT = 64


def samples(kind: Kind, place: int) -> Array:
    """Numbers of a kind, with its special ones, in an order that depends on the place."""
    if kind is BOOL:
        return RNG.integers(0, 2, COUNT).astype(np.bool_)
    dtype = DTYPES[kind]
    if kind.is_float:
        special = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 1e-40, np.inf, -np.inf, np.nan, 3e38, 2.0**-1030, 123456.75]
        rest = COUNT - len(special)
        values = np.concatenate([np.asarray(special), RNG.standard_normal(rest) * 2.0 ** RNG.integers(-20, 20, rest)])
        with np.errstate(all="ignore"):
            return np.roll(values.astype(dtype), 5 * place)
    limits = np.iinfo(dtype)
    special_integers = np.array([limits.min, limits.max, 1, 2, 3, limits.max - 1, limits.max // 2 + 1], dtype)
    values = RNG.integers(limits.min, limits.max, COUNT, dtype, endpoint=True)
    values[: len(special_integers)] = special_integers
    return np.roll(values, 5 * place)


def run(level: Target, roots: list[Expr], arguments: list[Array], lanes: int | None) -> list[Array]:
    """Each root for every element: one at a time, or `lanes` of them."""
    kinds = [Kind(root.kind) for root in roots]

    def body(b: Any, pointers: Any) -> None:
        def turn(i: Any, _: Any) -> None:
            values = []
            for pointer, array in zip(pointers, arguments, strict=False):
                element = emit.element_type(array.dtype.name.replace("uint", "u").replace("int", "i").replace("float", "f"))
                value = emit.load(b, emit.at(b, pointer, i, element), element, lanes)
                values.append(emit.condition_of(b, value) if array.dtype == np.bool_ else value)
            for root, pointer, value in zip(kinds, pointers[len(arguments) :], scalars.emit_all(b, roots, values, lanes), strict=True):
                stored = emit.stored_condition(b, value) if root is BOOL else value
                emit.store(b, stored, emit.at(b, pointer, i, emit.scalar_of(stored.type)))

        emit.loop(b, 0, COUNT, lanes or 1, turn)

    out = [np.zeros(COUNT, DTYPES[kind]) for kind in kinds]
    native(level, [PTR] * (len(arguments) + len(roots)), body)(*arguments, *out)
    return out


def every_operation() -> list[tuple[str, list[Kind], Kind]]:
    found: list[tuple[str, list[Kind], Kind]] = []
    for name, operation in OPERATIONS.items():
        if operation.conversions:
            found += [(name, [source], to) for source, to in sorted(operation.conversions, key=str)]
            continue
        for kind in sorted(operation.kinds, key=str) or [U32]:
            operands = [kind if operand == "T" else operand for operand in operation.operands]
            found.append((name, operands, kind if operation.result == "T" else operation.result))  # type: ignore[arg-type]
    return found


def in_domain(name: str, kinds: list[Kind], to: Kind, arguments: list[Array]) -> list[Array]:
    """Operands that the operation has a result for."""
    if name in ("shl", "lshr", "ashr"):
        arguments[1] = (arguments[1].view(f"u{kinds[1].bits // 8}") % kinds[1].bits).astype(DTYPES[kinds[1]])
    if name in ("quotient", "remainder"):
        arguments[1][(arguments[1] == 0) | (arguments[1] == DTYPES[kinds[1]].type(-1 if kinds[1].is_signed else 0))] = 3
    if name == "to_int_in_range":
        bound = 2.0 ** (to.bits - to.is_signed)
        inside = np.isfinite(arguments[0]) & (np.abs(arguments[0]) < bound) & ((arguments[0] >= 0) | to.is_signed)
        arguments[0][~inside] = 5.75
    return arguments


@each_target
def test_every_operation_of_every_kind(level: Target) -> None:
    cases = every_operation()
    assert {name for name, _, _ in cases} == set(OPERATIONS)
    for lanes in (None, 16):
        for signature in sorted({tuple(kind.value for kind in kinds) for _, kinds, _ in cases}):
            mine = [(name, to) for name, kinds, to in cases if tuple(kind.value for kind in kinds) == signature]
            kinds = [Kind(value) for value in signature]
            inputs = [samples(kind, place) for place, kind in enumerate(kinds)]
            safe = [case for case in mine if case[0] not in ("shl", "lshr", "ashr", "quotient", "remainder", "to_int_in_range")]
            for group in (safe, *([case] for case in mine if case not in safe)):
                arguments = [x.copy() for x in inputs]
                if len(group) == 1:
                    arguments = in_domain(group[0][0], kinds, group[0][1], arguments)
                roots: list[Expr] = [Apply(name, tuple(map(Argument, range(len(kinds)), kinds)), to) for name, to in group]
                results = run(level, roots, arguments, lanes), evaluate_all(roots, arguments)
                for (name, to), ours, theirs in zip(group, *results, strict=True):
                    assert same_bytes(ours, theirs), (name, signature, to, lanes)


@each_target
def test_elementary_functions(level: Target) -> None:
    functions = ("exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf", "sin", "cos", "relu")
    for kind in (F32, F64):
        x = [samples(kind, 0)]
        roots = [getattr(elementary, name)(Argument(0, kind)) for name in functions]
        for lanes in (None, 8, 16):
            for name, ours, theirs in zip(functions, run(level, roots, x, lanes), evaluate_all(roots, x), strict=True):
                assert same_bytes(ours, theirs), (name, kind, lanes)


@each_target
def test_constants_of_every_kind(level: Target) -> None:
    floats: list[tuple[Any, Kind]] = [(0.1, F32), (-0.0, F64), (float("inf"), F32), (float("nan"), F64)]
    values = [*floats, (-7, I32), (2**31 - 1, I32), (2**32 - 1, U32), (-(2**63), I64), (2**64 - 1, U64), (True, BOOL)]
    roots: list[Expr] = [Constant(value, kind) for value, kind in values]
    arguments = [samples(F32, 0)]
    for lanes in (None, 16):
        found = run(level, roots, arguments, lanes)
        assert all(same_bytes(x, y) for x, y in zip(found, evaluate_all(roots, arguments), strict=True))


@each_target
def test_division_that_is_not_selected_does_not_trap(level: Target) -> None:
    x, y = Argument(0, I64), Argument(1, I64)
    safe = select(y.eq(0) | y.eq(-1), 0, Apply("quotient", (x, y), I64))
    arguments = [np.full(COUNT, -(2**63)), np.tile(np.array([0, -1, 2, 3]), COUNT // 4)]
    for lanes in (None, 8):
        assert same_bytes(run(level, [safe], arguments, lanes)[0], evaluate_all([safe], arguments)[0])


def test_arguments_of_different_widths_are_refused() -> None:
    wide = [ir.Constant(emit.vector_of(emit.F32, lanes), None) for lanes in (4, 8)]
    with pytest.raises(ValueError, match="lanes"):
        scalars.emit(ir.IRBuilder(), Argument(0, F32) + Argument(1, F32), wide)
