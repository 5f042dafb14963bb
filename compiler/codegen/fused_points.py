"""How the points of a fused reduction are loaded, computed and stored, in vectors along one of its axes or one element at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llvmlite import ir

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.dropout import Mask
from shapescript.compiler.codegen.elements import Dropped, emit_region
from shapescript.compiler.codegen.emit import I8, I32, I64, Builder, Value, at, iota, load, splat, store, store_strided
from shapescript.compiler.codegen.lowering import MEMORY_TYPES, REGISTER_TYPES
from shapescript.compiler.codegen.nests import Offsets, step
from shapescript.compiler.codegen.reductions import Reduction
from shapescript.compiler.codegen.row_tails import RowTail
from shapescript.compiler.codegen.sizes import SizeValues
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.nodes import Block, Op
from shapescript.compiler.ir.types import Element
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.passes.reduction_walks import Walks
from shapescript.compiler.records.dataclass import dataclass

WHOLE, SHORT = 0, 1  # places among the offsets: of results with all axes (and masks), and of those without the reduced ones


@dataclass(frozen=True)
class Vector:
    """Points along an axis: the first has `offsets`, the next ones are `strides` further, where a stride of the list isn't 0. `i` of them
    lie before the first; `mask` says which are there (None: all)."""

    offsets: Offsets
    strides: Sequence[emit.Size]
    lanes: int
    i: emit.Size = 0
    mask: Value | None = None


@dataclass(frozen=True)
class Along:
    """So many points along an axis, the first with these offsets."""

    offsets: Offsets
    strides: Sequence[emit.Size]
    count: emit.Size


@dataclass(frozen=True)
class Points:
    """`places` and `indices` are the places among the offsets of operands and of indices along the space's axes. `tail`: of each row."""

    b: Builder
    sizes: SizeValues
    op: Op
    walks: Walks
    pointers: Mapping[nodes.Value, Value]
    places: Mapping[nodes.Value, int]
    indices: Mapping[int, int]
    targets: Sequence[Value]
    masks: Mapping[Op, Mask]
    numbers: Mapping[nodes.Value, Value]
    tail: RowTail | None = None

    @property
    def region(self) -> Block:
        (region,) = self.op.regions
        return region

    # ---- one element

    def number(self, parameter: nodes.Value, offsets: Offsets) -> Value:
        """An operand's element."""
        b, element = self.b, result_type(parameter).element
        one = load(b, at(b, self.pointers[parameter], offsets[self.places[parameter]], MEMORY_TYPES[element]), MEMORY_TYPES[element])
        return emit.condition_of(b, one) if element is Element.BOOL else one

    def evaluate_once(self, ops: Sequence[Op], known: dict[nodes.Value, Value], along: Along) -> None:
        """What is the same all along, as scalars, into `known`."""
        for op in ops:
            if op.name == "at_index":
                known[op.result] = self._at_index(op, known, along)
            else:
                self._evaluate_once([op], known, along.offsets)

    def _at_index(self, op: Op, known: dict[nodes.Value, Value], along: Along) -> Value:
        """What the operand is at one point of the row: computed there, of what is known of the row. Of a row without points, where the
        index's check is still to come, it is 0."""
        b, (wanted, index) = self.b, op.operands
        if index in self.places and index not in known:
            known[index] = self.number(index, along.offsets)
        i = b.select(b.icmp_unsigned("<", known[index], emit.size(along.count)), known[index], I64(0))
        there = tuple(step(b, offset, i, stride) for offset, stride in zip(along.offsets, along.strides, strict=True))
        used, ops = {wanted}, list[Op]()
        for inner in reversed(self.region.ops):
            if inner.result in used and inner.result not in known:
                ops.append(inner)
                used.update(inner.operands)

        def at_point() -> list[Value]:
            own = dict(known)
            self._evaluate_once(ops[::-1], own, there)
            return [own[wanted] if wanted in own else self.number(wanted, there)]

        if isinstance(along.count, int) and along.count:
            return at_point()[0]
        nothing = emit.constant(0, REGISTER_TYPES[result_type(wanted).element])
        return emit.choose(b, b.icmp_signed(">", emit.size(along.count), I64(0)), at_point, lambda: [nothing])[0]

    def _evaluate_once(self, ops: Sequence[Op], known: dict[nodes.Value, Value], offsets: Offsets) -> None:
        b = self.b
        block = Block((), tuple(ops), tuple(op.result for op in ops))
        for op in ops:
            for operand in op.operands:
                if operand in self.places and operand not in known:
                    known[operand] = self.number(operand, offsets)
        values = emit_region(b, block, known, index=lambda position: emit.size(offsets[self.indices[position]]))
        known.update(zip(block.yields, values, strict=True))

    # ---- vectors

    def evaluate(self, block: Block, known: Mapping[nodes.Value, Value], vector: Vector) -> list[Value]:
        """What the block yields at the points, as vectors; `known` has what isn't loaded or computed."""
        b = self.b
        used = [op for op in block.ops if op.name == "dropout"]
        dropped = {op: Dropped(self._kept(self.masks[op], vector), self.masks[op].scale, self.masks[op].active) for op in used}
        values = emit_region(b, block, known, index=lambda position: self._index(position, vector), dropped=dropped)
        return [value if isinstance(value.type, ir.VectorType) else splat(b, value, vector.lanes) for value in values]

    def load(self, parameter: nodes.Value, vector: Vector) -> Value:
        return self._load(self.pointers[parameter], result_type(parameter).element, self.places[parameter], vector)

    def read_back(self, value: nodes.Value, result: int, vector: Vector) -> Value:
        return self._load(self.targets[result], result_type(value).element, WHOLE, vector)

    def store(self, value: Value, result: int, vector: Vector, place: int = WHOLE) -> None:
        b = self.b
        kept = emit.stored_condition(b, value) if emit.scalar_of(value.type) == emit.I1 else value
        element, stride = emit.scalar_of(kept.type), vector.strides[place]
        start = at(b, self.targets[result], self._start(place, vector), element)
        if stride == 1:
            store(b, kept, start, vector.mask)
        else:
            store_strided(b, kept, start, stride, vector.mask)

    def _start(self, place: int, vector: Vector) -> emit.Size:
        stride = vector.strides[place]
        return (
            vector.offsets[place] if stride == 0 else extents.plus(self.b, vector.offsets[place], extents.times(self.b, vector.i, stride))
        )

    def _load(self, pointer: Value, element: Element, place: int, vector: Vector) -> Value:
        value = self._load_elements(pointer, MEMORY_TYPES[element], place, vector)
        return emit.condition_of(self.b, value) if element is Element.BOOL else value

    def _load_elements(self, pointer: Value, kind: emit.ElementType, place: int, vector: Vector) -> Value:
        b, stride = self.b, vector.strides[place]
        if stride == 0:
            return splat(b, load(b, at(b, pointer, vector.offsets[place], kind), kind), vector.lanes)
        if stride == 1:
            return load(b, at(b, pointer, self._start(place, vector), kind), kind, vector.lanes, vector.mask)
        found = emit.undefined(emit.vector_of(kind, vector.lanes))
        start = at(b, pointer, vector.offsets[place], kind)
        for lane in range(vector.lanes):
            there = emit.size(extents.times(b, extents.plus(b, vector.i, lane), stride))
            if vector.mask is not None:  # of lanes that aren't there the first element is read
                there = b.select(b.extract_element(vector.mask, I32(lane)), there, I64(0))
            found = b.insert_element(found, load(b, at(b, start, there, kind), kind), I32(lane))
        return found

    def _kept(self, mask: Mask, vector: Vector) -> Value:
        return emit.condition_of(self.b, self._load_elements(mask.pointer, I8, WHOLE, vector))

    def _index(self, position: int, vector: Vector) -> Value:
        place = self.indices[position]
        first = splat(self.b, emit.size(self._start(place, vector)), vector.lanes)
        if vector.strides[place] == 0:
            return first
        steps = iota(vector.lanes)
        if vector.strides[place] != 1:
            steps = self.b.mul(steps, splat(self.b, emit.size(vector.strides[place]), vector.lanes))
        return self.b.add(first, steps)


def reductions_of(ops: Sequence[Op]) -> list[Reduction]:
    kinds = {"mean": "sum"}
    return [Reduction(kinds.get(kind := op.attributes["kind"], kind), MEMORY_TYPES[result_type(op.result).element]) for op in ops]


def finished(b: Builder, op: Op, value: Value, count: emit.Size) -> Value:
    """A reduction's result: a mean divides by the count, rounded to the element type."""
    if op.attributes["kind"] != "mean":
        return value
    element = MEMORY_TYPES[result_type(op.result).element]
    return b.fdiv(value, emit.like(b, b.sitofp(emit.size(count), element), value.type))
