"""Running sums in memory: blocks of 4096 k added in the block tree, and the pass that finishes them.

The buffers follow each other: buffer 0 holds the block being summed, buffer 1 + l the sum
of 2^l earlier blocks. After block t the trailing ones of t in binary are the sums that pair with it; what is left after the last block is
added from the smallest up. That is the block tree: adjacent pairs, an odd one goes up unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence

from shapescript.compiler.codegen import emit, extents
from shapescript.compiler.codegen.contraction_kernel import Kernel, Panel, Sums
from shapescript.compiler.codegen.contraction_tile import finish_vector
from shapescript.compiler.codegen.emit import I64, Builder, Size, Value, at, is_float, load, loop, store


def add(b: Builder, x: Value, y: Value) -> Value:
    return b.fadd(x, y) if is_float(emit.scalar_of(x.type)) else b.add(x, y)


def merge_block(b: Builder, kernel: Kernel, sums: Sums, t: Value) -> None:
    """Add to block t, in buffer 0, the sums that it pairs with, and keep the result in the first buffer that is free."""
    element, lanes, count = kernel.contraction.element, kernel.plan.lanes, sums.elements

    def pair(state: Sequence[Value]) -> list[Value]:
        bits, buffer = state

        def add_vector(e: Value, _: Sequence[Value]) -> None:
            here, earlier = at(b, sums.pointer, e, element), at(b, sums.pointer, b.add(buffer, e), element)
            store(b, add(b, load(b, earlier, element, lanes), load(b, here, element, lanes)), here)

        loop(b, 0, count, lanes, add_vector)
        return [b.lshr(bits, I64(1)), b.add(buffer, count)]

    _, free = emit.while_loop(b, lambda state: b.trunc(state[0], emit.I1), pair, [t, count])

    def keep(e: Value, _: Sequence[Value]) -> None:
        store(b, load(b, at(b, sums.pointer, e, element), element, lanes), at(b, sums.pointer, b.add(free, e), element))

    loop(b, 0, count, lanes, keep)


def finish_panel(b: Builder, kernel: Kernel, panel: Panel, sums: Sums, blocks: Size) -> None:
    """Add the remaining sums to the last block's and finish every vector of the panel."""
    element, lanes = kernel.contraction.element, kernel.plan.lanes
    masks = panel.masks(b, lanes)
    levels = extents.bit_length(b, extents.minus(b, blocks, 1))

    def row(i: Value, _: Sequence[Value]) -> None:
        start = sums.row(b, kernel, panel, i)
        for v in range(panel.vectors):
            cell = at(b, start, v * lanes, element)

            def add_level(level: Value, total: Sequence[Value], cell: Value = cell) -> list[Value]:
                kept = load(b, at(b, cell, b.mul(b.add(level, I64(1)), sums.elements), element), element, lanes)
                there = b.trunc(b.lshr(emit.size(extents.minus(b, blocks, 1)), level), emit.I1)
                return [b.select(there, add(b, kept, total[0]), total[0])]

            value = load(b, cell, element, lanes)
            if levels != 0:
                (value,) = loop(b, 0, levels, 1, add_level, [value])
            finish_vector(b, kernel, value, i, emit.size(extents.plus(b, panel.column, v * lanes)), masks[v])

    loop(b, kernel.row_low, kernel.row_high, 1, row)
