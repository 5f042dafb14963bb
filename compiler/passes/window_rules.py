"""Windows of one place that move by one, as those of a 1 by 1 convolution: the tensor itself, seen with more axes."""

from __future__ import annotations

from collections.abc import Sequence

from shapescript.compiler.ir.nodes import Op, Value
from shapescript.compiler.ir.sizes import ONE, ZERO, Size
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.passes.fold import Definitions


def _windows(op: Op, definitions: Definitions, b: Builder) -> Value | None:
    if op.name != "windows":
        return None
    positions, axes = op.attributes["positions"], result_type(op.operands[0]).axes
    if not _are_single(op, op.attributes["lengths"], op.attributes["counts"], [axes[place] for place in positions]):
        return None
    rest = [place for place in range(len(axes)) if place not in positions]
    value = op.operands[0]
    if (*rest, *positions) != tuple(range(len(axes))):
        value = b.op("transpose", value, permutation=(*rest, *positions))
    return b.op("reshape", value, axes=result_type(op.result).axes)


def _fold(op: Op, definitions: Definitions, b: Builder) -> Value | None:
    """Each element is added to +0.0, which changes -0.0."""
    if op.name != "fold":
        return None
    positions, axes = op.attributes["positions"], result_type(op.operands[0]).axes
    rank = len(axes) - len(positions)
    if not _are_single(op, [axes[place] for place in positions], axes[rank:], op.attributes["sizes"]):
        return None
    rest = [place for place in range(rank) if place not in positions]
    value = b.op("reshape", op.operands[0], axes=tuple((*(axes[place] for place in rest), *axes[rank:])))
    order = (*rest, *positions)
    if order != tuple(range(rank)):
        value = b.op("transpose", value, permutation=tuple(order.index(place) for place in range(rank)))
    return b.op("add", value, b.full(0.0, result_type(op.result)))


def _are_single(op: Op, lengths: Sequence[Size], counts: Sequence[Size], sizes: Sequence[Size]) -> bool:
    """Whether there is a window of one place at each place, and no other."""
    are_ones = all(size.known() == ONE for size in (*lengths, *op.attributes["strides"]))
    is_moved = any(size.known() != ZERO for size in (*op.attributes["before"], *op.attributes["room"]))
    return are_ones and not is_moved and tuple(counts) == tuple(sizes)


RULES = (_windows, _fold)
