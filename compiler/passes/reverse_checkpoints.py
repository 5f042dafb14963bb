"""The way back through a checkpoint: its operations again, and the way back through these, apart from the rest of the program.

What can't be had again by doing it again (a mode's draw, what the host gave) comes out of the forward region as further results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shapescript.compiler.ir.nodes import Block, Op
from shapescript.compiler.passes.adjoints import Adjoints
from shapescript.compiler.passes.dead import drop_dead
from shapescript.compiler.passes.done_once import split_done_once
from shapescript.compiler.passes.reverse_branches import enter

if TYPE_CHECKING:
    from shapescript.compiler.passes.reverse import Reverse


def reverse_checkpoint(reverse: Reverse, op: Op, adjoints: Adjoints) -> Sequence[Op]:
    (region,) = op.regions
    split = split_done_once(region, reverse.turns)
    inside = enter(op, split.again, adjoints)
    with reverse.passing_by(split.again):
        again = reverse.run(split.again.ops, inside)
    places = list(inside.changed())
    if not places:
        return (op,)
    block = Block((), (*again, *inside.builder.ops), tuple(inside.of[place] for place in places))
    results = adjoints.builder.emit("isolated", regions=(drop_dead(block, _may_be_left_out),))
    adjoints.of.update(zip(places, results, strict=True))
    return (split.forward(op),)


def _may_be_left_out(op: Op) -> bool:
    """What was checked the first time needs no check; the sizes of axes are bound again."""
    return op.name != "bind_size"
