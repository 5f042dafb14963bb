"""What threads share out of a product that has no loops around it: rows of its tiles, or panels of columns."""

from __future__ import annotations

import math
from enum import Enum

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


class Cut(Enum):
    """What the units are."""

    ROWS = "rows"
    PANELS = "panels"
    MOST = "rows where there are many more of them, else panels"  # known at run time


MANY_MORE = 8  # tiles of rows for each panel: so many that it doesn't count that each share packs all of B for itself


def cut_of(plan: Plan, contraction: Contraction) -> Cut:
    """What each share would pack anew isn't cut across where that counts; else what has more units is taken."""
    if plan.pack_left:
        return Cut.ROWS
    if plan.packs_right:
        return Cut.MOST
    m, n = (number if isinstance(number, int) else math.inf for number in (contraction.m, contraction.n))
    return Cut.ROWS if m / plan.rows >= n / plan.columns else Cut.PANELS


def cut_units(b: Builder, plan: Plan, contraction: Contraction, cut: Cut) -> Size:
    """How many there are."""
    tiles, panels = extents.ceil_quotient(b, contraction.m, plan.rows), panel_count(plan, contraction.n, b)
    return _where_rows(b, cut, tiles, panels, tiles, panels)


def share_of(b: Builder, plan: Plan, contraction: Contraction, cut: Cut, low: Size, high: Size) -> Share:
    """Units low to high."""
    m, tiles, panels = contraction.m, extents.ceil_quotient(b, contraction.m, plan.rows), panel_count(plan, contraction.n, b)

    def cut_at(by_rows: Size, by_panels: Size) -> Size:
        return _where_rows(b, cut, tiles, panels, by_rows, by_panels)

    row_low, row_high = (extents.times(b, limit, plan.rows) for limit in (low, high))
    return Share(cut_at(row_low, 0), cut_at(extents.least(b, row_high, m), m), cut_at(0, low), cut_at(panels, high))


def _where_rows(b: Builder, cut: Cut, tiles: Size, panels: Size, by_rows: Size, by_panels: Size) -> Size:
    if cut is Cut.MOST:
        return extents.where_greater(b, tiles, extents.times(b, panels, MANY_MORE), by_rows, by_panels)
    return by_rows if cut is Cut.ROWS else by_panels


def panel_count(plan: Plan, n: Size, b: Builder | None = None) -> Size:
    """Panels of columns that C is shared out in."""
    return extents.ceil_quotient(b, n, plan.columns)
