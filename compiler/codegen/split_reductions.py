"""Reductions by several threads: the units are places of a kept axis or stretches of columns.

Of a reduction to one number they are blocks of 4096 elements. Each one's values go to scratch, and from there through the block tree in
their order, so the bits are those of one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.emit import I64, Builder, Size, Value, at, load, loop, store
from shapescript.compiler.codegen.lowering import Lowering
from shapescript.compiler.codegen.nests import Axis
from shapescript.compiler.codegen.reductions import ProduceRun, block_values
from shapescript.compiler.codegen.reductions_blocks import BlockTree, Reduction, block_count, of_nothing
from shapescript.compiler.codegen.split import Part, split
from shapescript.compiler.ir import sizes

WORD = 8  # bytes of a value in scratch
STRETCH = 64  # columns of a unit: a multiple of every vector

Blocks = Callable[[Builder, Sequence[Value], Value, Part], None]
Join = Callable[[Builder, Sequence[Value], Value], None]


def shared_units(b: Builder, kept: Sequence[Axis], columns: Axis | None, size: Callable[[sizes.Size], Size]) -> Size:
    """What threads share out: places along the outermost kept axis, else stretches of columns. A reduction to one number is one."""
    if kept:
        return size(kept[0].size)
    return 1 if columns is None else extents.ceil_quotient(b, size(columns.size), STRETCH)


def split_blocks(
    low: Lowering, name: str, key: Hashable, arguments: Sequence[Value], units: Size, shares: Size, values: int, blocks: Blocks, join: Join
) -> None:
    """`blocks(b, arguments, parts, part)` leaves so many values of each block in the parts, `join(b, arguments, parts)` does the rest."""
    with low.scratch(extents.times(low.b, units, WORD * values)) as parts:
        given = [parts, *arguments]
        split(low, f"{name}_blocks", key, given, units, shares, lambda b, given, part: blocks(b, given[1:], given[0], part))
        low.shared(f"{name}_join", key, given, lambda b, given: join(b, given[1:], given[0]))


def emit_blocks(b: Builder, reductions: Sequence[Reduction], count: Size, produce: ProduceRun, parts: Value, part: Part) -> None:
    """The values of a share's blocks; `count` and `produce` as `reduce_run` has them."""

    def block(t: Value, _: Sequence[Value]) -> None:
        for place, value in zip(_places(b, reductions, parts, t), block_values(b, reductions, count, t, produce), strict=True):
            store(b, value, place)

    loop(b, part.low, part.high, 1, block)


def join_blocks(b: Builder, reductions: Sequence[Reduction], count: Size, parts: Value) -> list[Value]:
    """One scalar for each reduction, from the values of all blocks."""
    tree, blocks = BlockTree(b, reductions), block_count(b, count)

    def block(t: Value, _: Sequence[Value]) -> list[Value]:
        values = [load(b, place, r.element) for place, r in zip(_places(b, reductions, parts, t), reductions, strict=True)]
        return tree.add(b, t, b.icmp_signed("==", b.add(t, I64(1)), emit.size(blocks)), values)

    return of_nothing(b, reductions, count, loop(b, 0, blocks, 1, block, [r.starting() for r in reductions]))


def _places(b: Builder, reductions: Sequence[Reduction], parts: Value, t: Value) -> list[Value]:
    return [at(b, parts, b.add(b.mul(t, I64(len(reductions))), I64(place)), I64) for place in range(len(reductions))]
