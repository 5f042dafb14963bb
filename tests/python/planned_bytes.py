"""How many bytes a memory plan takes, for sizes that are given."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shapescript.compiler.ir.sizes import Symbol, evaluate
from shapescript.compiler.ops.locations import Plan, Slot

SizeOf = Callable[[Symbol], int | None]


def block_bytes(slots: Sequence[Slot], size_of: SizeOf) -> int:
    """Of one block: how far its slots reach."""
    ends: dict[int, int] = {}
    for slot in slots:
        size = evaluate(slot.size, size_of)
        assert size is not None
        ends[slot.number] = max((ends[number] for number in slot.above), default=0) + size
    return max(ends.values(), default=0)


def planned_bytes(plan: Plan, size_of: SizeOf) -> int:
    """Of all blocks, inner ones too."""
    return sum(block_bytes(slots, size_of) for slots in plan.slots.values())


def rows(count: int) -> SizeOf:
    """Every symbol without a value is so large."""
    return lambda symbol: symbol.value if symbol.value is not None or symbol.quotient else count
