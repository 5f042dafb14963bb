"""Products by the tiled kernel, byte for byte against one chain of fused multiply-adds per element."""

from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from kernel_harness import ELEMENTS, TARGETS, WIDTHS, Array, fenced, native, same_bytes
from llvmlite import ir

from shapescript.compiler.codegen import contraction_fetch, emit
from shapescript.compiler.codegen.contraction import (
    BatchAxis,
    Contraction,
    Epilogue,
    Share,
    emit_contraction,
    panel_count,
    plan_contraction,
    scratch_bytes,
)
from shapescript.compiler.codegen.contraction_shares import cut_units, cuts_rows, share_of
from shapescript.compiler.codegen.emit import I64, PTR
from shapescript.compiler.codegen.target import Target, aarch64, host, x86_64_v3, x86_64_v4
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
) -> Array:
    """C by the kernel, with the numbers named `run_time` as arguments; scratch and C are fenced on both sides by values that must stay."""
    static = shape_of(a, right)
    values = [getattr(static, name) for name in NUMBERS]
    sizes: list[int] = []

    def body(b: Any, arguments: Any) -> None:
        given = dict(zip(NUMBERS, arguments[5:], strict=True))
        shape = shape_of(a, right, {name: given[name] for name in run_time})
        epilogue = Epilogue(add_column, (arguments[4],), inline) if bias is not None else None
        plan = plan_contraction(level, shape)
        sizes.append(scratch_bytes(level, static, epilogue=epilogue, plan=plan))
        counted = emit.size(scratch_bytes(level, shape, b, epilogue=epilogue))
        emit.store(b, counted, arguments[3], align=8)
        emit_contraction(b, level, shape, *arguments[:4], epilogue=epilogue)

    call = native(level, [PTR] * 5 + [I64] * len(NUMBERS), body)
    c = np.full((a.shape[0] + 2, right.shape[1]), 77, a.dtype)
    scratch = np.full(sizes[0] // 8 + 9, -1)
    bias = bias if bias is not None else np.zeros(1, a.dtype)
    call(fenced(a, True), fenced(right, True), c[1:], scratch[1:], fenced(bias, True), *values)
    assert (c[0] == 77).all() and (c[-1] == 77).all()
    assert (scratch[sizes[0] // 8 + 1 + (sizes[0] == 0) :] == -1).all()
    return c[1:-1]


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
def test_left_operand_packed_when_its_rows_are_far_apart(level: Target) -> None:
    wide = numbers((20, 1100), np.float32, 1)
    for m in (64, 45):
        a, right = wide[:, :m].T, numbers((20, 100), np.float32, 2)
        assert plan_contraction(level, shape_of(a, right)).pack_left
        assert same_bytes(multiply(level, a, right), chains(a, right))
        assert same_bytes(multiply(level, a, right, ("k",)), chains(a, right))


@each_target
@pytest.mark.parametrize("width", [50, 140], ids=["in place", "copied"])
def test_both_operands_packed_stage_by_stage(level: Target, width: int) -> None:
    wide, right = numbers((530, 600), np.float32, 1), numbers((530, width), np.float32, 2)[:, :50]
    for m in (64, 45):
        a = wide[:, :m].T
        plan = plan_contraction(level, shape_of(a, right))
        assert plan.pack_left and plan.steps_first and plan.k_block < 530 and (plan.right.value == "copied") == (width == 140)
        for run_time in ((), ("k",)):
            assert same_bytes(multiply(level, a, right, run_time), chains(a, right)), (m, run_time)


@each_target
@pytest.mark.parametrize("inline", [True, False])
def test_blocks_of_rows_go_through_all_panels(level: Target, inline: bool) -> None:
    bias = numbers((1, 250), np.float32, 3)[0]
    for sizes, run_time in (((270, 250, 9), ()), ((75, 250, 9), ("m", "k")), ((75, 50, 1030), ("m", "n"))):
        a, right = operands(*sizes, "rows", np.float32)
        assert plan_contraction(level, shape_of(a, right, dict.fromkeys(run_time, I64(0)))).row_block
        expected = chains(a, right) + np.arange(sizes[0], dtype=np.float32)[:, None] + bias[: sizes[1]]
        assert same_bytes(multiply(level, a, right, run_time, bias=bias[: sizes[1]], inline=inline), expected), (sizes, run_time)


@each_target
@pytest.mark.parametrize("inline", [True, False])
def test_blocks_of_a_packed_left_operand_go_through_all_panels(level: Target, inline: bool) -> None:
    bias = numbers((1, 300), np.float32, 3)[0]
    for m, k, run_time in ((1100, 9, ()), (1100, 9, ("k",)), (513, 1100, ("k",))):
        a, right = operands(m, 300, k, "rows", np.float32, "transposed")
        plan = plan_contraction(level, shape_of(a, right, dict.fromkeys(run_time, I64(0))))
        assert plan.pack_left and plan.row_block == 512
        expected = chains(a, right) + np.arange(m, dtype=np.float32)[:, None] + bias
        assert same_bytes(multiply(level, a, right, run_time, bias=bias, inline=inline), expected), (m, run_time)


@each_target
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_panels_of_a_large_right_operand_are_fetched_ahead(level: Target, dtype: Any) -> None:
    """In one stage and in several, for fewer tiles than steps between two fetches and for more; the last panel is narrower."""
    for sizes, run_time in (((100, 700, 400), ()), ((131, 700, 400), ("m",)), ((33, 300, 1100), ("m",)), ((31, 300, 1100), ("m",))):
        a, right = operands(*sizes, "rows", dtype)
        bias = numbers((1, sizes[1]), dtype, 3)[0]
        assert plan_contraction(level, shape_of(a, right, dict.fromkeys(run_time, I64(0)))).fetch_ahead
        assert same_bytes(multiply(level, a, right, run_time), chains(a, right)), (sizes, run_time)
        expected = chains(a, right) + np.arange(sizes[0], dtype=dtype)[:, None] + bias
        for inline in (True, False):
            assert same_bytes(multiply(level, a, right, run_time, bias=bias, inline=inline), expected), (sizes, run_time)


@pytest.mark.parametrize(("m", "k"), [(100, 768), (800, 700)], ids=["one row of B at a time", "rows of C between"])
def test_all_of_the_next_panel_and_of_the_result_are_fetched_in_time(m: int, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines that are asked for are written down instead, in their order."""
    level, n, line = host(), 400, 64
    a, right, c = numbers((m, k), np.float32, 1), aligned((k, n)), aligned((m, n))
    shape = shape_of(a, right, {"m": I64(0)})
    plan = plan_contraction(level, shape)
    assert plan.fetch_ahead and plan.k_block < k
    asked = np.zeros(1 << 20, np.int64)

    def note(b: Any, pointer: Any, *, to_write: bool = False) -> None:
        count = b.inttoptr(I64(asked.ctypes.data), PTR)
        place = b.add(b.atomic_rmw("add", count, I64(1), "monotonic"), I64(1))
        emit.store(b, b.ptrtoint(pointer, I64), emit.at(b, count, place, I64))

    monkeypatch.setattr(contraction_fetch, "prefetch", note)

    def body(b: Any, arguments: Any) -> None:
        emit_contraction(b, level, shape_of(a, right, {"m": arguments[4]}), *arguments[:4])

    size = scratch_bytes(level, shape_of(a, right), plan=plan)
    native(level, [PTR] * 4 + [I64], body)(a, right, c, np.zeros(size, np.uint8), m)
    assert same_bytes(c, chains(a, right))
    lines = asked[1 : int(asked[0]) + 1] // line
    columns = plan.columns * 4 // line

    def lines_of(array: Array, rows: range, panel: int) -> set[int]:
        first = array.ctypes.data // line
        return {first + row * (n * 4 // line) + panel * columns + column for row in rows for column in range(columns)}

    tiles, panels, stages = m // plan.rows, n // plan.columns, [range(low, min(low + plan.k_block, k)) for low in range(0, k, plan.k_block)]
    whole = set(lines.tolist())
    for panel in range(panels):
        assert lines_of(c, range(tiles * plan.rows), panel) <= whole
        for number, rows in enumerate(stages):
            if panel or number:
                wanted = lines_of(right, rows, panel)
                assert wanted <= whole
                when = np.flatnonzero(np.isin(lines, list(wanted)))
                assert when[-1] - when[0] > len(lines) / (panels + 1) / len(stages) / 2  # not at once


def aligned(shape: tuple[int, int]) -> Array:
    """Numbers whose rows begin with a line of the cache."""
    values = numbers(shape, np.float32, 2)
    place = np.zeros(values.nbytes + 64, np.uint8)
    found: Array = place[-place.ctypes.data % 64 :][: values.nbytes].view(np.float32).reshape(shape)
    found[:] = values
    return found


@each_target
def test_few_rows_read_a_right_operand_in_place_that_is_else_copied(level: Target) -> None:
    """Known at run time only; nothing of it past its last column is read, and its panels aren't written to scratch."""
    for m, n in ((31, 300), (32, 300), (3, 290), (1, 290)):
        a, right = operands(m, n, 20, "rows", np.float32)
        assert plan_contraction(level, shape_of(a, right, {"m": I64(0)})).right.value == "copied"
        assert same_bytes(multiply(level, a, right, ("m",)), chains(a, right)), (m, n)
        shape, scratch = shape_of(a, right), np.zeros(1 << 14, np.int64)

        def body(b: Any, arguments: Any, shape: Contraction = shape) -> None:
            emit_contraction(b, level, replace(shape, m=arguments[4]), *arguments[:4])

        native(level, [PTR] * 4 + [I64], body)(a, right, np.zeros((m, n), np.float32), scratch, m)
        assert scratch.any() == (m >= 32)


TILES = {
    1: ((16, 1), (12, 1), (16, 1)),
    2: ((8, 2), (6, 2), (8, 2)),
    3: ((8, 3), (6, 2), (8, 3)),
    4: ((6, 4), (6, 2), (6, 4)),
    5: ((8, 3), (6, 2), (8, 3)),
    8: ((6, 4), (6, 2), (6, 4)),
    9: ((8, 3), (6, 2), (8, 3)),
    12: ((8, 3), (6, 2), (8, 3)),
    32: ((6, 4), (6, 2), (6, 4)),
}


@pytest.mark.parametrize("vectors", TILES)
def test_tiles_take_few_instructions_and_fit_the_registers(vectors: int) -> None:
    """For columns of so many vectors: on AVX-512, AVX2 and aarch64."""
    for level, wanted in zip((x86_64_v4(), x86_64_v3(), aarch64()), TILES[vectors], strict=True):
        n = vectors * level.lanes
        plan = plan_contraction(level, Contraction(emit.F32, I64(0), n, 64, 64, 1, 1, 64, n))
        assert (plan.rows, plan.vectors) == wanted
        packed = plan_contraction(level, Contraction(emit.F32, 4096, n, 64, 1, 4096, n, 1, n))
        if packed.pack_left:
            assert packed.rows.bit_count() == 1
        for m in range(1, 40):
            few = plan_contraction(level, Contraction(emit.F32, m, n, 64, 64, 1, 1, 64, n))
            assert few.rows * few.vectors + few.vectors + 1 <= level.registers


@each_target
@pytest.mark.parametrize("vectors", range(1, 14))
def test_every_width_of_panels_and_rests(level: Target, vectors: int) -> None:
    for layout in ("rows", "transposed"):
        for n in (vectors * level.lanes, vectors * level.lanes - 1):
            a, right = operands(19, n, 11, layout, np.float32)
            assert same_bytes(multiply(level, a, right, ("m",)), chains(a, right)), (n, layout)


@pytest.mark.parametrize("m", [0, 1, 7, 64, 500, 3000])
@pytest.mark.parametrize("n", [1, 40, 64, 130, 513])
@pytest.mark.parametrize("by_rows", [0, 1])
def test_shares_cover_every_tile_once(m: int, n: int, by_rows: int) -> None:
    shape = Contraction(emit.F32, m, n, 64, 64, 1, 1, 64, n)
    plan, b = plan_contraction(TARGETS[0], shape), ir.IRBuilder()
    units, panels = cut_units(b, plan, shape, by_rows), panel_count(plan, n)
    assert isinstance(units, int) and isinstance(panels, int)
    for parts in (1, 2, 3, 8):
        seen = np.zeros((m, panels), np.int64)
        for number in range(parts):
            share = share_of(b, plan, shape, by_rows, units * number // parts, units * (number + 1) // parts)
            limits = (share.row_low, share.row_high, share.panel_low, share.panel_high)
            row_low, row_high, panel_low, panel_high = (int(limit) for limit in limits)
            assert row_low % plan.rows == 0 and row_high <= m and panel_high <= panels
            seen[row_low:row_high, panel_low:panel_high] += 1
        assert (seen == 1).all(), parts


@pytest.mark.parametrize(
    ("m", "threads", "wanted"),
    [(6 * 16, 8, 2), (6 * 16 + 1, 8, 17), (6 * 16 + 1, 3, 17), (6 * 16 + 1, 2, 2), (3000, 2, 2), (3000, 8, 500)],
)
def test_many_rows_are_shared_out_where_panels_are_fewer_than_threads(m: int, threads: int, wanted: int) -> None:
    """Of an operand that each share packs; 6 rows a tile, two panels. The numbers may be known at run time only."""
    level, shape = x86_64_v4(), Contraction(emit.F32, m, 128, 64, 64, 1, 1, 64, 128)
    plan = plan_contraction(level, replace(shape, m=I64(0)))
    b = ir.IRBuilder()
    assert cut_units(b, plan, shape, cuts_rows(b, plan, shape, threads)) == wanted

    def units(b: Any, arguments: Any) -> Any:
        given = replace(shape, m=arguments[0])
        return emit.size(cut_units(b, plan, given, cuts_rows(b, plan, given, arguments[1])))

    assert native(host(), [I64, I64], units, I64)(m, threads) == wanted


@each_target
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_a_single_row_whose_right_operand_is_transposed(level: Target, dtype: Any) -> None:
    for sizes, run_time in (
        ((1, 1, 1), ("m",)),
        ((1, 10, 33), ()),
        ((1, 70, 5), ("m", "n")),
        ((1, 50, 1100), ("m",)),
        ((1, 3, 0), ("m", "k")),
        ((1, 3, 4100), ("m", "k")),
    ):
        a, right = operands(*sizes, "transposed", dtype)
        assert same_bytes(multiply(level, a, right, run_time), chains(a, right)), (sizes, run_time)


@each_target
def test_distant_rows_of_the_right_operand_are_copied(level: Target) -> None:
    right = numbers((20, 1500), np.float32, 1)[:, :70]
    a = numbers((40, 20), np.float32, 2)
    assert plan_contraction(level, shape_of(a, right)).right.value == "copied"
    assert same_bytes(multiply(level, a, right), chains(a, right))


@each_target
@pytest.mark.parametrize(("workers", "k"), [(2, 40), (3, 1300), (5, 4100)])
def test_shares_give_the_same_bytes(level: Target, workers: int, k: int) -> None:
    a, right = operands(50, 130, k, "transposed", np.float32)
    shape = shape_of(a, right)
    plan = plan_contraction(level, shape)
    panels = panel_count(plan, 130)
    assert isinstance(panels, int)
    rows = [min(50, -(-50 * w // workers // plan.rows) * plan.rows) for w in range(workers + 1)]
    columns = [panels * w // workers for w in range(workers + 1)]

    by_rows = [Share(low, high, 0, panels) for low, high in pairwise(rows)]
    by_columns = [Share(0, 50, low, high) for low, high in pairwise(columns)]

    scratch = np.zeros(scratch_bytes(level, shape), np.uint8)
    for shares in (by_rows, by_columns):

        def body(b: Any, arguments: Any, shares: list[Share] = shares) -> None:
            for share in shares:
                emit_contraction(b, level, shape, *arguments, share=share)

        c = np.zeros((50, 130), np.float32)
        native(level, [PTR] * 4, body)(a, right, c, scratch)
        assert same_bytes(c, chains(a, right))


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
