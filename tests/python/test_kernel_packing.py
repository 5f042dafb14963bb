"""Products whose operands are packed, once for all blocks of rows or ahead, or read in place, by blocks of rows and of steps: the bytes
stay."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from kernel_harness import Array, native, same_bytes
from product_harness import chains, each_target, multiply, numbers, operands, shape_of

from shapescript.compiler.codegen import contraction_fetch, contraction_panels, emit
from shapescript.compiler.codegen.contraction import (
    AfterRows,
    Contraction,
    emit_contraction,
    plan_contraction,
    scratch_bytes,
)
from shapescript.compiler.codegen.emit import I64, PTR
from shapescript.compiler.codegen.target import Target


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


@each_target
@pytest.mark.parametrize("layout", ["rows", "transposed", "gathered"])
@pytest.mark.parametrize("sizes", [(110, 290, 9), (100, 257, 1100), (97, 300, 0), (48, 290, 9), (120, 300, 10)], ids=str)
@pytest.mark.parametrize("most_kept", [1 << 21, 4096], ids=["kept", "too large"])
def test_panels_are_packed_once_for_all_blocks_of_rows(
    level: Target, layout: str, sizes: tuple[int, int, int], most_kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contraction_panels, "MOST_KEPT", most_kept)
    m, n, _ = sizes
    a, right = operands(*sizes, layout, np.float32)
    assert plan_contraction(level, shape_of(a, right)).packs_right
    bias = numbers((1, n), np.float32, 3)[0]
    expected = chains(a, right) + np.arange(m, dtype=np.float32)[:, None] + bias
    for run_time, block in (((), 24), (("m",), 48), (("m", "n", "k"), 48)):
        for inline in (True, False):
            found = multiply(level, a, right, run_time, bias=bias, inline=inline, row_block=block)
            assert same_bytes(found, expected), (run_time, inline)


@each_target
@pytest.mark.parametrize("layout", ["rows", "transposed", "gathered"])
def test_later_blocks_of_rows_find_panels_packed(level: Target, layout: str) -> None:
    """Behind the first block B becomes NaN, and none of them is seen. A single block packs to one buffer."""
    m, n, k = 96, 4 * level.lanes * 2, 2 * level.lanes
    a = numbers((m, k), np.float32, 2)

    def right_operand() -> Array:
        wide: Array = operands(m, 300, k, layout, np.float32)[1][:, :n]
        return wide

    right = right_operand()
    plan = replace(plan_contraction(level, shape_of(a, right)), row_block=48, steps_first=False)
    assert plan.right.value == {"rows": "copied"}.get(layout, layout) and plan.keeps_panels
    expected = chains(a, right)
    for rows in (48, m):
        shape = replace(shape_of(a, right), m=rows)

        def spoil(b: Any, captured: Any, batch: Any, low: Any, high: Any) -> None:
            def row(i: Any, _: Any) -> None:
                def number(j: Any, _: Any) -> None:
                    place = b.add(b.mul(i, I64(right.strides[0] // 4)), b.mul(j, I64(right.strides[1] // 4)))
                    emit.store(b, emit.constant(float("nan"), emit.F32), emit.at(b, captured[0], place, emit.F32))

                emit.loop(b, 0, n, 1, number)

            emit.loop(b, 0, k, 1, row)

        def body(b: Any, arguments: Any, shape: Contraction = shape, spoil: Any = spoil) -> None:
            emit_contraction(b, level, shape, *arguments[:4], plan=plan, after_rows=AfterRows(spoil, (arguments[1],)))

        size = scratch_bytes(level, shape, plan=plan)
        assert isinstance(size, int) and (size >= right.nbytes) == (rows > 48)
        scratch, c = np.zeros(size // 4, np.float32), np.zeros((rows, n), np.float32)
        native(level, [PTR] * 4, body)(a, right_operand(), c, scratch)
        assert same_bytes(c, expected[:rows])


@each_target
def test_without_columns_nothing_is_written_to_scratch(level: Target) -> None:
    """As there may be none; A is packed, its rows are many and B's columns known at run time only."""
    for transposed in (False, True):
        a, right = numbers((5, 600), np.float32, 1).T, numbers((5, 40), np.float32, 2)
        shape = shape_of(a, np.ascontiguousarray(right.T).T if transposed else right)
        scratch = np.full(1 << 16, -1)

        def body(b: Any, arguments: Any, shape: Contraction = shape) -> None:
            given = replace(shape, n=arguments[4])
            plan = plan_contraction(level, given)
            assert plan.pack_left
            emit_contraction(b, level, given, *arguments[:4], plan=replace(plan, row_block=64))

        call = native(level, [PTR] * 4 + [I64], body)
        call(a, right, np.zeros((600, 40), np.float32), scratch, 0)
        assert (scratch == -1).all()


@each_target
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_panels_of_a_large_right_operand_are_copied_ahead(level: Target, dtype: Any) -> None:
    """In one stage and in several, with more than one block of 4096 steps, for fewer tiles than steps between two rows and for more; the
    last panel is narrower or it isn't; few rows read B in place."""
    few, many = [(33, 300, 1100), (31, 300, 1100)], [(131, 700, 400), (40, 384, 700), (300, 257, 1100), (34, 260, 4200)]
    for sizes in few + many * (dtype == np.float32):
        a, right = operands(*sizes, "rows", dtype)
        bias = numbers((1, sizes[1]), dtype, 3)[0]
        assert plan_contraction(level, shape_of(a, right, {"m": I64(0)})).copy_ahead
        products = chains(a, right)
        assert same_bytes(multiply(level, a, right, ("m",)), products), sizes
        expected = products + np.arange(sizes[0], dtype=dtype)[:, None] + bias
        for inline in (True, False):
            assert same_bytes(multiply(level, a, right, ("m",), bias=bias, inline=inline), expected), (sizes, inline)


def aligned(shape: tuple[int, int]) -> Array:
    """Numbers whose rows begin with a line of the cache."""
    values = numbers(shape, np.float32, 2)
    place = np.zeros(values.nbytes + 64, np.uint8)
    found: Array = place[-place.ctypes.data % 64 :][: values.nbytes].view(np.float32).reshape(shape)
    found[:] = values
    return found


@each_target
@pytest.mark.parametrize(("m", "k"), [(100, 1500), (650, 1100)], ids=["one row of B at a time", "rows of C between"])
def test_the_rows_of_the_next_panel_and_of_the_result_are_fetched_in_time(
    level: Target, m: int, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines that are asked for are written down instead, in their order."""
    n, line = 400, 64
    a, right, c = numbers((m, k), np.float32, 1), aligned((k, n)), aligned((m, n))
    shape = shape_of(a, right, {"m": I64(0)})
    plan = plan_contraction(level, shape)
    assert plan.copy_ahead and plan.k_block < k
    asked = np.zeros(4 * k * -(-m // plan.rows) * -(-n // plan.columns), np.int64)  # a line of A in each step, and some of B and C

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
                wanted = lines_of(right, rows[contraction_fetch.ROWS_AHEAD :], panel)
                assert wanted <= whole
                when = np.flatnonzero(np.isin(lines, list(wanted)))
                assert when[-1] - when[0] > len(lines) / (panels + 1) / len(stages) / 2  # not at once
