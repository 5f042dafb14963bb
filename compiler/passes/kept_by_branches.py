"""What the regions of an `if`, or of what is executed once, hand out beside their results."""

from __future__ import annotations

from collections.abc import Sequence

from shapescript.compiler.ir.nodes import Op, Value
from shapescript.compiler.ir.types import Element
from shapescript.compiler.ops.build import Builder, rebuilt, result_type


class KeptByBranches:
    """What the operation's regions hand out of these values: as a result that it has already, where a region hands the value out as that
    one, else as a further result: one value of one region, or one of several regions where the types agree. Where a region has nothing for
    a further result it gives anything of that type, since nobody reads it then."""

    def __init__(self, op: Op, needed: Sequence[Sequence[Value]]) -> None:
        self.op = op
        self.results: list[Value] = []  # the further ones
        self._handed: list[dict[Value, Value]] = [{} for _ in needed]  # for each region what a further result is there
        self._given: list[dict[Value, Value]] = []  # and for each value its result
        for branch, values in enumerate(needed):
            self._given.append(dict(zip(op.regions[branch].yields, op.results, strict=True)))
            for value in values:
                if value not in self._given[branch]:
                    result = self._free_result(branch, value)
                    self._handed[branch][result], self._given[branch][value] = value, result

    def _free_result(self, branch: int, value: Value) -> Value:
        free = (result for result in self.results if result not in self._handed[branch] and result.type == value.type)
        found = next(free, None)
        if found is None:
            found = Value(value.type, value.hint)
            self.results.append(found)
        return found

    def result(self, branch: int, value: Value) -> Value:
        return self._given[branch][value]

    def forward(self, forwards: Sequence[Sequence[Op]]) -> Op:
        """The operation, with these operations in its regions."""
        regions = []
        for handed, region, ops in zip(self._handed, self.op.regions, forwards, strict=True):
            builder = Builder(self.op.span)
            builder.ops += ops
            more = [handed[result] if result in handed else _anything(builder, result) for result in self.results]
            regions.append(builder.block((), (*region.yields, *more)))
        return rebuilt(self.op, self.op.operands, regions, (*self.op.results, *self.results))


def _anything(builder: Builder, like: Value) -> Value:
    kind = result_type(like)
    if kind.axes:
        return builder.op("reserve", element=kind.element, axes=kind.axes)
    return builder.constant({Element.I64: 0, Element.BOOL: False}.get(kind.element, 0.0), kind.element)
