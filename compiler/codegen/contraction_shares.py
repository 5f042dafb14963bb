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


def cut_of(plan: Plan, contraction: Contraction) -> Cut:
    """What each share would pack anew isn't cut across; else what has more units is taken."""
    if plan.packs_right or plan.pack_left:
        return Cut.ROWS if plan.pack_left else Cut.PANELS
    m, n = (number if isinstance(number, int) else math.inf for number in (contraction.m, contraction.n))
    return Cut.ROWS if m / plan.rows >= n / plan.columns else Cut.PANELS


def cut_units(b: Builder, plan: Plan, contraction: Contraction, cut: Cut) -> Size:
    """How many there are."""
    return extents.ceil_quotient(b, contraction.m, plan.rows) if cut is Cut.ROWS else panel_count(plan, contraction.n, b)


def share_of(b: Builder, plan: Plan, contraction: Contraction, cut: Cut, low: Size, high: Size) -> Share:
    """Units low to high."""
    if cut is Cut.PANELS:
        return Share(0, contraction.m, low, high)
    row_high = extents.least(b, extents.times(b, high, plan.rows), contraction.m)
    return Share(extents.times(b, low, plan.rows), row_high, 0, panel_count(plan, contraction.n, b))


def panel_count(plan: Plan, n: Size, b: Builder | None = None) -> Size:
    """Panels of columns that C is shared out in."""
    return extents.ceil_quotient(b, n, plan.columns)
