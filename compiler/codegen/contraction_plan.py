"""How a product is computed: its sizes and strides, and the tile, packing and block of k chosen from them, as data."""

from __future__ import annotations

from dataclasses import fields, replace
from enum import Enum

from shapescript.compiler.codegen.emit import BLOCK, F32, ElementType, Size, Value, element_bytes
from shapescript.compiler.codegen.target import Target
from shapescript.compiler.records.dataclass import dataclass


@dataclass(frozen=True)
class Contraction:
    """C(i, j) = sum over ascending k of A(i, k) B(k, j), for i < m, j < n, k < k; all sizes and strides in elements.

    Every number is a Python int, baked into the code, or an I64 value of the calling function. A(i, k) lies at a[i * a_row + k * a_k],
    B(k, j) at right[k * b_k + j * b_column], C(i, j) at c[i * c_row + j]. Strides may be 0 (broadcast); a stride along an axis of static
    size 0 or 1 is not used. element: F32, F64 or I64 (which wraps).
    run: above 0, the steps of k are in runs of so many: from one run to the next A and B move by a_run and b_run, within it by a_k and b_k.
    """

    element: ElementType
    m: Size
    n: Size
    k: Size
    a_row: Size
    a_k: Size
    b_k: Size
    b_column: Size
    c_row: Size
    run: Size = 0
    a_run: Size = 0
    b_run: Size = 0

    @property
    def has_runs(self) -> bool:
        return not (isinstance(self.run, int) and self.run == 0)

    def normalised(self) -> Contraction:
        """The same product with the strides of axes of one element, which don't matter, made those that cost least."""
        changed = self
        if changed.m == 1:
            changed = replace(changed, a_row=0, c_row=0)
        if changed.k in (0, 1):
            changed = replace(changed, a_k=0, b_k=1, run=0, a_run=0, b_run=0)
        if isinstance(changed.run, int) and isinstance(changed.k, int) and changed.run >= changed.k:
            changed = replace(changed, run=0, a_run=0, b_run=0)
        if changed.n == 1:
            changed = replace(changed, b_column=1)
        return changed

    def run_time_values(self) -> dict[str, Value]:
        """The numbers that are known only at run time, by their field's name."""
        return {name: number for name in NUMBERS if not isinstance(number := getattr(self, name), int)}

    def with_values(self, values: dict[str, Value]) -> Contraction:
        return replace(self, **values)

    def known_numbers(self) -> tuple[int | None, ...]:
        """What the generated code depends on beside the element: the numbers baked in, None for those of a run."""
        numbers = (getattr(self, name) for name in NUMBERS)
        return tuple(number if isinstance(number, int) else None for number in numbers)


NUMBERS = tuple(field.name for field in fields(Contraction) if field.name != "element")


class RightLayout(Enum):
    """How rows of B reach vectors."""

    IN_PLACE = "in place"  # columns are adjacent: loaded where they lie
    COPIED = "copied"  # columns are adjacent, rows far apart: panels are copied first, if many rows of A read them
    TRANSPOSED = "transposed"  # k is adjacent: panels are transposed first
    GATHERED = "gathered"  # neither: panels are gathered element by element first


@dataclass(frozen=True)
class Plan:
    """A tile of `rows` rows by `vectors` vectors of `lanes` columns stays in registers over at most `k_block` steps of k.

    steps_first: all panels go through a stage of k before the next stage, not one panel through all stages.
    row_block: above 0, so many rows go through all panels before the next rows.
    copy_ahead: while a panel is computed with, the next one is copied. Not where panels are kept or tiles leave out steps.
    """

    lanes: int
    rows: int
    vectors: int
    right: RightLayout
    pack_left: bool
    k_block: int
    steps_first: bool
    row_block: int = 0
    copy_ahead: bool = False

    @property
    def columns(self) -> int:
        """Columns of a panel of B, the unit that columns are shared out in."""
        return self.vectors * self.lanes

    @property
    def packs_right(self) -> bool:
        """Whether panels of B are brought to scratch first."""
        return self.right is not RightLayout.IN_PLACE

    @property
    def keeps_panels(self) -> bool:
        """Whether a panel that is packed may have a place of its own, for later blocks of rows."""
        return self.packs_right and self.row_block > 0 and not self.steps_first

    @property
    def reads_right_in_place(self) -> bool:
        """Whether B may be read where it lies, of which nothing past the last column is to be read."""
        return self.right in (RightLayout.IN_PLACE, RightLayout.COPIED)


LONG_STRIDE_BYTES = 1024  # rows this far apart share so few sets of the first cache that a panel isn't held there: it's copied first
SHORT_STRIDE_BYTES = 512  # the same for a small C, of which all tiles read each panel
SMALL_RESULT_BYTES = 1 << 18  # a C that stays in the second cache beside panels of A and B
LARGE_RIGHT_BYTES = 1 << 20  # a B that comes from memory: its panels are copied ahead
REUSES_WORTH_A_COPY = 32  # rows of A that read each panel; below, copying costs more than it saves
TILES_OF_A_BLOCK = 4  # tiles of rows: B is read from the second cache once for all of them, C's lines are still close together
PACKED_ROWS_OF_A_BLOCK = 512  # of a packed A, of which a stage stays in the second cache


def plan_contraction(target: Target, contraction: Contraction) -> Plan:
    """The tile, packing and block of k for a product."""
    contraction = contraction.normalised()
    lanes = target.vector_bytes // element_bytes(contraction.element)
    m, n = (number if isinstance(number, int) else None for number in (contraction.m, contraction.n))
    steps_first = _is_small(contraction, m, n)
    right = _right_layout(contraction, m, SHORT_STRIDE_BYTES if steps_first else LONG_STRIDE_BYTES)
    is_copied = right is RightLayout.COPIED
    pack_left = _left_is_far_apart(target, contraction, steps_first and is_copied)
    vectors = _vectors(target, m, n, lanes, pack_left)
    rows = _rows(target, m, vectors, pack_left)
    copy_ahead = is_copied and not steps_first and not pack_left and not contraction.has_runs and _is_large(contraction)
    # Rows of C are reloaded between blocks of k: 1024 beat 512 and 256 where panels are packed, which then follow each other in the second
    # cache. Where A or B is packed stage by stage, a panel stays in the first cache.
    k_block = 512 if right is RightLayout.IN_PLACE and vectors * lanes * element_bytes(contraction.element) > 128 else 1024
    if steps_first and (is_copied or pack_left):
        k_block = 256
    if copy_ahead and isinstance(contraction.k, int) and contraction.k <= BLOCK:  # equal stages: each has time to copy the next one
        k_block = -(-contraction.k // -(-contraction.k // k_block))
    row_block = 0
    if not steps_first and not contraction.has_runs and (n is None or n > vectors * lanes):
        if right is RightLayout.IN_PLACE:
            row_block = TILES_OF_A_BLOCK * rows
        elif is_copied and pack_left:
            row_block = PACKED_ROWS_OF_A_BLOCK
    if m is not None and m <= row_block:
        row_block = 0
    return Plan(lanes, rows, vectors, right, pack_left, k_block, steps_first, row_block, copy_ahead)


def _vectors(target: Target, m: int | None, n: int | None, lanes: int, pack_left: bool) -> int:
    """Of a tile's rows. 6x2 takes least instructions for a multiply-add with 16 registers, 8x3 and 6x4 with 32: these two save 5 to 15 % of
    8x2's time on Skylake, more where another thread has the core's other half; on Zen 4 any tile of 16 to 24 sums reaches the peak. The one
    that leaves no narrower panel is taken, else 3, which batches of a multiple of 8 rows fit."""
    if n is None:
        return 2  # whatever n turns out to be, at most one vector's columns are computed in vain
    total = max(1, -(-n // lanes))
    if m in (1, 2):  # too few rows to hide the multiplier's latency: more vectors
        return min(total, 8 // m, (target.registers - 1) // (m + 1))
    if target.registers <= 16 or (m is not None and _most_rows(target, 3) < m <= _most_rows(target, 2)):
        return min(total, 2)
    if total % 4 or total % 3 == 0:
        return min(total, 3)
    if pack_left:  # rows are a power of two
        return 2 if total == 4 else 3
    return 4


def _rows(target: Target, m: int | None, vectors: int, pack_left: bool) -> int:
    """Of a tile: as many as there are where these fit."""
    most = _most_rows(target, vectors)
    if m is not None and 0 < m <= most:
        rows = m
    elif vectors == 1:
        rows = min(most, 2 * target.tile_rows)
    else:
        rows = min(most, target.tile_rows)
    if pack_left:  # a packed row of the tile is one vector load and store: a power of two
        rows = 1 << (rows.bit_length() - 1)
    return rows


def _most_rows(target: Target, vectors: int) -> int:
    """So that sums, the vectors of a row of B and numbers of A are in registers: of A one, or four where LLVM loads some ahead."""
    ahead = 1 if target.is_x86 else 4
    return max(1, (target.registers - vectors - ahead) // vectors)


def _right_layout(contraction: Contraction, m: int | None, long_stride: int) -> RightLayout:
    if contraction.b_column == 1:
        stride = contraction.b_k
        far = isinstance(stride, int) and stride * element_bytes(contraction.element) >= long_stride
        return RightLayout.COPIED if far and (m is None or m >= REUSES_WORTH_A_COPY) else RightLayout.IN_PLACE
    return RightLayout.TRANSPOSED if contraction.b_k == 1 else RightLayout.GATHERED


def _is_small(contraction: Contraction, m: int | None, n: int | None) -> bool:
    """A small C with a long k, such as the weight gradient of a convolution, is bound by reading A and B, so they are read once."""
    return m is not None and n is not None and m * n * element_bytes(contraction.element) <= SMALL_RESULT_BYTES


def _is_large(contraction: Contraction) -> bool:
    n, k = contraction.n, contraction.k
    return isinstance(n, int) and isinstance(k, int) and n * k * element_bytes(contraction.element) >= LARGE_RIGHT_BYTES


def _left_is_far_apart(target: Target, contraction: Contraction, right_is_copied: bool) -> bool:
    """Long strides along k: few sets of the first cache hold all of a tile, of which each line has more tiles' numbers (1.5 ms unpacked,
    0.8 ms packed, for k = 768 rows of 512). A packed tile has 4 rows in place of 6 where registers are few, so there strides are longer."""
    stride, m, n = contraction.a_k, contraction.m, contraction.n
    far = SHORT_STRIDE_BYTES if right_is_copied and target.registers > 16 else 2048
    return (
        contraction.element == F32
        and not contraction.has_runs
        and contraction.a_row == 1
        and isinstance(stride, int)
        and stride * element_bytes(contraction.element) >= far
        and isinstance(m, int)
        and m >= REUSES_WORTH_A_COPY
        and (not isinstance(n, int) or n >= REUSES_WORTH_A_COPY)
    )
