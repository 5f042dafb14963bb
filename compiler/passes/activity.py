"""Which places of a region take part in its gradient: they depend on what the gradient is taken of, and the scalar depends on them.

A place is a tensor, or one leaf of a model. `leaf` and `submodel` make no place of their own: their results are the model's. Regions are
looked into: what goes in and out of them (`ways`) passes on what it is. A loop may pass something on from turn to turn, so the operations
are walked until nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field

from shapescript.compiler.ir.nodes import Op, Value, walk_ops
from shapescript.compiler.ir.types import Element, ModelType, TensorType, sorted_leaves
from shapescript.compiler.ops.storage import LOOPS
from shapescript.compiler.ops.table import Control, NoDerivative, entry
from shapescript.compiler.records.dataclass import dataclass

Place = tuple[Value, str]
Ways = list[tuple[Value, Value]]

PARTS = ("leaf", "submodel")
NUMBERS_AGAIN = tuple(f"to_{element.value}" for element in Element if element.is_float)


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
    lost: tuple[Op, Op] | None = None

    def place(self, value: Value, path: str = "") -> Place:
        base, prefix = self.parts.get(value, (value, ""))
        return base, ".".join(filter(None, (prefix, path)))

    def places(self, value: Value) -> Iterator[Place]:
        """Those of the value that hold floats, buffers left out: they are constants to every gradient."""
        return (self.place(value, path) for path in paths(value))

    def trained(self, wrt: Value) -> Iterator[Place]:
        """Those by which a gradient is taken."""
        if isinstance(wrt.type, ModelType):
            yield from (self.place(wrt, leaf.name) for leaf in sorted_leaves(wrt.type) if leaf.is_trained)
        else:
            yield from self.places(wrt)

    def varies(self, value: Value) -> bool:
        return any(place in self.varying for place in self.places(value))

    def is_active(self, value: Value) -> bool:
        return any(place in self.varying and place in self.useful for place in self.places(value))

    def sources_of_replaced(self, op: Op) -> Iterator[tuple[Value, str, str]]:
        """For each leaf of a `replace_submodel` but buffers: the operand and path that it comes from, and its name in the result."""
        model, part = op.operands
        path: str = op.attributes["path"]
        assert isinstance(model.type, ModelType)
        for leaf in sorted_leaves(model.type):
            if leaf.is_buffer:
                continue
            if leaf.name == path or leaf.name.startswith(path + "."):
                yield part, leaf.name[len(path) + 1 :], leaf.name
            else:
                yield model, leaf.name, leaf.name

    def extent(self) -> int:
        """Grows with every fact that is found."""
        return len(self.varying) + len(self.useful) + len(self.steps)

    def pass_on(self, source: Value, target: Value) -> None:
        """The target may be the source."""
        for one, other in zip(self.places(source), self.places(target), strict=True):
            if one in self.varying:
                self.varying.add(other)
        if source in self.steps:
            self.steps.setdefault(target, self.steps[source])

    def ask_back(self, source: Value, target: Value) -> None:
        for one, other in zip(self.places(source), self.places(target), strict=True):
            if other in self.useful:
                self.useful.add(one)


def paths(value: Value) -> Iterator[str]:
    """Where a value holds floats: the names of leaves, "" for a tensor."""
    if isinstance(value.type, TensorType):
        if value.type.element.is_float:
            yield ""
    elif isinstance(value.type, ModelType):
        yield from (leaf.name for leaf in sorted_leaves(value.type) if leaf.type.element.is_float and not leaf.is_buffer)


def ways_in(op: Op) -> Ways:
    """What a control operation hands to its regions: pairs of a value outside and one inside."""
    carried = op.operands[LOOPS[op.name] :] if op.name in LOOPS else ()
    return [pair for region in op.regions for pair in zip(carried, region.parameters[len(region.parameters) - len(carried) :], strict=True)]


def ways_out(op: Op) -> Ways:
    """What its regions hand out, or to the next turn; without a turn, what was handed in."""
    if op.name not in LOOPS:
        return [pair for region in op.regions for pair in zip(region.yields, op.results, strict=True)]
    carried, yields = op.operands[LOOPS[op.name] :], op.regions[-1].yields
    parameters = (region.parameters[len(region.parameters) - len(carried) :] for region in op.regions)
    return [pair for targets in (op.results, *parameters) for pair in zip(yields, targets, strict=True)] + [
        *zip(carried, op.results, strict=True)
    ]


def find_activity(ops: Sequence[Op], wrt: Value, scalar: Value) -> Activity:
    """Of a region's operations, with `wrt` its parameter and `scalar` what it yields."""
    found = Activity()
    found.varying.update(found.trained(wrt))
    has_loops = any(op.name in LOOPS for op in walk_ops(ops))
    _until_nothing_changes(found, has_loops, lambda: _forward(ops, found))
    found.useful.update(found.places(scalar))
    _until_nothing_changes(found, has_loops, lambda: _backward(ops, found))
    found.lost = _first_lost(ops, found)
    return found


def _until_nothing_changes(found: Activity, has_loops: bool, walk: Callable[[], None]) -> None:
    before = -1
    while before != found.extent():
        before = found.extent()
        walk()
        if not has_loops:
            return


def _has_flow(op: Op) -> bool:
    return entry(op.name).derivative is not NoDerivative.ZERO


# ---- what varies


def _forward(ops: Sequence[Op], found: Activity) -> None:
    for op in ops:
        if op.name in PARTS:
            found.parts[op.result] = found.place(op.operands[0], op.attributes["path"])
        elif op.name in ("pack", "replace_submodel"):
            found.varying.update(target for source, target in _moved(op, found) if source in found.varying)
        elif isinstance(entry(op.name).lowering, Control):
            _forward_control(op, found)
        elif op.name != "stop_gradient":
            _forward_steps(op, found)
            if _has_flow(op) and any(found.varies(operand) for operand in op.operands):
                found.varying.update(place for result in op.results for place in found.places(result))


def _forward_steps(op: Op, found: Activity) -> None:
    cause = next((found.steps[operand] for operand in op.operands if operand in found.steps), None)
    if cause is None and any(found.varies(operand) for operand in op.operands):
        cause = op
    if cause is not None:
        _mark_steps(op, cause, found)


def _mark_steps(op: Op, cause: Op, found: Activity) -> None:
    for result in op.results:
        if isinstance(result.type, TensorType) and not result.type.element.is_float:
            found.steps.setdefault(result, cause)


def _forward_control(op: Op, found: Activity) -> None:
    for source, target in ways_in(op):
        found.pass_on(source, target)
    for region in op.regions:
        _forward(region.ops, found)
    for source, target in ways_out(op):
        found.pass_on(source, target)
    cause = next((found.steps[value] for value in _deciding(op) if value in found.steps), None)
    if cause is None:
        return
    _mark_steps(op, cause, found)
    if op.name == "while":  # what it counts would be lost without a word
        found.varying.update(place for result in op.results for place in found.places(result))


def _deciding(op: Op) -> Sequence[Value]:
    """What decides which regions are executed, and how often."""
    if op.name == "while":
        return op.regions[0].yields
    return op.operands[: LOOPS[op.name]] if op.name in LOOPS else op.operands


# ---- what is useful


def _backward(ops: Sequence[Op], found: Activity) -> None:
    for op in reversed(ops):
        if op.name in PARTS:
            continue
        if op.name in ("pack", "replace_submodel"):
            found.useful.update(source for source, target in _moved(op, found) if target in found.useful)
        elif isinstance(entry(op.name).lowering, Control):
            for source, target in ways_out(op):
                found.ask_back(source, target)
            for region in reversed(op.regions):
                _backward(region.ops, found)
            for source, target in ways_in(op):
                found.ask_back(source, target)
        elif _has_flow(op) and _is_useful(op, found):
            found.useful.update(place for operand in op.operands for place in found.places(operand))


def _is_useful(op: Op, found: Activity) -> bool:
    return any(place in found.useful for result in op.results for place in found.places(result))


def _moved(op: Op, found: Activity) -> Iterator[tuple[Place, Place]]:
    """Pairs of where a leaf comes from and where it is in the result."""
    if op.name == "pack":
        for leaf, operand in zip(sorted_leaves(op.attributes["model"]), op.operands, strict=True):
            if not leaf.is_buffer:
                yield found.place(operand), found.place(op.result, leaf.name)
    else:
        for value, path, name in found.sources_of_replaced(op):
            yield found.place(value, path), found.place(op.result, name)


def _first_lost(ops: Sequence[Op], found: Activity) -> tuple[Op, Op] | None:
    """The first operation that makes a number again of what went in steps, and what made the steps."""
    for op in walk_ops(ops):
        if op.name in NUMBERS_AGAIN and op.operands[0] in found.steps and _is_useful(op, found):
            return found.steps[op.operands[0]], op
    return None
