"""A selection cuts the way back: to what its mask leaves out nothing flows, not even 0 times an infinite slope.

`where(x > 0.0, sqrt(x), 0.0)` gives the root a gradient of 0 where x is 0, and its rule would make 0 / 0 of it. So the mask goes along with
the gradient, back through elementwise operations and those that spread or move elements, and picks 0 again behind each rule that
multiplies. It goes no further than a value that is also used unmasked.
"""

from __future__ import annotations

from collections.abc import Sequence

from shapescript.compiler.ir.nodes import Op, Value
from shapescript.compiler.ir.types import TensorType
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.ops.shapes import inverse, kept
from shapescript.compiler.ops.table import Scalar, entry

COPIES = frozenset({"add", "sub", "neg", "minimum", "maximum", "relu", "abs", "to_f32", "to_f64"})
"""Their rules hand the gradient on, negate it or pick 0: nothing is multiplied."""


class Cuts:
    """The masks of gradients that a selection has cut: elsewhere they are 0."""

    def __init__(self) -> None:
        self._masks: dict[Value, Value] = {}

    def behind(self, b: Builder, op: Op, gradients: Sequence[Value | None], contributions: Sequence[Value | None]) -> list[Value | None]:
        """The contributions of an operation's rule, cut where its gradient is."""
        gradient = gradients[0]
        mask = None if gradient is None else self._masks.get(gradient)
        if op.name == "select":
            return self._selected(b, op, mask, contributions)
        if mask is None:
            return list(contributions)
        if isinstance(entry(op.name).lowering, Scalar):
            is_copy = op.name in COPIES
            return [None if made is None else self._marked(made if is_copy else _picked(b, mask, made), mask) for made in contributions]
        moved = _moved(b, op, mask)
        return [made if made is None or moved is None else self._marked(made, moved) for made in contributions]

    def _selected(self, b: Builder, op: Op, mask: Value | None, contributions: Sequence[Value | None]) -> list[Value | None]:
        chosen, *parts = op.operands[0], *contributions[1:]
        masks = (chosen, b.op("not", chosen))
        found: list[Value | None] = [None]
        for own, made in zip(masks, parts, strict=True):
            found.append(None if made is None else self._marked(made, own if mask is None else b.op("and", own, mask)))
        return found

    def _marked(self, gradient: Value, mask: Value) -> Value:
        self._masks[gradient] = mask
        return gradient

    def joined(self, b: Builder, before: Value | None, contribution: Value | None, total: Value | None) -> None:
        """Of two gradients that are added each one's mask must be known."""
        if before is None or contribution is None or total is None or total is before:
            return
        masks = self._masks.get(before), self._masks.get(contribution)
        if masks[0] is not None and masks[1] is not None:
            self._masks[total] = masks[0] if masks[0] is masks[1] else b.op("or", masks[0], masks[1])


def _picked(b: Builder, mask: Value, contribution: Value) -> Value:
    return b.op("select", mask, contribution, b.full(0.0, result_type(contribution)))


def _moved(b: Builder, op: Op, mask: Value) -> Value | None:
    """The mask of the operand of an operation that spreads, moves or adds up elements; None of any other."""
    kind = op.operands[0].type if op.operands else None
    if not isinstance(kind, TensorType):
        return None
    match op.name:
        case "broadcast":
            new = kept(result_type(op.result).rank, op.attributes["positions"])
            return b.op("any", mask, positions=new) if new else mask
        case "transpose":
            return b.op("transpose", mask, permutation=inverse(op.attributes["permutation"]))
        case "reshape":
            return b.op("reshape", mask, axes=kind.axes)
        case "sum" | "mean":
            return b.broadcast(mask, kind.axes, kept(kind.rank, op.attributes["positions"]))
    return None
