"""Products by the tiled kernel, byte for byte against one chain of fused multiply-adds per element."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from kernel_harness import TARGETS, fenced, native, same_bytes
from llvmlite import ir
from product_harness import LAYOUTS, NUMBERS, chains, each_target, every_target, multiply, numbers, operands, shape_of

from shapescript.compiler.codegen import emit
from shapescript.compiler.codegen.contraction import (
    BatchAxis,
    Contraction,
    Epilogue,
    emit_contraction,
    plan_contraction,
    scratch_bytes,
)
from shapescript.compiler.codegen.emit import I64, PTR
from shapescript.compiler.codegen.target import Target

SHAPES = [(1, 1, 1), (0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 33, 20), (7, 5, 3), (10, 128, 64), (33, 50, 19), (64, 10, 128), (2, 100, 1)]


@each_target
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_every_size_and_layout_with_static_and_run_time_numbers(level: Target, layout: str, sizes: tuple[int, int, int]) -> None:
    a, right = operands(*sizes, layout, np.float32)
    expected = chains(a, right)
    for run_time in ((), ("m",), NUMBERS):
        assert same_bytes(multiply(level, a, right, run_time), expected), run_time


@each_target
@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_other_element_types(level: Target, dtype: Any) -> None:
    for layout, run_time in product(LAYOUTS, ((), ("n", "c_row"), NUMBERS)):
        a, right = operands(13, 21, 30, layout, dtype, "transposed")
        assert same_bytes(multiply(level, a, right, run_time), chains(a, right)), (layout, run_time)


@every_target
def test_random_sizes(level: Target) -> None:
    rng = np.random.default_rng(7)
    for _ in range(12):
        m, n, k = (int(size) for size in rng.integers(0, 90, 3))
        layout, left = LAYOUTS[rng.integers(3)], ("rows", "transposed")[rng.integers(2)]
        run_time = tuple(name for name in NUMBERS if rng.integers(2))
        a, right = operands(m, n, k, layout, np.float32, left)
        assert same_bytes(multiply(level, a, right, run_time), chains(a, right)), (m, n, k, layout, left, run_time)


@each_target
@pytest.mark.parametrize("k", [513, 1025, 4095, 4096, 4097, 9000, 4096 * 6])
def test_blocks_of_4096_steps(level: Target, k: int) -> None:
    a, right = operands(3, 20, k, "rows", np.float32, "transposed")
    expected, bias = chains(a, right), numbers((20, 1), np.float32, 5)[:, 0]
    with_bias = expected + np.arange(3, dtype=np.float32)[:, None] + bias
    for run_time in ((), ("k",), ("m", "n", "k")):
        assert same_bytes(multiply(level, a, right, run_time), expected)
        for inline in (True, False):
            assert same_bytes(multiply(level, a, right, run_time, bias=bias, inline=inline), with_bias)


@each_target
def test_blocks_of_other_layouts(level: Target) -> None:
    for layout, dtype in (("transposed", np.float32), ("gathered", np.float32), ("rows", np.float64)):
        a, right = operands(5, 9, 8200, layout, dtype)
        for run_time in (("k",), ("m", "k")):
            assert same_bytes(multiply(level, a, right, run_time), chains(a, right))


WITH_RUNS = (*NUMBERS, "run", "a_run", "b_run")


@each_target
@pytest.mark.parametrize("runs", [(1, 20), (5, 17), (3, 700), (40, 130), (5, 1100), (0, 20), (3, 0)], ids=str)
@pytest.mark.parametrize("layout", ["rows", "transposed"])
def test_steps_in_runs(level: Target, layout: str, runs: tuple[int, int]) -> None:
    """A as [runs, rows, steps], B as [runs, steps, columns] or [runs, columns, steps]: one chain through all of them."""
    (count, length), m, n = runs, 7, 21
    a, right = numbers((count * length, m), np.float32, 3), numbers((count * length, n), np.float32, 4)
    expected = chains(a.T, right)
    mine = np.ascontiguousarray(a.reshape(count, length, m).transpose(0, 2, 1))
    theirs = right.reshape(count, length, n)
    if layout == "transposed":
        theirs = np.ascontiguousarray(theirs.transpose(0, 2, 1))
    b_k, b_column = (n, 1) if layout == "rows" else (1, length)
    values = [m, n, count * length, length, 1, b_k, b_column, n, max(length, 1), m * length, n * length]
    static = dict(zip(WITH_RUNS, values, strict=True))
    for run_time in ((), ("k",), ("k", "run"), WITH_RUNS):
        needed: list[int] = []

        def body(b: Any, arguments: Any, run_time: tuple[str, ...] = run_time, needed: list[int] = needed) -> None:
            given = dict(zip(WITH_RUNS, arguments[4:], strict=True))
            shape = Contraction(emit.F32, **{**static, **{name: given[name] for name in run_time}})
            plan = plan_contraction(level, shape)
            needed.append(scratch_bytes(level, Contraction(emit.F32, **static), plan=plan))
            emit_contraction(b, level, shape, arguments[0], arguments[1], arguments[2], arguments[3])

        call = native(level, [PTR] * 4 + [I64] * len(WITH_RUNS), body)
        c, scratch = np.full((m + 2, n), 77, np.float32), np.full(needed[0] // 8 + 9, -1)
        call(fenced(mine, True), fenced(theirs, True), c[1:], scratch[1:], *values)
        assert same_bytes(c[1:-1], expected) and (c[0] == 77).all() and (c[-1] == 77).all()
        assert (scratch[needed[0] // 8 + 1 + (needed[0] == 0) :] == -1).all()


@every_target
@pytest.mark.parametrize("inline", [True, False])
@pytest.mark.parametrize("sizes", [(9, 50, 7), (4, 3, 0), (1, 1, 1), (0, 5, 2)], ids=str)
def test_an_epilogue_sees_every_element_once_at_its_place(level: Target, sizes: tuple[int, int, int], inline: bool) -> None:
    a, right = operands(*sizes, "transposed", np.float32)
    bias = numbers((sizes[1], 1), np.float32, 5)[:, 0]
    expected = (chains(a, right) + np.arange(sizes[0], dtype=np.float32)[:, None]) + bias
    for run_time in ((), ("m",), NUMBERS):
        assert same_bytes(multiply(level, a, right, run_time, bias=bias, inline=inline), expected)


@each_target
def test_an_epilogue_may_store_for_itself(level: Target) -> None:
    a, right = operands(5, 37, 6, "rows", np.float32)
    shape = shape_of(a, right)

    def store_doubled(b: Any, captured: Any, value: Any, place: Any) -> None:
        cell = emit.at(b, captured[0], b.add(b.mul(place.row, I64(37)), place.column), emit.F32)
        emit.store(b, b.fadd(value, value), cell, place.mask)

    def body(b: Any, arguments: Any) -> None:
        left, columns, null, doubled = arguments
        emit_contraction(b, level, shape, left, columns, null, null, epilogue=Epilogue(store_doubled, (doubled,)))

    out = fenced(np.zeros((5, 37), np.float32), True)
    native(level, [PTR] * 4, body)(a, right, 0, out)
    assert same_bytes(out, chains(a, right) * np.float32(2))


@each_target
def test_batches(level: Target) -> None:
    a, right = numbers((6, 5 * 7), np.float32, 1).reshape(2, 3, 5, 7), numbers((3, 7 * 9), np.float32, 2).reshape(3, 7, 9)
    shape = shape_of(a[0, 0], right[0])

    def plus_batch(b: Any, _: Any, value: Any, place: Any) -> Any:
        index = b.add(b.mul(place.batch[0], I64(3)), place.batch[1])
        return b.fadd(value, emit.splat(b, b.sitofp(index, emit.F32), value.type.count))

    def body(b: Any, arguments: Any) -> None:
        batch = [BatchAxis(2, 105, 0, 135), BatchAxis(arguments[4], 35, 63, 45)]
        emit_contraction(b, level, shape, *arguments[:4], epilogue=Epilogue(plus_batch), batch=batch)

    c = np.zeros((2, 3, 5, 9), np.float32)
    native(level, [PTR] * 4 + [I64], body)(a, right, c, np.zeros(9999), 3)
    for i, j in np.ndindex(2, 3):
        assert same_bytes(c[i, j], chains(a[i, j], right[j]) + np.float32(3 * i + j))


@each_target
def test_special_values_pass_through(level: Target) -> None:
    a, right = operands(9, 20, 12, "rows", np.float32)
    a[0, 3], a[1, 2], a[2, 5], a[3] = np.inf, np.nan, -0.0, -0.0
    right[4, 7], right[5, 1] = 2.0**-140, np.inf
    with np.errstate(all="ignore"):
        expected = chains(a, right)
    assert same_bytes(multiply(level, a, right), expected)


def test_equal_products_share_a_kernel() -> None:
    module = ir.Module()
    fn = ir.Function(module, ir.FunctionType(emit.VOID, [PTR] * 4 + [I64]), "entry")
    b = ir.IRBuilder(fn.append_basic_block())
    for m in (fn.args[4], b.add(fn.args[4], I64(1))):
        emit_contraction(b, TARGETS[0], Contraction(emit.F32, m, 20, 30, 30, 1, 20, 1, 20), *fn.args[:4])
    b.ret_void()
    assert len(module.functions) == 2 + len([f for f in module.functions if f.name.startswith("llvm.")])
