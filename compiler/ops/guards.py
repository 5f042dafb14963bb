"""Which training step a check belongs to: that of the update which follows it in its block, or in a branch there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from shapescript.compiler.ir.nodes import Block, Function, Op, Value

GUARDS = frozenset({"check_finite"})

Guards = Mapping[Op, Value]


def guarded_optimisers(function: Function) -> Guards:
    """For each check that an update follows: the optimiser that the first such update takes."""
    return dict(_guards(function.body))


def _guards(block: Block) -> Iterator[tuple[Op, Value]]:
    optimiser: Value | None = None
    defined_later: set[Value] = set()
    for op in reversed(block.ops):
        defined_later.update(op.results)
        if op.name == "update":
            optimiser = op.operands[1]
        elif op.name == "if":
            optimiser = _updated_in(op) or optimiser
        elif op.name in GUARDS and optimiser is not None and optimiser not in defined_later:
            yield op, optimiser
        for region in op.regions:
            yield from _guards(region)


def _updated_in(op: Op) -> Value | None:
    """The optimiser of the first update in the branches, as it is before them; None where they have none, or make it themselves."""
    for region in op.regions:
        made = {result for inner in region.ops for result in inner.results}
        for inner in region.ops:
            if inner.name == "update":
                if inner.operands[1] not in made:
                    return inner.operands[1]
                break
    return None
