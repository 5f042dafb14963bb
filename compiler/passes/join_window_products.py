"""Windows joined with the contraction that reads them, and a contraction with the `fold` of its result (ops/window_products.py).

A tensor of windows holds each element several times: nine times for 3 by 3 places. Joined, those of one example are made at a time, which
stay in cache, so that a convolution and its gradients need no memory for the windows of their batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from shapescript.compiler.ir.nodes import Block, Function, Op, Value, use_counts
from shapescript.compiler.ir.sizes import ONE, product
from shapescript.compiler.ir.types import TensorType
from shapescript.compiler.ops.build import rebuilt, result_type
from shapescript.compiler.ops.shapes import LETTERS
from shapescript.compiler.ops.window_products import FOLD, WINDOWS
from shapescript.compiler.passes.dead import drop_dead
from shapescript.compiler.records.dataclass import dataclass

SHORTEST_RUN = 16  # places that are summed in an example: sums in memory are loaded and stored once for each


def join_window_products(function: Function) -> Function:
    uses = use_counts(function.body)
    body = drop_dead(_block(function.body, uses))
    return function.with_body(body)


def _block(block: Block, uses: Mapping[Value, int]) -> Block:
    joiner = _Joiner(uses)
    for op in block.ops:
        done = rebuilt(op, op.operands, [_block(region, uses) for region in op.regions], op.results)
        joiner.ops.append(joiner.joined(done) or done)
        joiner.definitions.update((result, op) for result in op.results)
    return Block(block.parameters, tuple(joiner.ops), block.yields, block.symbols)


@dataclass
class _Joiner:
    """`definitions` are those of the block."""

    uses: Mapping[Value, int]
    ops: list[Op] = field(default_factory=list)
    definitions: dict[Value, Op] = field(default_factory=dict)

    def joined(self, op: Op) -> Op | None:
        if op.name == "fold":
            return self._with_fold(op)
        if op.name in ("contraction", "fused_contraction"):
            return next((found for side in range(2) if (found := self._with_windows(op, side)) is not None), None)
        return None

    def _origin(self, value: Value) -> Op | None:
        """What makes a value, in the block, seen through reshapes that keep the first axis."""
        op, first = self.definitions.get(value), result_type(value).axes[:1]
        while op is not None and op.name == "reshape" and result_type(op.operands[0]).axes[:1] == first:
            op = self.definitions.get(op.operands[0])
        return op

    def _with_windows(self, op: Op, side: int) -> Op | None:
        value = op.operands[side]
        windows = self._origin(value)
        if windows is None or windows.name != "windows" or not _keeps_first(windows, value) or not _reads_by_example(op, side):
            return None
        operands = list(op.operands)
        operands[side] = windows.operands[0]
        attributes: dict[str, Any] = {name: windows.attributes[name] for name in WINDOWS}
        attributes |= {name: op.attributes[name] for name in LETTERS}
        attributes |= {"side": side, "axes": result_type(value).axes, "maps": op.attributes.get("maps", ())}
        element = Value(TensorType(result_type(value).element))
        regions = op.regions or (Block((element,), (), (element,)),)
        return Op("windows_contraction", tuple(operands), attributes, op.results, regions, op.span)

    def _with_fold(self, op: Op) -> Op | None:
        (value,) = op.operands
        contraction = self._origin(value)
        if contraction is None or contraction.name != "contraction" or not _keeps_first(op, value) or not self._is_read_once(value):
            return None
        if not _makes_by_example(contraction):
            return None
        attributes: dict[str, Any] = {name: op.attributes[name] for name in FOLD}
        attributes |= {name: contraction.attributes[name] for name in LETTERS}
        attributes["axes"] = result_type(value).axes
        return Op("contraction_fold", contraction.operands, attributes, op.results, (), op.span)

    def _is_read_once(self, value: Value) -> bool:
        """Whether nothing else reads it, or what its views are of."""
        op: Op | None = self.definitions[value]
        while op is not None and self.uses[op.result] == 1:
            if op.name != "reshape":
                return True
            op = self.definitions.get(op.operands[0])
        return False


def _keeps_first(op: Op, windows: Value) -> bool:
    """Whether windows don't move along the first axis, and there may be several places of it."""
    return 0 not in op.attributes["positions"] and result_type(windows).axes[0] != ONE


def _reads_by_example(op: Op, side: int) -> bool:
    """Whether a contraction can take one place of the first axis of operand `side` after another."""
    own, other = op.attributes[("left", "right")[side]], op.attributes[("right", "left")[side]]
    example, rest = own[0], other[1:]
    out, summed = op.attributes["out"], [letter for letter in op.attributes["left"] if letter not in op.attributes["out"]]
    if example in rest:
        return False
    if example in out:
        return out[0] == example and example not in other and _are_adjacent(own, summed)
    along = summed[1:]
    if other[0] != example or not along or any(letter in own and letter in other for letter in out):
        return False
    sizes = dict(zip(own, result_type(op.operands[side]).axes, strict=True))
    places = product(sizes[letter] for letter in along).constant()
    return (places is None or places >= SHORTEST_RUN) and _are_adjacent(own, along) and _are_adjacent(other, along)


def _makes_by_example(op: Op) -> bool:
    """Whether a contraction can make one place of its first axis after another."""
    example, sides = op.attributes["out"][0], [op.attributes["left"], op.attributes["right"]]
    readers = [own for own in sides if example in own]
    return len(readers) == 1 and readers[0][0] == example


def _are_adjacent(letters: Sequence[int], some: Sequence[int]) -> bool:
    """Whether these letters follow each other."""
    places = [letters.index(letter) for letter in some]
    return places == list(range(places[0], places[0] + len(places))) if places else True
