"""A profile as text, from given rows: which lines are put together, and what each rate is compared with."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from shapescript.compiler.codegen.peak import Peak
from shapescript.compiler.ir.types import Element
from shapescript.profile_report import MOST_LINES, report
from shapescript.profile_rows import Kernel, Origin, ProfileRow

GIGA = 10**9


def row(line: int, kernel: Kernel, seconds: float, flops: int = 0, bytes_: int = 0, threads: int = 1, others: int = 0) -> ProfileRow:
    return ProfileRow(Origin("a.ss", line, f"line {line}", others), kernel, 2, seconds, flops, bytes_, threads)


def shown(rows: list[ProfileRow]) -> list[str]:
    profile: Any = SimpleNamespace(
        rows=rows,
        machine=Peak(100.0 * GIGA, 50.0 * GIGA, 10.0 * GIGA),
        seconds=3.0,
        native_seconds=sum(one.seconds for one in rows),
        calls=1,
        outside={"Python": 0.5},
    )
    return report(profile).splitlines()


def test_a_rate_is_beside_the_peak_of_as_many_cores_in_its_own_element() -> None:
    rows = [
        row(1, Kernel("contraction", "f32[a] -> f32[b]", Element.F32), 1.0, 100 * GIGA, 5 * GIGA, threads=2),
        row(2, Kernel("contraction", "f64[a] -> f64[b]", Element.F64), 0.5, 20 * GIGA, 10 * GIGA),
        row(3, Kernel("write", "LogSink"), 0.25),
    ]
    assert shown(rows) == [
        "profile: 3.000 s, 1.750 s of them in 1 call of native code",
        "this machine, one core: 100.0 GFLOP/s (50.0 in f64), 10.0 GB/s",
        "",
        "         ms      %      calls  by line",
        "   1000.000   57.1          2  a.ss:1: line 1",
        "    500.000   28.6          2  a.ss:2: line 2",
        "    250.000   14.3          2  a.ss:3: line 3",
        "",
        "         ms      %      calls threads  GFLOP/s  peak    GB/s  peak  by kernel",
        "   1000.000   57.1          2       2   100.00   50%    5.00   50%  contraction f32[a] -> f32[b]",
        "    500.000   28.6          2       1    40.00   80%   20.00  200%  contraction f64[a] -> f64[b]",
        "    250.000   14.3          2       -        -     -       -     -  write LogSink",
        "",
        "outside of native code",
        "    500.000  Python",
    ]


def test_rows_of_a_line_and_of_a_kernel_are_put_together_and_the_least_left_out() -> None:
    product, plain = Kernel("contraction", "", Element.F32), Kernel("kernel", "", Element.F32)
    lines = shown(
        [
            row(1, product, 0.5, 10 * GIGA, threads=1),
            row(1, plain, 0.25, others=2),
            row(2, product, 0.5, 30 * GIGA, threads=4),
            *(row(line, plain, 0.001) for line in range(3, MOST_LINES + 3)),
        ]
    )
    assert "    750.000   59.1          4  a.ss:1 +2: line 1" in lines
    assert "      2.000    0.2          4  2 lines more" in lines
    assert "   1000.000   78.7          4       4    40.00   10%       -     -  contraction" in lines


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.001, "1.000"),
        (999.9994, "999999.400"),
        (1000.0, "1000000.00"),
        (10_000.0, "10000000.0"),
        (99_999.99996, "100000000"),
        (10.0**6, "1000000000"),
    ],
)
def test_hours_stay_in_their_column(seconds: float, text: str) -> None:
    assert f" {text:>10}  100.0          2  a.ss:1: line 1" in shown([row(1, Kernel("kernel", "", Element.F32), seconds)])
