"""Contractions whose rows are reduced (ops/reduced_contraction.py): the product's kernel, and behind each block of its rows what the
reduction does with them, in place, while they are in cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shapescript.compiler.codegen.behind_rows import BehindRows
from shapescript.compiler.codegen.dropout import region_masks
from shapescript.compiler.codegen.emit import Builder, Value
from shapescript.compiler.codegen.fused_reductions import ReductionShape, emit_kept_rows, numbers_of, refuse_nothing
from shapescript.compiler.codegen.lowering import Lowering, lowers
from shapescript.compiler.codegen.nests import Axis, Offsets, step
from shapescript.compiler.codegen.product_axes import C, Groups, Operand, ProductAxes
from shapescript.compiler.codegen.products import Product
from shapescript.compiler.codegen.row_tails import tail_of
from shapescript.compiler.codegen.sizes import SizeValues
from shapescript.compiler.codegen.split import Part
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.sizes import Size
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.ops.reduced_contraction import product_op, reduction_op
from shapescript.compiler.passes.reduction_walks import walks_of


@lowers("reduced_contraction")
def _reduced_contraction(low: Lowering, op: Op) -> None:
    refuse_nothing(low, reduction_op(op))
    Reduced(low, op).lower()


class Reduced(Product):
    """The product lies where the reduction's first result of its axes will: the reduction may overwrite it (see the pass)."""

    def __init__(self, low: Lowering, op: Op) -> None:
        product, reduction = product_op(op), reduction_op(op)
        self.home = next(result for result in op.results if result.type == product.result.type)
        bare = Op(product.name, product.operands, product.attributes, (self.home,), product.regions, op.span)
        super().__init__(low, bare, bare.regions[0], bare.operands[2:], tuple(map(tuple, bare.attributes["maps"])))
        self.uniform = numbers_of(low, reduction)
        self.drawn = region_masks(low, reduction.regions[0], self.uniform, result_type(self.home).axes)
        space = tuple(self.sizes[letter] for letter in self.out)
        self.place: int = op.attributes["place"]
        tail = tail_of(bare.regions[0], reduction, self.place)
        self.shape = ReductionShape(reduction, walks_of(reduction), low.target, space, tuple(self.uniform), tuple(self.drawn), tail)
        self.behind = BehindRows(self._arguments(), self.shape.work, self.reduce, self.shape.key)

    def _arguments(self) -> tuple[Value, ...]:
        reduction = self.shape.op
        read = [self.home if place == self.place else operand for place, operand in enumerate(reduction.operands)]
        pointers = [self.pointer(value) for value, map_ in zip(read, reduction.attributes["maps"], strict=True) if map_]
        targets = map(self.pointer, reduction.results)
        masks = (part for mask in self.drawn.values() for part in (mask.pointer, mask.scale, mask.active))
        return (*pointers, *targets, *masks, *self.uniform.values())

    @property
    def own(self) -> slice:
        """Where the strides of the reduction's tensors stand among an axis's."""
        first = C + 1 + len(super().others())
        return slice(first, first + len(self.shape.strides))

    def others(self) -> list[Mapping[int, Size]]:
        """With the strides of the reduction's tensors behind."""
        return [*super().others(), *(dict(zip(self.out, tensor, strict=True)) for tensor in self.shape.strides)]

    def axes(self, a: Operand, b: Operand, groups: Groups) -> ProductAxes:
        self.found = super().axes(a, b, groups)
        return self.found

    def reduce(self, b: Builder, sizes: SizeValues, given: Sequence[Value], batch: Sequence[Value], first: Value, end: Value) -> None:
        points, start = self.shape.points(b, given, sizes)

        def of_reduction(axis: Axis) -> Axis:
            return Axis(axis.size, axis.strides[self.own])

        offsets: Offsets = start
        for index, axis in zip(batch, self.found.batch, strict=True):
            strides = (sizes.of(b, stride) for stride in axis.strides[self.own])
            offsets = tuple(step(b, offset, index, stride) for offset, stride in zip(offsets, strides, strict=True))
        rows, columns = of_reduction(self.found.rows), of_reduction(self.found.columns)
        emit_kept_rows(points, [rows], [columns], offsets, Part(first, end, 0))
