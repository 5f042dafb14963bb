"""Executes a function the way ops/storage.py allows an engine to: values are read where they lie at the moment of use, so what was
overwritten too early shows as a wrong number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from evaluating import RecordingHost

from shapescript.compiler.ir.nodes import Block, Function, Op, Value
from shapescript.compiler.ir.types import ModelType, TensorType
from shapescript.compiler.ops.binding import bind_sizes
from shapescript.compiler.ops.storage import LOOPS, OWN, Place, homes, is_stored, overwritten, places
from shapescript.compiler.ops.table import Control, View, entry
from shapescript.compiler.reference import engine  # fills HANDLERS
from shapescript.compiler.reference.border import from_host
from shapescript.compiler.reference.frame import HANDLERS, Frame
from shapescript.compiler.reference.layouts import Layout, Layouts, aligned_copy

assert engine.HANDLERS is HANDLERS


class Machine:
    """Runs one function once; `copied` counts the `copy` operations done, `moved` the moves at the ends of blocks."""

    def __init__(self, function: Function) -> None:
        self.function, self.places = function, places(function)
        self.storages: dict[Value, Any] = {}
        self.registers: dict[Value, Any] = {}
        self.copied = self.moved = 0

    def run(self, arguments: Sequence[Any]) -> list[Any]:
        """The results; arguments of `mut` parameters are changed in place."""
        body = self.function.body
        self.frame = Frame(bind_sizes(self.function, arguments), RecordingHost(), Layouts(), {})
        for value, argument in zip(body.parameters, arguments, strict=True):
            if is_stored(value):
                self.storages[value] = argument
            else:
                self.registers[value] = from_host(value.type, argument)
        self.block(body)
        results = [self.get(value) for value in body.yields[: self.function.results]]
        changed = [value for value, mutable in zip(body.parameters, self.function.mutable, strict=True) if mutable]
        self.move(body.yields[self.function.results :], [self.places.get(value) for value in changed], changed)
        return results

    # ---- values

    def get(self, value: Value) -> Any:
        """What lies there now, in memory of its own."""
        if not is_stored(value):
            return self.registers[value]
        found = self._part(self.places[value], value)
        return aligned_copy(found) if isinstance(value.type, ModelType) else np.array(found)

    def _part(self, place: Place, value: Value) -> Any:
        """A view of the elements of a value in its storage."""
        whole = self.storages[place.root]
        if isinstance(place.root.type, ModelType) and place.path:
            layout = Layout(place.root.type)
            if isinstance(value.type, TensorType):
                whole = layout.places[place.path].view(whole)
            else:
                assert isinstance(value.type, ModelType)
                start = layout.start_of(place.path)
                whole = whole[start : start + Layout(value.type).total]
        if isinstance(value.type, TensorType):
            return whole.reshape(self.frame.shape(value.type.axes, None))
        return whole

    def put(self, value: Value, content: Any) -> None:
        if not is_stored(value):
            self.registers[value] = content
        elif self.places[value].root is value:
            self.storages[value] = np.array(content)
        else:
            self._part(self.places[value], value)[...] = content

    # ---- operations

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.do(op)

    def do(self, op: Op) -> None:
        self.check_overwriting(op)
        self.copied += op.name == "copy"
        if isinstance(entry(op.name).lowering, Control):
            {"if": self.branch, "while": self.repeat, "for_range": self.count}[op.name](op)
        elif isinstance(entry(op.name).lowering, View) and is_stored(op.result) and is_stored(op.operands[0]):
            return
        else:
            results = HANDLERS[op.name](op, [self.get(operand) for operand in op.operands], self.frame)
            for value, content in zip(op.results, results, strict=True):
                self.put(value, content)

    def check_overwriting(self, op: Op) -> None:
        """Rule 1: nothing else that the operation reads lies in what it takes over."""
        for index in overwritten(op):
            mine = self.places.get(op.operands[index])
            others = [self.places[other] for place, other in enumerate(op.operands) if place != index and other in self.places]
            if mine is not None and op.name != "replace_submodel":
                assert not any(other.overlaps(mine) for other in others), f"{op.name} reads what it overwrites"

    def move(self, values: Sequence[Value], targets: Sequence[Place | None], names: Sequence[Value]) -> None:
        """One after another; registers all at once."""
        registers = {name: self.registers[value] for value, name in zip(values, names, strict=True) if not is_stored(name)}
        for value, target, name in zip(values, targets, names, strict=True):
            if target is not None and self.places[value] != target:
                self.moved += 1
                content = self.get(value)
                self._part(target, name)[...] = content
        self.registers.update(registers)

    # ---- control flow

    def branch(self, op: Op) -> None:
        taken = op.regions[0 if self.registers[op.operands[0]] else 1]
        self.block(taken)
        for value, result, home in zip(taken.yields, op.results, homes(op), strict=True):
            if is_stored(result) and home == OWN:
                self.storages[result] = np.zeros_like(self.get(value))
        self.move(taken.yields, [self.places.get(result) for result in op.results], op.results)

    def enter(self, op: Op, block: Block, own: Sequence[Any] = ()) -> None:
        for value, content in zip(block.parameters, own, strict=False):
            self.put(value, content)
        for operand, parameter in zip(op.operands[LOOPS[op.name] :], block.parameters[len(own) :], strict=True):
            if not is_stored(parameter):
                self.registers[parameter] = self.registers[operand]

    def turn(self, op: Op, own: Sequence[Any]) -> None:
        body = op.regions[-1]
        carried = op.operands[LOOPS[op.name] :]
        self.block(body)
        self.move(body.yields, [self.places.get(value) for value in carried], body.parameters[len(own) :])

    def leave(self, op: Op, own: int) -> None:
        for result, parameter in zip(op.results, op.regions[-1].parameters[own:], strict=True):
            if not is_stored(result):
                self.registers[result] = self.registers[parameter]

    def count(self, op: Op) -> None:
        start, stop = (int(self.registers[operand]) for operand in op.operands[:2])
        self.enter(op, op.regions[0], [np.int64(start)])
        for index in range(start, stop):
            self.registers[op.regions[0].parameters[0]] = np.asarray(index, np.int64)
            self.turn(op, [index])
        self.leave(op, 1)

    def repeat(self, op: Op) -> None:
        condition, body = op.regions
        self.enter(op, body)
        while True:
            for value, twin in zip(condition.parameters, body.parameters, strict=True):
                if not is_stored(value):
                    self.registers[value] = self.registers[twin]
            self.block(condition)
            if not self.registers[condition.yields[0]]:
                break
            self.turn(op, [])
        self.leave(op, 0)
