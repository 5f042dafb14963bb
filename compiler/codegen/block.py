"""A block of the program: its slots, its operations, and the moves at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce

from shapescript.compiler.codegen import emit, extents, memory
from shapescript.compiler.codegen.emit import F64, I64
from shapescript.compiler.codegen.lowering import RULES, Lowering, Site
from shapescript.compiler.codegen.sizes import doubtful_sizes
from shapescript.compiler.codegen.storage import move_into
from shapescript.compiler.ir.nodes import Block, Op, Value
from shapescript.compiler.ir.sizes import LARGEST, Size
from shapescript.compiler.ops.locations import Location, Slot

UNHEARD_OF_BYTES = 1 << 62


@contextmanager
def region(low: Lowering) -> Iterator[None]:
    """What is emitted inside may be skipped or repeated: sizes and masks of it hold inside only, and the arena's bytes are given back."""
    before = memory.mark(low.b, low.context)
    taken = low.takes
    with low.sizes.scope(), low.masks.scope():
        yield
        if low.takes > taken and not low.b.block.is_terminated:
            memory.reset(low.b, low.context, before)


def lower_block(low: Lowering, block: Block, fill: Callable[[], None] | None = None) -> None:
    """The operations of a block whose parameters and symbols are defined; `fill` sets the contents of parameters that have slots."""
    behind = _behind_checks(block, doubtful_sizes(block))
    doubtful = _check(low, behind.pop(None, {}))
    waiting = _reserve(low, low.plan.slots.get(block, ()))
    if fill:
        fill()
    for op in block.ops:
        with low.measured(op):
            RULES[op.name](low, op)
        doubtful |= behind.pop(op, {})
        if doubtful:
            doubtful = _check(low, doubtful)
        if waiting:
            waiting = _reserve(low, waiting)


def _behind_checks(block: Block, doubtful: Mapping[Size, Op | None]) -> dict[Op | None, dict[Size, Op | None]]:
    """The sizes by the check of a slice that they stand behind, None for those before all: its own error comes first. Where the divisor of
    a quotient isn't known this can't wait: the size is needed before, and there is none if that is 0."""
    check: Op | None = None
    check_before: dict[Op | None, Op | None] = {}
    for op in block.ops:
        check_before[op] = check
        check = op if op.name == "check_slice" else check
    found: dict[Op | None, dict[Size, Op | None]] = {}
    for size, user in doubtful.items():
        may_divide_by_zero = any(symbol.quotient and symbol.quotient[1].constant() is None for symbol in size.symbols())
        found.setdefault(None if may_divide_by_zero else check_before.get(user), {})[size] = user
    return found


def _reserve(low: Lowering, slots: Sequence[Slot]) -> list[Slot]:
    """Take the slots whose sizes are known by now, all at once; gives the others."""
    b = low.b
    ready = [slot for slot in slots if low.sizes.is_bound(slot.size)]
    starts: dict[int, emit.Size] = {}
    ends: dict[int, emit.Size] = {}
    covered = {number for slot in ready for number in slot.above}
    for slot in ready:
        size = extents.round_up(b, _not_below_nothing(low, slot.size), memory.ALIGNMENT)
        starts[slot.number] = _last(b, [ends[number] for number in slot.above if number in ends])
        ends[slot.number] = extents.plus(b, starts[slot.number], size)
    total = _last(b, [ends[slot.number] for slot in ready if slot.number not in covered])
    if ready:
        start = low.take(_no_more_than_exists(low, [slot.size for slot in ready], total))
        for number, place in starts.items():
            low.slots[number] = emit.at(b, start, place, emit.I8)
    return [slot for slot in slots if slot.number not in starts]


def _last(b: emit.Builder, ends: Sequence[emit.Size]) -> emit.Size:
    found: emit.Size = 0
    for end in ends:
        found = end if isinstance(found, int) and found == 0 else extents.most(b, found, end)
    return found


def _not_below_nothing(low: Lowering, size: Size) -> emit.Size:
    """0 for a size that is found to be below 0 only later."""
    value = low.size(size)
    return extents.most(low.b, value, 0) if _is_difference(size) else value


def _is_difference(size: Size) -> bool:
    """Whether the size may be below 0."""
    quotients = ((symbol.quotient, symbol.rounded) for symbol in size.symbols() if symbol.quotient)
    parts = (part for (above, below), is_rounded in quotients for part in ((above,) if is_rounded else (above, below)))
    return any(count < 0 for _, count in size.terms) or any(map(_is_difference, parts))


def _no_more_than_exists(low: Lowering, sizes: Sequence[Size], total: emit.Size) -> emit.Size:
    """The total of these sizes in bytes, or where it may have wrapped, more than any machine has: arrays of no elements can be huge along
    their other axes, and values with these axes alone are made of them."""
    if isinstance(total, int):
        return min(total, UNHEARD_OF_BYTES)
    b, magnitude = low.b, emit.constant(0.0, F64)
    for size in sizes:
        own, nothing = low.sizes.magnitude(b, size), emit.constant(0.0, F64)
        own = b.select(b.fcmp_ordered("<", own, nothing), nothing, own) if _is_difference(size) else own
        magnitude = b.fadd(magnitude, own)
    wraps = b.fcmp_unordered(">=", magnitude, emit.constant(float(UNHEARD_OF_BYTES), F64))
    return b.select(wraps, I64(UNHEARD_OF_BYTES), total)


def _check(low: Lowering, sizes: Mapping[Size, Op | None]) -> dict[Size, Op | None]:
    """Leave where a quotient isn't whole or a size is below 0 (R1003), for the sizes whose symbols have values by now; gives the others."""
    for size, op in sizes.items():
        if low.sizes.is_bound(size):
            _check_size(low, size, op)
    return {size: op for size, op in sizes.items() if not low.sizes.is_bound(size)}


def _check_size(low: Lowering, size: Size, op: Op | None) -> None:
    _check_quotients(low, size, size, op)
    room = op.attributes.get("room", ()) if op else ()
    if op and size in room:
        value, site = _within(low, size, LARGEST), Site("window", op, (room.index(size),))
    elif _is_difference(size) and not low.sizes.is_checked(size):
        value, site = _within(low, size, UNHEARD_OF_BYTES), Site("negative axis", op, (str(size),))
    else:
        return
    low.fail_if(low.b.icmp_signed("<", value, I64(0)), site, [value])


def _within(low: Lowering, size: Size, limit: int) -> emit.Value:
    """The size, or the limit, or what lies as far below 0, where it is beyond: there it may have wrapped."""
    b, magnitude, value = low.b, low.sizes.magnitude(low.b, size), emit.size(low.size(size))
    for predicate, bound in ((">=", limit), ("<=", -limit)):
        value = b.select(b.fcmp_ordered(predicate, magnitude, emit.constant(float(bound), F64)), I64(bound), value)
    return value


def refuse_above(low: Lowering, limit: int, sizes: Iterable[Size]) -> None:
    """Leave as for want of memory (R1111) where one of these sizes is this large, or as far below 0: beyond, it may have wrapped."""
    b, bound = low.b, emit.constant(float(limit), F64)
    magnitudes = [emit.intrinsic(b, "fabs", low.sizes.magnitude(b, size)) for size in sizes if size.constant() is None]
    if not magnitudes:
        return
    with b.if_then(reduce(b.or_, [b.fcmp_unordered(">=", magnitude, bound) for magnitude in magnitudes]), likely=False):
        low.take(UNHEARD_OF_BYTES)


def _check_quotients(low: Lowering, whole: Size, part: Size, op: Op | None) -> None:
    """The quotients in a part of a size."""
    b = low.b
    for symbol in (symbol for monomial, _ in part.terms for symbol in monomial):
        if symbol.value is None and symbol.quotient is not None and not low.sizes.is_checked(symbol):
            for inner in symbol.quotient:
                _check_quotients(low, whole, inner, op)
            refuse_above(low, UNHEARD_OF_BYTES, symbol.quotient)
            above, below = (emit.size(low.size(inner)) for inner in symbol.quotient)
            nothing = b.icmp_signed("<=" if symbol.rounded else "==", below, I64(0))
            rest = b.srem(above, b.select(nothing, I64(1), below))
            inexact = nothing if symbol.rounded else b.or_(nothing, b.icmp_signed("!=", rest, I64(0)))
            low.fail_if(inexact, Site("inexact axis", op, (str(whole),)), [above, below])


def move(low: Lowering, value: Value, target: Location) -> None:
    """Move a stored value to where it ends, unless it is there."""
    if low.plan.locations[value] != target:
        move_into(low, value, target)
