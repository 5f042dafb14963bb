"""Optimisers: their state and their updates, by the definitions of numerics/optimisers.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.types import OptimiserType, Treatment
from shapescript.compiler.numerics.evaluation import evaluate_all
from shapescript.compiler.numerics.optimisers import BLOCK_WORDS, KINDS, STEP, OptimiserKind, number_expressions, update_expressions
from shapescript.compiler.numerics.powers import power_of_step
from shapescript.compiler.numerics.ranges import RANGES
from shapescript.compiler.numerics.scalar import F32, F64
from shapescript.compiler.ops.protocol import OptimiserState, out_of_range
from shapescript.compiler.reference.border import copied_state
from shapescript.compiler.reference.frame import Frame, handles
from shapescript.compiler.reference.layouts import Array, aligned, aligned_copy
from shapescript.compiler.reference.models import layout_of, split

ELEMENTS = {np.dtype(np.float32): F32, np.dtype(np.float64): F64}


def kind_of(op: Op, place: int) -> OptimiserKind:
    """The kind of the optimiser that is an operand."""
    type_ = op.operands[place].type
    assert isinstance(type_, OptimiserType)
    return KINDS[type_.kind]


@handles("optimiser")
def _optimiser(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    _, *constants = operands
    kind = KINDS[op.attributes["kind"]]
    state = OptimiserState(np.zeros(BLOCK_WORDS, np.int64), [None] * len(kind.slots))
    state.constants(kind)[:] = constants
    for slot in kind.slots_of(constants):
        state.put(kind.slots.index(slot), aligned(layout_of(op.operands[0], frame).slot_total))
    return (state,)


@handles("optimiser_step")
def _optimiser_step(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    return (np.asarray(operands[0].block[STEP]),)


@handles("check_range")
def _check_range(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    number = float(operands[0])
    if not RANGES[op.attributes["rule"]].holds(number):
        raise out_of_range(op, number)
    return ()


def step_numbers(kind: OptimiserKind, state: OptimiserState, treatment: Treatment, rate: float, step: int) -> list[Array]:
    """The numbers of an update of parameters with this treatment, in f64."""
    constants = {constant.name: float(value) for constant, value in zip(kind.constants, state.constants(kind), strict=True)}
    if not treatment.decay:
        constants["decay"] = 0.0
    powers = [power_of_step(constants[name], step) for name in kind.powers]
    given = [np.float64(number) for number in (*constants.values(), rate * treatment.rate, *powers)]
    return evaluate_all(number_expressions(kind), [*given, np.int64(step)])


@handles("update")
def _update(op: Op, operands: Sequence[Any], frame: Frame) -> Sequence[Any]:
    model, state, gradient, rate, factor = operands
    kind, changed, after = kind_of(op, 1), aligned_copy(model), copied_state(state)
    after.block[STEP] += 1
    present = kind.slots_of(state.constants(kind))
    slots = [after.slot(kind, slot) for slot in present]
    has_optional = any(slot.only_with for slot in present)
    layout = layout_of(op.operands[0], frame)
    untouched = op.attributes.get("untouched", ())
    for place in layout.trained:
        if place.name in untouched:
            continue
        numbers = step_numbers(kind, state, place.treatment, float(rate), int(after.block[STEP]))
        given, value, remembered = place.numbers(gradient), place.numbers(changed), layout.slot_places[place.name]
        is_split, rounded = split(factor, given.dtype)
        scalars = [rounded, *(number.astype(given.dtype) for number in numbers)]
        expressions = update_expressions(kind, ELEMENTS[given.dtype], has_optional, is_split)
        moved = evaluate_all(expressions, [value, given, *map(remembered.view, slots), *scalars])
        place.write(changed, moved[0])
        for slot, new in zip(slots, moved[1:], strict=True):
            remembered.view(slot)[...] = new
    return changed, after
