"""A fused reduction of one walk whose kept axes end with adjacent elements: many columns at once, down the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.emit import Builder, Value, splat
from shapescript.compiler.codegen.fused_points import SHORT, Points, Vector, finished, reductions_of
from shapescript.compiler.codegen.nests import Axis, Offsets, step
from shapescript.compiler.codegen.reductions_columns import Method, column_lanes, reduce_columns
from shapescript.compiler.codegen.target import Target
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.nodes import Block, Op
from shapescript.compiler.ir.sizes import product
from shapescript.compiler.passes.reduction_walks import is_heavy

MOST_IN_STRIPS = 6  # operations at a point that are worth emitting again for each of a strip's lanes


Stretch = tuple[emit.Size, emit.Size]


def emit_columns(points: Points, target: Target, offsets: Offsets, summed: Sequence[Axis], columns: Axis, stretch: Stretch | None) -> None:
    """All columns, or a stretch of them, which begins at a multiple of every vector."""
    _Columns(points, target, offsets, summed, columns).build(stretch)


class _Columns:
    def __init__(self, points: Points, target: Target, offsets: Offsets, summed: Sequence[Axis], columns: Axis) -> None:
        self.points, self.b, self.target, self.offsets, self.summed = points, points.b, target, offsets, summed
        (self.walk,) = points.walks.walks
        self.extents = [points.sizes.of(self.b, axis.size) for axis in summed]
        self.count = points.sizes.of(self.b, product(axis.size for axis in summed))
        self.width = points.sizes.of(self.b, columns.size)
        self.strides = [points.sizes.of(self.b, stride) for stride in columns.strides]
        self.reductions = reductions_of(self.walk.reduced)
        self.lanes = column_lanes(target, self.reductions)
        self.numbers = {value: splat(self.b, number, self.lanes) for value, number in points.numbers.items()}

    def build(self, stretch: Stretch | None) -> None:
        low, high = (0, self.width) if stretch is None else (stretch[0], extents.least(self.b, stretch[1], self.width))
        ops = [op for op in self.points.region.ops if op in self.walk.before or op in self.walk.points]
        self.at_points = self._needed(ops, self.walk.region(()).yields)
        is_light = not any(map(is_heavy, self.at_points.ops)) and len(self.at_points.ops) <= MOST_IN_STRIPS
        method = None if is_light and len(self.reductions) == 1 else Method.ACCUMULATORS  # more lanes than registers would spill
        shape = (self.b, self.target, self.reductions, self.count, self.width)
        reduce_columns(*shape, self._produce, self._finish, low=low, high=high, method=method)

    def _needed(self, ops: Sequence[Op], wanted: Sequence[nodes.Value]) -> Block:
        used, found = set(wanted), []
        for op in reversed(ops):
            if op.result in used:
                found.append(op)
                used.update(op.operands)
        parameters = tuple(parameter for parameter in self.points.places if parameter in used)
        return Block(parameters, tuple(reversed(found)), tuple(wanted))

    def _evaluate(self, block: Block, given: Mapping[nodes.Value, Value], vector: Vector) -> list[Value]:
        loaded = {parameter: self.points.load(parameter, vector) for parameter in block.parameters}
        return self.points.evaluate(block, {**self.numbers, **loaded, **given}, vector)

    def _produce(self, b: Builder, row: Value, column: Value, mask: Value | None) -> list[Value]:
        vector = Vector(self._row(b, row), self.strides, self.lanes, column, mask)
        values = self._evaluate(self.at_points, {}, vector)
        count = len(self.reductions)
        for (_, place), value in zip(self.walk.stored, values[count:], strict=True):
            self.points.store(value, place, vector)
        return values[:count]

    def _row(self, b: Builder, row: Value) -> Offsets:
        """The offsets of a row's first element: the row's number is that of a place along the reduced axes, row-major."""
        offsets: Offsets = self.offsets
        for place in reversed(range(len(self.summed))):
            index = row
            if place:
                extent = emit.size(self.extents[place])
                row, index = b.udiv(row, extent), b.urem(row, extent)
            strides = [self.points.sizes.of(b, stride) for stride in self.summed[place].strides]
            offsets = tuple(step(b, offset, index, stride) for offset, stride in zip(offsets, strides, strict=True))
        return offsets

    def _finish(self, b: Builder, values: Sequence[Value], column: Value, mask: Value | None) -> None:
        points, walks = self.points, self.points.walks
        given = {op.result: finished(b, op, value, self.count) for op, value in zip(self.walk.reduced, values, strict=True)}
        results = [(value, place) for place, value in enumerate(points.region.yields) if value not in walks.varying]
        block = self._needed([*self.walk.before, *walks.behind], [value for value, _ in results])
        vector = Vector(self.offsets, self.strides, self.lanes, column, mask)
        for (_, place), value in zip(results, self._evaluate(block, given, vector), strict=True):
            points.store(value, place, vector, SHORT)
