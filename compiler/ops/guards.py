"""Which training step a check belongs to: that of the update which follows it in its block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from shapescript.compiler.ir.nodes import Block, Function, Op, Value

GUARDS = frozenset({"check_finite", "global_norm"})

Guards = Mapping[Op, Value]


def guarded_optimisers(function: Function) -> Guards:
    """For each check that an update follows in the same block: the optimiser that the first such update takes."""
    return dict(_guards(function.body))


def _guards(block: Block) -> Iterator[tuple[Op, Value]]:
    optimiser: Value | None = None
    defined_later: set[Value] = set()
    for op in reversed(block.ops):
        defined_later.update(op.results)
        if op.name == "update":
            optimiser = op.operands[1]
        elif op.name in GUARDS and optimiser is not None and optimiser not in defined_later:
            yield op, optimiser
        for region in op.regions:
            yield from _guards(region)
