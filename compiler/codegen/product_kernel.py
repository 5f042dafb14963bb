"""One contraction of the program as a kernel that threads share out: the tiled product with what is done before, in and behind it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.behind_rows import BehindRows, rows_of_a_block
from shapescript.compiler.codegen.context import Word, load_word
from shapescript.compiler.codegen.contraction import (
    AfterRows,
    BatchAxis,
    BeforeRun,
    Epilogue,
    emit_contraction,
    scratch_bytes,
)
from shapescript.compiler.codegen.contraction_plan import Contraction, Plan, plan_contraction
from shapescript.compiler.codegen.contraction_shares import cut_units, cuts_rows, share_of
from shapescript.compiler.codegen.contraction_zeros import LeftZeros
from shapescript.compiler.codegen.elements import is_short
from shapescript.compiler.codegen.emit import Builder, Value
from shapescript.compiler.codegen.epilogues import RegionEpilogue
from shapescript.compiler.codegen.in_scratch import InScratch
from shapescript.compiler.codegen.lowering import Lowering
from shapescript.compiler.codegen.memory import ALIGNMENT
from shapescript.compiler.codegen.nests import unless_empty, where_any
from shapescript.compiler.codegen.product_axes import A, B, C, ProductAxes
from shapescript.compiler.codegen.split import Part, shares_of, split
from shapescript.compiler.ir.sizes import ONE, Size
from shapescript.compiler.records.dataclass import dataclass

PICOSECONDS_A_VECTOR = 320  # of fused multiply-adds, with what goes with them

Evaluate = Callable[[Size], emit.Size]


@dataclass(frozen=True)
class ProductKernel:
    """`element` is that of the operands. Axes, sizes and the other parts are by the names of the kernel's arguments."""

    low: Lowering
    element: emit.ElementType
    axes: ProductAxes
    epilogue: RegionEpilogue
    part: InScratch | None
    behind: BehindRows | None
    zeros: LeftZeros | None = None

    def call(self, a: Value, right: Value, captured: Sequence[Value], key: Hashable) -> None:
        """captured: what the epilogue captures, but the sizes."""
        low, b, names = self.low, self.low.b, self.epilogue.names

        def at_call(size: Size) -> emit.Size:
            return low.size(names.original(size))

        tensor, arguments = [self.part.tensor] if self.part else [], self.behind.arguments if self.behind else ()
        looks = self.zeros.captured if self.zeros else ()
        captured = [*captured, *tensor, *arguments, *looks, *(emit.size(low.size(size)) for size in names.run_time)]
        contraction, batch = self._contraction(at_call), self._batch(at_call)
        plan = self._plan(contraction)
        room = self._room(plan)
        by_rows: emit.Size = 1
        if not self.behind and not batch:
            by_rows = cuts_rows(b, plan, contraction, load_word(b, low.context, Word.THREADS))
        units = batch[0].size if batch else cut_units(b, plan, contraction, by_rows)
        shares = shares_of(low, units, self._work(contraction, batch))
        needed = scratch_bytes(low.target, contraction, b, epilogue=self._epilogue(()), plan=plan)
        if not isinstance(needed, int):
            needed = unless_empty(b, _axes(contraction, batch), needed)
        bytes_each = extents.plus(b, extents.round_up(b, needed, ALIGNMENT), self.part.rounded_bytes(b, at_call) if self.part else 0)
        bytes_each = extents.plus(b, bytes_each, room)

        def share(b: Builder, given: Sequence[Value], units: Part) -> None:
            self._emit_share(b, plan, given, units)

        with low.scratch(extents.times(b, shares, bytes_each)) as scratch:
            zeros = self.zeros and (self.zeros.are_behind, self.zeros.shift)
            whole_key = (key, zeros, self.part and self.part.key, self.behind and self.behind.key)
            given = [a, right, scratch, emit.size(bytes_each), emit.size(by_rows), *captured]
            split(low, "product", whole_key, given, units, shares, share)

    def _emit_share(self, b: Builder, plan: Plan, given: Sequence[Value], units: Part) -> None:
        """Those units: of the batch's outermost loop, or where there is none of rows or panels. given: A, B, scratch, a share's bytes of
        it, whether units are rows, and what is captured, which C comes first of."""
        left, right, scratch, bytes_each, by_rows, *captured = given
        names = self.epilogue.names
        values, many = names.values(captured), len(names.run_time)

        def here(size: Size) -> emit.Size:
            return values.of(b, size)

        contraction, batch = self._contraction(here), self._batch(here)
        own = emit.at(b, scratch, extents.times(b, units.share, bytes_each), emit.I8)
        share, before_run, after_rows = None, None, None
        if batch:
            batch[0] = replace(batch[0], low=units.low, size=units.high)
        else:
            share = share_of(b, plan, contraction, by_rows, units.low, units.high)
        if part := self.part:
            places, sizes = [left, right, captured[0]], captured[len(captured) - many :]
            tensor, places[part.place] = captured[len(captured) - many - 1], own
            left, right, captured[0] = places
            if part.is_run:
                before_run = BeforeRun(self._before_run, (tensor, own, *sizes))
            else:
                batch[0] = replace(batch[0], around=part.around(values, tensor, own))
            own = emit.at(b, own, part.rounded_bytes(b, here), emit.I8)
        if self.behind:
            read = self.behind.captured(captured, many)
            if self.behind.scratch:
                captured[0], read = own, (own, *read)
                own = emit.at(b, own, self._room(plan), emit.I8)
            after_rows = AfterRows(self._after_rows, read, self.behind.scratch is not None)

        def product() -> None:
            emit_contraction(
                b,
                self.low.target,
                contraction,
                left,
                right,
                captured[0],
                own,
                epilogue=self._epilogue(tuple(captured)),
                plan=plan,
                share=share,
                batch=batch,
                before_run=before_run,
                after_rows=after_rows,
                zeros=self._left_zeros(captured),
            )

        if self.part or self.behind:  # which have something to do where the product has no elements, too
            product()
        else:
            where_any(b, _axes(contraction, batch), product)

    def _before_run(self, b: Builder, given: Sequence[Value], number: Value) -> None:
        """given: the tensor, the scratch, the run-time sizes."""
        assert self.part is not None
        self.part.move(b, self.epilogue.names.values(given), given[0], given[1], number)

    def _after_rows(self, b: Builder, given: Sequence[Value], batch: Sequence[Value], first: Value, end: Value) -> None:
        """given: what `behind` reads, the run-time sizes."""
        assert self.behind is not None
        self.behind.emit(b, self.epilogue.names.values(given), given, batch, first, end)

    def _epilogue(self, captured: tuple[Value, ...]) -> Epilogue | None:
        found = self.epilogue
        if found.is_plain:
            return None
        return Epilogue(found.emit_vector, captured, is_short(found.region), not found.returns_first, found.skips())

    def _contraction(self, value: Evaluate) -> Contraction:
        rows, columns, summed, runs = self.axes.rows, self.axes.columns, self.axes.summed, self.axes.runs
        strides = (rows.strides[A], summed.strides[A], summed.strides[B], columns.strides[B], rows.strides[C])
        a_row, a_k, b_k, b_column, c_row = (value(stride) for stride in strides)
        sizes = value(rows.size), value(columns.size), value(runs.size * summed.size)
        found = Contraction(self.element, *sizes, a_row, a_k, b_k, b_column, c_row)
        if runs.size == ONE:
            return found
        return replace(found, run=value(summed.size), a_run=value(runs.strides[A]), b_run=value(runs.strides[B]))

    def _batch(self, value: Evaluate) -> list[BatchAxis]:
        strides = ([value(axis.strides[place]) for place in (A, B, C)] for axis in self.axes.batch)
        return [BatchAxis(value(axis.size), a, b, c) for axis, (a, b, c) in zip(self.axes.batch, strides, strict=True)]

    def _plan(self, contraction: Contraction) -> Plan:
        plan = plan_contraction(self.low.target, contraction)
        if self.part and self.part.is_run:  # all panels read a run's part while it is there
            plan = replace(plan, steps_first=True)
        return replace(plan, row_block=rows_of_a_block(plan, contraction)) if self.behind else plan

    def _left_zeros(self, captured: Sequence[Value]) -> LeftZeros | None:
        """Of a plain product, in front of whose sizes the look at B is captured."""
        return replace(self.zeros, may_go=captured[-1 - len(self.epilogue.names.run_time)]) if self.zeros else None

    def _room(self, plan: Plan) -> int:
        """Bytes of a share's scratch that what is done behind a block of rows takes."""
        return self.behind.scratch(plan.row_block) if self.behind and self.behind.scratch else 0

    def _work(self, contraction: Contraction, batch: Sequence[BatchAxis]) -> emit.Size:
        """Picoseconds that the product takes one core, about."""
        b, a_step = self.low.b, PICOSECONDS_A_VECTOR // self.low.target.lanes
        work = extents.plus(b, extents.times(b, contraction.k, a_step), self.behind.work if self.behind else 0)
        for count in _axes(contraction, batch):
            work = extents.times(b, work, count)
        return work


def _axes(contraction: Contraction, batch: Sequence[BatchAxis]) -> list[emit.Size]:
    """Of the result."""
    return [contraction.m, contraction.n, *(axis.size for axis in batch)]
