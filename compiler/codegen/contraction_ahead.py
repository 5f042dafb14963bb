"""The next panel of a B that lies in memory, on its way to the second cache while the tiles of this one are computed.

Packing would else wait for each of its lines. Every tile asks for its part, a few lines at a time, as memory gives them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.contraction_kernel import Kernel, Stage
from shapescript.compiler.codegen.contraction_plan import RightLayout
from shapescript.compiler.codegen.emit import I64, Builder, Value, at, element_bytes, loop, prefetch

LINE_BYTES = 64  # of a cache
LEAST_STEPS = 8  # between two times that a tile asks

Steps = Callable[[Value, Value, Sequence[Value]], list[Value]]


def steps_with_fetches(b: Builder, kernel: Kernel, stage: Stage, i: Value, start: Sequence[Value], steps: Steps) -> list[Value]:
    """All steps of the tile of row `i`; `steps(low, high, sums)` emits those of a part."""
    tile, depth = kernel.plan.rows, emit.size(stage.depth)
    tiles = extents.ceil_quotient(b, b.sub(kernel.row_high, kernel.row_low), tile)
    apart = emit.size(extents.most(b, tiles, LEAST_STEPS))
    parts = b.udiv(b.add(depth, b.sub(apart, I64(1))), apart)
    first = b.mul(b.udiv(b.sub(i, kernel.row_low), I64(tile)), parts)

    def part(low: Value, state: Sequence[Value]) -> list[Value]:
        number, *sums = state
        _fetch(b, kernel, stage, emit.size(extents.least(b, number, b.sub(depth, I64(1)))))
        high = emit.size(extents.least(b, b.add(low, apart), depth))
        return [b.add(number, I64(1)), *steps(low, high, sums)]

    return loop(b, 0, depth, apart, part, [first, *start])[1:]


def _fetch(b: Builder, kernel: Kernel, stage: Stage, number: Value) -> None:
    """Part `number` of the lines of the panel that comes, of which there are as many parts as steps."""
    assert stage.coming is not None
    contraction, columns = kernel.contraction, kernel.plan.columns
    numbers = LINE_BYTES // element_bytes(contraction.element)
    lines = -(-columns // numbers)
    if kernel.plan.right is RightLayout.COPIED:  # a row of the panel
        begin = at(b, stage.coming, extents.times(b, number, contraction.b_k), contraction.element)
        places = [line * numbers for line in range(lines)]
    else:  # of some columns, the line that has a step's number
        column, step = b.mul(b.and_(number, I64(numbers - 1)), I64(lines)), b.and_(number, I64(-numbers))
        place = extents.plus(b, extents.times(b, column, contraction.b_column), extents.times(b, step, contraction.b_k))
        begin = at(b, stage.coming, place, contraction.element)
        places = [extents.times(b, line, contraction.b_column) for line in range(lines)]
    for place in places:
        prefetch(b, at(b, begin, place, contraction.element))
