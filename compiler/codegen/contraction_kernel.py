"""A product's kernel while it is built: its numbers as that function sees them, and the parts that its loops go through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.contraction_plan import Contraction, Plan
from shapescript.compiler.codegen.contraction_zeros import LeftZeros
from shapescript.compiler.codegen.emit import I64, Builder, Size, Value, at, vector_of
from shapescript.compiler.codegen.target import Target
from shapescript.compiler.records.dataclass import dataclass


@dataclass(frozen=True)
class Place:
    """Where a finished vector lies: C(row, column), C(row, column + 1), ..., in the batch of those indices.

    row, column, batch are I64 values. mask: the valid lanes, None for all. The vector has as many lanes as the target for the element
    (64-bit elements half as many as f32).
    """

    row: Value
    column: Value
    mask: Value | None
    batch: tuple[Value, ...]


@dataclass(frozen=True)
class Kernel:
    """A kernel being built: its numbers, as that function sees them, and its arguments."""

    target: Target
    plan: Plan
    contraction: Contraction
    a: Value
    right: Value
    c: Value
    row_low: Value
    row_high: Value
    epilogue: Callable[[Builder, Sequence[Value], Value, Place], Value | None] | None = None
    batch: tuple[Value, ...] = ()
    captured: tuple[Value, ...] = ()
    before_run: Callable[[Builder, Value], None] | None = None
    stores: bool = True  # to C, by itself
    after_rows: Callable[[Builder, Value, Value], None] | None = None
    skips: Callable[[Builder, Sequence[Value], Place, Place], Value] | None = None
    has_block: bool = False  # C, of the block of rows that is made
    zeros: LeftZeros | None = None

    def along(self, b: Builder, k: Size, step: Size, run: Size) -> Size:
        """How far step k of an operand lies from its first, given how far steps and runs are apart."""
        shape = self.contraction
        if not shape.has_runs or (isinstance(k, int) and k == 0):
            return extents.times(b, k, step)
        length = emit.size(extents.most(b, shape.run, 1))
        whole = b.udiv(emit.size(k), length)
        return extents.plus(b, extents.times(b, whole, run), extents.times(b, b.sub(emit.size(k), b.mul(whole, length)), step))

    @property
    def takes_all_steps(self) -> bool:
        """Whether no tile leaves out any."""
        return self.zeros is None and self.skips is None

    @property
    def vector(self) -> Any:
        return vector_of(self.contraction.element, self.plan.lanes)


@dataclass(frozen=True)
class Panel:
    """Adjacent columns: the first one, how many vectors, and how many columns are valid (None: all)."""

    column: Size
    vectors: int
    valid: Size | None

    def masks(self, b: Builder, lanes: int) -> list[Value | None]:
        if self.valid is None:
            return [None] * self.vectors
        return [emit.lane_mask(b, extents.minus(b, self.valid, v * lanes), lanes) for v in range(self.vectors)]


@dataclass(frozen=True)
class Sums:
    """Running sums in memory: of one panel, or of all panels from `first_column` on, one behind the other; rows by columns each.

    elements: how many there are; earlier blocks' sums follow in buffers of as many.
    """

    pointer: Value
    elements: Value
    first_column: Value | None

    def row(self, b: Builder, kernel: Kernel, panel: Panel, row: Value) -> Value:
        """Where the sums of a panel's row begin."""
        width = panel.vectors * kernel.plan.lanes
        place = b.mul(b.sub(row, kernel.row_low), I64(width))
        if self.first_column is not None:
            columns = b.sub(emit.size(panel.column), self.first_column)
            place = b.add(place, b.mul(columns, b.sub(kernel.row_high, kernel.row_low)))
        return at(b, self.pointer, place, kernel.contraction.element)


@dataclass(frozen=True)
class PackedLeft:
    """Tiles of A for the steps from k_start on, `depth` of them."""

    pointer: Value
    k_start: Size
    depth: Size

    def rows(self, b: Builder, kernel: Kernel, i: Value, k: Size) -> Value:
        """Where step k of row i begins: in its whole tile, a lesser tile of the last rows too."""
        row, tile = b.sub(i, kernel.row_low), kernel.plan.rows
        start = b.mul(b.and_(row, I64(-tile)), emit.size(self.depth))
        place = b.add(b.add(start, b.and_(row, I64(tile - 1))), emit.size(extents.times(b, extents.minus(b, k, self.k_start), tile)))
        return at(b, self.pointer, place, kernel.contraction.element)


@dataclass(frozen=True)
class Step:
    """A stage's part of k; first and last as in Stage."""

    start: Size
    depth: Size
    first: Value | None
    last: Value | bool


@dataclass(frozen=True)
class Coming:
    """The next stage's rows of its whole panel: where the first lies, where it is copied to, and how many there are (0 too)."""

    source: Value
    target: Value
    rows: Value


@dataclass(frozen=True)
class Stage:
    """Steps k_start to k_start + depth of a panel's product, within one run.

    right: the panel's row k_start, from row to row right_stride. left: A's packed tiles, where A is packed. first: whether sums begin at
    +0.0, None for always; else they go on from `sums`. last: whether sums are finished in registers (True, False, or known at run time);
    else they go to `sums`. unpacked: the panel's row k_start where it lies, whether or not B is packed. coming: what is copied meanwhile.
    """

    right: Value
    right_stride: Size
    unpacked: Value
    left: PackedLeft | None
    k_start: Size
    depth: Size
    first: Value | None
    last: Value | bool
    sums: Sums
    coming: Coming | None = None
