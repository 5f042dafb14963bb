"""What the rows of a profile count: calls, arithmetic and bytes, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fed_data import slow
from profile_programs import PROGRAM, counted, row, tensor

import shapescript


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Any:
    file = tmp_path_factory.mktemp("profile") / "program.ss"
    file.write_text(PROGRAM)
    return shapescript.load(file)


def test_a_product_counts_two_for_each_term(program: Any) -> None:
    with shapescript.profile() as p:
        program.product(tensor(7, 5), tensor(5, 3))
        program.product(tensor(2, 11), tensor(11, 3))
    terms, numbers = 7 * 5 * 3 + 2 * 11 * 3, (7 * 5 + 5 * 3 + 7 * 3) + (2 * 11 + 11 * 3 + 2 * 3)
    assert counted(p.rows, "contraction") == (2, 2 * terms, 4 * numbers)
    assert str(row(p.rows, "contraction").kernel) == "contraction f32[b k] f32[k e] -> f32[b e]"
    assert row(p.rows, "contraction").origin.text == "return x @ w"
    assert p.calls == 2


def test_an_epilogue_counts_one_for_each_operation_and_element(program: Any) -> None:
    with shapescript.profile() as p:
        program.activated(tensor(7, 5), tensor(5, 3), tensor(3))
    assert counted(p.rows, "fused_contraction") == (1, 2 * 7 * 5 * 3 + 2 * 7 * 3, 4 * (7 * 5 + 5 * 3 + 3 + 7 * 3))


def test_elementwise_work_counts_a_tensor_once_however_often_it_is_used(program: Any) -> None:
    with shapescript.profile() as p:
        program.chained(tensor(6, 10), tensor(10))
    assert counted(p.rows, "kernel") == (1, 3 * 6 * 10, 4 * (6 * 10 + 10 + 6 * 10))


def test_a_reduction_counts_one_for_each_element(program: Any) -> None:
    with shapescript.profile() as p:
        program.added(tensor(6, 10))
        program.added(tensor(0, 10))
    assert counted(p.rows, "sum") == (2, 6 * 10, 4 * (6 * 10 + 6))


def test_what_is_the_same_along_a_reduced_axis_counts_once(program: Any) -> None:
    """Of each element the largest, the difference, exp, the sum and the quotient; of each row two conditions and two choices."""
    with shapescript.profile() as p:
        program.shares(tensor(6, 10))
    assert counted(p.rows, "fused_reduction") == (1, 5 * 6 * 10 + 4 * 6, 4 * (6 * 10 + 6 * 10))


def test_a_loop_counts_once_and_what_it_does_each_turn(program: Any) -> None:
    with shapescript.profile() as p:
        program.repeated(tensor(8, 8), 25)
    assert counted(p.rows, "for_range") == (1, 0, 0)
    assert counted(p.rows, "contraction") == (25, 25 * 2 * 8**3, 25 * 4 * 3 * 8**2)
    assert counted(p.rows, "repeated") == (1, 0, 0)


def test_what_does_not_run_has_no_row(program: Any) -> None:
    with shapescript.profile() as p:
        program.repeated_or_not(tensor(8, 8), 25, False)
    assert [one.kernel.name for one in p.rows if one.kernel.name in ("contraction", "for_range")] == []
    assert counted(p.rows, "if") == (1, 0, 0)


def test_a_training_step_counts_models_and_batches(program: Any) -> None:
    rows = program.Row.dataset(x=tensor(7, 3), label=np.arange(7) % 4)
    m = program.Net(seed=1)
    with shapescript.profile() as p:
        program.trained(m, shapescript.AdamW(m), rows)
    parameters, block = 64, 8 * 16  # of 12 numbers, rounded up to whole lines of the cache
    changed = parameters + block + 2 * parameters
    assert counted(p.rows, "update") == (4, 0, 4 * (2 * changed + parameters))
    assert counted(p.rows, "for_batches: batch") == (4, 0, 2 * 7 * (4 * 3 + 8))
    assert counted(p.rows, "order")[0] == 1


def test_what_the_host_reads_has_rows(program: Any) -> None:
    rows = slow(program.Row.dataset(x=tensor(7, 3), label=np.arange(7) % 4))
    m = program.Net(seed=1)
    with shapescript.profile() as p:
        program.trained(m, shapescript.AdamW(m), rows)
    calls = {one.kernel.name: one.calls for one in p.rows}
    assert calls["for_batches: open feed"] == calls["for_batches: close feed"] == 1
    assert 1 <= calls["for_batches: take batches"] <= calls["for_batches: batch"] == 4
