"""Which bytes slots of a block share: each lies behind those that it must not overlap, as low as that allows.

Sizes are known only in a run, so a slot's place isn't a number but a rule: it begins where the last of the slots that it lies above ends.
Whatever the sizes turn out to be, slots that are needed at the same time lie apart. Which lies above which is chosen for sizes of an
example: the largest slots are put first, each in the lowest gap. In the examples that comes within 3 % of what must be held at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from shapescript.compiler.ir.sizes import Size, Symbol, evaluate
from shapescript.compiler.ops.locations import Slot
from shapescript.compiler.records.dataclass import dataclass

EXAMPLE = 64  # places of an axis whose size isn't known: a batch of usual size
ALIGNMENT = 64


@dataclass
class Lifetime:
    """A slot, and the operations from the one that first writes to it to the last that reads it."""

    number: int
    size: Size
    first: int
    last: int

    def meets(self, other: Lifetime) -> bool:
        return self.first <= other.last and other.first <= self.last


def arranged(lifetimes: Sequence[Lifetime]) -> list[Slot]:
    """From the lowest place up, so that each follows those that it lies above."""
    sizes = [example_bytes(lifetime.size) for lifetime in lifetimes]
    places: dict[int, int] = {}
    for index in sorted(range(len(lifetimes)), key=lambda index: (-sizes[index], lifetimes[index].first)):
        taken = sorted((places[other], sizes[other]) for other in places if lifetimes[other].meets(lifetimes[index]))
        places[index] = _lowest_gap(taken, sizes[index])
    order = sorted(places, key=lambda index: (places[index], lifetimes[index].first))
    below: dict[int, int] = {}  # for each slot the set, as bits, of those that it lies above, through others too
    slots: list[Slot] = []
    for rank, index in enumerate(order):
        found, near = 0, []
        for earlier in reversed(range(rank)):  # the highest first: what these lie above needs no mention
            if not found >> earlier & 1 and lifetimes[order[earlier]].meets(lifetimes[index]):
                found |= below[earlier] | 1 << earlier
                near.append(lifetimes[order[earlier]].number)
        below[rank] = found
        slots.append(Slot(lifetimes[index].number, lifetimes[index].size, tuple(near)))
    return slots


def _lowest_gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    place = 0
    for start, length in taken:
        if start - place >= size:
            break
        place = max(place, start + length)
    return place


def example_bytes(size: Size) -> int:
    return -(-max(_example(size), 1) // ALIGNMENT) * ALIGNMENT


def _example(size: Size) -> int:
    return evaluate(size, _example_of) or 0


def _example_of(symbol: Symbol) -> int:
    if symbol.value is not None:
        return symbol.value
    if symbol.quotient is None:
        return EXAMPLE
    above, below = map(_example, symbol.quotient)
    return above // max(below, 1)
