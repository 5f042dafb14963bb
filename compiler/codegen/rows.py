"""Cross entropy (ops/classification.py): each row's loss and probabilities in one walk over the logits, then the mean."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from shapescript.compiler.codegen import emit, extents, scalars
from shapescript.compiler.codegen.elements import expression
from shapescript.compiler.codegen.emit import I64, LANES, PTR, Builder, ElementType, Value, at, load, splat, store
from shapescript.compiler.codegen.indexing import ALL_GOOD, first_outside, load_inside
from shapescript.compiler.codegen.leaf_updates import each_vector
from shapescript.compiler.codegen.lowering import MEMORY_TYPES, Lowering, Site, lowers
from shapescript.compiler.codegen.nests import SizeArguments
from shapescript.compiler.codegen.reductions import Reduction, reduce_run
from shapescript.compiler.codegen.split import Part, shares_of, split
from shapescript.compiler.ir.nodes import Op
from shapescript.compiler.ir.sizes import product
from shapescript.compiler.ir.types import Element
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.records.dataclass import dataclass

LOSS_BYTES = 64  # of scratch: the loss, and the label where it is a number
PICOSECONDS_A_LOGIT = 600


@lowers("cross_entropy")
def _cross_entropy(low: Lowering, op: Op) -> None:
    b = low.b
    logits, labels = op.operands
    loss, probabilities = op.results
    kind = result_type(logits)
    classes, rows = kind.axes[-1], product(kind.axes[:-1])
    names = SizeArguments()
    count, width, element = names.name(rows), names.name(classes), kind.element
    shape = _Rows(element, low.has_place(probabilities))
    bytes_needed = extents.times(b, extents.round_up(b, low.size(rows), LANES), 2 * element.bytes)
    label_pointer = low.pointer(labels) if kind.rank > 1 else None
    with low.scratch(extents.plus(b, bytes_needed, LOSS_BYTES)) as scratch:
        if label_pointer is None:  # one row: its label is a number
            label_pointer = at(b, scratch, 8, emit.I8)
            store(b, low.number(labels), label_pointer)
        arguments = [
            low.pointer(logits),
            label_pointer,
            low.pointer(probabilities) if shape.keeps else ir.Constant(PTR, None),
            scratch,
            *(emit.size(low.size(size)) for size in names.run_time),
        ]

        def outside(b: Builder, given: Sequence[Value]) -> Value:
            sizes = names.values(given)
            return first_outside(b, given[1], sizes.of(b, count), sizes.of(b, width))

        def each_row(b: Builder, given: Sequence[Value], part: Part) -> None:
            sizes = names.values(given)
            shape.rows(b, given[:4], sizes.of(b, count), sizes.of(b, width), part)

        def mean(b: Builder, given: Sequence[Value]) -> None:
            shape.mean(b, given[3], names.values(given).of(b, count))

        key, many, wide = (shape, count, width), emit.size(low.size(rows)), emit.size(low.size(classes))
        bad = low.shared("labels_outside", key, arguments, outside, I64)
        found = b.icmp_signed("!=", bad, I64(ALL_GOOD))
        label = load(b, b.select(found, at(b, label_pointer, bad, I64), scratch), I64)
        low.fail_if(found, Site("label", op), [bad, label, wide])
        low.fail_if(b.icmp_signed("==", many, I64(0)), Site("reduction of nothing", op))
        work = extents.times(b, extents.times(b, many, wide), PICOSECONDS_A_LOGIT)
        split(low, "cross_entropy", key, arguments, many, shares_of(low, many, work), each_row)
        low.shared("cross_entropy_mean", key, arguments, mean)
        low.define(loss, low.load_number(scratch, element))


class Greatest(Reduction):
    """max whose zeros' signs don't matter, since only differences to it are used."""

    def combine(self, b: Builder, x: Value, y: Value) -> Value:
        return b.select(b.or_(b.fcmp_ordered(">", x, y), b.fcmp_unordered("uno", x, x)), x, y)


@dataclass(frozen=True)
class _Rows:
    """The shared functions. `keeps`: whether probabilities are wanted. Scratch: the loss, then each row's sum and its gap to the top."""

    element: Element
    keeps: bool

    @property
    def kind(self) -> ElementType:
        return MEMORY_TYPES[self.element]

    def rows(self, b: Builder, tensors: Sequence[Value], rows: emit.Size, classes: emit.Size, part: Part) -> None:
        """tensors: the addresses of logits, labels, probabilities and scratch."""
        logits, labels, probabilities, scratch = tensors
        sums, gaps = self._room(b, scratch, rows)

        def row(r: Value, _: Sequence[Value]) -> None:
            start = extents.times(b, r, classes)
            line, shares = (at(b, tensor, start, self.kind) for tensor in (logits, probabilities))
            total, gap = self._row(b, line, load_inside(b, labels, r, classes), shares, classes)
            store(b, total, at(b, sums, r, self.kind))
            store(b, gap, at(b, gaps, r, self.kind))

        emit.loop(b, part.low, part.high, 1, row)

    def _room(self, b: Builder, scratch: Value, rows: emit.Size) -> tuple[Value, Value]:
        """Where the rows' sums and gaps lie."""
        sums = at(b, scratch, LOSS_BYTES, emit.I8)
        return sums, at(b, sums, extents.round_up(b, rows, LANES), self.kind)

    def mean(self, b: Builder, scratch: Value, rows: emit.Size) -> None:
        """The loss, from what the rows have left."""
        sums, gaps = self._room(b, scratch, rows)

        def losses(b: Builder, i: Value, mask: Value | None) -> list[Value]:
            total, gap = (load(b, at(b, values, i, self.kind), self.kind, LANES, mask) for values in (sums, gaps))
            return [b.fsub(scalars.emit(b, expression("log", (self.element,)), [total]), gap)]

        (total,) = reduce_run(b, [Reduction("sum", self.kind)], rows, losses)
        store(b, b.fdiv(total, b.sitofp(emit.size(rows), self.kind)), scratch)

    def _row(self, b: Builder, line: Value, label: Value, probabilities: Value, classes: emit.Size) -> tuple[Value, Value]:
        """A row's sum of exponentials, and its label's logit less the greatest one."""
        chosen = load(b, at(b, line, label, self.kind), self.kind)
        (top,) = reduce_run(
            b, [Greatest("max", self.kind)], classes, lambda b, i, mask: [load(b, at(b, line, i, self.kind), self.kind, LANES, mask)]
        )
        tops = splat(b, top, LANES)
        in_registers = isinstance(classes, int) and classes < LANES
        last: list[Value] = []

        def powers(b: Builder, i: Value, mask: Value | None) -> list[Value]:
            gap = b.fsub(load(b, at(b, line, i, self.kind), self.kind, LANES, mask), tops)
            power = scalars.emit(b, expression("exp", (self.element,)), [gap])
            last.append(power)
            if self.keeps and not in_registers:
                store(b, power, at(b, probabilities, i, self.kind), mask)
            return [power]

        (total,) = reduce_run(b, [Reduction("sum", self.kind)], classes, powers)
        if self.keeps:
            totals = splat(b, total, LANES)

            def share(i: Value, mask: Value | None) -> None:
                here = at(b, probabilities, i, self.kind)
                power = last[0] if in_registers else load(b, here, self.kind, LANES, mask)
                store(b, b.fdiv(power, totals), here, mask)

            each_vector(b, classes, share)
        return total, b.fsub(chosen, top)
