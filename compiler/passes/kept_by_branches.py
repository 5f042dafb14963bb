"""What the regions of an `if`, or of what is executed once, hand out beside their results."""

from __future__ import annotations

from collections.abc import Sequence

from shapescript.compiler.ir.nodes import Op, Value
from shapescript.compiler.ir.types import Element
from shapescript.compiler.ops.build import Builder, rebuilt, result_type


class KeptByBranches:
    """Further results of the operation: each is one value of one region, or one of several regions where the types agree. Where a region
    hands out nothing it gives anything of that type, since nobody reads it then."""

    def __init__(self, needed: Sequence[Sequence[Value]]) -> None:
        self.results: list[Value] = []
        self._handed: list[dict[Value, Value]] = [{} for _ in needed]  # for each region what a result is there, and the other way round
        self._given: list[dict[Value, Value]] = [{} for _ in needed]
        for branch, values in enumerate(needed):
            for value in values:
                result = self._result_for(branch, value)
                self._handed[branch][result], self._given[branch][value] = value, result

    def _result_for(self, branch: int, value: Value) -> Value:
        free = (result for result in self.results if result not in self._handed[branch] and result.type == value.type)
        found = next(free, None)
        if found is None:
            found = Value(value.type, value.hint)
            self.results.append(found)
        return found

    def result(self, branch: int, value: Value) -> Value:
        return self._given[branch][value]

    def forward(self, op: Op, forwards: Sequence[Sequence[Op]]) -> Op:
        """The operation, with these operations in its regions."""
        regions = []
        for handed, region, ops in zip(self._handed, op.regions, forwards, strict=True):
            builder = Builder(op.span)
            builder.ops += ops
            more = [handed[result] if result in handed else _anything(builder, result) for result in self.results]
            regions.append(builder.block((), (*region.yields, *more)))
        return rebuilt(op, op.operands, regions, (*op.results, *self.results))


def _anything(builder: Builder, like: Value) -> Value:
    kind = result_type(like)
    if kind.axes:
        return builder.op("reserve", element=kind.element, axes=kind.axes)
    return builder.constant({Element.I64: 0, Element.BOOL: False}.get(kind.element, 0.0), kind.element)
