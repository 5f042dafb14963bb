"""What threads share out of a product that has no loops around it: rows of its tiles, or panels of columns."""

from __future__ import annotations

import math

from shapescript.compiler.codegen import extents
from shapescript.compiler.codegen.contraction_plan import Contraction, Plan
from shapescript.compiler.codegen.emit import Builder, Size
from shapescript.compiler.records.dataclass import dataclass


@dataclass(frozen=True)
class Share:
    """One worker's part of C: rows and panels, half-open."""

    row_low: Size
    row_high: Size
    panel_low: Size
    panel_high: Size


MANY_MORE = 8  # tiles of rows for each panel: then each share may pack all of B for itself


def cuts_rows(b: Builder, plan: Plan, contraction: Contraction, threads: Size) -> Size:
    """1 where rows are shared out, 0 where panels are: what each share would pack anew isn't cut across, but to use all threads where there
    are few panels; else what has more units is taken."""
    if plan.pack_left:
        return 1
    if plan.packs_right:
        tiles, panels = _units(b, plan, contraction)
        has_many = extents.where_greater(b, tiles, extents.times(b, panels, MANY_MORE), 1, 0)
        return extents.where_greater(b, threads, panels, has_many, 0)
    m, n = (number if isinstance(number, int) else math.inf for number in (contraction.m, contraction.n))
    return int(m / plan.rows >= n / plan.columns)


def cut_units(b: Builder, plan: Plan, contraction: Contraction, by_rows: Size) -> Size:
    """How many there are."""
    tiles, panels = _units(b, plan, contraction)
    return extents.where_greater(b, by_rows, 0, tiles, panels)


def share_of(b: Builder, plan: Plan, contraction: Contraction, by_rows: Size, low: Size, high: Size) -> Share:
    """Units low to high."""
    m, panels = contraction.m, panel_count(plan, contraction.n, b)
    row_low, row_high = (extents.times(b, limit, plan.rows) for limit in (low, high))
    rows, columns = (row_low, extents.least(b, row_high, m), 0, panels), (0, m, low, high)
    return Share(*(extents.where_greater(b, by_rows, 0, row, column) for row, column in zip(rows, columns, strict=True)))


def _units(b: Builder, plan: Plan, contraction: Contraction) -> tuple[Size, Size]:
    """Tiles of rows, and panels."""
    return extents.ceil_quotient(b, contraction.m, plan.rows), panel_count(plan, contraction.n, b)


def panel_count(plan: Plan, n: Size, b: Builder | None = None) -> Size:
    """Panels of columns that C is shared out in."""
    return extents.ceil_quotient(b, n, plan.columns)
