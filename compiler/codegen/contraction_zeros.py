"""Steps of a product at which all of a tile's rows of A are zeros, as below or above a diagonal: they are left out, with the same bits.

A zero times a finite number is a zero, and that changes no sum but one that stands at -0.0. Sums begin at +0.0 and stay there through
zeros; where zeros come last, they are gone through if a sum of the tile is -0.0 by then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.emit import I64, Builder, Size, Value
from shapescript.compiler.codegen.zeros import are_minus_zeros
from shapescript.compiler.records.dataclass import dataclass

Steps = Callable[[Size, Size, Sequence[Value]], list[Value]]


@dataclass(frozen=True)
class LeftZeros:
    """A(i, k) is zero where k >= i + shift, or without `are_behind` where k < i + shift. `may_go`, which is passed to the kernel: whether B
    is finite, so that these steps may be left out; 0 where it isn't."""

    are_behind: bool
    shift: int
    may_go: Value

    @property
    def captured(self) -> tuple[Value, ...]:
        return (self.may_go,)


def emit_steps(
    b: Builder, zeros: LeftZeros, k_start: Size, depth: Size, first: Value, last: Value, start: Sequence[Value], steps: Steps
) -> list[Value]:
    """Steps k_start to k_start + depth for rows first to last; `steps(low, high, sums)` emits those of a part."""
    may_go, whole = b.icmp_signed("!=", zeros.may_go, I64(0)), emit.size(depth)

    def within(place: Value) -> Value:
        return emit.size(extents.least(b, extents.most(b, extents.minus(b, extents.plus(b, place, zeros.shift), k_start), 0), whole))

    if not zeros.are_behind:
        return steps(b.select(may_go, within(first), I64(0)), whole, start)
    high = b.select(may_go, within(last), whole)
    sums = steps(0, high, start)
    return steps(b.select(_is_minus_zero(b, sums), high, whole), whole, sums)


def _is_minus_zero(b: Builder, sums: Sequence[Value]) -> Value:
    """Whether a lane of one of them is -0.0."""
    return emit.lane_tree(b, reduce(b.or_, [are_minus_zeros(b, value) for value in sums]), b.or_)
