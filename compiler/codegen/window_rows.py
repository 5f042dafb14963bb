"""The walk over the rows of a tensor of windows (ops/windows.py), each beside the places of the whole tensor that it was taken from, or is
added to.

A row is the last axis of the tensor of windows: the same place of all windows along the last windowed axis. Places outside of the whole
tensor are where a padding is; which part of a row lies inside is known before the row is walked through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from llvmlite import ir

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.emit import LANES, Builder, ElementType, Value, lane_mask, loop, shuffle
from shapescript.compiler.codegen.leaf_updates import each_vector
from shapescript.compiler.codegen.sizes import SizeValues
from shapescript.compiler.codegen.window_shape import Along, Plain, Shape
from shapescript.compiler.ir.sizes import Size
from shapescript.compiler.records.dataclass import dataclass

MOST_MASKS = 4  # vectors of a row whose masks are made before the rows


@dataclass(frozen=True)
class Lanes:
    """Elements i to i + 15 of a row: those inside of the whole tensor, and those of the row (None: all).

    apart: where the elements lie two apart, the lanes of those inside among the 32 elements there, as two vectors.
    """

    inside: Value
    valid: Value | None
    apart: tuple[Value, Value] | None


@dataclass(frozen=True)
class Row:
    """Elements `low` to `high` - 1 of a row lie inside: element i at `first` + i * `step` of the whole tensor, in elements. `start`: where
    the row begins in the tensor of windows. `lanes`: those of each vector of a short row."""

    start: emit.Size
    count: emit.Size
    low: emit.Size
    high: emit.Size
    first: emit.Size
    step: emit.Size
    lanes: tuple[Lanes, ...] | None

    @property
    def is_in_vectors(self) -> bool:
        """Whether its elements lie side by side or two apart."""
        return isinstance(self.step, int) and self.step in (1, 2)

    def each_vector(self, b: Builder, body: Callable[[emit.Size, Lanes], None]) -> None:
        """`body(i, lanes)` for elements i to i + 15."""
        if self.lanes is not None:
            for v, lanes in enumerate(self.lanes):
                body(v * LANES, lanes)
            return
        each_vector(b, self.count, lambda i, mask: body(i, _lanes(b, lanes_between(b, self.low, self.high, i), mask, self.step)))


def _lanes(b: Builder, inside: Value, valid: Value | None, step: emit.Size) -> Lanes:
    if not isinstance(step, int) or step != 2:
        return Lanes(inside, valid, None)
    return Lanes(inside, valid, in_turns(b, inside, ir.Constant(inside.type, None)))


def in_turns(b: Builder, one: Value, other: Value) -> tuple[Value, Value]:
    """The lanes of two vectors by turns, as two vectors."""
    first, last = ([part for lane in range(low, low + LANES // 2) for part in (lane, LANES + lane)] for low in (0, LANES // 2))
    return shuffle(b, one, other, first), shuffle(b, one, other, last)


def lanes_between(b: Builder, low: emit.Size, high: emit.Size, i: emit.Size) -> Value:
    """Of elements i to i + 15, the lanes of those from low to high - 1."""
    if isinstance(low, int) and isinstance(high, int) and isinstance(i, int):
        return ir.Constant(emit.vector_of(emit.I1, LANES), [int(low <= i + lane < high) for lane in range(LANES)])
    lanes = emit.iota(LANES)
    bounds = [emit.splat(b, emit.size(extents.minus(b, bound, i)), LANES) for bound in (low, high)]
    return b.and_(b.icmp_signed(">=", lanes, bounds[0]), b.icmp_signed("<", lanes, bounds[1]))


RowBody = Callable[[Row], None]


class Walk:
    """The loops over rows, in the row-major order of the tensor of windows. `inside` is emitted for rows that aren't outside as a whole,
    `outside` for the others."""

    def __init__(self, b: Builder, sizes: SizeValues, shape: Shape, inside: RowBody, outside: RowBody) -> None:
        self.b, self.sizes, self.shape, self.inside, self.outside = b, sizes, shape, inside, outside
        self.starts: list[emit.Size] = []  # for each windowed axis where the place of the first window lies
        self.lanes: tuple[Lanes, ...] | None = None
        self.bounds: tuple[emit.Size, emit.Size] = (0, 0)

    def of(self, size: Size) -> emit.Size:
        return self.sizes.of(self.b, size)

    def build(self, outermost: tuple[emit.Size, emit.Size] | None = None) -> None:
        """`outermost`: which places of the whole tensor's first axis, or of a window along it; all by default."""
        self._axes(self.shape.axes, 0, 0, outermost)

    def _axes(
        self,
        axes: Sequence[Along | Plain],
        number: emit.Size,
        offset: emit.Size,
        places: tuple[emit.Size, emit.Size] | None = None,
    ) -> None:
        """The loops over the axes but those of the windows' numbers; `number` is that of the row so far, `offset` in the whole tensor."""
        if not axes:
            self._numbers(self.shape.windowed, self.starts, number, offset, [])
            return
        axis, b = axes[0], self.b
        size = self.of(axis.length if isinstance(axis, Along) else axis.size)

        def turn(i: Value, _: Sequence[Value]) -> None:
            here = extents.plus(b, extents.times(b, number, size), i)
            if not isinstance(axis, Along):
                self._axes(axes[1:], here, extents.plus(b, offset, extents.times(b, i, self.of(axis.step))))
                return
            start = extents.minus(b, extents.times(b, i, self.of(axis.dilation)), self.of(axis.before))
            self.starts.append(start)
            if len(self.starts) == len(self.shape.windowed):
                self._prepare_rows(axis, start)
            self._axes(axes[1:], here, offset)
            self.starts.pop()

        loop(b, *(places or (0, size)), 1, turn)

    def _prepare_rows(self, axis: Along, start: emit.Size) -> None:
        """Which elements of the rows from here on lie inside along the last windowed axis."""
        b, count = self.b, self.of(axis.count)
        low = extents.least(b, self._windows_before(axis, extents.minus(b, 0, start)), count)
        high = extents.least(b, self._windows_before(axis, extents.minus(b, self.of(axis.size), start)), count)
        self.bounds = low, extents.most(b, high, low)
        self.lanes = None
        if isinstance(count, int) and count <= MOST_MASKS * LANES:
            step = extents.times(b, self.of(axis.stride), self.of(axis.step))
            masks = ((lanes_between(b, *self.bounds, i), lane_mask(b, count - i, LANES)) for i in range(0, count, LANES))
            self.lanes = tuple(_lanes(b, inside, valid, step) for inside, valid in masks)

    def _windows_before(self, axis: Along, places: emit.Size) -> emit.Size:
        """How many windows begin within so many places."""
        b, stride = self.b, self.of(axis.stride)
        at_least_none = extents.most(b, places, 0)
        if isinstance(stride, int):
            return extents.ceil_quotient(b, at_least_none, stride) if stride else 0
        stride = extents.most(b, stride, 1)
        return b.udiv(emit.size(extents.plus(b, at_least_none, extents.minus(b, stride, 1))), emit.size(stride))

    def _numbers(
        self, axes: Sequence[Along], starts: Sequence[emit.Size], number: emit.Size, offset: emit.Size, valid: list[Value]
    ) -> None:
        """The loops over the windows' numbers but the last, which is the row."""
        axis, start, b = axes[0], starts[0], self.b
        if len(axes) == 1:
            self._row(axis, start, number, offset, valid)
            return
        count, size, step, stride = map(self.of, (axis.count, axis.size, axis.step, axis.stride))

        def turn(i: Value, _: Sequence[Value]) -> None:
            place = extents.plus(b, extents.times(b, i, stride), start)
            is_inside = b.icmp_unsigned("<", emit.size(place), emit.size(size))
            here, there = extents.plus(b, extents.times(b, number, count), i), extents.plus(b, offset, extents.times(b, place, step))
            self._numbers(axes[1:], starts[1:], here, there, [*valid, is_inside])

        loop(b, 0, count, 1, turn)

    def _row(self, axis: Along, start: emit.Size, number: emit.Size, offset: emit.Size, valid: list[Value]) -> None:
        b, count, step = self.b, self.of(axis.count), self.of(axis.step)
        first, step_along = extents.plus(b, offset, extents.times(b, start, step)), extents.times(b, self.of(axis.stride), step)
        row = Row(extents.times(b, number, count), count, *self.bounds, first, step_along, self.lanes)
        if not valid:
            self.inside(row)
            return
        with b.if_else(reduce(b.and_, valid)) as (then, otherwise):
            with then:
                self.inside(row)
            with otherwise:
                self.outside(row)


def beside(b: Builder, pointer: Value, index: emit.Size, element: ElementType) -> Value:
    """The address of an element that may lie outside of its tensor: only lanes inside are read or written."""
    return b.gep(pointer, [emit.size(index)], source_etype=element)
