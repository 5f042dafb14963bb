"""Contractions, plain and with an epilogue of elementwise work, by the register-tiled product."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.behind_rows import BehindRows, rows_of_a_block
from shapescript.compiler.codegen.contraction import (
    AfterRows,
    BatchAxis,
    BeforeRun,
    Contraction,
    Cut,
    Epilogue,
    cut_of,
    cut_units,
    emit_contraction,
    plan_contraction,
    scratch_bytes,
    share_of,
)
from shapescript.compiler.codegen.dropout import region_masks
from shapescript.compiler.codegen.elements import is_short, region_key
from shapescript.compiler.codegen.elementwise import ElementwiseKernel, emit_kernel
from shapescript.compiler.codegen.emit import Value
from shapescript.compiler.codegen.epilogues import RegionEpilogue
from shapescript.compiler.codegen.in_scratch import InScratch
from shapescript.compiler.codegen.lowering import MEMORY_TYPES, Lowering, lowers
from shapescript.compiler.codegen.memory import ALIGNMENT
from shapescript.compiler.codegen.nests import SizeArguments, placed_strides
from shapescript.compiler.codegen.product_axes import (
    A,
    B,
    C,
    Groups,
    Operand,
    ProductAxes,
    are_runs,
    group,
    packed_letters,
    packing_less,
    product_axes,
    unmerged,
)
from shapescript.compiler.codegen.split import Part, shares_of, split
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.nodes import Block, Op, free_values
from shapescript.compiler.ir.sizes import ONE, ZERO, Size, number, product
from shapescript.compiler.ir.types import TensorType
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.ops.locations import has_storage
from shapescript.compiler.records.dataclass import dataclass

NUMBER_BYTES = 64  # of scratch, for an operand or result without axes
PICOSECONDS_A_VECTOR = 320  # of fused multiply-adds, with what goes with them


@lowers("contraction")
def _contraction(low: Lowering, op: Op) -> None:
    element = nodes.Value(TensorType(result_type(op.result).element))
    Product(low, op, Block((element,), (), (element,)), (), ()).lower()


@lowers("fused_contraction")
def _fused_contraction(low: Lowering, op: Op) -> None:
    Product(low, op, op.regions[0], op.operands[2:], tuple(map(tuple, op.attributes["maps"]))).lower()


Evaluate = Callable[[Size], emit.Size]


@dataclass(frozen=True)
class _Shape:
    """A product's axes, with sizes and strides by the names of a kernel's arguments."""

    element: emit.ElementType
    axes: ProductAxes

    def contraction(self, value: Evaluate) -> Contraction:
        rows, columns, summed, runs = self.axes.rows, self.axes.columns, self.axes.summed, self.axes.runs
        strides = (rows.strides[A], summed.strides[A], summed.strides[B], columns.strides[B], rows.strides[C])
        a_row, a_k, b_k, b_column, c_row = (value(stride) for stride in strides)
        sizes = value(rows.size), value(columns.size), value(runs.size * summed.size)
        found = Contraction(self.element, *sizes, a_row, a_k, b_k, b_column, c_row)
        if runs.size == ONE:
            return found
        return replace(found, run=value(summed.size), a_run=value(runs.strides[A]), b_run=value(runs.strides[B]))

    def batch(self, value: Evaluate) -> list[BatchAxis]:
        strides = ([value(axis.strides[place]) for place in (A, B, C)] for axis in self.axes.batch)
        return [BatchAxis(value(axis.size), a, b, c) for axis, (a, b, c) in zip(self.axes.batch, strides, strict=True)]

    @property
    def stores_rows(self) -> bool:
        """Whether the result's columns follow each other, as the kernel stores them."""
        return self.axes.columns.size == ONE or self.axes.columns.strides[C] == ONE


class Product:
    """One contraction of the program. `region` is what becomes of its elements, `extras` what it reads beside them."""

    part: InScratch | None = None
    behind: BehindRows | None = None

    def __init__(self, low: Lowering, op: Op, region: Block, extras: Sequence[nodes.Value], maps: Sequence[tuple[int, ...]]) -> None:
        self.low, self.op, self.region = low, op, region
        self.left, self.right, self.out = (tuple(op.attributes[name]) for name in ("left", "right", "out"))
        self.names, self.sizes = SizeArguments(), dict[int, Size]()
        for letters, kind in zip((self.left, self.right), self.operand_axes(), strict=True):
            self.sizes |= {letter: self.names.name(axis) for letter, axis in zip(letters, kind, strict=True)}
        parameters = region.parameters[1:]
        self.varying = [(extra, p, positions) for extra, p, positions in zip(extras, parameters, maps, strict=True) if positions]
        self.inputs = {value: low.number(value) for value in free_values(region)}
        self.inputs |= {p: low.number(extra) for extra, p, positions in zip(extras, parameters, maps, strict=True) if not positions}
        self.indexed = tuple(sorted({inner.attributes["position"] for inner in region.ops if inner.name == "iota"}))
        space = [self.names.original(self.sizes[letter]) for letter in self.out]
        self.masks = region_masks(low, region, self.inputs, space)

    def operand_axes(self) -> list[Sequence[Size]]:
        """Of the contraction's two operands."""
        return [result_type(operand).axes for operand in self.op.operands[:2]]

    def groups(self) -> Groups:
        return group(self.left, self.right, self.out, self.sizes)

    def axes(self, a: Operand, b: Operand, groups: Groups) -> ProductAxes:
        return product_axes(a, b, Operand(self.out), self.others(), groups, self.sizes)

    def lower(self) -> None:
        groups = self.groups()
        first, second = Operand(self.left), Operand(self.right)
        if not self.behind:
            groups = packing_less(second if groups.swapped else first, first if groups.swapped else second, groups, self.sizes)
        in_place = are_runs(first, second, groups, self.sizes)
        with ExitStack() as scratches:
            left, right = (self.operand(place, groups, in_place, scratches) for place in range(2))
            a, b = (right, left) if groups.swapped else (left, right)
            axes = self.axes(a[0], b[0], groups)
            targets = [low_pointer for result in self.op.results if (low_pointer := self._target(result, scratches)) is not None]
            self._emit(axes, a[1], b[1], targets)
            numbers = [result for result in self.op.results if not has_storage(result)]
            for result, target in zip(numbers, targets if numbers else (), strict=True):
                self.low.define(result, self.low.load_number(target, result_type(result).element))

    def operand(self, place: int, groups: Groups, in_place: bool, scratches: ExitStack) -> tuple[Operand, Value]:
        low, value, operand = self.low, self.op.operands[place], Operand((self.left, self.right)[place])
        if not has_storage(value):
            pointer = scratches.enter_context(low.scratch(NUMBER_BYTES))
            low.store_number(low.number(value), pointer)
            return operand, pointer
        if in_place or not unmerged(operand, groups, self.sizes):
            return operand, low.pointer(value)
        letters = packed_letters(operand, groups, is_a=(place == 0) != groups.swapped)
        order = [operand.letters.index(letter) for letter in letters]
        return Operand(letters), scratches.enter_context(_reordered(low, value, order))

    def _target(self, result: nodes.Value, scratches: ExitStack) -> Value | None:
        if not has_storage(result):
            return scratches.enter_context(self.low.scratch(NUMBER_BYTES))
        return self.low.pointer(result) if self.low.has_place(result) else None

    def others(self) -> list[Mapping[int, Size]]:
        """Strides along the result's letters of what the region reads, and of the indices that it uses."""
        rank, axes = len(self.out), [self.sizes[letter] for letter in self.out]
        strides = [placed_strides([axes[place] for place in positions], positions, rank) for _, _, positions in self.varying]
        strides += [[ONE if place == position else ZERO for place in range(rank)] for position in self.indexed]
        return [dict(zip(self.out, tensor, strict=True)) for tensor in strides]

    def _emit(self, axes: ProductAxes, a: Value, b: Value, targets: Sequence[Value]) -> None:
        low, region = self.low, self.region
        shape = _Shape(MEMORY_TYPES[result_type(self.op.operands[0]).element], axes)
        stored = tuple(not has_storage(result) or low.has_place(result) for result in self.op.results)
        first = MEMORY_TYPES[result_type(self.op.results[0]).element]
        returns_first = stored[0] and shape.stores_rows and first == shape.element
        epilogue = RegionEpilogue(
            region,
            axes,
            self.names,
            stored,
            tuple(p for _, p, _ in self.varying),
            self.indexed,
            tuple(self.masks),
            tuple(self.inputs),
            returns_first,
        )
        is_plain = not region.ops and returns_first and len(stored) == 1
        inline = is_short(region)

        def at_call(size: Size) -> emit.Size:
            return low.size(self.names.original(size))

        captured = [
            *targets,
            *(low.pointer(extra) for extra, _, _ in self.varying),
            *(part for mask in self.masks.values() for part in (mask.pointer, mask.scale, mask.active)),
            *self.inputs.values(),
            *([part.tensor] if (part := self.part) else []),
            *(behind.arguments if (behind := self.behind) else ()),
            *(emit.size(low.size(size)) for size in self.names.run_time),
        ]
        skips = epilogue.skips()
        form = None if is_plain else Epilogue(epilogue.emit_vector, (), inline, not returns_first, skips)
        contraction, batch = shape.contraction(at_call), shape.batch(at_call)
        plan = plan_contraction(low.target, contraction)
        if part and part.is_run:  # all panels read a run's part while it is there
            plan = replace(plan, steps_first=True)
        if behind:
            plan = replace(plan, row_block=rows_of_a_block(plan, contraction))
        cut = Cut.BATCH if batch else Cut.ROWS if behind else cut_of(plan, contraction)
        units = cut_units(low.b, plan, contraction, batch, cut)
        shares = shares_of(low, units, _work(low, contraction, batch, behind.work if behind else 0))
        bytes_each = extents.round_up(low.b, scratch_bytes(low.target, contraction, low.b, epilogue=form, plan=plan), ALIGNMENT)
        bytes_each = extents.plus(low.b, bytes_each, part.rounded_bytes(low.b, at_call) if part else 0)

        def body(b: emit.Builder, given: Sequence[Value], share_: Part) -> None:
            left, right, scratch, bytes_of_share, *rest = given
            values = self.names.values(given)

            def here(size: Size) -> emit.Size:
                return values.of(b, size)

            contraction, batch = shape.contraction(here), shape.batch(here)
            own = emit.at(b, scratch, extents.times(b, share_.share, bytes_of_share), emit.I8)
            share, before_run, after_rows = None, None, None
            if cut is Cut.BATCH:
                batch[0] = replace(batch[0], low=share_.low, size=share_.high)
            else:
                share = share_of(b, plan, contraction, cut, share_.low, share_.high)
            if part:
                places, sizes = [left, right, rest[0]], rest[len(rest) - len(self.names.run_time) :]
                tensor, places[part.place] = rest[len(rest) - len(sizes) - 1], own
                left, right, rest[0] = places
                if part.is_run:
                    before_run = BeforeRun(self._moved, (tensor, own, *sizes))
                else:
                    batch[0] = replace(batch[0], around=part.around(values, tensor, own))
                own = emit.at(b, own, part.rounded_bytes(b, here), emit.I8)
            if behind:
                after_rows = AfterRows(self._after, behind.captured(rest, len(self.names.run_time)))
            finish = None if is_plain else Epilogue(epilogue.emit_vector, tuple(rest), inline, not returns_first, skips)
            emit_contraction(
                b,
                low.target,
                contraction,
                left,
                right,
                rest[0],
                own,
                epilogue=finish,
                plan=plan,
                share=share,
                batch=batch,
                before_run=before_run,
                after_rows=after_rows,
            )

        with low.scratch(extents.times(low.b, shares, bytes_each)) as scratch:
            order = {value: place for place, value in enumerate((*region.parameters, *self.inputs))}
            used = tuple(order[value] for value in (*epilogue.varying, *epilogue.uniform))
            own = (shape.element, axes, stored, used, self.indexed, region_key(region, free_values(region)))
            key = (own, part and part.key, behind and behind.key)
            split(low, "product", key, [a, b, scratch, emit.size(bytes_each), *captured], units, shares, body)

    def _moved(self, b: emit.Builder, given: Sequence[Value], number: Value) -> None:
        """Before a run; given: the tensor, the scratch, the run-time sizes."""
        assert self.part is not None
        self.part.move(b, self.names.values(given), given[0], given[1], number)

    def _after(self, b: emit.Builder, given: Sequence[Value], batch: Sequence[Value], first: Value, end: Value) -> None:
        """Behind a block of rows; given: what `behind` reads, the run-time sizes."""
        assert self.behind is not None
        self.behind.emit(b, self.names.values(given), given, batch, first, end)


def _work(low: Lowering, contraction: Contraction, batch: Sequence[BatchAxis], behind: int) -> emit.Size:
    """Picoseconds that a product takes one core, about; `behind` are those that an element of the result takes besides."""
    steps = extents.plus(low.b, extents.times(low.b, contraction.k, PICOSECONDS_A_VECTOR // low.target.lanes), behind)
    for count in (contraction.m, contraction.n, *(axis.size for axis in batch)):
        steps = extents.times(low.b, steps, count)
    return steps


@contextmanager
def _reordered(low: Lowering, value: nodes.Value, order: Sequence[int]) -> Iterator[Value]:
    """A tensor's elements, in scratch, in another order of its axes."""
    kind = result_type(value)
    copy = TensorType(kind.element, tuple(kind.axes[axis] for axis in order))
    element = nodes.Value(TensorType(kind.element))
    positions = tuple(order.index(axis) for axis in range(kind.rank))
    kernel = ElementwiseKernel(copy.axes, (value,), (positions,), Block((element,), (), (element,)), (nodes.Value(copy),))
    with low.scratch(low.size(product(kind.axes) * number(kind.element.bytes))) as pointer:
        emit_kernel(low, kernel, [low.pointer(value)], [pointer])
        yield pointer
