"""`windows` and `fold` (ops/windows.py): one walk over the rows of the tensor of windows, each beside the places of the other tensor that
it was taken from, or is added to.

A row is the last axis of the tensor of windows: the same place of all windows along the last windowed axis. Places outside of the other
tensor are where a padding is; which part of a row lies inside is known before the row is walked through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby

from shapescript.compiler.codegen import emit
from shapescript.compiler.codegen.emit import LANES, Builder, ElementType, Value, at, lane_mask, load, load_strided, loop, store
from shapescript.compiler.codegen.leaf_updates import each_vector
from shapescript.compiler.codegen.lowering import MEMORY_TYPES, Lowering, lowers
from shapescript.compiler.codegen.nests import SizeArguments, dense_strides
from shapescript.compiler.codegen.sizes import SizeValues
from shapescript.compiler.codegen.storage import clear_bytes
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.sizes import Size, product
from shapescript.compiler.ops.build import result_type

MOST_MASKS = 4  # vectors of a row whose masks are made before the rows


@dataclass(frozen=True)
class _Along:
    """Windows along one axis of the whole tensor: its size and the step from one place to the next there, then as ops/windows.py says."""

    size: Size
    step: Size
    length: Size
    count: Size
    stride: Size
    dilation: Size
    before: Size


@dataclass(frozen=True)
class _Shape:
    """`axes` are the whole tensor's in order: windows along one, or the size and step of others that are walked through as one."""

    element: ElementType
    axes: tuple[_Along | tuple[Size, Size], ...]

    @property
    def windowed(self) -> list[_Along]:
        return [axis for axis in self.axes if isinstance(axis, _Along)]


def _shape(op: Op, whole: nodes.Value, windows: nodes.Value, names: SizeArguments) -> _Shape:
    kind, positions = result_type(whole), op.attributes["positions"]
    lengths, counts = result_type(windows).axes[: kind.rank], result_type(windows).axes[kind.rank :]
    steps = dense_strides(kind.axes)
    axes: list[_Along | tuple[Size, Size]] = []
    for is_windowed, run in groupby(range(kind.rank), lambda place: place in positions):
        places = tuple(run)
        if not is_windowed:
            axes.append((names.name(product(kind.axes[place] for place in places)), names.name(steps[places[-1]])))
            continue
        for place in places:
            number = positions.index(place)
            own = (op.attributes[name][number] for name in ("strides", "dilations", "before"))
            axes.append(_Along(*names.names((kind.axes[place], steps[place], lengths[place], counts[number], *own))))
    return _Shape(MEMORY_TYPES[kind.element], tuple(axes))


@dataclass(frozen=True)
class _Row:
    """Elements `low` to `high` - 1 of a row lie inside: element i at `first` + i * `step` of the whole tensor, in elements. `start`: where
    the row begins in the tensor of windows. `masks`: for each vector of a short row the elements inside, and those of the row."""

    start: emit.Size
    count: emit.Size
    low: emit.Size
    high: emit.Size
    first: emit.Size
    step: emit.Size
    masks: tuple[tuple[Value, Value | None], ...] | None

    def each_vector(self, b: Builder, body: Callable[[emit.Size, Value, Value | None], None]) -> None:
        """`body(i, inside, valid)` for elements i to i + 15: the lanes inside of the whole tensor, and of the row (None: all)."""
        if self.masks is not None:
            for v, (inside, valid) in enumerate(self.masks):
                body(v * LANES, inside, valid)
            return
        each_vector(b, self.count, lambda i, mask: body(i, _inside(b, self.low, self.high, i), mask))


def _inside(b: Builder, low: emit.Size, high: emit.Size, i: emit.Size) -> Value:
    lanes = emit.iota(LANES)
    bounds = [emit.splat(b, emit.size(emit.minus(b, bound, i)), LANES) for bound in (low, high)]
    return b.and_(b.icmp_signed(">=", lanes, bounds[0]), b.icmp_signed("<", lanes, bounds[1]))


RowBody = Callable[[_Row], None]


class _Walk:
    """The loops over rows, in the row-major order of the tensor of windows. `inside` is emitted for rows that aren't outside as a whole,
    `outside` for the others."""

    def __init__(self, b: Builder, sizes: SizeValues, shape: _Shape, inside: RowBody, outside: RowBody) -> None:
        self.b, self.sizes, self.shape, self.inside, self.outside = b, sizes, shape, inside, outside
        self.starts: list[emit.Size] = []  # for each windowed axis where the place of the first window lies
        self.masks: tuple[tuple[Value, Value | None], ...] | None = None
        self.bounds: tuple[emit.Size, emit.Size] = (0, 0)

    def of(self, size: Size) -> emit.Size:
        return self.sizes.of(self.b, size)

    def build(self) -> None:
        self._axes(self.shape.axes, 0, 0)

    def _axes(self, axes: Sequence[_Along | tuple[Size, Size]], number: emit.Size, offset: emit.Size) -> None:
        """The loops over the axes but those of the windows' numbers; `number` is that of the row so far, `offset` in the whole tensor."""
        if not axes:
            self._numbers(self.shape.windowed, self.starts, number, offset, [])
            return
        axis, b = axes[0], self.b
        size, step = (self.of(axis.length), 0) if isinstance(axis, _Along) else map(self.of, axis)

        def turn(i: Value, _: Sequence[Value]) -> None:
            here = emit.plus(b, emit.times(b, number, size), i)
            if not isinstance(axis, _Along):
                self._axes(axes[1:], here, emit.plus(b, offset, emit.times(b, i, step)))
                return
            start = emit.minus(b, emit.times(b, i, self.of(axis.dilation)), self.of(axis.before))
            self.starts.append(start)
            if len(self.starts) == len(self.shape.windowed):
                self._prepare_rows(axis, start)
            self._axes(axes[1:], here, offset)
            self.starts.pop()

        loop(b, 0, size, 1, turn)

    def _prepare_rows(self, axis: _Along, start: emit.Size) -> None:
        """Which elements of the rows from here on lie inside along the last windowed axis."""
        b, count = self.b, self.of(axis.count)
        low = emit.least(b, self._windows_before(axis, emit.minus(b, 0, start)), count)
        high = emit.least(b, self._windows_before(axis, emit.minus(b, self.of(axis.size), start)), count)
        self.bounds = low, emit.most(b, high, low)
        self.masks = None
        if isinstance(count, int) and count <= MOST_MASKS * LANES:
            firsts = range(0, count, LANES)
            self.masks = tuple((_inside(b, *self.bounds, i), lane_mask(b, count - i, LANES)) for i in firsts)

    def _windows_before(self, axis: _Along, places: emit.Size) -> emit.Size:
        """How many windows begin within so many places."""
        b, stride = self.b, self.of(axis.stride)
        at_least_none = emit.most(b, places, 0)
        if isinstance(stride, int):
            return emit.ceil_quotient(b, at_least_none, stride) if stride else 0
        stride = emit.most(b, stride, 1)
        return b.udiv(emit.size(emit.plus(b, at_least_none, emit.minus(b, stride, 1))), emit.size(stride))

    def _numbers(
        self, axes: Sequence[_Along], starts: Sequence[emit.Size], number: emit.Size, offset: emit.Size, valid: list[Value]
    ) -> None:
        """The loops over the windows' numbers but the last, which is the row."""
        axis, start, b = axes[0], starts[0], self.b
        if len(axes) == 1:
            self._row(axis, start, number, offset, valid)
            return
        count, size, step, stride = map(self.of, (axis.count, axis.size, axis.step, axis.stride))

        def turn(i: Value, _: Sequence[Value]) -> None:
            place = emit.plus(b, emit.times(b, i, stride), start)
            is_inside = b.icmp_unsigned("<", emit.size(place), emit.size(size))
            here, there = emit.plus(b, emit.times(b, number, count), i), emit.plus(b, offset, emit.times(b, place, step))
            self._numbers(axes[1:], starts[1:], here, there, [*valid, is_inside])

        loop(b, 0, count, 1, turn)

    def _row(self, axis: _Along, start: emit.Size, number: emit.Size, offset: emit.Size, valid: list[Value]) -> None:
        b, count, step = self.b, self.of(axis.count), self.of(axis.step)
        first, step_along = emit.plus(b, offset, emit.times(b, start, step)), emit.times(b, self.of(axis.stride), step)
        row = _Row(emit.times(b, number, count), count, *self.bounds, first, step_along, self.masks)
        if not valid:
            self.inside(row)
            return
        with b.if_else(reduce(b.and_, valid)) as (then, otherwise):
            with then:
                self.inside(row)
            with otherwise:
                self.outside(row)


# ---- the two operations


@lowers("windows")
def _windows(low: Lowering, op: Op) -> None:
    (x,) = op.operands
    names = SizeArguments()
    shape = _shape(op, x, op.result, names)
    fill = op.attributes["fill"]

    def body(b: Builder, given: Sequence[Value]) -> None:
        _emit_windows(b, names.values(given), shape, given[0], given[1], fill)

    arguments = [low.pointer(x), low.pointer(op.result), *(emit.size(low.size(size)) for size in names.run_time)]
    low.shared("windows", (shape, repr(fill)), arguments, body)


def _beside(b: Builder, pointer: Value, index: emit.Size, element: ElementType) -> Value:
    """The address of an element that may lie outside of its tensor: only lanes inside are read or written."""
    return b.gep(pointer, [emit.size(index)], source_etype=element)


def _emit_windows(b: Builder, sizes: SizeValues, shape: _Shape, x: Value, target: Value, fill: float) -> None:
    element, filled = shape.element, emit.constant(fill, emit.vector_of(shape.element, LANES))

    def inside(row: _Row) -> None:
        source, there = _beside(b, x, row.first, element), at(b, target, row.start, element)
        if row.step != 1:
            _gather_row(b, element, row, source, there, filled)
            return

        def vector(i: emit.Size, lanes: Value, valid: Value | None) -> None:
            value = b.select(lanes, load(b, _beside(b, source, i, element), element, LANES, lanes), filled)
            store(b, value, at(b, there, i, element), valid)

        row.each_vector(b, vector)

    def outside(row: _Row) -> None:
        _fill(b, element, at(b, target, row.start, element), row.count, filled)

    _Walk(b, sizes, shape, inside, outside).build()


def _gather_row(b: Builder, element: ElementType, row: _Row, source: Value, target: Value, filled: Value) -> None:
    """A row whose elements don't lie side by side."""
    inside = emit.minus(b, row.high, row.low)
    start, there = _beside(b, source, emit.times(b, row.low, row.step), element), at(b, target, row.low, element)

    def vector(i: Value, mask: Value | None) -> None:
        place, valid = at(b, start, emit.times(b, i, row.step), element), None if mask is None else emit.minus(b, inside, i)
        store(b, load_strided(b, place, row.step, element, LANES, valid), at(b, there, i, element), mask)

    _fill(b, element, target, row.low, filled)
    each_vector(b, inside, vector)
    _fill(b, element, at(b, target, row.high, element), emit.minus(b, row.count, row.high), filled)


def _fill(b: Builder, element: ElementType, target: Value, count: emit.Size, filled: Value) -> None:
    each_vector(b, count, lambda i, mask: store(b, filled, at(b, target, i, element), mask))


@lowers("fold")
def _fold(low: Lowering, op: Op) -> None:
    (x,) = op.operands
    names = SizeArguments()
    shape = _shape(op, op.result, x, names)
    bytes_ = names.name(product(result_type(op.result).axes))

    def body(b: Builder, given: Sequence[Value]) -> None:
        sizes = names.values(given)
        clear_bytes(b, given[1], emit.times(b, sizes.of(b, bytes_), emit.element_bytes(shape.element)))
        _emit_fold(b, sizes, shape, given[0], given[1])

    arguments = [low.pointer(x), low.pointer(op.result), *(emit.size(low.size(size)) for size in names.run_time)]
    low.shared("fold", (shape, bytes_), arguments, body)


def _emit_fold(b: Builder, sizes: SizeValues, shape: _Shape, x: Value, target: Value) -> None:
    element = shape.element

    def inside(row: _Row) -> None:
        source, there = at(b, x, row.start, element), _beside(b, target, row.first, element)
        if row.step != 1:
            _scatter_row(b, element, row, source, there)
            return

        def vector(i: emit.Size, lanes: Value, _: Value | None) -> None:
            places = [_beside(b, pointer, i, element) for pointer in (there, source)]
            store(b, b.fadd(*(load(b, place, element, LANES, lanes) for place in places)), places[0], lanes)

        row.each_vector(b, vector)

    _Walk(b, sizes, shape, inside, lambda row: None).build()


def _scatter_row(b: Builder, element: ElementType, row: _Row, source: Value, target: Value) -> None:
    def add(i: Value, _: Sequence[Value]) -> None:
        there = _beside(b, target, emit.times(b, i, row.step), element)
        store(b, b.fadd(load(b, there, element), load(b, at(b, source, i, element), element)), there)

    loop(b, row.low, row.high, 1, add)
