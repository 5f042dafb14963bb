"""The gradients found so far on the way back through a block, one for each place (activity.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set

from shapescript.compiler.ir.nodes import Block, Op, Value
from shapescript.compiler.ir.types import ModelType, TensorType, member_at, sorted_leaves
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.passes.activity import Activity, Place

Outer = Callable[[Place], Value | None]


class Adjoints:
    """Those of one block, whose operations define the values `inside`. What a place outside of it has before comes from `outer`, which is
    asked once for each place that gets a contribution here."""

    def __init__(self, builder: Builder, activity: Activity, inside: Set[Value] = frozenset(), outer: Outer | None = None) -> None:
        self.builder, self.activity = builder, activity
        self.of: dict[Place, Value] = {}
        self._before: dict[Place, Value] = {}
        self._inside, self._outer = inside, outer

    def now(self, place: Place) -> Value | None:
        if place not in self.of and self._outer is not None and place[0] not in self._inside:
            before = self._outer(place)
            if before is not None:
                self.of[place] = self._before[place] = before
        return self.of.get(place)

    def before(self, place: Place) -> Value:
        """What a place outside of the block had before the block added to it."""
        return self._before[place]

    def get(self, value: Value, path: str = "") -> Value | None:
        """The adjoint of a value that this block defines."""
        return self.of.get(self.activity.place(value, path))

    def add(self, value: Value, gradient: Value | None, path: str = "") -> None:
        place = self.activity.place(value, path)
        if gradient is None or place not in self.activity.varying:
            return
        before = self.now(place)
        self.of[place] = gradient if before is None else self.builder.op("add", before, gradient)

    def change(self, value: Value, change: Callable[[Value], Value]) -> bool:
        """Give the value another adjoint, made of the one that it has; False where it has none."""
        place = self.activity.place(value)
        before = self.now(place) if place in self.activity.varying else None
        if before is not None:
            self.of[place] = change(before)
        return before is not None

    def changed(self) -> Iterator[Place]:
        """The places outside of the block that got a contribution in it."""
        return (place for place, value in self.of.items() if place[0] not in self._inside and value is not self._before.get(place))

    def now_or_zeros(self, place: Place, builder: Builder) -> Value:
        """`builder` makes the zeros."""
        found = self.now(place)
        return zeros(builder, place_type(place)) if found is None else found

    def whole(self, wrt: Value, hint: str) -> Value:
        """The gradient with the type of `wrt`; zeros where nothing arrived. A model's has the names of parameters of which that is so."""
        if isinstance(wrt.type, ModelType):
            leaves = [self.get(wrt, leaf.name) or zeros(self.builder, leaf.type) for leaf in sorted_leaves(wrt.type)]
            absent = tuple(leaf.name for leaf in sorted_leaves(wrt.type) if leaf.is_trained and self.get(wrt, leaf.name) is None)
            return self.builder.op("pack", *leaves, model=wrt.type, absent=absent, hint=hint)
        return self.get(wrt) or zeros(self.builder, result_type(wrt))


def zeros(builder: Builder, kind: TensorType) -> Value:
    return builder.full(0.0 if kind.element.is_float else 0, kind)


def place_type(place: Place) -> TensorType:
    value, path = place
    found = member_at(value.type, path) if isinstance(value.type, ModelType) else value.type
    assert isinstance(found, TensorType)
    return found


def defined_in(parameters: Sequence[Value], ops: Sequence[Op]) -> frozenset[Value]:
    """What a block defines, its regions left out."""
    return frozenset((*parameters, *(result for op in ops for result in op.results)))


def defined_by(block: Block) -> frozenset[Value]:
    return defined_in(block.parameters, block.ops)
