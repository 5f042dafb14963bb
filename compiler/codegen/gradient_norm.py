"""The norm of a model's gradient, and whether it is finite, over flat buffers of float32 (docs/exactness.md, optimisers).

A parameter is a run of a flat buffer: (byte offset, element count), in the bytewise order of the parameters' dotted names. Buffers are
64-byte aligned, each parameter begins at a multiple of 64 bytes, and what lies between them holds zeros.

Each parameter's sum of squares is one reduction in f64; the sums, in the order given, go through the block tree; the norm is its square
root. Work can be shared out by blocks: each worker calls `emit_square_blocks` for its part of `block_total(parameters)`, then one calls
`emit_norm`. `parts` is the norm's scratch, `norm_scratch_bytes` long; after `emit_norm` its last numbers are the parameters' own sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from shapescript.compiler.codegen import emit, extents, scalars
from shapescript.compiler.codegen.emit import (
    BLOCK,
    F32,
    F64,
    I16,
    I64,
    LANES,
    PTR,
    Builder,
    Size,
    Value,
    at,
    constant,
    function,
    intrinsic,
    lane_mask,
    lane_tree,
    load,
    loop,
    store,
    vector_of,
    while_loop,
)
from shapescript.compiler.numerics.bfloat16 import from_bfloat16
from shapescript.compiler.numerics.scalar import Argument, Kind
from shapescript.compiler.records.dataclass import dataclass

_FROM_BF16 = from_bfloat16(Argument(0, Kind.U16))
BLOCKS_TOGETHER = 4  # blocks squared side by side: one alone waits for its additions


@dataclass(frozen=True)
class Parameter:
    """A float32 tensor in a flat buffer; offset in bytes, a multiple of 64; count in elements."""

    offset: int
    count: int

    @property
    def blocks(self) -> int:
        return max(1, -(-self.count // BLOCK))


def block_total(parameters: Sequence[Parameter]) -> int:
    """Blocks of squares of all parameters, the units of `emit_square_blocks`."""
    return sum(parameter.blocks for parameter in parameters)


def norm_scratch_bytes(parameters: Sequence[Parameter]) -> int:
    return 8 * (block_total(parameters) + len(parameters))


def _table(module: ir.Module, parameters: Sequence[Parameter]) -> Any:
    """A constant of four numbers for each parameter: element offset, count, first block, blocks."""
    numbers, first = [], 0
    for parameter in parameters:
        numbers += [parameter.offset // 4, parameter.count, first, parameter.blocks]
        first += parameter.blocks
    return emit.constant_table(module, "parameters", numbers)


def _row(b: Builder, table: Value, p: Value) -> list[Value]:
    start = at(b, table, b.mul(p, I64(4)), I64)
    return [load(b, at(b, start, i, I64), I64) for i in range(4)]


def emit_square_blocks(b: Builder, parameters: Sequence[Parameter], gradient: Value, parts: Value, low: Size, high: Size) -> None:
    """parts[n] = the sum of squares of block n, for blocks low to high, counted through all parameters."""
    table = _table(b.module, parameters)

    def parameter(p: Value, _: Sequence[Value]) -> None:
        offset, count, first, blocks = _row(b, table, p)
        begin = b.sub(emit.size(extents.most(b, low, first)), first)
        end = b.sub(emit.size(extents.least(b, high, b.add(first, blocks))), first)
        b.call(_square_blocks(b.module), [at(b, gradient, offset, F32), at(b, parts, first, F64), count, begin, end])

    loop(b, 0, len(parameters), 1, parameter)


def _square_blocks(module: ir.Module) -> Any:
    """parts[n] for blocks low to high of one parameter of `count` elements. A float32's square is exact in f64, so it is added fused."""
    if "square_blocks" in module.globals:
        return module.globals["square_blocks"]
    fn, b = function(module, "square_blocks", [PTR, PTR, I64, I64, I64])
    values, parts, count, low, high = fn.args

    def blocks(n: Value, many: int, depth: Size) -> None:
        starts = [at(b, values, b.mul(b.add(n, I64(q)), I64(BLOCK)), F32) for q in range(many)]

        def turn(i: Value, totals: Sequence[Value], mask: Value | None = None) -> list[Value]:
            grown = []
            for start, total in zip(starts, totals, strict=True):
                wide = b.fpext(load(b, at(b, start, i, F32), F32, LANES, mask), vector_of(F64, LANES))
                grown.append(emit.masked(b, mask, intrinsic(b, "fma", wide, wide, total), total))
            return grown

        whole = extents.times(b, extents.quotient(b, depth, LANES), LANES)
        lanes = loop(b, 0, whole, LANES, turn, [constant(-0.0, vector_of(F64, LANES))] * many)
        rest = extents.minus(b, depth, whole)
        if rest != 0:
            some = b.icmp_signed(">", emit.size(rest), I64(0))
            lanes = emit.choose(b, some, lambda: turn(emit.size(whole), lanes, lane_mask(b, rest, LANES)), lambda: lanes)
        for q, total in enumerate(lanes):
            store(b, lane_tree(b, total, b.fadd), at(b, parts, b.add(n, I64(q)), F64))

    def together(n: Value, _: Sequence[Value]) -> list[Value]:
        blocks(n, BLOCKS_TOGETHER, BLOCK)
        return [b.add(n, I64(BLOCKS_TOGETHER))]

    def alone(n: Value, _: Sequence[Value]) -> None:
        left = b.sub(count, b.mul(n, I64(BLOCK)))
        blocks(n, 1, extents.least(b, left, BLOCK))

    full = extents.least(b, high, b.lshr(count, I64(BLOCK.bit_length() - 1)))
    (n,) = loop(b, low, b.sub(emit.size(full), I64(BLOCKS_TOGETHER - 1)), BLOCKS_TOGETHER, together, [low])
    loop(b, n, high, 1, alone)
    with b.if_then(b.and_(b.icmp_signed("==", count, I64(0)), b.icmp_signed("<", low, high))):
        store(b, constant(0.0, F64), parts)
    b.ret_void()
    return fn


def _pair_tree(module: ir.Module) -> Any:
    """The block tree of `count` >= 1 numbers, in place; returns the sum."""
    if "pair_tree" in module.globals:
        return module.globals["pair_tree"]
    fn, b = function(module, "pair_tree", [PTR, I64], F64)
    parts, count = fn.args

    def level(state: Sequence[Value]) -> list[Value]:
        half, odd = b.lshr(state[0], I64(1)), b.and_(state[0], I64(1))

        def pair(i: Value, _: Sequence[Value]) -> None:
            left, right = (load(b, at(b, parts, b.add(b.shl(i, I64(1)), I64(side)), F64), F64) for side in range(2))
            store(b, b.fadd(left, right), at(b, parts, i, F64))

        loop(b, 0, half, 1, pair)
        with b.if_then(b.icmp_signed("==", odd, I64(1))):
            store(b, load(b, at(b, parts, b.sub(state[0], I64(1)), F64), F64), at(b, parts, half, F64))
        return [b.add(half, odd)]

    while_loop(b, lambda state: b.icmp_signed(">", state[0], I64(1)), level, [count])
    b.ret(load(b, parts, F64))
    return fn


def _sums(b: Builder, parameters: Sequence[Parameter], parts: Value) -> Value:
    return at(b, parts, block_total(parameters), F64)


def emit_norm(b: Builder, parameters: Sequence[Parameter], parts: Value) -> Value:
    """The norm in f64 from all blocks' sums; +0.0 without parameters."""
    if not parameters:
        return constant(0.0, F64)
    table, sums, tree = _table(b.module, parameters), _sums(b, parameters, parts), _pair_tree(b.module)

    def parameter(p: Value, _: Sequence[Value]) -> None:
        _, _, first, blocks = _row(b, table, p)
        store(b, b.call(tree, [at(b, parts, first, F64), blocks]), at(b, sums, p, F64))

    loop(b, 0, len(parameters), 1, parameter)
    loop(b, 0, len(parameters), 1, lambda p, _: store(b, load(b, at(b, sums, p, F64), F64), at(b, parts, p, F64)))
    return intrinsic(b, "sqrt", b.call(tree, [parts, I64(len(parameters))]))


def not_finite(b: Builder, x: Value) -> Value:
    """Whether a float, or each of a vector's, is infinite or NaN (I1)."""
    return b.fcmp_unordered("uge", intrinsic(b, "fabs", x), constant(float("inf"), x.type))


def emit_all_finite(b: Builder, values: Value, element: emit.ElementType, count: Size) -> Value:
    """Whether all of `count` adjacent F32, F64 or bf16 (I16) elements are finite (I1)."""
    whole = extents.times(b, extents.quotient(b, count, LANES), LANES)

    def turn(i: Value, state: Sequence[Value], mask: Value | None = None) -> list[Value]:
        found = load(b, at(b, values, i, element), element, LANES, mask)
        wide = scalars.emit(b, _FROM_BF16, [found]) if element == I16 else found
        return [b.or_(state[0], not_finite(b, wide))]

    found = loop(b, 0, whole, LANES, turn, [ir.Constant(vector_of(emit.I1, LANES), None)])
    mask = lane_mask(b, emit.size(extents.minus(b, count, whole)), LANES)
    some = b.icmp_signed("<", emit.size(whole), emit.size(count))
    found = emit.choose(b, some, lambda: turn(emit.size(whole), found, mask), lambda: found)
    return b.not_(lane_tree(b, found[0], b.or_))
