"""The way back through an `if`: an `if` on the same condition, whose branches go back through those of the program.

What a branch of it reads of the forward branch comes out of the forward `if` as further results; the other branch gives anything of that
type, since nobody reads it then. An adjoint that a branch adds to goes in as it is and comes out with the sum: as if the operations of the
branch that was taken stood in the program's place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shapescript.compiler.ir.nodes import Block, Op
from shapescript.compiler.ops.build import Builder
from shapescript.compiler.passes.activity import Place, paths
from shapescript.compiler.passes.adjoints import Adjoints, defined_by
from shapescript.compiler.passes.dead import drop_dead
from shapescript.compiler.passes.kept_by_branches import KeptByBranches
from shapescript.compiler.passes.recall import Recall, refuse_sizes_of_one_turn

if TYPE_CHECKING:
    from shapescript.compiler.passes.reverse import Reverse


def reverse_if(reverse: Reverse, op: Op, adjoints: Adjoints) -> Sequence[Op]:
    forwards: list[list[Op]] = []
    insides: list[Adjoints] = []
    for region in op.regions:
        inside = enter(op, region, adjoints)
        with reverse.passing_by(region):
            forwards.append(reverse.run(region.ops, inside))
        insides.append(inside)
    places = list(dict.fromkeys(place for inside in insides for place in inside.changed()))
    if not places:
        return (op,)
    backwards = [leave(inside, places) for inside in insides]
    recalls = [Recall((), forward, {}, reverse.around) for forward in forwards]
    kept = KeptByBranches(op, [recall.needed(block.ops, block.yields) for recall, block in zip(recalls, backwards, strict=True)])
    regions = [_recalling(recall, block, kept, branch) for branch, (recall, block) in enumerate(zip(recalls, backwards, strict=True))]
    refuse_sizes_of_one_turn(op, [inner for region in regions for inner in region.ops], reverse.known_outside)
    results = adjoints.builder.emit("if", op.operands[0], regions=regions)
    adjoints.of.update(zip(places, results, strict=True))
    return (kept.forward([[*forward, *recall.parts] for forward, recall in zip(forwards, recalls, strict=True)]),)


def enter(op: Op, region: Block, adjoints: Adjoints) -> Adjoints:
    """The adjoints inside of a region that hands out its yields as the operation's results."""
    inside = Adjoints(Builder(op.span), adjoints.activity, defined_by(region), adjoints.now)
    for result, value in zip(op.results, region.yields, strict=True):
        for path in paths(result):
            inside.add(value, adjoints.get(result, path), path)
    return inside


def leave(inside: Adjoints, places: Sequence[Place]) -> Block:
    """The block that gives these places' adjoints, without what they don't need."""
    yields = [inside.now_or_zeros(place, inside.builder) for place in places]
    return drop_dead(inside.builder.block((), yields))


def _recalling(recall: Recall, block: Block, kept: KeptByBranches, branch: int) -> Block:
    builder = Builder()
    yields = recall.rewritten(block.ops, block.yields, lambda _, value: kept.result(branch, value), builder)
    return builder.block((), yields)
