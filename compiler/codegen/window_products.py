"""Contractions of windows, and in front of folds (ops/window_products.py): the product's kernel with the windows of one example in scratch.

Where an example is a place of the result, the loop over examples is the outermost around the product: windows are made before each turn, or
folded behind it. Where examples are summed over, as in the gradient of a weight, each is a run of the summed places.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from llvmlite import ir

from shapescript.compiler.codegen import extents
from shapescript.compiler.codegen.emit import PTR, Builder, Value, at
from shapescript.compiler.codegen.fold import emit_fold
from shapescript.compiler.codegen.in_scratch import InScratch
from shapescript.compiler.codegen.lowering import MEMORY_TYPES, Lowering, lowers
from shapescript.compiler.codegen.nests import Axis
from shapescript.compiler.codegen.product_axes import A, B, C, Groups, Operand, ProductAxes, product_axes
from shapescript.compiler.codegen.products import Product
from shapescript.compiler.codegen.sizes import SizeValues
from shapescript.compiler.codegen.window_shape import refuse_far_steps, shape_of
from shapescript.compiler.codegen.windows import emit_windows, fill_of
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.nodes import Block, Op
from shapescript.compiler.ir.sizes import ZERO, Size, number, product
from shapescript.compiler.ir.types import TensorType
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.ops.window_products import contraction_op, fold_op, windows_op


@lowers("windows_contraction")
def _windows_contraction(low: Lowering, op: Op) -> None:
    refuse_far_steps(low, op)
    _OfWindows(low, op).lower()


@lowers("contraction_fold")
def _contraction_fold(low: Lowering, op: Op) -> None:
    refuse_far_steps(low, op)
    _Folded(low, op).lower()


class _ByExample(Product):
    """A product that has one place of the axis `example` of an operand or the result in scratch at a time."""

    def __init__(self, low: Lowering, op: Op, example: int) -> None:
        self.example = example
        self.contraction = contraction_op(op)
        element = nodes.Value(TensorType(result_type(op.operands[0]).element))
        region = op.regions[0] if op.regions else Block((element,), (), (element,))
        super().__init__(low, op, region, op.operands[2:], tuple(map(tuple, op.attributes.get("maps", ()))))

    def operand_axes(self) -> list[Sequence[Size]]:
        return [result_type(operand).axes for operand in self.contraction.operands[:2]]

    def groups(self) -> Groups:
        found = super().groups()
        if self.example in found.summed:
            return found
        batch, rows, columns = (
            tuple(letter for letter in letters if letter != self.example) for letters in (found.batch, found.rows, found.columns)
        )
        return Groups(batch, rows, columns, found.summed, found.swapped)

    def outermost(self, axes: ProductAxes, strides: Sequence[Size]) -> ProductAxes:
        """With the loop over examples around all."""
        return replace(axes, batch=(Axis(self.sizes[self.example], tuple(strides)), *axes.batch))

    def strides(self, a: Operand, b: Operand) -> list[Size]:
        """Of all tensors from one example to the next."""
        tensors = [a.strides(self.sizes), b.strides(self.sizes), Operand(self.out).strides(self.sizes), *self.others()]
        return [tensor.get(self.example, ZERO) for tensor in tensors]

    def part_of(self, axes: Sequence[Size], element: TensorType) -> Size:
        """Bytes of an example."""
        return self.names.name(product(axes[1:]) * number(element.element.bytes))


class _OfWindows(_ByExample):
    def __init__(self, low: Lowering, op: Op) -> None:
        self.side: int = op.attributes["side"]
        super().__init__(low, op, op.attributes[("left", "right")[self.side]][0])

    def operand(self, place: int, groups: Groups, in_place: bool, scratches: ExitStack) -> tuple[Operand, Value]:
        if place == self.side:
            return Operand((self.left, self.right)[place]), ir.Constant(PTR, None)
        return super().operand(place, groups, in_place, scratches)

    def axes(self, a: Operand, b: Operand, groups: Groups) -> ProductAxes:
        place = A if (self.side == 0) != groups.swapped else B
        is_run = self.example in groups.summed
        self.part = self._windows(place, is_run)
        strides = self.strides(a, b)
        strides[place] = ZERO
        if not is_run:
            return self.outermost(product_axes(a, b, Operand(self.out), self.others(), groups, self.sizes), strides)
        inner = replace(groups, summed=groups.summed[1:])
        found = product_axes(a, b, Operand(self.out), self.others(), inner, self.sizes)
        return replace(found, runs=Axis(self.sizes[self.example], tuple(strides)))

    def _windows(self, place: int, is_run: bool) -> InScratch:
        windows, low = windows_op(self.op), self.low
        (x,) = windows.operands
        shape = shape_of(_of_one(windows), _one(x), _one(windows.result), self.names)
        kind, fill = result_type(x), fill_of(windows)
        step, element = self.names.name(product(kind.axes[1:])), MEMORY_TYPES[kind.element]

        def make(b: Builder, sizes: SizeValues, tensor: Value, scratch: Value, example: Value) -> None:
            source = at(b, tensor, extents.times(b, example, sizes.of(b, step)), element)
            emit_windows(b, sizes, shape, source, scratch, fill)

        return InScratch(place, is_run, self.part_of(self.op.attributes["axes"], kind), low.pointer(x), make, ("windows", shape, str(fill)))


class _Folded(_ByExample):
    def __init__(self, low: Lowering, op: Op) -> None:
        super().__init__(low, op, op.attributes["out"][0])

    def axes(self, a: Operand, b: Operand, groups: Groups) -> ProductAxes:
        self.part = self._fold()
        strides = self.strides(a, b)
        strides[C] = ZERO
        return self.outermost(super().axes(a, b, groups), strides)

    def _fold(self) -> InScratch:
        fold = fold_op(self.op)
        (x,), result = fold.operands, fold.result
        shape = shape_of(_of_one(fold), _one(result), _one(x), self.names)
        kind = result_type(result)
        count, element = self.names.name(product(kind.axes[1:])), MEMORY_TYPES[kind.element]

        def add(b: Builder, sizes: SizeValues, tensor: Value, scratch: Value, example: Value) -> None:
            target = at(b, tensor, extents.times(b, example, sizes.of(b, count)), element)
            emit_fold(b, sizes, shape, count, scratch, target)

        pointer = self.low.pointer(result)
        return InScratch(C, False, self.part_of(result_type(x).axes, kind), pointer, add, ("fold", shape, count))


def _of_one(op: Op) -> Op:
    """The operation for one example."""
    attributes = {**op.attributes, "positions": tuple(place - 1 for place in op.attributes["positions"])}
    return Op(op.name, op.operands, attributes, op.results, (), op.span)


def _one(value: nodes.Value) -> nodes.Value:
    kind = result_type(value)
    return nodes.Value(TensorType(kind.element, kind.axes[1:]))
