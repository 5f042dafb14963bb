"""Optimisers: new states, updates, and the check of the numbers that they are given."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.emit import F64, I64, Builder, ElementType, Value, at, constant, element_bytes, load, store
from shapescript.compiler.codegen.leaf_updates import gradient_factors
from shapescript.compiler.codegen.lower_models import clear_padding, layout_of
from shapescript.compiler.codegen.lowering import MEMORY_TYPES, Lowering, Site, lowers
from shapescript.compiler.codegen.optimiser import Form, computed_in, emit_given, emit_moves_padding, emit_numbers, emit_update
from shapescript.compiler.codegen.split import PICOSECONDS_A_BYTE, split_elements
from shapescript.compiler.codegen.storage import clear_bytes, each_slot, load_constants, prepare_slots, present_slots, slot_pointer
from shapescript.compiler.ir.flat import ALIGNMENT, FlatLayout, FlatLeaf, slot_layout
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.types import OptimiserType, Treatment
from shapescript.compiler.numerics.optimisers import FIRST_CONSTANT, KINDS, STEP
from shapescript.compiler.numerics.ranges import RANGES
from shapescript.compiler.records.dataclass import dataclass


@lowers("optimiser")
def _optimiser(low: Lowering, op: Op) -> None:
    b, kind = low.b, op.result.type
    assert isinstance(kind, OptimiserType)
    location = low.plan.locations[op.result]
    block, total = low.address(location), slot_layout(kind.model).total
    constants = [low.number(operand) for operand in op.operands[1:]]
    prepare_slots(low, kind, location, constants)
    store(b, I64(0), at(b, block, STEP, I64))
    for place, constant_ in enumerate(constants):
        store(b, constant_, at(b, block, FIRST_CONSTANT + place, F64))
    each_slot(b, KINDS[kind.kind], block, lambda place: clear_bytes(b, slot_pointer(b, block, place), total))


@lowers("optimiser_step")
def _optimiser_step(low: Lowering, op: Op) -> None:
    low.define(op.result, load(low.b, at(low.b, low.pointer(op.operands[0]), STEP, I64), I64))


@lowers("check_range")
def _check_range(low: Lowering, op: Op) -> None:
    b, number, range_ = low.b, low.number(op.operands[0]), RANGES[op.attributes["rule"]]
    above = b.fcmp_ordered(">=" if range_.has_lowest else ">", number, constant(range_.lowest, F64))
    below = b.fcmp_ordered("<=" if range_.has_highest else "<", number, constant(range_.highest, F64))
    low.fail_if(b.not_(b.and_(above, below)), Site("range", op), [b.bitcast(number, I64)])


# ---- updates


@dataclass(frozen=True)
class Run:
    """Neighbouring parameters that are updated alike, from one element of the buffer to another; in the slots they lie so many elements
    further on."""

    low: int
    high: int
    shift: int = 0


Alike = tuple[ElementType, Treatment]


@lowers("update")
def _update(low: Lowering, op: Op) -> None:
    """See exactness.md and numerics/optimisers.py."""
    b = low.b
    model, state, gradient, rate, factor = op.operands
    assert isinstance(state.type, OptimiserType)
    kind, block, layout, remembered = KINDS[state.type.kind], low.pointer(state), layout_of(model), slot_layout(state.type.model)
    step = b.add(load(b, at(b, block, STEP, I64), I64), I64(1))
    store(b, step, at(b, block, STEP, I64))
    given = emit_given(b, kind, load_constants(b, kind, block), step)
    sorts, places = alike(layout, op.attributes.get("untouched", ())), {part.leaf.name: part for part in remembered.leaves}
    numbers = {sort: emit_numbers(b, kind, given, sort[0], low.number(rate), sort[1].rate, sort[1].decay) for sort in sorts}

    factors = gradient_factors(b, low.number(factor))

    def with_slots(has_optional: bool) -> None:
        slots = [slot_pointer(b, block, kind.slots.index(slot)) for slot in kind.slots_with(has_optional)]
        tensors = [low.pointer(model), low.pointer(gradient)]
        for (element, treatment), leaves in sorts.items():
            form, both = Form(kind, element, has_optional, len(factors) > 1), [part[element] for part in factors]
            _each_run(b, runs(leaves, places), partial(_update_run, low, form, tensors, slots, both, numbers[element, treatment]))
            with b.if_then(emit_moves_padding(b, form, both[-1], numbers[element, treatment]), likely=False):
                clear_padding(b, leaves, tensors[0])
                for slot in slots:
                    clear_padding(b, [places[part.leaf.name] for part in leaves], slot)

    if not kind.optional_slots:
        with_slots(False)
        return
    with b.if_else(present_slots(b, kind, block)) as (there, not_there):
        with there:
            with_slots(True)
        with not_there:
            with_slots(False)


def alike(layout: FlatLayout, untouched: Collection[str] = ()) -> Mapping[Alike, list[FlatLeaf]]:
    """The parameters that are trained, but those named, by what sets them apart for an update."""
    found: dict[Alike, list[FlatLeaf]] = {}
    for part in layout.leaves:
        if part.leaf.is_trained and part.leaf.name not in untouched:
            found.setdefault((MEMORY_TYPES[part.leaf.type.element], part.leaf.treatment), []).append(part)
    return found


def _update_run(
    low: Lowering,
    form: Form,
    tensors: Sequence[Value],
    slots: Sequence[Value],
    factors: Sequence[Value],
    numbers: Sequence[Value],
    start: emit.Size,
    end: emit.Size,
    shift: emit.Size,
) -> None:
    """Elements start to end of the buffers, in stretches that threads share out."""
    b, count, width = low.b, len(tensors) + len(slots), element_bytes(computed_in(form.element))
    shifted = [at(b, slot, shift, computed_in(form.element)) for slot in slots]

    def body(b: Builder, given: Sequence[Value], first: emit.Size, last: emit.Size) -> None:
        buffers, (start, *scalars) = given[:count], given[count:]
        low, high = (extents.plus(b, start, place) for place in (first, last))
        emit_update(b, form, buffers, scalars[: len(factors)], scalars[len(factors) :], low, high)

    arguments = [*tensors, *shifted, emit.size(start), *factors, *numbers]
    picoseconds = PICOSECONDS_A_BYTE * width * (2 * count - 1)
    split_elements(low, f"{form.name}.stretches", form, arguments, extents.minus(b, end, start), picoseconds, body)


def runs(leaves: Sequence[FlatLeaf], slots: Mapping[str, FlatLeaf]) -> list[Run]:
    """The fewest runs that cover these parameters, of one element type, and no others."""
    found: list[Run] = []
    for part in leaves:
        slot = slots[part.leaf.name]
        width, lanes = slot.leaf.type.element.bytes, ALIGNMENT // slot.leaf.type.element.bytes
        low = part.offset // part.leaf.type.element.bytes
        high, shift = low + -(-part.count // lanes) * lanes, slot.offset // width - low
        if found and (found[-1].high, found[-1].shift) == (low, shift):
            found[-1] = Run(found[-1].low, high, shift)
        else:
            found.append(Run(low, high, shift))
    return found


def _each_run(b: Builder, found: Sequence[Run], act: Callable[[emit.Size, emit.Size, emit.Size], None]) -> None:
    """One after the other; many of them from a table, since code for each would be long."""
    if len(found) <= 2:
        for run in found:
            act(run.low, run.high, run.shift)
        return
    table = emit.constant_table(b.module, "runs", [number for run in found for number in (run.low, run.high, run.shift)])

    def turn(place: Value, _: Sequence[Value]) -> None:
        row = at(b, table, b.mul(place, I64(3)), I64)
        act(*(load(b, at(b, row, column, I64), I64) for column in range(3)))

    emit.loop(b, 0, len(found), 1, turn)
