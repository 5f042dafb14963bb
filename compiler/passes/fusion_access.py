"""How a point of a fused loop nest reads its operands: through broadcasts and transposes, which are only places; numbers and indices, and
cheap expressions of nothing else, are computed at the point and read nothing."""

from __future__ import annotations

from collections.abc import Iterator

from shapescript.compiler.ir.nodes import Op, Value
from shapescript.compiler.ir.types import TensorType
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.ops.table import Scalar, View, entry
from shapescript.compiler.records.dataclass import dataclass

Map = tuple[int, ...]  # for each axis of a value its place in the space

# One or two instructions each; what costs more is computed once and read.
CHEAP = frozenset(
    {
        "add",
        "sub",
        "mul",
        "neg",
        "abs",
        "minimum",
        "maximum",
        "lt",
        "le",
        "gt",
        "ge",
        "eq",
        "ne",
        "and",
        "or",
        "not",
        "select",
        "to_f32",
        "to_f64",
        "to_i64",
        "to_bool",
    }
)
MOST_FREE_OPS = 8


@dataclass(frozen=True)
class Access:
    source: Value
    map: Map


def identity(value: Value) -> Map:
    return tuple(range(result_type(value).rank))


def is_elementwise(op: Op) -> bool:
    """Whether the operation has axes and is computed point by point."""
    return (isinstance(entry(op.name).lowering, Scalar) or op.name == "dropout") and bool(result_type(op.result).axes)


class Accesses:
    """Knows what made each value, in this block and those around it."""

    def __init__(self) -> None:
        self.definitions: dict[Value, Op] = {}
        self.free_ops: dict[Value, int] = {}  # values with axes that read nothing, and how many operations an element takes

    def define(self, op: Op) -> None:
        self.definitions.update((result, op) for result in op.results)
        count = self._free_count(op)
        if count is not None and count <= MOST_FREE_OPS:
            self.free_ops[op.result] = count

    def _free_count(self, op: Op) -> int | None:
        is_place = op.name in ("broadcast", "transpose")
        if op.name in ("iota", "by_leaf"):
            return 1
        if not is_place and not (op.name in CHEAP and result_type(op.result).axes):
            return None
        counts = [self.free_ops.get(operand) if result_type(operand).axes else 0 for operand in op.operands]
        known = [count for count in counts if count is not None]
        return sum(known) + (not is_place) if len(known) == len(counts) else None

    def stored(self, value: Value) -> Value:
        """The value whose elements a view of it, or of a part of it, shows."""
        op = self.definitions.get(value)
        while op is not None and isinstance(entry(op.name).lowering, View):
            value = op.operands[0]
            op = self.definitions.get(value)
        return value

    def through(self, value: Value, map_: Map) -> Access:
        """The value behind broadcasts and transposes, and where its axes are in the space."""
        op = self.definitions.get(value)
        while op is not None and op.name in ("broadcast", "transpose"):
            map_ = behind(op, map_)
            value = op.operands[0]
            op = self.definitions.get(value)
        return Access(value, map_)

    def reads(self, value: Value, map_: Map) -> Iterator[Access]:
        """What is read for an element of the value: tensors, and registers that aren't constants."""
        access = self.through(value, map_)
        if access.source in self.free_ops:
            for operand in self.definitions[access.source].operands:
                yield from self.reads(operand, () if is_register(operand) else access.map)
        elif not self.is_constant(access.source):
            yield access

    def is_constant(self, value: Value) -> bool:
        op = self.definitions.get(value)
        return op is not None and op.name == "constant"


def behind(op: Op, map_: Map) -> Map:
    """The operand's axes in the space, given those of the result of a broadcast or transpose."""
    if op.name == "broadcast":
        return tuple(map_[place] for place in op.attributes["positions"])
    permutation = op.attributes["permutation"]
    return tuple(map_[permutation.index(axis)] for axis in range(len(permutation)))


def is_register(value: Value) -> bool:
    return isinstance(value.type, TensorType) and not value.type.axes


def point_reads(op: Op, accesses: Accesses) -> Iterator[Access]:
    """What an elementwise operation reads at a point of its result."""
    for operand in op.operands:
        yield from accesses.reads(operand, () if is_register(operand) else identity(op.result))
