"""The masks of dropouts inside fused regions: bytes made before the kernel that reads them, and kept for the backward pass.

A mask depends on the seed, the draw, the rate and the number of elements alone. A block of the program that drops by the same numbers
again, as a backward pass does, reads the same bytes; they stay until the block ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from llvmlite import ir

from shapescript.compiler.codegen import emit, extents, random
from shapescript.compiler.codegen.elements import emit_region, needed
from shapescript.compiler.codegen.emit import F32, F64, I64, Builder, Value, constant, intrinsic
from shapescript.compiler.codegen.lowering import MEMORY_TYPES, Lowering
from shapescript.compiler.codegen.split import split_elements
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.nodes import Block, Op
from shapescript.compiler.ir.sizes import Size, product
from shapescript.compiler.numerics.philox import RUN, Domain
from shapescript.compiler.ops.build import result_type
from shapescript.compiler.records.dataclass import dataclass

PICOSECONDS_A_WORD = 400  # of the stream


@dataclass(frozen=True)
class Mask:
    """A dropout's bytes in memory, and the numbers that go with them; see elements.Dropped."""

    pointer: Value
    scale: Value
    active: Value


def region_masks(low: Lowering, region: Block, inputs: Mapping[nodes.Value, Value], space: Sequence[Size]) -> dict[Op, Mask]:
    """Make the masks that a region's dropouts read at each point of the space. `inputs`: registers of its parameters without axes and of
    what it uses from outside."""
    return {op: _mask(low, op, region, inputs, space) for op in dropouts(region)}


def dropouts(region: Block) -> Iterator[Op]:
    return (op for op in region.ops if op.name == "dropout")


def _mask(low: Lowering, op: Op, region: Block, inputs: Mapping[nodes.Value, Value], space: Sequence[Size]) -> Mask:
    b, element = low.b, MEMORY_TYPES[result_type(op.result).element]
    rate, seed, draw = emit_region(b, needed(region, op.operands[1:]), inputs)
    count = low.size(product(space))
    key = (_identity(rate), _identity(seed), _identity(draw), str(count))
    known = low.masks.find(key)
    if known is None:
        known = low.masks.add(key, low.take(extents.round_up(b, count, RUN)))
        split_elements(low, "dropout_mask", None, [known, rate, seed, draw], count, PICOSECONDS_A_WORD, _emit_mask)
    scale = _scale(b, rate)
    active = b.icmp_signed(">=", draw, I64(0))
    return Mask(known, scale if element == F32 else b.fpext(scale, F64), active)


def _identity(register: Value) -> object:
    return str(register) if isinstance(register, ir.Constant) else register


def _emit_mask(b: Builder, arguments: Sequence[Value], start: emit.Size, end: emit.Size) -> None:
    mask, rate, seed, draw = arguments  # the mask's room is whole runs
    with b.if_then(b.icmp_signed(">=", draw, I64(0))):
        source = random.stream(b, seed, Domain.DRAW, draw)
        random.emit_kept(b, source, _threshold(b, rate), extents.quotient(b, start, RUN), extents.ceil_quotient(b, end, RUN), mask)


def _threshold(b: Builder, rate: Value) -> Value:
    """numerics.random.dropout_threshold."""
    least = b.select(b.fcmp_ordered(">", rate, constant(0.0, F64)), rate, constant(0.0, F64))
    clamped = b.select(b.fcmp_ordered("<", least, constant(1.0, F64)), least, constant(1.0, F64))
    return b.fptosi(intrinsic(b, "roundeven", b.fmul(clamped, constant(2.0**32, F64))), I64)


def _scale(b: Builder, rate: Value) -> Value:
    """numerics.random.dropout_scale, as F32."""
    one = constant(1.0, F64)
    scale = b.fptrunc(b.fdiv(one, b.fsub(one, rate)), F32)
    return b.select(b.fcmp_ordered("<", rate, one), scale, constant(0.0, F32))
