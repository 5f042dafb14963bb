"""Places of several axes, `x[n=i, m=j]`: first along the first axis; and one place of an axis and places of the next as places of the two
axes seen as one, so that no row is moved for the sake of one element.

A number that is outside is moved inside before the two are counted as one, as `slice` and `put` do. Only a part that is longer than its
axis, which there is before a check that fails, may come to reach into the next row.
"""

from __future__ import annotations

from shapescript.compiler.ir.nodes import Op, Value
from shapescript.compiler.ir.sizes import ONE, Size
from shapescript.compiler.ir.types import Element
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.passes.fold import Definitions
from shapescript.compiler.passes.reshape_rules import segments
from shapescript.compiler.records.dataclass import dataclass


@dataclass(frozen=True)
class _Row:
    """The places of a whole along an axis at `position` and the one behind it, as places of one axis of n * m."""

    whole: Value
    position: int
    outer: Value
    inner: Value

    def flat(self, b: Builder) -> Value:
        """The whole with the two axes as one."""
        before, (n, m), behind = self._parts()
        return b.op("reshape", self.whole, axes=(*before, n * m, *behind))

    def part_axes(self, length: Size) -> tuple[Size, ...]:
        """The axes of a part of one row, with the two axes as one."""
        before, _, behind = self._parts()
        return (*before, length, *behind)

    def start(self, b: Builder, length: Size) -> Value:
        _, (n, m), _ = self._parts()
        row = b.op("mul", _inside(b, self.outer, n, ONE), b.size(m))
        return b.op("add", row, _inside(b, self.inner, m, length))

    def _parts(self) -> tuple[tuple[Size, ...], tuple[Size, Size], tuple[Size, ...]]:
        axes, place = result_type(self.whole).axes, self.position
        return axes[:place], (axes[place], axes[place + 1]), axes[place + 2 :]


def _inside(b: Builder, start: Value, size: Size, length: Size) -> Value:
    """The nearest start at which so many places are inside of the axis. (A size below 0 would be an error: the difference is a number.)"""
    last = b.op("sub", b.size(size), b.size(length))
    return b.op("maximum", b.op("minimum", start, last), b.constant(0, Element.I64))


def _defined(value: Value, name: str, definitions: Definitions) -> Op | None:
    op = definitions.get(value)
    return op if op is not None and op.name == name else None


def _first_axis_first(op: Op, definitions: Definitions, b: Builder) -> Value | None:
    """Slices along two axes in the order of the axes; and so for a part of both that is put. What is taken first is then the least."""
    if op.name == "slice":
        inner = _defined(op.operands[0], "slice", definitions)
        if inner is None or inner.attributes["position"] <= op.attributes["position"]:
            return None
        return b.op("slice", b.op("slice", inner.operands[0], op.operands[1], **op.attributes), inner.operands[1], **inner.attributes)
    changed = _changed_slice(op, definitions)
    if changed is None or changed.attributes["position"] >= op.attributes["position"]:
        return None
    whole, _, start = op.operands
    _, part, other = changed.operands
    position = changed.attributes["position"]
    taken = b.op("slice", whole, other, position=position, length=result_type(part).axes[position])
    return b.op("put", whole, b.op("put", taken, part, start, **op.attributes), other, position=position)


def _changed_slice(op: Op, definitions: Definitions) -> Op | None:
    """The put into a slice of a tensor that is put back by `op` where it was taken."""
    changed = _defined(op.operands[1], "put", definitions) if op.name == "put" else None
    taken = _defined(changed.operands[0], "slice", definitions) if changed is not None else None
    if taken is None or taken.operands[0] is not op.operands[0] or taken.operands[1] is not op.operands[2]:
        return None
    return changed if taken.attributes["position"] == op.attributes["position"] else None


def _slice_of_row(op: Op, definitions: Definitions, b: Builder) -> Value | None:
    """Of one place along an axis a slice along the next: elements that follow each other."""
    row = _defined(op.operands[0], "slice", definitions) if op.name == "slice" else None
    if row is None or row.attributes["length"] != ONE or row.attributes["position"] != op.attributes["position"] - 1:
        return None
    position = row.attributes["position"]
    found = _Row(row.operands[0], position, row.operands[1], op.operands[1])
    length = op.attributes["length"]
    part = b.op("slice", found.flat(b), found.start(b, length), position=position, length=length)
    return b.op("reshape", part, axes=result_type(op.result).axes)


def _put_into_row(op: Op, definitions: Definitions, b: Builder) -> Value | None:
    """A row with some elements new, put back where it was taken: only those are put."""
    changed = _changed_slice(op, definitions)
    if changed is None or changed.attributes["position"] != op.attributes["position"] + 1:
        return None
    (whole, row, start), position = op.operands, op.attributes["position"]
    if result_type(row).axes[position] != ONE:
        return None
    found = _Row(whole, position, start, changed.operands[2])
    length = result_type(changed.operands[1]).axes[position + 1]
    part = b.op("reshape", changed.operands[1], axes=found.part_axes(length))
    flat = b.op("put", found.flat(b), part, found.start(b, length), position=position)
    return b.op("reshape", flat, axes=result_type(op.result).axes)


def _along_kept_axis(op: Op, definitions: Definitions, b: Builder) -> Value | None:
    """A slice of, or a put into, a reshaped slice, along an axis that the reshape keeps: the reshape comes behind, and slices meet."""
    before = _defined(op.operands[0], "reshape", definitions) if op.name in ("slice", "put") else None
    if before is None or _defined(before.operands[0], "slice", definitions) is None:
        return None
    source, position = before.operands[0], op.attributes["position"]
    axes = result_type(source).axes
    kept = (part for part in segments(axes, result_type(before.result).axes) or () if part.is_kept and part.behind == (position,))
    segment = next(kept, None)
    if segment is None:
        return None
    (place,) = segment.before
    if op.name == "slice":
        moved = b.op("slice", source, op.operands[1], position=place, length=op.attributes["length"])
    else:
        length = result_type(op.operands[1]).axes[position]
        part = b.op("reshape", op.operands[1], axes=(*axes[:place], length, *axes[place + 1 :]))
        moved = b.op("put", source, part, op.operands[2], position=place)
    return b.op("reshape", moved, axes=result_type(op.result).axes)


RULES = (_first_axis_first, _slice_of_row, _put_into_row, _along_kept_axis)
