"""`fold` (ops/windows.py): what lies in windows added up where it belongs.

Where windows move by one or two places along the last axis, each vector of the result is added up in a register and stored once: of each
place in a window it is a vector of one row, moved along; with a stride of two, the result's even and odd places are vectors of their own.
What a mask leaves out is loaded as +0.0: a sum that began at +0.0 is never -0.0, so adding that changes nothing. Elsewhere the result is
cleared, and the rows of windows are added to it one after another.
"""

from __future__ import annotations

from collections.abc import Sequence

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.emit import LANES, Builder, Value, at, constant, lane_mask, load, loop, store
from shapescript.compiler.codegen.lowering import Lowering, lowers
from shapescript.compiler.codegen.nests import SizeArguments
from shapescript.compiler.codegen.sizes import SizeValues
from shapescript.compiler.codegen.split import PICOSECONDS_A_BYTE, Part, shares_of, split
from shapescript.compiler.codegen.storage import clear_bytes
from shapescript.compiler.codegen.window_rows import Row, Walk, beside, in_turns, lanes_between
from shapescript.compiler.codegen.window_shape import Along, Plain, Shape, refuse_far_steps, shape_of
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.sizes import Size, product
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.records.dataclass import dataclass

MOST_UNROLLED = 8  # places of a window along the last axis
MOST_SUMS = 4  # vectors of a row that are added up side by side


@lowers("fold")
def _fold(low: Lowering, op: Op) -> None:
    refuse_far_steps(low, op)
    (x,) = op.operands
    names = SizeArguments()
    shape = shape_of(op, op.result, x, names)
    count = names.name(product(result_type(op.result).axes))
    arguments = [low.pointer(x), low.pointer(op.result), *(emit.size(low.size(size)) for size in names.run_time)]

    def body(b: Builder, given: Sequence[Value], part: Part) -> None:
        outermost = (part.low, part.high) if _is_shared_out(shape) else None
        emit_fold(b, names.values(given), shape, count, given[0], given[1], outermost)

    kind, first = result_type(x), shape.axes[0]
    units = low.size(names.original(first.size)) if _is_shared_out(shape) else 1
    work = extents.times(low.b, low.size(product(kind.axes)), 2 * PICOSECONDS_A_BYTE * kind.element.bytes)
    split(low, "fold", (shape, count), arguments, units, shares_of(low, units, work), body)


def _is_shared_out(shape: Shape) -> bool:
    """Whether what lies at one place of the result's first axis is added up apart from the others."""
    return isinstance(shape.axes[0], Plain) or (_is_in_registers(shape) and len(shape.axes) > 1)


def emit_fold(
    b: Builder, sizes: SizeValues, shape: Shape, count: Size, x: Value, target: Value, outermost: tuple[emit.Size, emit.Size] | None = None
) -> None:
    """`count`: of the result's elements. `outermost`: which places of its first axis, all by default."""
    if _is_in_registers(shape):
        _RowSums(b, sizes, shape, x, target).rows(shape.axes, 0, 0, (), outermost)
        return
    first, elements = target, sizes.of(b, count)
    if outermost is not None:
        start, end = (extents.times(b, place, sizes.of(b, shape.axes[0].step)) for place in outermost)
        first, elements = at(b, target, start, shape.element), extents.minus(b, end, start)
    clear_bytes(b, first, extents.times(b, elements, emit.element_bytes(shape.element)))
    _add_rows(b, sizes, shape, x, target, outermost)


def _is_in_registers(shape: Shape) -> bool:
    last = shape.axes[-1]
    if not isinstance(last, Along):
        return False
    stride, length, dilation, before = (size.constant() for size in (last.stride, last.length, last.dilation, last.before))
    return stride == 1 or (stride == 2 and length is not None and length <= MOST_UNROLLED and None not in (dilation, before))


def _add_rows(b: Builder, sizes: SizeValues, shape: Shape, x: Value, target: Value, outermost: tuple[emit.Size, emit.Size] | None) -> None:
    element = shape.element

    def add(row: Row) -> None:
        source, there = at(b, x, row.start, element), beside(b, target, row.first, element)

        def one(i: Value, _: Sequence[Value]) -> None:
            place = beside(b, there, extents.times(b, i, row.step), element)
            store(b, b.fadd(load(b, place, element), load(b, at(b, source, i, element), element)), place)

        loop(b, row.low, row.high, 1, one)

    Walk(b, sizes, shape, add, lambda row: None).build(outermost)


@dataclass(frozen=True)
class _Part:
    """A vector of the result's row: places `residue` + stride * j, for j from `first` on."""

    residue: int
    first: emit.Size


class _RowSums:
    """Loops over the rows of the result, which lie along the last windowed axis."""

    def __init__(self, b: Builder, sizes: SizeValues, shape: Shape, x: Value, target: Value) -> None:
        self.b, self.sizes, self.element, self.x, self.target = b, sizes, shape.element, x, target
        self.windowed = shape.windowed
        self.last = self.windowed[-1]
        self.width = self.of(self.last.size)
        self.stride = self.last.stride.constant() or 1

    def of(self, size: Size) -> emit.Size:
        return self.sizes.of(self.b, size)

    def rows(
        self,
        axes: Sequence[Along | Plain],
        x_offset: emit.Size,
        offset: emit.Size,
        places: tuple[emit.Size, ...],
        outermost: tuple[emit.Size, emit.Size] | None = None,
    ) -> None:
        """The loops over the axes but the last; `places` are those on windowed axes so far, the offsets those reached. `outermost`: the
        part of the first axis that is gone through, all of it by default."""
        b, axis = self.b, axes[0]
        if len(axes) == 1:
            self._row(x_offset, offset, places)
            return
        step, x_step = self.of(axis.step), self.of(axis.windows_step) if isinstance(axis, Plain) else 0

        def turn(i: Value, _: Sequence[Value]) -> None:
            here, there = extents.plus(b, x_offset, extents.times(b, i, x_step)), extents.plus(b, offset, extents.times(b, i, step))
            self.rows(axes[1:], here, there, (*places, i) if isinstance(axis, Along) else places)

        loop(b, *(outermost or (0, self.of(axis.size))), 1, turn)

    def _row(self, x_offset: emit.Size, offset: emit.Size, places: Sequence[emit.Size]) -> None:
        b, width, stride = self.b, self.width, self.stride
        zero = constant(0.0, emit.vector_of(self.element, LANES))

        def stretch(start: emit.Size, count: int) -> None:
            """So many times the vectors that `stride` places apart make, from a place on."""
            firsts = [extents.plus(b, extents.quotient(b, start, stride), v * LANES) for v in range(count)]
            parts = [_Part(residue, first) for first in firsts for residue in range(stride)]
            sums = self._places(x_offset, places, self.windowed, parts, [zero] * len(parts))
            for v in range(count):
                self._store(sums[v * stride : (v + 1) * stride], extents.plus(b, start, v * stride * LANES), offset)

        if isinstance(width, int) and width <= MOST_SUMS * LANES:
            stretch(0, -(-width // (stride * LANES)))
        else:
            loop(b, 0, width, stride * LANES, lambda i, _: stretch(i, 1))

    def _store(self, sums: Sequence[Value], start: emit.Size, offset: emit.Size) -> None:
        """Vectors of places `stride` apart, side by side from a place of the row on."""
        b = self.b
        for number, vector in enumerate(in_turns(b, sums[0], sums[1]) if len(sums) == 2 else sums):
            first = extents.plus(b, start, number * LANES)
            mask = lane_mask(b, extents.minus(b, self.width, first), LANES)
            store(b, vector, at(b, self.target, extents.plus(b, offset, first), self.element), mask)

    def _places(
        self, x_offset: emit.Size, places: Sequence[emit.Size], axes: Sequence[Along], parts: Sequence[_Part], sums: Sequence[Value]
    ) -> list[Value]:
        """The sums with what each place in the windows along these axes adds."""
        axis, b = axes[0], self.b
        if len(axes) == 1:
            return self._along_the_row(x_offset, parts, sums)
        before, dilation, stride, count = map(self.of, (axis.before, axis.dilation, axis.stride, axis.count))
        place_step, number_step = self.of(axis.place_step), self.of(axis.number_step)

        def turn(k: Value, sums: Sequence[Value]) -> list[Value]:
            moved = emit.size(extents.minus(b, extents.plus(b, places[0], before), extents.times(b, k, dilation)))
            number, is_whole = _divided(b, moved, stride)
            is_there = b.and_(is_whole, b.icmp_unsigned("<", number, emit.size(count)))
            here = extents.plus(b, extents.plus(b, x_offset, extents.times(b, k, place_step)), extents.times(b, number, number_step))
            return emit.choose(b, is_there, lambda: self._places(here, places[1:], axes[1:], parts, sums), lambda: list(sums))

        return loop(b, 0, self.of(axis.length), 1, turn, sums)

    def _along_the_row(self, x_offset: emit.Size, parts: Sequence[_Part], sums: Sequence[Value]) -> list[Value]:
        b, axis = self.b, self.last
        length, dilation, before, place_step = map(self.of, (axis.length, axis.dilation, axis.before, axis.place_step))

        def turn(k: emit.Size, sums: Sequence[Value]) -> list[Value]:
            skipped = extents.minus(b, extents.times(b, k, dilation), before)  # the row's place where the first window is
            row = extents.plus(b, x_offset, extents.times(b, k, place_step))
            return [self._grown(total, part, skipped, row) for part, total in zip(parts, sums, strict=True)]

        if isinstance(length, int) and length <= MOST_UNROLLED:
            for k in range(length):
                sums = turn(k, sums)
            return list(sums)
        return loop(b, 0, length, 1, turn, sums)

    def _grown(self, total: Value, part: _Part, skipped: emit.Size, row: emit.Size) -> Value:
        """A vector with what one place of the windows adds, whose row begins so many elements on in theirs."""
        b = self.b
        if self.stride > 1:
            assert isinstance(skipped, int)
            if (skipped - part.residue) % self.stride:
                return total
            skipped = (skipped - part.residue) // self.stride
        within = extents.quotient(b, extents.plus(b, self.width, self.stride - 1 - part.residue), self.stride)
        lanes = lanes_between(b, skipped, extents.least(b, extents.plus(b, skipped, self.of(self.last.count)), within), part.first)
        place = beside(b, self.x, extents.plus(b, row, extents.minus(b, part.first, skipped)), self.element)
        return b.fadd(total, load(b, place, self.element, LANES, lanes))


def _divided(b: Builder, place: Value, stride: emit.Size) -> tuple[Value, Value]:
    """The number of the window that begins at a place, and whether one does; in front of all it is none that there is."""
    if stride == 1:
        return place, emit.I1(1)
    divisor = emit.size(extents.most(b, stride, 1))
    number = b.sdiv(place, divisor)
    return number, b.icmp_signed("==", b.mul(number, divisor), place)
