"""Stored values as a whole: copies of tensors, models and optimisers, and the parts of an optimiser's storage."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.emit import F64, I1, I64, PTR, VOID, Builder, Value, at, load, store
from shapescript.compiler.codegen.lowering import Lowering, Site
from shapescript.compiler.codegen.split import PICOSECONDS_A_BYTE, STRETCH, split_elements
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.flat import slot_layout
from shapescript.compiler.ir.types import OptimiserType, Type
from shapescript.compiler.numerics.optimisers import FIRST_CONSTANT, FIRST_SLOT, KINDS, STEP, OptimiserKind
from shapescript.compiler.ops.locations import OPTIMISER_BLOCK_BYTES, Location, SlotStorage, storage_bytes


def copy_bytes(b: Builder, target: Value, source: Value, count: emit.Size) -> None:
    """The two must not overlap."""
    if isinstance(count, int) and count == 0:
        return
    copy = emit.declared(b, "llvm.memcpy.p0.p0.i64", VOID, [PTR, PTR, I64, I1])
    b.call(copy, [target, source, emit.size(count), I1(0)])


def clear_bytes(b: Builder, target: Value, count: emit.Size) -> None:
    if isinstance(count, int) and count == 0:
        return
    fill = emit.declared(b, "llvm.memset.p0.i64", VOID, [PTR, emit.I8, I64, I1])
    b.call(fill, [target, emit.I8(0), emit.size(count), I1(0)])


def copy_storage(low: Lowering, target: Value, source: Value, count: emit.Size) -> None:
    """As `copy_bytes`, by several threads where there are many bytes."""
    if isinstance(count, int) and count <= STRETCH:
        copy_bytes(low.b, target, source, count)
        return

    def copy(b: Builder, given: Sequence[Value], start: emit.Size, end: emit.Size) -> None:
        there, here = (at(b, storage, start, emit.I8) for storage in given)
        copy_bytes(b, there, here, extents.minus(b, end, start))

    split_elements(low, "copy", None, [target, source], count, 2 * PICOSECONDS_A_BYTE, copy)


def clear_storage(low: Lowering, target: Value, count: emit.Size) -> None:
    """As `clear_bytes`, by several threads where there are many bytes."""
    if isinstance(count, int) and count <= STRETCH:
        clear_bytes(low.b, target, count)
        return

    def clear(b: Builder, given: Sequence[Value], start: emit.Size, end: emit.Size) -> None:
        clear_bytes(b, at(b, given[0], start, emit.I8), extents.minus(b, end, start))

    split_elements(low, "clear", None, [target], count, PICOSECONDS_A_BYTE, clear)


# ---- the parts of an optimiser: numerics/optimisers.py says what lies in its block


def slot_pointer(b: Builder, block: Value, place: int) -> Value:
    """Where a slot that is there begins."""
    return load(b, at(b, block, FIRST_SLOT + place, I64), PTR, align=8)


def load_constants(b: Builder, kind: OptimiserKind, block: Value) -> list[Value]:
    return [load(b, at(b, block, FIRST_CONSTANT + place, F64), F64) for place in range(len(kind.constants))]


def present_slots(b: Builder, kind: OptimiserKind, block: Value) -> Value:
    """Whether the state has its kind's optional slots (I1)."""
    return asks_for_slots(b, kind, load_constants(b, kind, block))


def asks_for_slots(b: Builder, kind: OptimiserKind, constants: Sequence[Value]) -> Value:
    """Whether a state with these constants (F64) has its kind's optional slots (I1)."""
    (name,) = {slot.only_with for slot in kind.optional_slots}
    place = [constant.name for constant in kind.constants].index(name)
    return b.fcmp_unordered("!=", constants[place], emit.constant(0.0, F64))


def each_slot(b: Builder, kind: OptimiserKind, block: Value, act: Callable[[int], None]) -> None:
    """`act(place)` for each slot that the state's constants ask for."""
    for place, slot in enumerate(kind.slots):
        if slot.only_with:
            with b.if_then(present_slots(b, kind, block)):
                act(place)
        else:
            act(place)


def prepare_slots(low: Lowering, type_: OptimiserType, location: Location, constants: Sequence[Value]) -> None:
    """Memory for the slots that these constants ask for, before they are stored in the block at the location: the call may end here, and no
    state asks for a slot that it lacks. In a slot of the plan it follows the block; a caller's state that lacks an optional one is given it
    by Python."""
    b, block, kind, total = low.b, low.address(location), KINDS[type_.kind], slot_layout(type_.model).total
    if isinstance(location.storage, SlotStorage):
        for place in range(len(kind.slots)):
            slot = at(b, block, OPTIMISER_BLOCK_BYTES + place * total, emit.I8)
            store(b, slot, at(b, block, FIRST_SLOT + place, I64), align=8)
        return
    for slot in kind.optional_slots:
        place = kind.slots.index(slot)
        missing = b.icmp_signed("==", load(b, at(b, block, FIRST_SLOT + place, I64), I64), I64(0))
        with b.if_then(b.and_(missing, asks_for_slots(b, kind, constants)), likely=False):
            low.call_host(Site("slot", None, (low.caller_word(location), place, total)))


def move_into(low: Lowering, value: nodes.Value, target: Location) -> None:
    """Copy a stored value's contents to another location."""
    copy_contents(low, value.type, low.pointer(value), target)


def copy_contents(low: Lowering, kind: Type, source: Value, target: Location) -> None:
    """`source`: where a value of the type lies; an optimiser's block."""
    b = low.b
    if isinstance(kind, OptimiserType):
        block, optimiser, total = low.address(target), KINDS[kind.kind], slot_layout(kind.model).total
        prepare_slots(low, kind, target, load_constants(b, optimiser, source))
        for word in (STEP, *range(FIRST_CONSTANT, FIRST_CONSTANT + len(optimiser.constants))):
            store(b, load(b, at(b, source, word, I64), I64), at(b, block, word, I64))

        def copy_slot(place: int) -> None:
            copy_storage(low, slot_pointer(b, block, place), slot_pointer(b, source, place), total)

        each_slot(b, optimiser, block, copy_slot)
        return
    copy_storage(low, low.address(target), source, low.size(storage_bytes(kind)))
