"""Fused elementwise work as one loop nest: the innermost axis in vectors of 16 lanes, axes merged as far as all operands allow.

Operations that move elements (`broadcast`, `transpose`) and elementwise ones that no pass has fused are lowered as the nest of that one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from llvmlite import ir

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.by_leaf import Chosen, by_leaf_ops, each_run
from shapescript.compiler.codegen.dropout import Mask, region_masks
from shapescript.compiler.codegen.elements import Dropped, emit_region, region_key, region_work
from shapescript.compiler.codegen.emit import I8, LANES, Builder, Value, at, iota, load, load_strided, splat, store
from shapescript.compiler.codegen.lowering import MEMORY_TYPES, Lowering
from shapescript.compiler.codegen.nests import Axis, Offsets, SizeArguments, axes_of, dense_strides, emit_loops, placed_strides, where_any
from shapescript.compiler.codegen.sizes import SizeValues
from shapescript.compiler.codegen.split import PICOSECONDS_A_BYTE, Part, shares_of, split
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.nodes import Block, Op, free_values
from shapescript.compiler.ir.sizes import ONE, ZERO, Size, product
from shapescript.compiler.ir.types import Element, TensorType
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.records.dataclass import dataclass

STRETCH = 64 * LANES  # elements of a unit that threads share out, where there is one axis


@dataclass(frozen=True)
class ElementwiseKernel:
    """As the operation `kernel` (ops/fused.py). A result that nobody reads is None."""

    space: tuple[Size, ...]
    operands: tuple[nodes.Value, ...]
    maps: tuple[tuple[int, ...], ...]
    region: Block
    results: tuple[nodes.Value | None, ...]


def as_kernel(op: Op) -> ElementwiseKernel:
    """An operation that is elementwise or moves elements, as the kernel of it alone."""
    kind = result_type(op.result)
    here = tuple(range(kind.rank))
    if op.name == "broadcast":
        return _moving(op, tuple(op.attributes["positions"]))
    if op.name == "transpose":
        permutation = op.attributes["permutation"]
        return _moving(op, tuple(permutation.index(axis) for axis in here))
    parameters = tuple(nodes.Value(TensorType(result_type(operand).element)) for operand in op.operands)
    element = nodes.Value(TensorType(kind.element))
    region = Block(parameters, (Op(op.name, parameters, op.attributes, (element,), (), op.span),), (element,))
    maps = tuple(here if result_type(operand).axes else () for operand in op.operands)
    return ElementwiseKernel(kind.axes, op.operands, maps, region, op.results)


def _moving(op: Op, positions: tuple[int, ...]) -> ElementwiseKernel:
    element = nodes.Value(TensorType(result_type(op.result).element))
    return ElementwiseKernel(result_type(op.result).axes, op.operands, (positions,), Block((element,), (), (element,)), op.results)


def lower_kernel(low: Lowering, kernel: ElementwiseKernel) -> None:
    """Emit the kernel where the program stands, and define its results."""
    if kernel.space:
        pointers = [low.pointer(operand) for operand, positions in zip(kernel.operands, kernel.maps, strict=True) if positions]
        emit_kernel(low, kernel, pointers, [low.pointer(result) for result in kernel.results if result is not None])
        return
    region = kernel.region
    inputs = {value: low.number(value) for value in free_values(region)}
    inputs.update(zip(region.parameters, (low.number(operand) for operand in kernel.operands), strict=True))
    dropped = {
        op: Dropped(emit.condition_of(low.b, load(low.b, mask.pointer, I8)), mask.scale, mask.active)
        for op, mask in region_masks(low, region, inputs, ()).items()
    }
    for result, value in zip(kernel.results, emit_region(low.b, region, inputs, dropped=dropped), strict=True):
        if result is not None:
            low.define(result, value)


def emit_kernel(low: Lowering, kernel: ElementwiseKernel, pointers: Sequence[Value], targets: Sequence[Value]) -> None:
    """Emit a kernel with axes, for operands with axes and results at these addresses."""
    region, outer = kernel.region, free_values(kernel.region)
    inputs = {value: low.number(value) for value in outer}
    varying = []
    for operand, parameter, positions in zip(kernel.operands, region.parameters, kernel.maps, strict=True):
        if positions:
            varying.append((parameter, positions))
        else:
            inputs[parameter] = low.number(operand)
    masks = region_masks(low, region, inputs, kernel.space)
    sizes = SizeArguments()
    stored = tuple(result is not None for result in kernel.results)
    parameters, maps = tuple(parameter for parameter, _ in varying), tuple(positions for _, positions in varying)
    nest = _Nest(region, sizes.names(kernel.space), tuple(inputs), parameters, maps, stored, tuple(masks))
    arguments = [*pointers, *targets, *(part for mask in masks.values() for part in (mask.pointer, mask.scale, mask.active))]
    arguments += [*inputs.values(), *(emit.size(low.size(size)) for size in sizes.run_time)]
    order = {value: place for place, value in enumerate((*region.parameters, *outer))}
    key = (nest.space, nest.maps, stored, tuple(order[value] for value in inputs), region_key(region, outer))
    first = low.size(sizes.original(nest.axes[0].size))
    units = first if len(nest.axes) > 1 else extents.ceil_quotient(low.b, first, STRETCH)
    work = extents.times(low.b, low.size(product(kernel.space)), nest.work)
    shares = shares_of(low, units, work)
    split(low, "elementwise", key, arguments, units, shares, lambda b, given, part: nest.build(b, given, sizes.values(given), part))


@dataclass(frozen=True)
class _Nest:
    """The shared function of a kernel. Its arguments: the operands with axes, the results, each dropout's mask, scale and activity, the
    numbers that are the same everywhere, the run-time sizes."""

    region: Block
    space: tuple[Size, ...]
    uniform: tuple[nodes.Value, ...]
    varying: tuple[nodes.Value, ...]
    maps: tuple[tuple[int, ...], ...]
    stored: tuple[bool, ...]
    dropouts: tuple[Op, ...]

    @property
    def indexed(self) -> list[int]:
        """The axes whose index is used."""
        return sorted({op.attributes["position"] for op in self.region.ops if op.name == "iota"})

    @cached_property
    def _strides(self) -> list[list[Size]]:
        """Of the results and masks, of the indices that are used, of the operands."""
        rank = len(self.space)
        units = [[ONE if axis == place else ZERO for axis in range(rank)] for place in self.indexed]
        return [dense_strides(self.space), *units, *(placed_strides(self._axes(p), p, rank) for p in self.maps)]

    @cached_property
    def axes(self) -> list[Axis]:
        """At least one."""
        return axes_of(self.space, self._strides) or [Axis(ONE, tuple(ZERO for _ in self._strides))]

    @property
    def work(self) -> int:
        """Picoseconds that an element takes one core, about: a read or a write of main memory, a step of arithmetic in vectors."""
        moved = sum(result_type(value).element.bytes for value in (*self.varying, *self.region.yields))
        return PICOSECONDS_A_BYTE * moved + region_work(self.region)

    def build(self, b: Builder, arguments: Sequence[Value], sizes: SizeValues, part: Part) -> None:
        """Units are places along the outermost axis, or stretches of the only one."""
        rest = list(arguments)
        tensors, rest = rest[: len(self.varying)], rest[len(self.varying) :]
        targets, rest = rest[: sum(self.stored)], rest[sum(self.stored) :]
        masks = {op: Mask(*rest[3 * place : 3 * place + 3]) for place, op in enumerate(self.dropouts)}
        numbers = dict(zip(self.uniform, rest[3 * len(masks) :], strict=False))
        spread, start = {value: splat(b, number, LANES) for value, number in numbers.items()}, tuple(0 for _ in self._strides)
        inner = _InnerLoop(self, b, sizes, self.axes[-1], tensors, targets, masks, spread)
        if len(self.axes) > 1:
            places, outer = [sizes.of(b, axis.size) for axis in self.axes], (part.low, part.high)
            where_any(b, places, lambda: emit_loops(b, sizes, self.axes[:-1], start, inner.build, outer))
        else:
            inner.build(start, extents.times(b, part.low, STRETCH), extents.times(b, part.high, STRETCH))

    def _axes(self, positions: Sequence[int]) -> list[Size]:
        return [self.space[place] for place in positions]


class _InnerLoop:
    """The vectorised loop along the innermost axis, at the offsets that the outer loops have reached: those of the results (and masks),
    then of the indices that are used, then of the operands."""

    def __init__(
        self,
        nest: _Nest,
        b: Builder,
        sizes: SizeValues,
        axis: Axis,
        tensors: Sequence[Value],
        targets: Sequence[Value],
        masks: Mapping[Op, Mask],
        numbers: Mapping[nodes.Value, Value],
    ) -> None:
        self.nest, self.b, self.axis = nest, b, axis
        self.tensors, self.targets, self.masks, self.numbers = tensors, targets, masks, numbers
        self.count = sizes.of(b, axis.size)
        self.strides = [sizes.of(b, stride) for stride in axis.strides]

    def build(self, offsets: Offsets, low: emit.Size = 0, high: emit.Size | None = None) -> None:
        """Elements low to high (default: all) along the axis; `low` must be a multiple of LANES."""
        b, count = self.b, self.count if high is None else extents.least(self.b, high, self.count)
        same = self._same_along(offsets)
        if by_leaf_ops(self.nest.region):  # along a model's buffer

            def vector(chosen: Chosen, i: Value, valid: Value | None) -> None:
                self._vector(offsets, {**same, **chosen}, i, valid)

            each_run(b, self.nest.region, {**self.numbers, **same}, low, count, vector)
            return
        whole = extents.times(b, extents.quotient(b, count, LANES), LANES)
        if whole != 0:
            emit.loop(b, low, whole, LANES, lambda i, _: self._vector(offsets, same, i, None))
        rest = extents.minus(b, count, whole)
        if isinstance(rest, int):
            if rest:
                self._vector(offsets, same, emit.size(whole), rest)
            return
        with b.if_then(b.icmp_signed(">", rest, emit.I64(0))):
            self._vector(offsets, same, emit.size(whole), rest)

    def _operands(self) -> list[tuple[nodes.Value, Value, Element, int]]:
        """Each operand with axes: its parameter, its pointer, its element, and its place among the offsets."""
        first = 1 + len(self.nest.indexed)
        return [
            (parameter, pointer, result_type(parameter).element, first + place)
            for place, (parameter, pointer) in enumerate(zip(self.nest.varying, self.tensors, strict=True))
        ]

    def _same_along(self, offsets: Offsets) -> dict[nodes.Value, Value]:
        """Operands that don't have the innermost axis, loaded before its loop."""
        b, found = self.b, {}
        for parameter, pointer, element, place in self._operands():
            if self.strides[place] == 0:
                one = load(b, at(b, pointer, offsets[place], MEMORY_TYPES[element]), MEMORY_TYPES[element])
                found[parameter] = splat(b, emit.condition_of(b, one) if element is Element.BOOL else one, LANES)
        return found

    def _vector(self, offsets: Offsets, same: Mapping[nodes.Value, Value], i: Value, valid: emit.Size | None) -> None:
        """Elements i to i + 15 along the axis, or the first `valid` of them."""
        b = self.b
        mask = None if valid is None else emit.lane_mask(b, valid, LANES)
        inputs = {**self.numbers, **same}
        for parameter, pointer, element, place in self._operands():
            if parameter not in same:
                inputs[parameter] = self._load(pointer, element, offsets[place], self.strides[place], i, valid, mask)
        linear = extents.plus(b, offsets[0], i)
        dropped = {
            op: Dropped(emit.condition_of(b, load(b, at(b, drop.pointer, linear, I8), I8, LANES, mask)), drop.scale, drop.active)
            for op, drop in self.masks.items()
        }
        values = emit_region(b, self.nest.region, inputs, index=lambda position: self._index(offsets, position, i), dropped=dropped)
        kept = [value for value, is_stored in zip(values, self.nest.stored, strict=True) if is_stored]
        for target, value in zip(self.targets, kept, strict=True):
            self._store(value, target, linear, mask)

    def _load(
        self, pointer: Value, element: Element, offset: emit.Size, stride: emit.Size, i: Value, valid: emit.Size | None, mask: Value | None
    ) -> Value:
        b, kind = self.b, MEMORY_TYPES[element]
        start = at(b, pointer, extents.plus(b, offset, extents.times(b, i, stride)), kind)
        value = load(b, start, kind, LANES, mask) if stride == 1 else load_strided(b, start, stride, kind, LANES, valid)
        return emit.condition_of(b, value) if element is Element.BOOL else value

    def _index(self, offsets: Offsets, position: int, i: Value) -> Value:
        b, place = self.b, 1 + self.nest.indexed.index(position)
        first = extents.plus(b, offsets[place], extents.times(b, i, self.strides[place]))
        start = splat(b, emit.size(first), LANES)
        return start if self.strides[place] == 0 else b.add(start, iota(LANES))

    def _store(self, value: Value, target: Value, linear: emit.Size, mask: Value | None) -> None:
        b = self.b
        vector: Any = value if isinstance(value.type, ir.VectorType) else splat(b, value, LANES)
        stored = emit.stored_condition(b, vector) if emit.scalar_of(vector.type) == emit.I1 else vector
        store(b, stored, at(b, target, linear, emit.scalar_of(stored.type)), mask)
