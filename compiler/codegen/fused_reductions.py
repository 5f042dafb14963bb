"""Reductions with the elementwise work around them in one loop nest (ops/fused.py): along the reduced axes as often as
passes/reduction_walks.py says, for one place of the others after another; or, where what is kept is adjacent, down many columns at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property, partial

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.dropout import Mask, region_masks
from shapescript.compiler.codegen.elements import region_key, region_work
from shapescript.compiler.codegen.emit import I64, Builder, Value
from shapescript.compiler.codegen.fused_columns import emit_columns
from shapescript.compiler.codegen.fused_points import Points
from shapescript.compiler.codegen.fused_rows import emit_row_blocks, emit_row_join, emit_rows, rows_together
from shapescript.compiler.codegen.lowering import Lowering, Site, lowers
from shapescript.compiler.codegen.nests import Axis, Offsets, SizeArguments, dense_strides, emit_loops, merged, placed_strides, step
from shapescript.compiler.codegen.reductions_blocks import block_count
from shapescript.compiler.codegen.row_tails import RowTail
from shapescript.compiler.codegen.sizes import SizeValues
from shapescript.compiler.codegen.split import PICOSECONDS_A_BYTE, Part, shares_of, split
from shapescript.compiler.codegen.split_reductions import STRETCH, shared_units, split_blocks
from shapescript.compiler.codegen.target import Target
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.nodes import Op, free_values
from shapescript.compiler.ir.sizes import ONE, ZERO, Size, product
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.ops.locations import has_storage
from shapescript.compiler.passes.reduction_walks import Walks, walks_of
from shapescript.compiler.records.dataclass import dataclass

NUMBER_BYTES = 64  # of scratch, for a result without axes


@lowers("fused_reduction")
def _fused_reduction(low: Lowering, op: Op) -> None:
    (region,), space = op.regions, tuple(op.attributes["space"])
    refuse_nothing(low, op)
    inputs = numbers_of(low, op)
    given = list(zip(op.operands, region.parameters, map(tuple, op.attributes["maps"]), strict=True))
    masks = region_masks(low, region, inputs, space)
    names = SizeArguments()
    shape = ReductionShape(op, walks_of(op), low.target, names.names(space), tuple(inputs), tuple(masks))
    with ExitStack() as scratches:
        pointers = [low.pointer(operand) for operand, _, map_ in given if map_]
        targets = [low.pointer(one) if has_storage(one) else scratches.enter_context(low.scratch(NUMBER_BYTES)) for one in op.results]
        arguments = [*pointers, *targets, *(part for mask in masks.values() for part in (mask.pointer, mask.scale, mask.active))]
        arguments += [*inputs.values(), *(emit.size(low.size(size)) for size in names.run_time)]
        _share_out(low, shape, arguments, names, low.size(product(space)))
        for result, target in zip(op.results, targets, strict=True):
            if not has_storage(result):
                low.define(result, low.load_number(target, result_type(result).element))


def refuse_nothing(low: Lowering, op: Op) -> None:
    """Fails where there is nothing to reduce, unless it is only summed."""
    for inner in op.regions[0].ops:
        if inner.name == "reduce" and inner.attributes["kind"] != "sum":
            count = low.size(product(op.attributes["space"][place] for place in op.attributes["positions"]))
            if not isinstance(count, int) or count == 0:
                low.fail_if(low.b.icmp_signed("==", emit.size(count), I64(0)), Site("reduction of nothing", inner))


def numbers_of(low: Lowering, op: Op) -> dict[nodes.Value, Value]:
    """What its region reads that is the same everywhere."""
    (region,) = op.regions
    given = zip(op.operands, region.parameters, op.attributes["maps"], strict=True)
    inputs = {value: low.number(value) for value in free_values(region)}
    return inputs | {parameter: low.number(operand) for operand, parameter, map_ in given if not map_}


def _share_out(low: Lowering, shape: ReductionShape, arguments: Sequence[Value], names: SizeArguments, points: emit.Size) -> None:
    b, work = low.b, extents.times(low.b, points, shape.work)

    def body(b: Builder, given: Sequence[Value], part: Part) -> None:
        shape.build(b, given, names.values(given), part)

    def blocks(b: Builder, given: Sequence[Value], parts: Value, part: Part) -> None:
        emit_row_blocks(*shape.points(b, given, names.values(given)), shape.sorts[1], parts, part)

    def join(b: Builder, given: Sequence[Value], parts: Value) -> None:
        emit_row_join(*shape.points(b, given, names.values(given)), shape.sorts[1], parts)

    if shape.is_one_run:
        units = block_count(b, points)
        shares = shares_of(low, units, work)
        if shares != 1:
            values = len(shape.walks.walks[0].reduced)
            split_blocks(low, "fused_reduction", shape.key, arguments, units, shares, values, blocks, join)
            return
    units = shape.units(b, lambda size: low.size(names.original(size)))
    split(low, "fused_reduction", shape.key, arguments, units, shares_of(low, units, work), body)


@dataclass(frozen=True)
class ReductionShape:
    """The shared function of a fused reduction. Its arguments: the operands with axes, the results, each dropout's mask, scale and
    activity, the numbers that are the same everywhere, the run-time sizes."""

    op: Op
    walks: Walks
    target: Target
    space: tuple[Size, ...]
    uniform: tuple[nodes.Value, ...]
    dropouts: tuple[Op, ...]
    tail: RowTail | None = None

    @property
    def key(self) -> object:
        (region,), outer = self.op.regions, free_values(self.op.regions[0])
        order = {value: place for place, value in enumerate((*region.parameters, *outer))}
        positions, maps = tuple(self.op.attributes["positions"]), tuple(map(tuple, self.op.attributes["maps"]))
        kinds = tuple(op.attributes["kind"] for op in region.ops if op.name == "reduce")
        tail = self.tail and self.tail.key
        return self.space, positions, maps, kinds, tuple(order[value] for value in self.uniform), region_key(region, outer), tail

    @cached_property
    def varying(self) -> list[tuple[nodes.Value, tuple[int, ...]]]:
        """The parameters of operands with axes, with their maps."""
        pairs = zip(self.op.regions[0].parameters, self.op.attributes["maps"], strict=True)
        return [(parameter, tuple(map_)) for parameter, map_ in pairs if map_]

    @cached_property
    def indexed(self) -> list[int]:
        """The axes whose index is used."""
        of_tail = {self.tail.where.less} if self.tail else set()
        return sorted({op.attributes["position"] for op in self.op.regions[0].ops if op.name == "iota"} | of_tail)

    @cached_property
    def strides(self) -> list[list[Size]]:
        """Along the space's axes: of the results with all axes (and masks), of the results without the reduced ones, of the indices used,
        and of the operands."""
        positions, rank = self.op.attributes["positions"], len(self.space)
        kept = [place for place in range(rank) if place not in positions]
        short = placed_strides([self.space[place] for place in kept], kept, rank)
        units = [[ONE if axis == place else ZERO for axis in range(rank)] for place in self.indexed]
        operands = [placed_strides([self.space[place] for place in map_], map_, rank) for _, map_ in self.varying]
        return [dense_strides(self.space), short, *units, *operands]

    @cached_property
    def axes(self) -> tuple[list[Axis], list[bool]]:
        """The space's axes, neighbours of one sort merged as far as all tensors allow, and which are reduced."""
        positions, strides = self.op.attributes["positions"], self.strides
        found: list[Axis] = []
        reduced: list[bool] = []
        for place, size in enumerate(self.space):
            axis, is_reduced = Axis(size, tuple(tensor[place] for tensor in strides)), place in positions
            if size == ONE:
                continue
            both = merged([found[-1], axis]) if reduced and reduced[-1] == is_reduced else [axis, axis]
            if len(both) == 1:
                found[-1] = both[0]
            else:
                found.append(axis)
                reduced.append(is_reduced)
        return found, reduced

    @cached_property
    def sorts(self) -> tuple[list[Axis], list[Axis], Axis | None]:
        """The kept axes that are gone through in loops, the reduced ones, and the kept one whose adjacent elements are reduced together."""
        axes, reduced = self.axes
        kept = [axis for axis, is_reduced in zip(axes, reduced, strict=True) if not is_reduced]
        summed = [axis for axis, is_reduced in zip(axes, reduced, strict=True) if is_reduced]
        columns = kept.pop() if kept and not reduced[-1] and len(self.walks.walks) == 1 else None
        return kept, summed, columns

    def units(self, b: Builder, size: Callable[[Size], emit.Size]) -> emit.Size:
        kept, _, columns = self.sorts
        return shared_units(b, kept, columns, size)

    @property
    def work(self) -> int:
        """Picoseconds that a point takes one core, about."""
        (region,) = self.op.regions
        moved = sum(result_type(value).element.bytes for value in (*(value for value, _ in self.varying), *region.yields))
        return PICOSECONDS_A_BYTE * moved + region_work(region)

    @property
    def is_one_run(self) -> bool:
        """Whether one walk makes one number of points along one axis, by a tree of blocks."""
        kept, summed, columns = self.sorts
        return not kept and columns is None and len(summed) == 1 and len(self.walks.walks) == 1 and bool(self.walks.walks[0].reduced)

    def points(self, b: Builder, arguments: Sequence[Value], sizes: SizeValues) -> tuple[Points, Offsets]:
        """And the offsets of the first."""
        rest, results = list(arguments), len(self.op.results)
        tensors, rest = rest[: len(self.varying)], rest[len(self.varying) :]
        targets, rest = rest[:results], rest[results:]
        masks = {op: Mask(*rest[3 * place : 3 * place + 3]) for place, op in enumerate(self.dropouts)}
        numbers: Mapping[nodes.Value, Value] = dict(zip(self.uniform, rest[3 * len(masks) :], strict=False))
        first = 2 + len(self.indexed)
        places = {parameter: first + place for place, (parameter, _) in enumerate(self.varying)}
        pointers = {parameter: tensor for (parameter, _), tensor in zip(self.varying, tensors, strict=True)}
        indices = {position: 2 + place for place, position in enumerate(self.indexed)}
        start: Offsets = tuple(0 for _ in range(first + len(places)))
        return Points(b, sizes, self.op, self.walks, pointers, places, indices, targets, masks, numbers, self.tail), start

    def build(self, b: Builder, arguments: Sequence[Value], sizes: SizeValues, part: Part) -> None:
        points, start = self.points(b, arguments, sizes)
        kept, summed, columns = self.sorts
        stretch = None if kept else (extents.times(b, part.low, STRETCH), extents.times(b, part.high, STRETCH))
        if columns is not None:
            act = partial(emit_columns, points, self.target, summed=summed, columns=columns, stretch=stretch)
            emit_loops(b, sizes, kept, start, act, (part.low, part.high))
        elif kept:
            emit_kept_rows(points, kept, summed, start, part)
        else:
            emit_rows(points, [start], summed)


def emit_kept_rows(points: Points, kept: Sequence[Axis], summed: Sequence[Axis], start: Offsets, part: Part) -> None:
    """Along the innermost kept axis several rows at a time, then those that are left."""
    b, sizes, many = points.b, points.sizes, rows_together(summed)
    *outer, along = kept
    strides = [sizes.of(b, stride) for stride in along.strides]
    low, high = (0, sizes.of(b, along.size)) if outer else (part.low, part.high)

    def rows(offsets: Offsets) -> None:
        def some(first: Value, count: int) -> None:
            indices = [emit.size(extents.plus(b, first, place)) for place in range(count)]
            emit_rows(points, [tuple(step(b, o, i, s) for o, s in zip(offsets, strides, strict=True)) for i in indices], summed)

        next_: Value = emit.size(low)
        if many > 1:
            whole = extents.plus(b, low, extents.times(b, extents.quotient(b, extents.minus(b, high, low), many), many))
            emit.loop(b, low, whole, many, lambda i, _: some(i, many))
            next_ = emit.size(whole)
        emit.loop(b, next_, high, 1, lambda i, _: some(i, 1))

    emit_loops(b, sizes, outer, start, rows, (part.low, part.high))
