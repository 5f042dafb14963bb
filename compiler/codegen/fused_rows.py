"""Places of a fused reduction's kept axes: walk after walk along the reduced ones, with what is the same all along between them.

Where rows are short, several are walked along together: one alone waits for its lane trees, between which there is little to do
(softmax of 64 elements takes twice the time so).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.emit import LANES, Value, at, loop, splat, store
from shapescript.compiler.codegen.fused_points import SHORT, Along, Points, Vector, finished, reductions_of
from shapescript.compiler.codegen.leaf_updates import each_vector
from shapescript.compiler.codegen.nests import Axis, Offsets, step
from shapescript.compiler.codegen.reductions import Reduction, reduce_run
from shapescript.compiler.codegen.reductions_runs import reduce_runs
from shapescript.compiler.codegen.row_tails import KnownTail, joined
from shapescript.compiler.codegen.split import Part
from shapescript.compiler.codegen.split_reductions import emit_blocks, join_blocks
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.sizes import ONE, ZERO, Size, product
from shapescript.compiler.passes.reduction_walks import Walk

ROWS_TOGETHER = 4
LONGEST_TOGETHER = 512  # elements of a row


def rows_together(summed: Sequence[Axis]) -> int:
    """How many rows to walk along together."""
    count = product(axis.size for axis in summed).constant()
    return ROWS_TOGETHER if len(summed) == 1 and count is not None and 0 < count <= LONGEST_TOGETHER else 1


def emit_rows(points: Points, rows: Sequence[Offsets], summed: Sequence[Axis]) -> None:
    """The rows that begin at these offsets, along the reduced axes, outermost first; where there are none they have one place."""
    axes = list(summed) or [Axis(ONE, tuple(ZERO for _ in rows[0]))]
    states = [_Row(points, offsets, axes) for offsets in rows]
    for walk in points.walks.walks:
        for row in states:
            row.begin(walk)
        _walk(states, walk, axes)
    for row in states:
        row.end()


def _walk(rows: Sequence[_Row], walk: Walk, axes: Sequence[Axis]) -> None:
    first = rows[0]
    b, reductions = first.b, reductions_of(walk.reduced) * len(rows)

    def act(indices: Sequence[Value], i: emit.Size, mask: Value | None) -> list[Value]:
        return [value for row in rows for value in row.act(walk, row.vector(indices, i, mask))]

    if first.tail:
        _walk_to_tails(rows, walk, reductions, lambda i, mask: act((), i, mask))
        return
    if not walk.reduced:
        if walk.stored:
            first.each(act)
        return
    if len(axes) == 1:
        found = reduce_run(b, reductions, first.count, lambda b, i, mask: act((), i, mask))
    else:
        found = reduce_runs(b, reductions, first.extents, lambda b, indices, i, mask: act(indices, i, mask))
    _finish(rows, walk, found)


def _finish(rows: Sequence[_Row], walk: Walk, found: Sequence[Value]) -> None:
    many = len(walk.reduced)
    for place, row in enumerate(rows):
        row.finish(walk, found[place * many : (place + 1) * many])


def _walk_to_tails(
    rows: Sequence[_Row], walk: Walk, reductions: Sequence[Reduction], act: Callable[[emit.Size, Value | None], list[Value]]
) -> None:
    """Of rows along one axis: to where the last one's end begins, or all along where one of them can't be left out."""
    b, whole = rows[0].b, rows[0].count
    tails = [row.known_tail(walk) for row in rows]
    is_left_out, count = emit.I1(1), tails[0].start
    for tail in tails:
        is_left_out, count = b.and_(is_left_out, tail.is_left_out(walk)), extents.most(b, count, tail.start)
    count = b.select(is_left_out, emit.size(count), emit.size(whole))
    found: list[Value] = []
    if walk.reduced:
        found = reduce_run(b, reductions, count, lambda b, i, mask: act(i, mask))
    else:
        each_vector(b, count, lambda i, mask: (act(i, mask), None)[1])
    is_there = b.icmp_signed("<", count, emit.size(whole))
    _finish(rows, walk, joined(b, reductions, found, [end for tail in tails for end in tail.reduced(walk)], is_there))
    for row in rows:
        row.fill(walk, count)


def emit_row_blocks(points: Points, start: Offsets, summed: Sequence[Axis], parts: Value, part: Part) -> None:
    """The values of a share's blocks of the only row, along one axis in the only walk."""
    (walk,), row = points.walks.walks, _Row(points, start, summed)
    row.begin(walk)
    emit_blocks(points.b, reductions_of(walk.reduced), row.count, lambda b, i, mask: row.act(walk, row.vector((), i, mask)), parts, part)


def emit_row_join(points: Points, start: Offsets, summed: Sequence[Axis], parts: Value) -> None:
    """What is behind the only walk, given the values of all blocks."""
    (walk,), row = points.walks.walks, _Row(points, start, summed)
    row.begin(walk)
    row.finish(walk, join_blocks(points.b, reductions_of(walk.reduced), row.count, parts))
    row.end()


Act = Callable[[Sequence[Value], emit.Size, "Value | None"], list[Value]]


class _Row:
    def __init__(self, points: Points, offsets: Offsets, summed: Sequence[Axis]) -> None:
        self.points, self.b, self.offsets, self.summed = points, points.b, offsets, summed
        self.extents = [self._size(axis.size) for axis in summed]
        self.strides = [self._size(stride) for stride in summed[-1].strides]
        self.count = self._size(product(axis.size for axis in summed))
        self.along = Along(offsets, self.strides, self.count)
        self.once: dict[nodes.Value, Value] = dict(points.numbers)  # what is the same all along
        self.spread: dict[nodes.Value, Value] = {}
        # a row that one vector holds stays in registers from walk to walk
        self.is_short = len(summed) == 1 and isinstance(self.count, int) and self.count < LANES
        self.registers: dict[nodes.Value, Value] = {}
        self.tail: KnownTail | None = None
        if points.tail:
            index = offsets[points.indices[points.tail.where.less]]
            self.tail = KnownTail(points.b, points.tail, points.tail.start(points.b, index, self.count))

    def _size(self, size: Size) -> emit.Size:
        return self.points.sizes.of(self.b, size)

    def begin(self, walk: Walk) -> None:
        """What a walk needs that is the same all along."""
        points = self.points
        points.evaluate_once(walk.before, self.once, self.along)
        used = {operand for op in walk.points for operand in op.operands} | set(walk.region(()).yields)
        for value in points.places:
            if value in used and value not in points.walks.varying and value not in self.once:
                self.once[value] = points.number(value, self.offsets)
        self.spread = {value: splat(self.b, number, LANES) for value, number in self.once.items() if value in used}

    def act(self, walk: Walk, vector: Vector) -> list[Value]:
        """Loads, computes and stores a vector of the walk; gives what it reduces."""
        points, block = self.points, walk.region(walk.loaded)
        known = {**self.spread, **self.registers}
        if not self.is_short:
            known.update((value, points.read_back(value, place, vector)) for value, place in walk.read_back.items())
        known.update((value, points.load(value, vector)) for value in walk.loaded if value not in known)
        ops = tuple(op for op in walk.points if op.result not in self.registers)
        made = tuple(op.result for op in ops) if self.is_short else ()
        values = points.evaluate(replace(block, ops=ops, yields=(*block.yields, *made)), known, vector)
        if self.is_short:
            self.registers.update((value, known[value]) for value in walk.loaded)
            self.registers.update(zip(made, values[len(block.yields) :], strict=True))
        count = len(walk.reduced)
        for (_, place), value in zip(walk.stored, values[count : len(block.yields)], strict=True):
            points.store(value, place, vector)
        return values[:count]

    def known_tail(self, walk: Walk) -> KnownTail:
        assert self.tail is not None
        self.tail.begin(walk, self.once)
        return self.tail

    def fill(self, walk: Walk, start: Value) -> None:
        """Stores the walk's results from a place on, where they are the same."""
        assert self.tail is not None
        b, known = self.b, self.tail.known
        values = [(splat(b, known[value], LANES), place) for value, place in walk.stored]

        def vector(i: Value, mask: Value | None) -> None:
            for value, place in values:
                self.points.store(value, place, self.vector((), emit.size(extents.plus(b, start, i)), mask))

        if values:
            each_vector(b, extents.minus(b, self.count, start), vector)

    def finish(self, walk: Walk, found: Sequence[Value]) -> None:
        for op, value in zip(walk.reduced, found, strict=True):
            self.once[op.result] = finished(self.b, op, value, self.count)

    def end(self) -> None:
        """Stores what is the same all along."""
        points = self.points
        points.evaluate_once(points.walks.behind, self.once, self.along)
        for place, value in enumerate(points.region.yields):
            if value not in points.walks.varying:
                self._store(value, place)

    def _store(self, value: nodes.Value, place: int) -> None:
        b, points = self.b, self.points
        if value in points.places and value not in self.once:
            self.once[value] = points.number(value, self.offsets)
        number = self.once[value]
        kept = emit.stored_condition(b, number) if number.type == emit.I1 else number
        store(b, kept, at(b, points.targets[place], self.offsets[SHORT], kept.type))

    def vector(self, indices: Sequence[Value], i: emit.Size, mask: Value | None) -> Vector:
        offsets = list(self.offsets)
        for index, axis in zip(indices, self.summed[:-1], strict=True):
            offsets = [step(self.b, offset, index, self._size(stride)) for offset, stride in zip(offsets, axis.strides, strict=True)]
        return Vector(tuple(offsets), self.strides, LANES, i, mask)

    def each(self, act: Act) -> None:
        """A walk that reduces nothing."""
        b, (*outer, length) = self.b, self.extents
        if self.is_short:
            if length != 0:
                act((), 0, emit.lane_mask(b, length, LANES))
            return

        def vector(indices: Sequence[Value], i: Value, mask: Value | None) -> None:
            act(indices, i, mask)

        def nest(axes: Sequence[emit.Size], indices: tuple[Value, ...]) -> None:
            if axes:
                loop(b, 0, axes[0], 1, lambda i, _: nest(axes[1:], (*indices, i)))
            else:
                each_vector(b, length, lambda i, mask: vector(indices, i, mask))

        nest(outer, ())
