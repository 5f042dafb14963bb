"""Passes over memory: how many tensors operations read and write whole, and how many bytes that is. Neither machine nor sizes change it.

Each tensor with axes that an operation reads, and each that it writes, is a pass; one that it reads at several places is one, and so is one
that a fused reduction walks along several times, since a row stays in the first cache. A model is a pass; of an optimiser's state each slot
is one. Views move nothing. A pack moves what isn't made in its block (what is, is computed in the packed model). The host's work, numbers
without axes and looks at single words don't count.
"""

from __future__ import annotations

from collections.abc import Iterator

from shapescript.compiler.ir.flat import slot_layout
from shapescript.compiler.ir.nodes import Block, Function, Op, Value
from shapescript.compiler.ir.sizes import ZERO, Size, number
from shapescript.compiler.ir.types import OptimiserType
from shapescript.compiler.numerics.optimisers import KINDS
from shapescript.compiler.ops.locations import storage_bytes
from shapescript.compiler.ops.storage import is_stored
from shapescript.compiler.ops.table import Control, Host, View, entry
from shapescript.compiler.records.dataclass import dataclass

SINGLE_WORDS = ("optimiser_step",)


@dataclass(frozen=True)
class Traffic:
    """Of a block's own operations, or of one of them."""

    operations: int = 0
    passes: int = 0
    bytes: Size = ZERO

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.operations + other.operations, self.passes + other.passes, self.bytes + other.bytes)


def passes_over_memory(function: Function) -> int:
    """Each operation counted once wherever it stands."""
    return sum(traffic.passes for _, traffic in block_traffic(function))


def block_traffic(function: Function) -> Iterator[tuple[str, Traffic]]:
    """For each block with passes over memory the operations around it, as a path, and what one turn of it reads and writes."""
    yield from _blocks(function.body, "")


def _blocks(block: Block, path: str) -> Iterator[tuple[str, Traffic]]:
    made = {value for op in block.ops if not isinstance(entry(op.name).lowering, View) for value in op.results}
    own = sum((op_traffic(op, made) for op in block.ops), Traffic())
    if own.passes:
        yield path, own
    for op in block.ops:
        if isinstance(entry(op.name).lowering, Control):
            for region in op.regions:
                yield from _blocks(region, f"{path}/{op.name}" if path else op.name)


def op_traffic(op: Op, made: set[Value]) -> Traffic:
    """`made` is what the block's operations make that aren't views."""
    if isinstance(entry(op.name).lowering, View | Control | Host) or op.name in SINGLE_WORDS:
        return Traffic()
    if op.name == "check_finite" and len(op.operands) > 1:  # by the norm, which is a number
        return Traffic()
    operands, results = dict.fromkeys(op.operands), dict.fromkeys(op.results)
    if op.name in ("pack", "pack_flat"):
        operands = {value: None for value in operands if value not in made}
        results = operands
    touched = [value for value in (*operands, *results) if is_stored(value)]
    total = sum((_of_value(value) for value in touched), Traffic())
    return Traffic(int(total.passes > 0), total.passes, total.bytes)


def _of_value(value: Value) -> Traffic:
    if isinstance(value.type, OptimiserType):
        slots = len(KINDS[value.type.kind].slots_with(False))
        return Traffic(0, slots, number(slots * slot_layout(value.type.model).total))
    return Traffic(0, 1, storage_bytes(value.type))
