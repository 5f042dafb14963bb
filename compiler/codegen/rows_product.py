"""Rows of a product, reduced and read by one more product (ops/rows_product.py): a block of rows lies in scratch from the first product to
the second.

Where a mask has filled the ends of all rows of a block, and their elements there have become zeros, the second product leaves them out.
Zeros change no chain of fused multiply-adds but one that stands at -0.0, and where they meet what is no finite number: this is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from llvmlite import ir

from shapescript.compiler.codegen import emit
from shapescript.compiler.codegen.behind_rows import BehindRows
from shapescript.compiler.codegen.contraction import emit_contraction, scratch_bytes
from shapescript.compiler.codegen.contraction_plan import Contraction, Plan, plan_contraction
from shapescript.compiler.codegen.emit import I8, I64, PTR, Builder, Value, at
from shapescript.compiler.codegen.fused_points import WHOLE
from shapescript.compiler.codegen.fused_reductions import refuse_nothing
from shapescript.compiler.codegen.lowering import MEMORY_TYPES, Lowering, lowers
from shapescript.compiler.codegen.memory import ALIGNMENT
from shapescript.compiler.codegen.nests import Axis, dense_strides, step
from shapescript.compiler.codegen.product_axes import C, Groups, Operand, ProductAxes
from shapescript.compiler.codegen.product_kernel import PICOSECONDS_A_VECTOR
from shapescript.compiler.codegen.reduced_contraction import Reduced
from shapescript.compiler.codegen.sizes import SizeValues
from shapescript.compiler.codegen.zeros import are_finite, are_zeros, has_minus_zero
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.sizes import ONE, ZERO, Size
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.ops.reduced_contraction import reduction_op
from shapescript.compiler.ops.rows_product import last_op, reduced_op
from shapescript.compiler.ops.shapes import LETTERS


@lowers("rows_product")
def _rows_product(low: Lowering, op: Op) -> None:
    reduced = reduced_op(op)
    refuse_nothing(low, reduction_op(reduced))
    _RowsProduct(low, op, reduced).lower()


class _RowsProduct(Reduced):
    """`other` is the last product's operand beside the rows, `mixed` its result."""

    def __init__(self, low: Lowering, op: Op, reduced: Op) -> None:
        self.rows = reduced.results[op.attributes["rows"]]
        self.other, self.mixed = op.operands[-1], op.results[0]
        self.last = last_op(op, self.rows)
        self.is_left: bool = op.attributes["is_left"]
        super().__init__(low, reduced)
        length, width = (result_type(value).axes[-1].constant() for value in (self.rows, self.mixed))
        assert length is not None and width is not None, "known, see the pass"
        self.length, self.width = length, width
        self.element = MEMORY_TYPES[result_type(self.rows).element]
        assert self.behind is not None
        reads, key = self.behind.arguments, (self.behind.key, self._letters(), width)
        self.count = len(reads)
        work = self.shape.work + width * PICOSECONDS_A_VECTOR // low.target.lanes
        self.behind = BehindRows((*reads, low.pointer(self.other), low.pointer(self.mixed)), work, self._behind, key, self._scratch)

    def pointer(self, value: nodes.Value) -> Value:
        return ir.Constant(PTR, None) if value is self.home else self.low.pointer(value)

    def is_stored(self, result: nodes.Value) -> bool:
        return result is self.home or super().is_stored(result)

    # ---- strides

    def _letters(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The letters of the other operand and the result, those of the rows by the first product's."""
        left, right, out = (self.last.attributes[name] for name in LETTERS)
        own, other = (left, right) if self.is_left else (right, left)
        names = dict(zip(own, self.out, strict=True))
        columns = 1 + max(*self.left, *self.right)
        return tuple(names.get(letter, columns) for letter in other), tuple(names.get(letter, columns) for letter in out)

    def others(self) -> list[Mapping[int, Size]]:
        """With the strides of the other operand and of the result behind."""
        pairs = zip(self._letters(), (self.other, self.mixed), strict=True)
        strides = ((letters, dense_strides(self.names.names(result_type(value).axes))) for letters, value in pairs)
        found = [dict(zip(letters, own, strict=True)) for letters, own in strides]
        return [*super().others(), *({letter: own.get(letter, ZERO) for letter in self.out} for own in found)]

    def axes(self, a: Operand, b: Operand, groups: Groups) -> ProductAxes:
        """The rows lie in scratch, one block of one turn of the loops around."""
        found = super().axes(a, b, groups)
        first = self.own.start
        places = (C, first + WHOLE, first + self._home_stride())

        def with_(axis: Axis, stride: Size) -> Axis:
            return Axis(axis.size, tuple(stride if place in places else own for place, own in enumerate(axis.strides)))

        length = self.sizes[self.out[-1]]
        batch = tuple(with_(axis, ZERO) for axis in found.batch)
        self.found = replace(found, batch=batch, rows=with_(found.rows, length), columns=with_(found.columns, ONE))
        return self.found

    def _home_operand(self) -> int:
        """Which of the reduction's operands with axes the rows are."""
        return next(place for place, (value, _) in enumerate(self.shape.varying) if value is self._parameter)

    @property
    def _parameter(self) -> nodes.Value:
        return self.shape.op.regions[0].parameters[self.place]

    def _home_stride(self) -> int:
        return 2 + len(self.shape.indexed) + self._home_operand()

    # ---- scratch: the block, then what the last product needs

    def _block_bytes(self, rows: int) -> int:
        return -(-rows * self.length * emit.element_bytes(self.element) // ALIGNMENT) * ALIGNMENT

    def _scratch(self, rows: int) -> int:
        self.block_bytes = self._block_bytes(rows)
        needed = scratch_bytes(self.low.target, self._contraction(rows, self.length, I64(0), I64(0)), plan=self._plan())
        assert isinstance(needed, int)
        return self.block_bytes + -(-needed // ALIGNMENT) * ALIGNMENT

    # ---- behind a block

    def _contraction(self, rows: emit.Size, steps: emit.Size, other_step: emit.Size, mixed_step: emit.Size) -> Contraction:
        return Contraction(self.element, rows, self.width, steps, self.length, 1, other_step, 1, mixed_step)

    def _plan(self) -> Plan:
        """For any number of rows and steps."""
        return plan_contraction(self.low.target, self._contraction(I64(0), I64(0), I64(0), I64(0)))

    def _behind(self, b: Builder, sizes: SizeValues, given: Sequence[Value], batch: Sequence[Value], first: Value, end: Value) -> None:
        """given: the scratch, what the reduction reads and writes, the last product's operand and result."""
        near, *read = given
        reduced, (other, mixed) = read[: self.count], read[self.count : self.count + 2]
        block = at(b, near, b.neg(b.mul(first, I64(self.length))), self.element)
        reduced[self._home_operand()] = reduced[len(self.shape.varying) + self.shape.op.results.index(self.rows)] = block
        self.reduce(b, sizes, reduced, batch, first, end)

        rows, columns = self.found.rows, self.found.columns
        other = at(b, other, self._offset(b, sizes, batch, -2), self.element)
        mixed = at(b, mixed, step(b, self._offset(b, sizes, batch, -1), first, sizes.of(b, rows.strides[-1])), self.element)
        other_step, mixed_step = (emit.size(sizes.of(b, stride)) for stride in (columns.strides[-2], rows.strides[-1]))
        count, plan, scratch = b.sub(end, first), self._plan(), at(b, near, self.block_bytes, I8)

        def product(steps: Value) -> None:
            contraction = self._contraction(count, steps, other_step, mixed_step)
            emit_contraction(b, self.low.target, contraction, near, other, mixed, scratch, plan=plan)

        tail = self.shape.tail
        if tail is None:
            product(I64(self.length))
            return
        place = self.own.start + 2 + self.shape.indexed.index(tail.where.less)
        last = step(b, self._offset(b, sizes, batch, place), b.sub(end, I64(1)), sizes.of(b, rows.strides[place]))
        start = emit.size(tail.start(b, last, self.length))
        ends = at(b, near, self.length - 1, self.element)
        is_left_out = b.and_(are_zeros(b, self.element, ends, count, self.length), b.icmp_signed("<", start, I64(self.length)))
        rest = at(b, other, b.mul(start, other_step), self.element)
        is_left_out = b.and_(is_left_out, are_finite(b, self.element, rest, b.sub(I64(self.length), start), other_step, self.width))
        product(b.select(is_left_out, start, I64(self.length)))
        with b.if_then(is_left_out), b.if_then(has_minus_zero(b, self.element, mixed, count, mixed_step, self.width), likely=False):
            product(I64(self.length))

    def _offset(self, b: Builder, sizes: SizeValues, batch: Sequence[Value], tensor: int) -> emit.Size:
        """Of the turn of the loops around."""
        offset: emit.Size = 0
        for index, axis in zip(batch, self.found.batch, strict=True):
            offset = step(b, offset, index, sizes.of(b, axis.strides[tensor]))
        return offset
