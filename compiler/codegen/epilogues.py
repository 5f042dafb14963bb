"""What becomes of a product's elements: a region of elementwise operations, emitted for each vector of finished sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from llvmlite import ir

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.contraction_kernel import Place
from shapescript.compiler.codegen.dropout import Mask
from shapescript.compiler.codegen.elements import Dropped, emit_region
from shapescript.compiler.codegen.emit import I8, Builder, Value, at, iota, load, load_strided, splat, store, store_strided
from shapescript.compiler.codegen.lowering import MEMORY_TYPES
from shapescript.compiler.codegen.nests import SizeArguments, step
from shapescript.compiler.codegen.product_axes import C, ProductAxes
from shapescript.compiler.codegen.sizes import SizeValues
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.nodes import Block, Op
from shapescript.compiler.ir.types import Element
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.passes.masked_tiles import masked_where
from shapescript.compiler.records.dataclass import dataclass


@dataclass
class RegionEpilogue:
    """The axes' strides are those of A, B, C, the `varying` inputs, and the indices that the region uses.

    Captured values: addresses of the stored results, of the varying inputs, each dropout's mask, scale and activity, the `uniform` inputs,
    and the run-time sizes. With `returns_first` the product's kernel stores the first result.
    """

    region: Block
    axes: ProductAxes
    names: SizeArguments
    stored: tuple[bool, ...]
    varying: tuple[nodes.Value, ...]
    indexed: tuple[int, ...]
    dropouts: tuple[Op, ...]
    uniform: tuple[nodes.Value, ...]
    returns_first: bool
    _sizes: dict[Any, SizeValues] = field(default_factory=dict)

    @property
    def is_plain(self) -> bool:
        """Whether the sums are the only result, as they are, and the product's kernel stores them."""
        return not self.region.ops and self.returns_first and len(self.stored) == 1

    def emit_vector(self, b: Builder, captured: Sequence[Value], value: Value, place: Place) -> Value | None:
        return _Vector(self, b, captured, value, place).build()

    def skips(self) -> Callable[[Builder, Sequence[Value], Place, Place], Value] | None:
        """Whether nothing is read of the product from one place to another (masked_tiles.py)."""
        found = masked_where(self.region)
        if found is None:
            return None

        def emit_test(b: Builder, captured: Sequence[Value], first: Place, last: Place) -> Value:
            greatest = self._index(b, captured, found.less, last)
            return b.icmp_signed("<" if found.strict else "<=", greatest, self._index(b, captured, found.greater, first))

        return emit_test

    def _index(self, b: Builder, captured: Sequence[Value], position: int, place: Place) -> Value:
        tensor, sizes = C + 1 + len(self.varying) + self.indexed.index(position), self.sizes(b, captured)
        index: emit.Size = 0
        axes = (*self.axes.batch, self.axes.rows, self.axes.columns)
        for along, axis in zip((*place.batch, place.row, place.column), axes, strict=True):
            index = step(b, index, along, sizes.of(b, axis.strides[tensor]))
        return emit.size(index)

    def sizes(self, b: Builder, captured: Sequence[Value]) -> SizeValues:
        """Of the kernel being built; computed once in it."""
        if b.function not in self._sizes:
            self._sizes[b.function] = self.names.values(captured)
        return self._sizes[b.function]


class _Vector:
    """One vector of finished sums, at its place."""

    def __init__(self, epilogue: RegionEpilogue, b: Builder, captured: Sequence[Value], value: Value, place: Place) -> None:
        self.epilogue, self.b, self.value, self.place = epilogue, b, value, place
        self.lanes: int = value.type.count
        self.values = epilogue.sizes(b, captured)
        rest = list(captured)
        count = sum(epilogue.stored)
        self.targets, rest = rest[:count], rest[count:]
        count = len(epilogue.varying)
        self.pointers, rest = rest[:count], rest[count:]
        self.masks = [Mask(*rest[3 * number : 3 * number + 3]) for number in range(len(epilogue.dropouts))]
        self.numbers = rest[3 * len(self.masks) :]
        self.offsets: dict[tuple[emit.Size, ...], emit.Size] = {}

    def build(self) -> Value | None:
        epilogue, b = self.epilogue, self.b
        inputs = dict(zip(epilogue.uniform, self.numbers, strict=False))
        inputs[epilogue.region.parameters[0]] = self.value
        for number, (parameter, pointer) in enumerate(zip(epilogue.varying, self.pointers, strict=True)):
            inputs[parameter] = self._load(pointer, result_type(parameter).element, C + 1 + number)
        dropped = {
            op: Dropped(emit.condition_of(b, self._load_elements(mask.pointer, I8, C)), mask.scale, mask.active)
            for op, mask in zip(epilogue.dropouts, self.masks, strict=True)
        }
        values = emit_region(b, epilogue.region, inputs, index=self._index, dropped=dropped)
        kept = [self._as_stored(value) for value, is_stored in zip(values, epilogue.stored, strict=True) if is_stored]
        for number, (target, value) in enumerate(zip(self.targets, kept, strict=True)):
            if number or not epilogue.returns_first:
                self._store(target, value)
        return kept[0] if epilogue.returns_first else None

    def _offset(self, tensor: int) -> emit.Size:
        """Of the vector's first element, in elements."""
        b, axes, place = self.b, self.epilogue.axes, self.place
        strides = tuple(self.values.of(b, axis.strides[tensor]) for axis in (*axes.batch, axes.rows, axes.columns))
        if strides not in self.offsets:
            offset: emit.Size = 0
            for index, stride in zip((*place.batch, place.row, place.column), strides, strict=True):
                if stride != 0:
                    offset = extents.plus(b, offset, extents.times(b, index, stride))
            self.offsets[strides] = offset
        return self.offsets[strides]

    def _step(self, tensor: int) -> emit.Size:
        """From lane to lane."""
        return self.values.of(self.b, self.epilogue.axes.columns.strides[tensor])

    def _load(self, pointer: Value, element: Element, tensor: int) -> Value:
        value = self._load_elements(pointer, MEMORY_TYPES[element], tensor)
        return emit.condition_of(self.b, value) if element is Element.BOOL else value

    def _load_elements(self, pointer: Value, kind: emit.ElementType, tensor: int) -> Value:
        b, step = self.b, self._step(tensor)
        start = at(b, pointer, self._offset(tensor), kind)
        if step == 0:
            return splat(b, load(b, start, kind), self.lanes)
        if step == 1:
            return load(b, start, kind, self.lanes, self.place.mask)
        columns = self.values.of(b, self.epilogue.axes.columns.size)
        valid = None if self.place.mask is None else extents.minus(b, columns, self.place.column)
        return load_strided(b, start, step, kind, self.lanes, valid)

    def _index(self, position: int) -> Value:
        b, tensor = self.b, C + 1 + len(self.epilogue.varying) + self.epilogue.indexed.index(position)
        start = splat(b, emit.size(self._offset(tensor)), self.lanes)
        return start if self._step(tensor) == 0 else b.add(start, iota(self.lanes))

    def _as_stored(self, value: Value) -> Value:
        vector = value if isinstance(value.type, ir.VectorType) else splat(self.b, value, self.lanes)
        return emit.stored_condition(self.b, vector) if emit.scalar_of(vector.type) == emit.I1 else vector

    def _store(self, target: Value, value: Value) -> None:
        b, step = self.b, self._step(C)
        start = at(b, target, self._offset(C), emit.scalar_of(value.type))
        if step in (0, 1):
            store(b, value, start, self.place.mask)
        else:
            store_strided(b, value, start, step, self.place.mask)
