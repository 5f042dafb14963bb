"""Which places of a region take part in its gradient: they depend on what the gradient is taken of, and the scalar depends on them.

A place is a tensor, or one leaf of a model. `leaf` and `submodel` make no place of their own: their results are the model's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from shapescript.compiler.ir.nodes import Op, Value, free_values
from shapescript.compiler.ir.types import ModelType, TensorType, sorted_leaves
from shapescript.compiler.ops.table import NoDerivative, entry

Place = tuple[Value, str]

PARTS = ("leaf", "submodel")
NUMBERS_AGAIN = ("to_f32", "to_f64")
CONTROL = {"if": "an `if`", "while": "a `while`", "for_range": "a `for` over a range", "for_batches": "a `for` over batches"}


@dataclass
class Activity:
    """`varying` depends on the parameter; `useful` is what the scalar depends on.

    `steps` are ints and bools that depend on the parameter, each with the operation that made the first of them of floats: as numbers again
    (`lost`), they would give a gradient of 0 where there is none.
    """

    parts: dict[Value, Place] = field(default_factory=dict)
    varying: set[Place] = field(default_factory=set)
    useful: set[Place] = field(default_factory=set)
    steps: dict[Value, Op] = field(default_factory=dict)
    lost: list[tuple[Op, Op]] = field(default_factory=list)

    def place(self, value: Value, path: str = "") -> Place:
        base, prefix = self.parts.get(value, (value, ""))
        return base, ".".join(filter(None, (prefix, path)))

    def places(self, value: Value) -> Iterator[Place]:
        """Those of the value that hold floats."""
        if isinstance(value.type, TensorType):
            if value.type.element.is_float:
                yield self.place(value)
        elif isinstance(value.type, ModelType):
            yield from (self.place(value, leaf.name) for leaf in sorted_leaves(value.type) if leaf.type.element.is_float)

    def varies(self, value: Value) -> bool:
        return any(place in self.varying for place in self.places(value))

    def is_active(self, value: Value) -> bool:
        return any(place in self.varying and place in self.useful for place in self.places(value))

    def sources_of_replaced(self, op: Op) -> Iterator[tuple[Value, str, str]]:
        """For each leaf of a `replace_submodel`: the operand and path that it comes from, and its name in the result."""
        model, part = op.operands
        path: str = op.attributes["path"]
        assert isinstance(model.type, ModelType)
        for leaf in sorted_leaves(model.type):
            if leaf.name == path or leaf.name.startswith(path + "."):
                yield part, leaf.name[len(path) + 1 :], leaf.name
            else:
                yield model, leaf.name, leaf.name


def find_activity(ops: Sequence[Op], wrt: Value, scalar: Value) -> Activity:
    """Of a region's operations, with `wrt` its parameter and `scalar` what it yields."""
    found = Activity()
    found.varying.update(found.places(wrt))
    for op in ops:
        _forward(op, found)
    found.useful.update(found.places(scalar))
    for op in reversed(ops):
        _backward(op, found)
    return found


def _inputs(op: Op) -> Iterator[Value]:
    yield from op.operands
    for region in op.regions:
        yield from free_values(region)


def _has_flow(op: Op) -> bool:
    return entry(op.name).derivative is not NoDerivative.ZERO


def _forward(op: Op, found: Activity) -> None:
    if op.name in PARTS:
        found.parts[op.result] = found.place(op.operands[0], op.attributes["path"])
    elif op.name in ("pack", "replace_submodel"):
        found.varying.update(target for source, target in _moved(op, found) if source in found.varying)
    elif op.name != "stop_gradient":
        _forward_steps(op, found)
        if _has_flow(op) and any(found.varies(value) for value in _inputs(op)):
            found.varying.update(place for result in op.results for place in found.places(result))


def _forward_steps(op: Op, found: Activity) -> None:
    cause = next((found.steps[value] for value in _inputs(op) if value in found.steps), None)
    if cause is None and any(found.varies(value) for value in _inputs(op)):
        cause = op
    if cause is None:
        return
    for result in op.results:
        if isinstance(result.type, TensorType) and not result.type.element.is_float:
            found.steps[result] = cause


def _backward(op: Op, found: Activity) -> None:
    if op.name in PARTS:
        return
    if op.name in ("pack", "replace_submodel"):
        found.useful.update(source for source, target in _moved(op, found) if target in found.useful)
        return
    is_useful = any(place in found.useful for result in op.results for place in found.places(result))
    if op.name in NUMBERS_AGAIN and op.operands[0] in found.steps and is_useful:
        found.lost.append((found.steps[op.operands[0]], op))
    if _has_flow(op) and is_useful:
        found.useful.update(place for value in _inputs(op) for place in found.places(value))


def _moved(op: Op, found: Activity) -> Iterator[tuple[Place, Place]]:
    """Pairs of where a leaf comes from and where it is in the result."""
    if op.name == "pack":
        for leaf, operand in zip(sorted_leaves(op.attributes["model"]), op.operands, strict=True):
            yield found.place(operand), found.place(op.result, leaf.name)
    else:
        for value, path, name in found.sources_of_replaced(op):
            yield found.place(value, path), found.place(op.result, name)
