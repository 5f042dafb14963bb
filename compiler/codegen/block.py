"""A block of the program: its slots, its operations, and the moves at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from shapescript.compiler.codegen import emit, memory
from shapescript.compiler.codegen.emit import F64, I64
from shapescript.compiler.codegen.lowering import RULES, Lowering, Site
from shapescript.compiler.codegen.sizes import doubtful_sizes
from shapescript.compiler.codegen.storage import move_into
from shapescript.compiler.ir.nodes import Block, Op, Value
from shapescript.compiler.ir.sizes import Size
from shapescript.compiler.ops.locations import Location

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
    doubtful = _check(low, doubtful_sizes(block))
    waiting = _reserve(low, low.plan.slots.get(block, ()))
    if fill:
        fill()
    for op in block.ops:
        RULES[op.name](low, op)
        if doubtful:
            doubtful = _check(low, doubtful)
        if waiting:
            waiting = _reserve(low, waiting)


def _reserve(low: Lowering, slots: Sequence[tuple[int, Size]]) -> list[tuple[int, Size]]:
    """Take the slots whose sizes are known by now, all at once; gives the others."""
    b = low.b
    ready = [slot for slot in slots if low.sizes.is_bound(slot[1])]
    sizes = [emit.round_up(b, low.size(size), memory.ALIGNMENT) for _, size in ready]
    total: emit.Size = 0
    places: list[emit.Size] = []
    for size in sizes:
        places.append(total)
        total = emit.plus(b, total, size)
    if ready:
        start = low.take(_no_more_than_exists(low, [size for _, size in ready], total))
        for (number, _), place in zip(ready, places, strict=True):
            low.slots[number] = emit.at(b, start, place, emit.I8)
    return [slot for slot in slots if slot not in ready]


def _no_more_than_exists(low: Lowering, sizes: Sequence[Size], total: emit.Size) -> emit.Size:
    """The total of these sizes in bytes, or where it may have wrapped, more than any machine has: arrays of no elements can be huge along
    their other axes, and values with these axes alone are made of them."""
    if isinstance(total, int):
        return min(total, UNHEARD_OF_BYTES)
    b, magnitude = low.b, emit.constant(0.0, F64)
    for size in sizes:
        magnitude = b.fadd(magnitude, low.sizes.magnitude(b, size))
    wraps = b.fcmp_unordered(">=", magnitude, emit.constant(float(UNHEARD_OF_BYTES), F64))
    return b.select(wraps, I64(UNHEARD_OF_BYTES), total)


def _check(low: Lowering, sizes: Mapping[Size, Op | None]) -> dict[Size, Op | None]:
    """Leave where a quotient isn't whole or a size is below 0 (R1003), for the sizes whose symbols have values by now; gives the others."""
    for size, op in sizes.items():
        if low.sizes.is_bound(size):
            _check_size(low, size, op)
    return {size: op for size, op in sizes.items() if not low.sizes.is_bound(size)}


def _check_size(low: Lowering, size: Size, op: Op | None) -> None:
    b = low.b
    for monomial, _ in size.terms:
        for symbol in monomial:
            if symbol.value is None and symbol.quotient is not None and not low.sizes.is_checked(symbol):
                numerator, denominator = symbol.quotient
                _check_size(low, numerator, op)
                _check_size(low, denominator, op)
                above, below = emit.size(low.size(numerator)), emit.size(low.size(denominator))
                nothing = b.icmp_signed("==", below, I64(0))
                rest = b.srem(above, b.select(nothing, I64(1), below))
                inexact = b.or_(nothing, b.icmp_signed("!=", rest, I64(0)))
                low.fail_if(inexact, Site("inexact axis", op, (str(size),)), [above, below])
    if any(count < 0 for _, count in size.terms) and not low.sizes.is_checked(size):
        value = emit.size(low.size(size))
        low.fail_if(b.icmp_signed("<", value, I64(0)), Site("negative axis", op, (str(size),)), [value])


def move(low: Lowering, value: Value, target: Location) -> None:
    """Move a stored value to where it ends, unless it is there."""
    if low.plan.locations[value] != target:
        move_into(low, value, target)
