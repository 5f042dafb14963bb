"""Tiles of a product: how large they are on each target, and how threads share them out."""

import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from kernel_harness import TARGETS, module_of, native, same_bytes
from llvmlite import ir
from product_harness import chains, each_target, multiply, operands, shape_of

from shapescript.compiler.codegen import emit, jit
from shapescript.compiler.codegen.contraction import (
    Contraction,
    Share,
    emit_contraction,
    panel_count,
    plan_contraction,
    scratch_bytes,
)
from shapescript.compiler.codegen.contraction_shares import cut_units, cuts_rows, share_of
from shapescript.compiler.codegen.emit import I64, PTR
from shapescript.compiler.codegen.target import Target, aarch64, host, x86_64_v3, x86_64_v4

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
def test_tiles_take_few_instructions(vectors: int) -> None:
    """For columns of so many vectors: on AVX-512, AVX2 and aarch64."""
    for level, wanted in zip((x86_64_v4(), x86_64_v3(), aarch64()), TILES[vectors], strict=True):
        n = vectors * level.lanes
        plan = plan_contraction(level, Contraction(emit.F32, I64(0), n, 64, 64, 1, 1, 64, n))
        assert (plan.rows, plan.vectors) == wanted
        packed = plan_contraction(level, Contraction(emit.F32, 4096, n, 64, 1, 4096, n, 1, n))
        if packed.pack_left:
            assert packed.rows.bit_count() == 1


SPILLS = {"x86": r"%[xyz]mm\d+, -?\d*\(%rsp|\(%rsp\), %[xyz]mm", "aarch64": r"(str|ldr|stp|ldp)\s+q\d+.*\[sp"}


@pytest.mark.parametrize("level", [x86_64_v3(), x86_64_v4(), aarch64()], ids=lambda level: level.name)
@pytest.mark.parametrize("vectors", [1, 2, 3, 4, 8])
def test_tiles_fit_the_registers(level: Target, vectors: int) -> None:
    """However few the rows: LLVM keeps no vector of the steps on the stack."""
    n, kind = vectors * level.lanes, "x86" if level.is_x86 else "aarch64"
    for m in (*range(1, 17), 28, 29, 30, 31):

        def body(b: Any, arguments: Any, m: int = m) -> None:
            emit_contraction(b, level, Contraction(emit.F32, m, n, 64, 64, 1, n, 1, n), *arguments)

        module = llvm.parse_assembly(module_of(level, [PTR] * 4, body))
        text = jit.target_machine(level, jit=False).emit_assembly(module)
        assert not re.search(SPILLS[kind], text), (m, re.findall(f".*(?:{SPILLS[kind]}).*", text)[:3])


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
@pytest.mark.parametrize(
    ("workers", "sizes", "layouts"),
    [
        (2, (50, 130, 40), ("rows", "transposed")),
        (3, (50, 130, 1300), ("rows", "transposed")),
        (5, (50, 130, 4100), ("rows", "transposed")),
        (3, (180, 384, 700), ("rows", "rows")),
        (2, (1300, 300, 9), ("transposed", "rows")),
        (3, (1300, 300, 9), ("transposed", "rows")),
    ],
    ids=str,
)
def test_shares_give_the_same_bytes(level: Target, workers: int, sizes: tuple[int, int, int], layouts: tuple[str, str]) -> None:
    """With panels transposed, copied ahead, and kept for later blocks of rows, of which a share has two or one."""
    m, n, _ = sizes
    a, right = operands(*sizes, layouts[1], np.float32, layouts[0])
    shape = shape_of(a, right)
    plan = plan_contraction(level, shape)
    assert (plan.copy_ahead, plan.keeps_panels) == (n == 384, m == 1300)
    panels = panel_count(plan, n)
    assert isinstance(panels, int)
    rows = [min(m, -(-m * w // workers // plan.rows) * plan.rows) for w in range(workers + 1)]
    columns = [panels * w // workers for w in range(workers + 1)]

    by_rows = [Share(low, high, 0, panels) for low, high in pairwise(rows)]
    by_columns = [Share(0, m, low, high) for low, high in pairwise(columns)]

    scratch = np.zeros(scratch_bytes(level, shape), np.uint8)
    for shares in (by_rows, by_columns):

        def body(b: Any, arguments: Any, shares: list[Share] = shares) -> None:
            for share in shares:
                emit_contraction(b, level, shape, *arguments, share=share)

        c = np.zeros((m, n), np.float32)
        native(level, [PTR] * 4, body)(a, right, c, scratch)
        assert same_bytes(c, chains(a, right))
