"""Parameters that no gradient reaches: an update leaves them and their state alone, as PyTorch does.

`differentiate` names at each gradient of a model the parameters that the value doesn't depend on (`absent` of its `pack`). This pass
follows gradients from there to the updates that take them, through branches, loops, sums and scaling, and names at each `update` the
parameters that are left `untouched`. What may have a gradient in one of the ways through the function has one. A zero that the program
writes, such as `zeros_like(m)`, says nothing by itself: it is a gradient that happens to be 0, or the start of a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum

from shapescript.compiler.diagnostics.model import Span
from shapescript.compiler.ir.nodes import Block, Function, Op, Value, walk
from shapescript.compiler.ir.types import ModelType, sorted_leaves
from shapescript.compiler.ops.build import rebuilt
from shapescript.compiler.ops.storage import LOOPS
from shapescript.compiler.ops.table import Control, entry
from shapescript.compiler.passes.activity import ways_in, ways_out
from shapescript.compiler.records.dataclass import dataclass


class Reach(IntEnum):
    """What a tensor is as a gradient. Of a sum's operands, and of the ways to a value, the greatest holds."""

    ZERO = 0  # 0, as the program says
    ABSENT = 1  # 0, since no gradient leads there
    PRESENT = 2


State = Mapping[str, Reach]  # by the names of a model's leaves; of a tensor by ""


@dataclass(frozen=True)
class Gradient:
    """A gradient by a model, the place that takes it, and the parameters that it doesn't reach."""

    span: Span | None
    model: ModelType
    absent: tuple[str, ...]


def gradients(function: Function) -> Iterator[Gradient]:
    """Those of a function behind `differentiate`."""
    for op in walk(function.body):
        if op.name == "pack" and "absent" in op.attributes:
            yield Gradient(op.span, op.attributes["model"], op.attributes["absent"])


def mark_unreached(function: Function) -> Function:
    """The function with `untouched` at its updates, and without `absent`, which has done its work."""
    taken = list(gradients(function))
    if not taken:
        return function
    found = _Reaching()
    if any(gradient.absent for gradient in taken) and any(op.name == "update" for op in walk(function.body)):
        has_loops = any(op.name in LOOPS for op in walk(function.body))
        found.walk(function.body.ops)
        while has_loops and found.grew:
            found.grew = False
            found.walk(function.body.ops)
    body = _marked(function.body, found)
    return function.with_body(body)


def _marked(block: Block, found: _Reaching) -> Block:
    ops: list[Op] = []
    for op in block.ops:
        attributes = {name: value for name, value in op.attributes.items() if name != "absent"}
        if op.name == "update":
            state, model = found.state(op.operands[2]), op.operands[2].type
            assert isinstance(model, ModelType)
            names = tuple(leaf.name for leaf in sorted_leaves(model) if leaf.is_trained and state[leaf.name] is Reach.ABSENT)
            attributes.update({"untouched": names} if names else {})
        ops.append(rebuilt(op, op.operands, [_marked(region, found) for region in op.regions], op.results, attributes))
    return Block(block.parameters, tuple(ops), block.yields, block.symbols)


class _Reaching:
    """The states that differ from PRESENT everywhere; they only grow from walk to walk."""

    def __init__(self) -> None:
        self.of: dict[Value, State] = {}
        self.numbers: dict[Value, float] = {}
        self.grew = False

    def state(self, value: Value) -> State:
        found = self.of.get(value)
        return dict.fromkeys(_paths(value), Reach.PRESENT) if found is None else found

    def tensor(self, value: Value) -> Reach:
        return self.state(value)[""]

    def walk(self, ops: Sequence[Op]) -> None:
        for op in ops:
            if isinstance(entry(op.name).lowering, Control):
                self.pass_on(ways_in(op))
                for region in op.regions:
                    self.walk(region.ops)
                self.pass_on(ways_out(op))
            elif op.name in ("constant", "broadcast"):
                self.number(op)
            elif op.name in RULES:
                self.of[op.result] = RULES[op.name](self, op)

    def pass_on(self, ways: Sequence[tuple[Value, Value]]) -> None:
        for source, target in ways:
            new, before = self.state(source), self.of.get(target)
            joined = new if before is None else {path: max(reach, before[path]) for path, reach in new.items()}
            self.grew = self.grew or joined != before
            self.of[target] = joined

    def number(self, op: Op) -> None:
        """A constant, everywhere in a tensor."""
        if op.name == "constant":
            self.numbers[op.result] = float(op.attributes["value"])
            self.of[op.result] = {"": Reach.PRESENT if op.attributes["value"] else Reach.ZERO}
            return
        self.of[op.result] = self.state(op.operands[0])
        if op.operands[0] in self.numbers:
            self.numbers[op.result] = self.numbers[op.operands[0]]


def _paths(value: Value) -> tuple[str, ...]:
    return tuple(leaf.name for leaf in sorted_leaves(value.type)) if isinstance(value.type, ModelType) else ("",)


# ---- what operations make of gradients

Rule = Callable[[_Reaching, Op], State]


def _first(found: _Reaching, op: Op) -> State:
    return found.state(op.operands[0])


def _greatest(found: _Reaching, op: Op) -> State:
    return {"": max(map(found.tensor, op.operands))}


def _least(found: _Reaching, op: Op) -> State:
    return {"": min(map(found.tensor, op.operands))}


def _selected(found: _Reaching, op: Op) -> State:
    return {"": max(map(found.tensor, op.operands[1:]))}


def _with_number(keeps_zero: Callable[[float], bool]) -> Rule:
    """Of a tensor and a number: as the tensor where the number leaves 0 at 0."""

    def rule(found: _Reaching, op: Op) -> State:
        first, second = op.operands
        if second in found.numbers and keeps_zero(found.numbers[second]):
            return found.state(first)
        if op.name != "pow" and first in found.numbers and keeps_zero(found.numbers[first]):
            return found.state(second)
        return {"": Reach.PRESENT} if op.name == "pow" else _greatest(found, op)

    return rule


def _leaf(found: _Reaching, op: Op) -> State:
    return {"": found.state(op.operands[0])[op.attributes["path"]]}


def _submodel(found: _Reaching, op: Op) -> State:
    whole, path = found.state(op.operands[0]), op.attributes["path"]
    return {name: whole[f"{path}.{name}"] for name in _paths(op.result)}


def _pack(found: _Reaching, op: Op) -> State:
    names, absent = _paths(op.result), frozenset(op.attributes.get("absent", ()))
    return {name: Reach.ABSENT if name in absent else found.tensor(part) for name, part in zip(names, op.operands, strict=True)}


def _replaced(found: _Reaching, op: Op) -> State:
    model, part = map(found.state, op.operands)
    path = op.attributes["path"]
    return {**model, **{f"{path}.{name}" if name else path: reach for name, reach in part.items()}}


LEAVES_ZERO = (  # functions of which 0 is 0, and what moves or converts elements
    *("neg", "abs", "sign", "relu", "sqrt", "sin", "tanh", "erf", "expm1", "log1p", "floor", "ceil", "round"),
    *("to_f32", "to_f64", "to_bf16", "reshape", "transpose", "stop_gradient", "copy"),
)
RULES: dict[str, Rule] = {
    **dict.fromkeys((*LEAVES_ZERO, "div", "scale_model"), _first),
    **dict.fromkeys(("add", "sub"), _greatest),
    "mul": _least,
    "select": _selected,
    "minimum": _with_number(lambda number: number >= 0),
    "maximum": _with_number(lambda number: number <= 0),
    "pow": _with_number(lambda number: number > 0),
    "leaf": _leaf,
    "submodel": _submodel,
    "pack": _pack,
    "replace_submodel": _replaced,
}
