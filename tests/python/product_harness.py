"""Products by the tiled kernel: operands of every layout, what is right by definition, and a call whose memory is fenced."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from kernel_harness import ELEMENTS, TARGETS, WIDTHS, Array, fenced, native

from shapescript.compiler.codegen import emit
from shapescript.compiler.codegen.contraction import Contraction, Epilogue, emit_contraction, plan_contraction, scratch_bytes
from shapescript.compiler.codegen.emit import I64, PTR
from shapescript.compiler.codegen.target import Target
from shapescript.compiler.numerics.fma import fma

NUMBERS = ("m", "n", "k", "a_row", "a_k", "b_k", "b_column", "c_row")
LAYOUTS = ("rows", "transposed", "gathered")
each_target = pytest.mark.parametrize("level", WIDTHS, ids=lambda level: level.name)
every_target = pytest.mark.parametrize("level", TARGETS, ids=lambda level: level.name)


def chains(a: Array, right: Array) -> Array:
    """C by definition: chains over blocks of 4096 k from +0.0, adjacent blocks added, an odd one goes up unchanged."""
    k, blocks = a.shape[1], []
    for start in range(0, max(k, 1), 4096):
        total = np.zeros((a.shape[0], right.shape[1]), a.dtype)
        for i in range(start, min(k, start + 4096)):
            x, y = a[:, i, None], right[None, i, :]
            total = total + x * y if a.dtype.kind == "i" else fma(np.ascontiguousarray(x), np.ascontiguousarray(y), total)
        blocks.append(total)
    while len(blocks) > 1:
        blocks = [blocks[i] + blocks[i + 1] if i + 1 < len(blocks) else blocks[i] for i in range(0, len(blocks), 2)]
    return blocks[0]


def numbers(shape: tuple[int, int], dtype: Any, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "i":
        return rng.integers(-(1 << 40), 1 << 40, shape)
    return (rng.standard_normal(shape) * 2.0 ** rng.integers(-3, 4, shape)).astype(dtype)


def operands(m: int, n: int, k: int, layout: str, dtype: Any, left: str = "rows") -> tuple[Array, Array]:
    a, right = numbers((m, k), dtype, m + 3 * k), numbers((k, n), dtype, n + 5 * k)
    if left == "transposed":
        a = np.ascontiguousarray(a.T).T
    if layout == "transposed":
        right = np.ascontiguousarray(right.T).T
    if layout == "gathered":
        right = np.repeat(right, 3, axis=1)[:, ::3]
    return a, right


def shape_of(a: Array, right: Array, values: dict[str, Any] | None = None) -> Contraction:
    size = a.itemsize
    (a_row, a_k), (b_k, b_column) = ([stride // size for stride in array.strides] for array in (a, right))
    found = {
        "m": a.shape[0],
        "n": right.shape[1],
        "k": a.shape[1],
        "a_row": a_row,
        "a_k": a_k,
        "b_k": b_k,
        "b_column": b_column,
        "c_row": right.shape[1],
    }
    return Contraction(ELEMENTS[a.dtype], **{**found, **(values or {})})


def add_column(b: Any, captured: Any, value: Any, place: Any) -> Any:
    """C(row, column) + row + bias[column]."""
    element, lanes = value.type.element, value.type.count
    bias = emit.load(b, emit.at(b, captured[0], place.column, element), element, lanes, place.mask)
    row = emit.splat(b, b.sitofp(place.row, element), lanes)
    return b.fadd(b.fadd(value, row), bias)


def multiply(
    level: Target,
    a: Array,
    right: Array,
    run_time: tuple[str, ...] = (),
    *,
    bias: Array | None = None,
    inline: bool = True,
    row_block: int = 0,
) -> Array:
    """C by the kernel, with the numbers named `run_time` as arguments; scratch and C are fenced on both sides by values that must stay.
    row_block: in place of the plan's own, above 0."""
    static = shape_of(a, right)
    values = [getattr(static, name) for name in NUMBERS]
    sizes: list[int] = []

    def body(b: Any, arguments: Any) -> None:
        given = dict(zip(NUMBERS, arguments[5:], strict=True))
        shape = shape_of(a, right, {name: given[name] for name in run_time})
        epilogue = Epilogue(add_column, (arguments[4],), inline) if bias is not None else None
        plan = plan_contraction(level, shape)
        if row_block:
            plan = replace(plan, row_block=row_block, steps_first=False)
        sizes.append(scratch_bytes(level, static, epilogue=epilogue, plan=plan))
        counted = emit.size(scratch_bytes(level, shape, b, epilogue=epilogue, plan=plan))
        emit.store(b, counted, arguments[3], align=8)
        emit_contraction(b, level, shape, *arguments[:4], epilogue=epilogue, plan=plan)

    call = native(level, [PTR] * 5 + [I64] * len(NUMBERS), body)
    c = np.full((a.shape[0] + 2, right.shape[1]), 77, a.dtype)
    scratch = np.full(sizes[0] // 8 + 9, -1)
    bias = bias if bias is not None else np.zeros(1, a.dtype)
    call(fenced(a, True), fenced(right, True), c[1:], scratch[1:], fenced(bias, True), *values)
    assert (c[0] == 77).all() and (c[-1] == 77).all()
    assert (scratch[sizes[0] // 8 + 1 + (sizes[0] == 0) :] == -1).all()
    return c[1:-1]
