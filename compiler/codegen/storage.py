"""Stored values as a whole: copies of tensors, models and optimisers, and the parts of an optimiser's storage."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from shapescript.compiler.codegen import emit
from shapescript.compiler.codegen.emit import I1, I64, PTR, VOID, Builder, Value, at, load, store
from shapescript.compiler.codegen.lowering import Lowering
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.flat import flat_layout
from shapescript.compiler.ir.types import OptimiserType, Type
from shapescript.compiler.ops.locations import OPTIMISER_BLOCK_BYTES, Location, SlotStorage, storage_bytes

STEP, FIRST, SECOND, CONSTANTS = 0, 1, 2, 3  # words of an optimiser's block; the constants are beta1, beta2, eps and decay
CONSTANT_COUNT = 4
OPTIMISER_WORDS = 8


def copy_bytes(b: Builder, target: Value, source: Value, count: emit.Size) -> None:
    """The two must not overlap."""
    if isinstance(count, int) and count == 0:
        return
    name = "llvm.memcpy.p0.p0.i64"
    known = b.module.globals.get(name)
    fn = known if known is not None else ir.Function(b.module, ir.FunctionType(VOID, [PTR, PTR, I64, I1]), name)
    b.call(fn, [target, source, emit.size(count), I1(0)])


def clear_bytes(b: Builder, target: Value, count: emit.Size) -> None:
    if isinstance(count, int) and count == 0:
        return
    name = "llvm.memset.p0.i64"
    known = b.module.globals.get(name)
    fn = known if known is not None else ir.Function(b.module, ir.FunctionType(VOID, [PTR, emit.I8, I64, I1]), name)
    b.call(fn, [target, emit.I8(0), emit.size(count), I1(0)])


@dataclass(frozen=True)
class OptimiserParts:
    """Addresses of an optimiser's block and moments."""

    block: Value
    first: Value
    second: Value


def optimiser_parts(b: Builder, block: Value) -> OptimiserParts:
    return OptimiserParts(block, load(b, at(b, block, FIRST, I64), PTR, align=8), load(b, at(b, block, SECOND, I64), PTR, align=8))


def new_optimiser(low: Lowering, kind: OptimiserType, location: Location) -> OptimiserParts:
    """The parts of the storage at a location whose contents are to be set; in a slot, the moments follow the block."""
    b, block = low.b, low.address(location)
    if isinstance(location.storage, SlotStorage):
        first = at(b, block, OPTIMISER_BLOCK_BYTES, emit.I8)
        second = at(b, first, flat_layout(kind.model).total, emit.I8)
        store(b, first, at(b, block, FIRST, I64), align=8)
        store(b, second, at(b, block, SECOND, I64), align=8)
    return optimiser_parts(b, block)


def move_into(low: Lowering, value: nodes.Value, target: Location) -> None:
    """Copy a stored value's contents to another location."""
    copy_contents(low, value.type, low.pointer(value), target)


def copy_contents(low: Lowering, kind: Type, source: Value, target: Location) -> None:
    """`source`: where a value of the type lies; an optimiser's block."""
    b = low.b
    if isinstance(kind, OptimiserType):
        from_, to = optimiser_parts(b, source), new_optimiser(low, kind, target)
        count = flat_layout(kind.model).total
        for word in (STEP, *range(CONSTANTS, CONSTANTS + CONSTANT_COUNT)):
            store(b, load(b, at(b, from_.block, word, I64), I64), at(b, to.block, word, I64))
        copy_bytes(b, to.first, from_.first, count)
        copy_bytes(b, to.second, from_.second, count)
        return
    copy_bytes(b, low.address(target), source, low.size(storage_bytes(kind)))
