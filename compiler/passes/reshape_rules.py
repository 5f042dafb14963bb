"""Reshapes moved behind the operations that read them, where they meet others and vanish, so that what is computed keeps its own axes.

`linear` over `[..s I]` reshapes to `[s I]`, multiplies, and reshapes back. Here the product takes the axes of `s` one by one instead, and
what follows it is in the product's own space, where it can be fused. Elements and the order of sums stay: merged axes follow each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from shapescript.compiler.ir.nodes import Op, Value
from shapescript.compiler.ir.sizes import Size, product
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.ops.table import Scalar, entry
from shapescript.compiler.passes.fold import Definitions
from shapescript.compiler.passes.fusion_access import is_register
from shapescript.compiler.records.dataclass import dataclass

Axes = tuple[Size, ...]


@dataclass(frozen=True)
class Segment:
    """Neighbouring axes before a reshape that become neighbouring axes behind it, by their places."""

    before: tuple[int, ...]
    behind: tuple[int, ...]

    @property
    def is_kept(self) -> bool:
        return len(self.before) == len(self.behind) == 1


@lru_cache(maxsize=4096)
def segments(before: Axes, behind: Axes) -> tuple[Segment, ...] | None:
    """The smallest ones, in order; None where the sizes don't tell."""
    found: list[Segment] = []
    i = j = 0
    while i < len(before) or j < len(behind):
        step = _smallest(before[i:], behind[j:])
        if step is None:
            return None
        found.append(Segment(tuple(range(i, i + step[0])), tuple(range(j, j + step[1]))))
        i, j = i + step[0], j + step[1]
    return tuple(found)


def _smallest(before: Axes, behind: Axes) -> tuple[int, int] | None:
    steps = [(i, j) for i in range(len(before) + 1) for j in range(len(behind) + 1) if i or j]
    ordered = sorted(steps, key=lambda step: (step != (1, 1), sum(step)))
    return next((step for step in ordered if product(before[: step[0]]) == product(behind[: step[1]])), None)


def _reshape_of(value: Value, definitions: Definitions) -> Op | None:
    op = definitions.get(value)
    return op if op is not None and op.name == "reshape" else None


def _two_reshapes(op: Op, definitions: Definitions, b: Builder) -> Value | None:
    """As one, but where each axis could be followed through the two and not through the one."""
    before = _reshape_of(op.operands[0], definitions) if op.name == "reshape" else None
    if before is None:
        return None
    source = before.operands[0]
    if source.type == op.result.type:
        return source
    parts = segments(result_type(source).axes, result_type(op.result).axes)
    if parts is None or any(len(part.before) > 1 and len(part.behind) > 1 for part in parts):
        return None
    return b.op("reshape", source, axes=result_type(op.result).axes)


# ---- elementwise


def _elementwise(op: Op, definitions: Definitions, b: Builder) -> Value | None:
    if not (isinstance(entry(op.name).lowering, Scalar) or op.name == "dropout") or is_register(op.result):
        return None
    reshapes = [found for operand in op.operands if (found := _reshape_of(operand, definitions)) is not None]
    before = result_type(reshapes[0].operands[0]).axes if reshapes else ()
    if not before or _is_slice(reshapes[0].operands[0], definitions):
        return None
    attempt = Builder(op.span)
    operands: list[Value] = []
    for operand in op.operands:
        moved = operand if is_register(operand) else _with_axes(operand, before, definitions, attempt)
        if moved is None:
            return None
        operands.append(moved)
    b.ops += attempt.ops
    return b.op("reshape", b.op(op.name, *operands, **op.attributes), axes=result_type(op.result).axes)


def _is_slice(value: Value, definitions: Definitions) -> bool:
    """Whether there is nothing behind the reshape that what reads it could be fused with: it keeps its own axes then."""
    op = definitions.get(value)
    return op is not None and op.name == "slice"


def _with_axes(value: Value, axes: Axes, definitions: Definitions, b: Builder) -> Value | None:
    """The value reshaped to these axes, where that costs nothing and hides nothing from fusion."""
    op = definitions.get(value)
    if op is None:
        return None
    if op.name == "reshape":
        return op.operands[0] if result_type(op.operands[0]).axes == axes else None
    if op.name == "broadcast":
        return broadcast_to(op, axes, b)
    if op.name == "iota":
        place = next((s for s in segments(axes, op.attributes["axes"]) or () if op.attributes["position"] in s.behind), None)
        return b.op("iota", axes=axes, position=place.before[0]) if place and place.is_kept else None
    return None


def broadcast_to(op: Op, axes: Axes, b: Builder) -> Value | None:
    """The reshaped broadcast as a broadcast: of the operand, reshaped itself where its axes are among those that change."""
    parts = segments(axes, op.attributes["axes"])
    if parts is None:
        return None
    positions: list[int] = op.attributes["positions"]
    places: list[int] = []
    for part in parts:
        there = [place in positions for place in part.behind]
        if any(there) and not all(there):
            return None
        places += part.before if any(there) else ()
    inner = tuple(axes[place] for place in places)
    source = op.operands[0]
    if result_type(source).axes != inner:
        if not inner or is_register(source):
            return None
        source = b.op("reshape", source, axes=inner)
    return b.broadcast(source, axes, places)


def _reshaped_broadcast(op: Op, definitions: Definitions, b: Builder) -> Value | None:
    """As a broadcast to the new axes, where the operand keeps its own; the next rule moves the other way what has to be reshaped itself."""
    before = definitions.get(op.operands[0]) if op.name == "reshape" else None
    if before is None or before.name != "broadcast":
        return None
    attempt = Builder(op.span)
    found = broadcast_to(before, result_type(op.result).axes, attempt)
    if found is None or any(made.name == "reshape" for made in attempt.ops):
        return None
    b.ops += attempt.ops
    return found


def _broadcast_reshape(op: Op, definitions: Definitions, b: Builder) -> Value | None:
    before = _reshape_of(op.operands[0], definitions) if op.name == "broadcast" else None
    parts = _single(before)
    if before is None or parts is None:
        return None
    source, positions = before.operands[0], op.attributes["positions"]
    splits = {positions[part.behind[0]]: [result_type(source).axes[place] for place in part.before] for part in parts}
    axes: list[Size] = []
    places: list[int] = []
    for place, axis in enumerate(op.attributes["axes"]):
        own = splits.get(place)
        places += range(len(axes), len(axes) + len(own)) if own is not None else ()
        axes += [axis] if own is None else own
    return b.op("reshape", b.broadcast(source, axes, places), axes=result_type(op.result).axes)


def _single(op: Op | None) -> tuple[Segment, ...] | None:
    """A reshape's segments, where each makes one axis."""
    if op is None or is_register(op.operands[0]):
        return None
    found = segments(result_type(op.operands[0]).axes, result_type(op.result).axes)
    return found if found is not None and all(len(part.behind) == 1 for part in found) else None


# ---- sums


def _reduction(op: Op, definitions: Definitions, b: Builder) -> Value | None:
    """Over whole segments; max, min and their indices over single axes that the reshape keeps."""
    if op.name not in ("sum", "mean", "max", "min", "argmax", "argmin"):
        return None
    before = _reshape_of(op.operands[0], definitions)
    if before is None or is_register(before.operands[0]):
        return None
    parts = segments(result_type(before.operands[0]).axes, result_type(before.result).axes)
    positions: list[int] = []
    for part in parts or ():
        there = [place in op.attributes["positions"] for place in part.behind]
        if any(there) and not (all(there) and (part.is_kept or op.name in ("sum", "mean"))):
            return None
        positions += part.before if any(there) else ()
    if not positions:
        return None
    return b.op("reshape", b.op(op.name, before.operands[0], positions=tuple(positions)), axes=result_type(op.result).axes)


def _contraction(op: Op, definitions: Definitions, b: Builder) -> Value | None:
    """A letter for each axis that was merged into one."""
    if op.name != "contraction":
        return None
    for index, operand in enumerate(op.operands):
        before = _reshape_of(operand, definitions)
        parts = _single(before)
        if before is not None and parts is not None and not all(part.is_kept for part in parts):
            return _split_letters(op, index, before.operands[0], parts, b)
    return None


def _split_letters(op: Op, index: int, source: Value, parts: Sequence[Segment], b: Builder) -> Value:
    names = ("left", "right")
    letters: tuple[int, ...] = op.attributes[names[index]]
    axes = result_type(source).axes
    free = max((*op.attributes["left"], *op.attributes["right"], *op.attributes["out"]), default=0) + 1
    split: dict[int, tuple[int, ...]] = {}
    sizes: dict[int, Size] = {}
    for part in parts:
        letter = letters[part.behind[0]]
        split[letter] = (letter,) if part.is_kept else tuple(range(free, free + len(part.before)))
        sizes.update(zip(split[letter], (axes[place] for place in part.before), strict=True))
        free += len(part.before)
    spelled = {name: tuple(new for letter in op.attributes[name] for new in split.get(letter, (letter,))) for name in (*names, "out")}
    other = op.operands[1 - index]
    kinds = dict(zip(op.attributes[names[1 - index]], result_type(other).axes, strict=True))
    other_axes = tuple(sizes.get(letter) or kinds[letter] for letter in spelled[names[1 - index]])
    if other_axes != result_type(other).axes:
        other = b.op("reshape", other, axes=other_axes)
    operands = (source, other) if index == 0 else (other, source)
    left, right, out = (renumbered(spelled[name], spelled["left"] + spelled["right"]) for name in ("left", "right", "out"))
    return b.op("reshape", b.op("contraction", *operands, left=left, right=right, out=out), axes=result_type(op.result).axes)


def renumbered(letters: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """The letters as their places in an order of all letters."""
    places = {letter: place for place, letter in enumerate(dict.fromkeys(order))}
    return tuple(places[letter] for letter in letters)


RULES = (_two_reshapes, _elementwise, _reshaped_broadcast, _broadcast_reshape, _reduction, _contraction)
