"""Updates of parameters in flat buffers, by the definitions of numerics/optimisers.py.

Buffers are 64-byte aligned; each parameter begins at a multiple of 64 bytes, and what lies between them holds zeros. So neighbouring
parameters of one element type and treatment are one run: `emit_update` works on elements low to high of all buffers, and any cut at
multiples of 64 bytes shares a run out. A bf16 value (I16) and its gradient are widened to f32 and the value is rounded once; slots are f32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from shapescript.compiler.codegen import scalars
from shapescript.compiler.codegen.emit import (
    F32,
    F64,
    I16,
    I64,
    PTR,
    Builder,
    ElementType,
    Size,
    Value,
    at,
    constant,
    element_bytes,
    function,
    load,
    loop,
    size,
    splat,
    store,
    while_loop,
)
from shapescript.compiler.ir.flat import ALIGNMENT
from shapescript.compiler.numerics import elementary
from shapescript.compiler.numerics.bfloat16 import from_bfloat16, to_bfloat16
from shapescript.compiler.numerics.optimisers import OptimiserKind, number_expressions, update_expressions
from shapescript.compiler.numerics.scalar import Argument, Expr, Kind
from shapescript.compiler.records.dataclass import dataclass

KINDS_OF: dict[ElementType, Kind] = {F32: Kind.F32, F64: Kind.F64, I16: Kind.F32}  # of what the update is computed in


def computed_in(element: ElementType) -> ElementType:
    """The type of an update's numbers and slots: f32 for bf16."""
    return F32 if element == I16 else element


_FROM_BF16, _TO_BF16 = from_bfloat16(Argument(0, Kind.U16)), to_bfloat16(Argument(0, Kind.F32))


@dataclass(frozen=True)
class Given:
    """What an update's numbers are made of, all f64 but the step (I64, from 1): one for each of the kind's constants and powers."""

    constants: Sequence[Value]
    powers: Sequence[Value]
    step: Value


def emit_power_of_step(b: Builder, base: Value, t: Value) -> Value:
    """base ** t in f64 for an I64 t >= 0, by numerics' binary powers."""
    arguments = [Argument(0, Kind.F64), Argument(1, Kind.F64), Argument(2, Kind.I64)]
    turn = elementary.power_loop_turn(*arguments)

    def body(state: Sequence[Value]) -> list[Value]:
        return scalars.emit_all(b, [turn.result, turn.base, turn.remaining], list(state))

    return while_loop(b, lambda state: b.icmp_signed("!=", state[2], I64(0)), body, [constant(1.0, F64), base, t])[0]


def emit_given(b: Builder, kind: OptimiserKind, constants: Sequence[Value], step: Value) -> Given:
    """For update number `step`, counted from 1 (I64), with these constants (f64)."""
    named = dict(zip((one.name for one in kind.constants), constants, strict=True))
    return Given(constants, [emit_power_of_step(b, named[name], step) for name in kind.powers], step)


def emit_numbers(
    b: Builder, kind: OptimiserKind, given: Given, element: ElementType, rate: Value, factor: float = 1.0, decay: bool = True
) -> list[Value]:
    """The numbers of an update at this rate (f64), for parameters with a factor on the rate, and with or without decay."""
    zero = constant(0.0, F64)
    constants = [zero if one.name == "decay" and not decay else value for one, value in zip(kind.constants, given.constants, strict=True)]
    scaled = rate if factor == 1.0 else b.fmul(rate, constant(factor, F64))
    numbers = scalars.emit_all(b, number_expressions(kind), [*constants, scaled, *given.powers, given.step])
    return numbers if element == F64 else [b.fptrunc(number, F32) for number in numbers]


@dataclass(frozen=True)
class Form:
    """What makes the code of one update another's: the optimiser, the elements' type in memory, whether the optional slot is there, and
    whether the gradient has two factors (leaf_updates.gradient_factors)."""

    kind: OptimiserKind
    element: ElementType
    has_optional: bool = False
    has_two_factors: bool = False

    @property
    def name(self) -> str:
        element = "bf16" if self.element == I16 else KINDS_OF[self.element].value
        optional = [self.kind.optional_slots[0].name] if self.has_optional else []
        return ".".join([self.kind.name, element, *optional, *(["two"] if self.has_two_factors else [])])

    def expressions(self) -> tuple[Expr, ...]:
        return update_expressions(self.kind, KINDS_OF[self.element], self.has_optional)


def emit_update(
    b: Builder, form: Form, buffers: Sequence[Value], factors: Sequence[Value], numbers: Sequence[Value], low: Size, high: Size
) -> None:
    """Update elements low to high (multiples of 64 bytes) with the gradient times its factors.

    buffers: the values, the gradient, the slots that are there. Factors and numbers are of the type that is
    computed in.
    """
    fn = _update(b.module, form, len(buffers), len(factors) + len(numbers))
    b.call(fn, [*buffers, size(low), size(high), *factors, *numbers])


def _update(module: ir.Module, form: Form, buffers: int, scalar_count: int) -> Any:
    element = form.element
    if form.name in module.globals:
        return module.globals[form.name]
    fn, b = function(module, form.name, [PTR] * buffers + [I64] * 2 + [computed_in(element)] * scalar_count)
    pointers, (low, high, *scalar_arguments) = fn.args[:buffers], fn.args[buffers:]
    lanes = ALIGNMENT // element_bytes(computed_in(element))
    types = [element, *[computed_in(element)] * (buffers - 2), element]  # in turn
    spread = [splat(b, number, lanes) for number in scalar_arguments]
    first_factors, spread = spread[: form.has_two_factors], spread[form.has_two_factors :]
    expressions = form.expressions()
    in_turn = [*pointers[1:], pointers[0]]  # beyond the caches a tenth faster than the value first

    def turn(i: Value, _: Sequence[Value]) -> None:
        loaded = [
            load(b, at(b, pointer, i, type_), type_, lanes, align=lanes * element_bytes(type_))
            for pointer, type_ in zip(in_turn, types, strict=True)
        ]
        gradient, *slots, value = (
            scalars.emit(b, _FROM_BF16, [one]) if type_ == I16 else one for one, type_ in zip(loaded, types, strict=True)
        )
        for factor in first_factors:
            gradient = b.fmul(gradient, factor)
        moved = scalars.emit_all(b, (*expressions[1:], expressions[0]), [value, gradient, *slots, *spread])
        for pointer, new, type_ in zip(in_turn[1:], moved, types[1:], strict=True):
            stored = scalars.emit(b, _TO_BF16, [new]) if type_ == I16 else new
            store(b, stored, at(b, pointer, i, type_), align=lanes * element_bytes(type_))

    loop(b, low, high, lanes, turn)
    b.ret_void()
    return fn


def emit_moves_padding(b: Builder, form: Form, factor: Value, numbers: Sequence[Value]) -> Value:
    """Whether an update with these numbers makes anything but +0 of zeros (I1): without eps, say, it divides 0 by 0."""
    element, expressions = computed_in(form.element), form.expressions()
    word = {F32: Kind.I32, F64: Kind.I64}[element]
    zeros = [constant(0.0, element)] * (len(expressions) + 1)
    found = [b.bitcast(new, scalars.TYPES[word]) for new in scalars.emit_all(b, expressions, [*zeros, factor, *numbers])]
    together = found[0]
    for one in found[1:]:
        together = b.or_(together, one)
    return b.icmp_signed("!=", together, constant(0, together.type))
