"""Contractions, plain and with an epilogue of elementwise work, by the register-tiled product."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from shapescript.compiler.codegen.behind_rows import BehindRows
from shapescript.compiler.codegen.dropout import region_masks
from shapescript.compiler.codegen.elements import region_key
from shapescript.compiler.codegen.elementwise import ElementwiseKernel, emit_kernel
from shapescript.compiler.codegen.emit import Value
from shapescript.compiler.codegen.epilogues import RegionEpilogue
from shapescript.compiler.codegen.in_scratch import InScratch
from shapescript.compiler.codegen.lowering import MEMORY_TYPES, Lowering, lowers
from shapescript.compiler.codegen.nests import SizeArguments, placed_strides
from shapescript.compiler.codegen.product_axes import (
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
from shapescript.compiler.codegen.product_kernel import ProductKernel
from shapescript.compiler.codegen.product_zeros import left_zeros
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.nodes import Block, Op, free_values
from shapescript.compiler.ir.sizes import ONE, ZERO, Size, number, product
from shapescript.compiler.ir.types import TensorType
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.ops.locations import has_storage

NUMBER_BYTES = 64  # of scratch, for an operand or result without axes


@lowers("contraction")
def _contraction(low: Lowering, op: Op) -> None:
    element = nodes.Value(TensorType(result_type(op.result).element))
    Product(low, op, Block((element,), (), (element,)), (), ()).lower()


@lowers("fused_contraction")
def _fused_contraction(low: Lowering, op: Op) -> None:
    Product(low, op, op.regions[0], op.operands[2:], tuple(map(tuple, op.attributes["maps"]))).lower()


class Product:
    """One contraction of the program. `region` is what becomes of its elements, `extras` what it reads beside them."""

    groups_made: Groups
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
        self.groups_made = groups
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
        return self.pointer(result) if self.is_stored(result) else None

    def pointer(self, value: nodes.Value) -> Value:
        return self.low.pointer(value)

    def is_stored(self, result: nodes.Value) -> bool:
        return not has_storage(result) or self.low.has_place(result)

    def others(self) -> list[Mapping[int, Size]]:
        """Strides along the result's letters of what the region reads, and of the indices that it uses."""
        rank, axes = len(self.out), [self.sizes[letter] for letter in self.out]
        strides = [placed_strides([axes[place] for place in positions], positions, rank) for _, _, positions in self.varying]
        strides += [[ONE if place == position else ZERO for place in range(rank)] for position in self.indexed]
        return [dict(zip(self.out, tensor, strict=True)) for tensor in strides]

    def _emit(self, axes: ProductAxes, a: Value, b: Value, targets: Sequence[Value]) -> None:
        low, region = self.low, self.region
        element, first = (MEMORY_TYPES[result_type(value).element] for value in (self.op.operands[0], self.op.results[0]))
        stored = tuple(map(self.is_stored, self.op.results))
        stores_rows = axes.columns.size == ONE or axes.columns.strides[C] == ONE  # the result's columns follow each other
        epilogue = RegionEpilogue(
            region,
            axes,
            self.names,
            stored,
            tuple(p for _, p, _ in self.varying),
            self.indexed,
            tuple(self.masks),
            tuple(self.inputs),
            returns_first=stored[0] and stores_rows and first == element,
        )
        captured = [
            *targets,
            *(low.pointer(extra) for extra, _, _ in self.varying),
            *(part for mask in self.masks.values() for part in (mask.pointer, mask.scale, mask.active)),
            *self.inputs.values(),
        ]
        order = {value: place for place, value in enumerate((*region.parameters, *self.inputs))}
        used = tuple(order[value] for value in (*epilogue.varying, *epilogue.uniform))
        key = (element, axes, stored, used, self.indexed, region_key(region, free_values(region)))
        ProductKernel(low, element, axes, epilogue, self.part, self.behind, left_zeros(low, self.op, self.groups_made)).call(
            a, b, captured, key
        )


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
