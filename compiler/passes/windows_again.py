"""Windows that overlap hold each element several times, and the gradient of a convolution reads them long after its result was made: there
they are made again, from the tensor that they see, so that this one is kept in their stead. Moving elements costs little.
"""

from __future__ import annotations

from dataclasses import field

from shapescript.compiler.ir.nodes import Block, Function, Op, Value
from shapescript.compiler.ir.sizes import ONE
from shapescript.compiler.ops.build import Builder, rebuilt
from shapescript.compiler.ops.table import View, entry
from shapescript.compiler.passes.dead import drop_dead
from shapescript.compiler.records.dataclass import dataclass

SOON = 8  # operations after which windows are still at hand


def make_windows_again(function: Function) -> Function:
    body = drop_dead(_block(function.body))
    return function.with_body(body)


def _block(block: Block) -> Block:
    ops: list[Op] = []
    known: dict[Value, _Windows] = {}
    for index, op in enumerate(block.ops):
        is_view = isinstance(entry(op.name).lowering, View)
        operands = [known[operand].read(operand, index, ops) if operand in known and not is_view else operand for operand in op.operands]
        ops.append(rebuilt(op, operands, [_block(region) for region in op.regions], op.results))
        if op.name == "windows" and _overlap(op):
            known[op.result] = _Windows(op, index)
        elif is_view and op.operands and op.operands[0] in known:
            known[op.result] = known[op.operands[0]]
            known[op.result].views[op.result] = op
    return Block(block.parameters, tuple(ops), block.yields, block.symbols)


def _overlap(op: Op) -> bool:
    """Whether windows hold more than there is, as far as is known."""
    for length, stride in zip(op.attributes["lengths"], op.attributes["strides"], strict=True):
        places, step = length.constant(), stride.constant()
        if length not in (stride, ONE) and (places is None or step is None or places > step):
            return True
    return False


@dataclass
class _Windows:
    """Windows as they were made last, and the views through which they are read; `now` are the values in the place of the first ones."""

    op: Op
    index: int
    views: dict[Value, Op] = field(default_factory=dict)
    now: dict[Value, Value] = field(default_factory=dict)

    def read(self, value: Value, index: int, ops: list[Op]) -> Value:
        """The value for an operation with this number: made again where that is far from where it was read last."""
        if index - self.index > SOON:
            self.now = {self.op.result: self._again(self.op, self.op.operands[0], ops)}
        self.index = index
        return self._current(value, ops) if self.now else value

    def _current(self, value: Value, ops: list[Op]) -> Value:
        if value not in self.now:
            view = self.views[value]
            self.now[value] = self._again(view, self._current(view.operands[0], ops), ops)
        return self.now[value]

    def _again(self, op: Op, operand: Value, ops: list[Op]) -> Value:
        builder = Builder(op.span)
        result = builder.op(op.name, operand, **op.attributes)
        ops += builder.ops
        return result
