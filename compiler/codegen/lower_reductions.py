"""Reductions over any axes, by the kernels of reductions.py: along rows, down columns, or one element at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.arg_extremes import emit_arg_extreme_columns, emit_arg_extreme_run
from shapescript.compiler.codegen.emit import I64, LANES, Builder, ElementType, Value, at, is_float, load, store
from shapescript.compiler.codegen.lowering import MEMORY_TYPES, Lowering, Site, lowers
from shapescript.compiler.codegen.nests import Axis, Offsets, SizeArguments, dense_strides, emit_loops, merged, step
from shapescript.compiler.codegen.reductions import Reduction, loaded, reduce_run, reduce_strided
from shapescript.compiler.codegen.reductions_blocks import block_count
from shapescript.compiler.codegen.reductions_columns import column_lanes, reduce_columns
from shapescript.compiler.codegen.reductions_runs import reduce_runs
from shapescript.compiler.codegen.sizes import SizeValues
from shapescript.compiler.codegen.split import PICOSECONDS_A_BYTE, Part, shares_of, split
from shapescript.compiler.codegen.split_reductions import STRETCH, emit_blocks, join_blocks, shared_units, split_blocks
from shapescript.compiler.codegen.target import Target
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.sizes import ONE, ZERO, Size, product
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.ops.locations import has_storage
from shapescript.compiler.records.dataclass import dataclass

NUMBER_BYTES = 64


@lowers("sum", "mean", "max", "min", "argmax", "argmin")
def _reduction(low: Lowering, op: Op) -> None:
    b, (operand,) = low.b, op.operands
    kind, positions = result_type(operand), tuple(op.attributes["positions"])
    if op.name != "sum":
        count = low.size(product(kind.axes[place] for place in positions))
        if not isinstance(count, int) or count == 0:
            low.fail_if(b.icmp_signed("==", emit.size(count), I64(0)), Site("reduction of nothing", op))
    if not has_storage(operand):
        low.define(op.result, low.number(operand) if not op.name.startswith("arg") else I64(0))
        return
    names = SizeArguments()
    nest = _ReductionNest(op.name, MEMORY_TYPES[kind.element], low.target, *_axes(names.names(kind.axes), positions))
    sizes = [emit.size(low.size(size)) for size in names.run_time]

    def call(target: Value) -> None:
        arguments = [low.pointer(operand), target, *sizes]
        key = (nest.kind, nest.element, nest.axes, nest.reduced)
        work = extents.times(low.b, low.size(product(kind.axes)), PICOSECONDS_A_BYTE * kind.element.bytes)

        def body(b: Builder, given: Sequence[Value], part: Part) -> None:
            nest.build(b, given[0], given[1], names.values(given), part)

        def blocks(b: Builder, given: Sequence[Value], parts: Value, part: Part) -> None:
            emit_blocks(b, nest.reductions, nest.count(b, names.values(given)), loaded(given[0], nest.element), parts, part)

        def join(b: Builder, given: Sequence[Value], parts: Value) -> None:
            count = nest.count(b, names.values(given))
            (value,) = join_blocks(b, nest.reductions, count, parts)
            store(b, nest.finished(b, value, count), given[1])

        if nest.is_one_run:
            units = block_count(low.b, low.size(product(kind.axes)))
            shares = shares_of(low, units, work)
            if shares != 1:
                split_blocks(low, "reduction", key, arguments, units, shares, 1, blocks, join)
                return
        units = nest.units(low.b, lambda size: low.size(names.original(size)))
        split(low, "reduction", key, arguments, units, shares_of(low, units, work), body)

    if has_storage(op.result):
        call(low.pointer(op.result))
        return
    with low.scratch(NUMBER_BYTES) as scratch:
        call(scratch)
        low.define(op.result, low.load_number(scratch, result_type(op.result).element))


def _axes(axes: Sequence[Size], positions: Sequence[int]) -> tuple[tuple[Axis, ...], tuple[bool, ...]]:
    """The operand's axes, neighbours of one sort merged, with strides of operand and result; and which are reduced."""
    kept = [place for place in range(len(axes)) if place not in positions]
    of_result = dict(zip(kept, dense_strides([axes[place] for place in kept]), strict=True))
    found: list[Axis] = []
    reduced: list[bool] = []
    for place, (size, stride) in enumerate(zip(axes, dense_strides(axes), strict=True)):
        axis = Axis(size, (stride, of_result.get(place, ZERO)))
        if size == ONE:
            continue
        if reduced and reduced[-1] == (place in positions):
            (found[-1],) = merged([found[-1], axis])
        else:
            found.append(axis)
            reduced.append(place in positions)
    return tuple(found), tuple(reduced)


@dataclass(frozen=True)
class _ReductionNest:
    """Neighbouring axes are of different sorts: loops over those that are kept, around what reduces the others."""

    kind: str
    element: ElementType
    target: Target
    axes: tuple[Axis, ...]
    reduced: tuple[bool, ...]

    @cached_property
    def _sorts(self) -> tuple[list[Axis], list[Axis], Axis | None]:
        """The kept axes that are gone through in loops, the reduced ones, and the kept one whose adjacent elements are reduced together."""
        kept = [axis for axis, is_reduced in zip(self.axes, self.reduced, strict=True) if not is_reduced]
        summed = [axis for axis, is_reduced in zip(self.axes, self.reduced, strict=True) if is_reduced]
        columns = kept.pop() if self.reduced and not self.reduced[-1] and len(summed) == 1 else None
        return kept, summed, columns

    def units(self, b: Builder, size: Callable[[Size], emit.Size]) -> emit.Size:
        kept, _, columns = self._sorts
        return shared_units(b, kept, columns, size)

    @property
    def is_one_run(self) -> bool:
        """Whether adjacent elements become one number, by a tree of blocks."""
        kept, summed, columns = self._sorts
        return not kept and columns is None and len(summed) <= 1 and not self.kind.startswith("arg")

    @property
    def reductions(self) -> list[Reduction]:
        return [Reduction("sum" if self.kind == "mean" else self.kind, self.element)]

    def count(self, b: Builder, sizes: SizeValues) -> emit.Size:
        """Elements that become one."""
        return sizes.of(b, product(axis.size for axis in self._sorts[1]))

    def build(self, b: Builder, source: Value, result: Value, sizes: SizeValues, part: Part) -> None:
        kept, summed, columns = self._sorts
        count = self.count(b, sizes)

        def inner(offsets: Offsets) -> None:
            if columns is not None:
                stretch = None if kept else (extents.times(b, part.low, STRETCH), extents.times(b, part.high, STRETCH))
                self._columns(b, source, result, offsets, sizes, count, columns, stretch)
            elif len(summed) <= 1:
                self._run(b, source, result, offsets, count)
            elif self.reduced[-1]:
                self._runs(b, source, result, offsets, sizes, summed, count)
            else:
                self._strided(b, source, result, offsets, sizes, summed, count)

        emit_loops(b, sizes, kept, (0, 0), inner, (part.low, part.high))

    def _columns(
        self,
        b: Builder,
        source: Value,
        result: Value,
        offsets: Offsets,
        sizes: SizeValues,
        rows: emit.Size,
        columns: Axis,
        stretch: tuple[emit.Size, emit.Size] | None,
    ) -> None:
        """One reduced axis with adjacent kept elements behind it: all of them, or a stretch."""
        width, start, target = sizes.of(b, columns.size), at(b, source, offsets[0], self.element), self._result_at(b, result, offsets[1])
        low, high = (0, width) if stretch is None else (stretch[0], extents.least(b, stretch[1], width))
        if self.kind.startswith("arg"):
            emit_arg_extreme_columns(b, self.kind, self.element, start, target, rows, width, low, high)
            return
        lanes = column_lanes(self.target, self.reductions)

        def produce(b: Builder, row: Value, column: Value, mask: Value | None) -> list[Value]:
            place = b.add(b.mul(row, emit.size(width)), column)
            return [load(b, at(b, start, place, self.element), self.element, lanes, mask)]

        def finish(b: Builder, values: Sequence[Value], column: Value, mask: Value | None) -> None:
            store(b, self.finished(b, values[0], rows), at(b, target, column, self.element), mask)

        reduce_columns(b, self.target, self.reductions, rows, width, produce, finish, low=low, high=high)

    def _run(self, b: Builder, source: Value, result: Value, offsets: Offsets, count: emit.Size) -> None:
        """Adjacent elements, or one."""
        start, target = at(b, source, offsets[0], self.element), self._result_at(b, result, offsets[1])
        if self.kind.startswith("arg"):
            store(b, emit_arg_extreme_run(b, self.kind, self.element, start, count), target)
            return
        (value,) = reduce_run(b, self.reductions, count, loaded(start, self.element))
        store(b, self.finished(b, value, count), target)

    def _runs(
        self, b: Builder, source: Value, result: Value, offsets: Offsets, sizes: SizeValues, summed: Sequence[Axis], count: emit.Size
    ) -> None:
        """Several reduced axes, the elements of the last one adjacent."""

        def produce(b: Builder, indices: Sequence[Value], i: Value, mask: Value | None) -> list[Value]:
            place = extents.plus(b, offsets[0], i)
            for index, axis in zip(indices, summed[:-1], strict=True):
                place = step(b, place, index, sizes.of(b, axis.strides[0]))
            return [load(b, at(b, source, place, self.element), self.element, LANES, mask)]

        (value,) = reduce_runs(b, self.reductions, [sizes.of(b, axis.size) for axis in summed], produce)
        store(b, self.finished(b, value, count), self._result_at(b, result, offsets[1]))

    def _strided(
        self, b: Builder, source: Value, result: Value, offsets: Offsets, sizes: SizeValues, summed: Sequence[Axis], count: emit.Size
    ) -> None:
        def produce(b: Builder, indices: Sequence[Value]) -> list[Value]:
            place = offsets[0]
            for index, axis in zip(indices, summed, strict=True):
                place = step(b, place, index, sizes.of(b, axis.strides[0]))
            return [load(b, at(b, source, place, self.element), self.element)]

        (value,) = reduce_strided(b, self.reductions, [sizes.of(b, axis.size) for axis in summed], produce)
        store(b, self.finished(b, value, count), self._result_at(b, result, offsets[1]))

    def _result_at(self, b: Builder, result: Value, offset: emit.Size) -> Value:
        return at(b, result, offset, I64 if self.kind.startswith("arg") else self.element)

    def finished(self, b: Builder, value: Value, count: emit.Size) -> Value:
        """A mean divides by the count, rounded to the element type."""
        if self.kind != "mean":
            return value
        assert is_float(self.element)
        return b.fdiv(value, emit.like(b, b.sitofp(emit.size(count), self.element), value.type))
