"""Storage that is filled later: its slot is there, and nothing is to be done."""

from __future__ import annotations

from shapescript.compiler.codegen.lowering import Lowering, lowers
from shapescript.compiler.ir.nodes import Op


@lowers("reserve")
def _reserve(low: Lowering, op: Op) -> None:
    pass
