"""The benchmark's tables, its JSON and its page, from given figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fixtures import ROOT

MIB = 2**20


@pytest.fixture(autouse=True)
def _bench_is_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)


def results() -> Any:
    from bench.results import Results
    from bench.runner import Figure, LeftOut
    from bench.start_up import StartUp, StartUps

    figures = [
        Figure("64-128-10", "ShapeScript", 1, [20.0, 40.0, 25.0], 1.0, 10 * MIB, 110 * MIB),
        Figure("64-128-10", "NumPy", 1, [100.0, 120.0, 150.0], 1.0, 20 * MIB, 28 * MIB),
        Figure("lstm", "ShapeScript", 1, [8000.0, 9000.0, 7000.0], 1.0, 10 * MIB, 120 * MIB),
        Figure("lstm", "PyTorch", 1, [4000.0, 9000.0, 14000.0], 1.0, 200 * MIB, 300 * MIB),
    ]
    start_up = StartUps([StartUp("ShapeScript", [1.0, 1.2, 0.9], [0.5, 0.4, 0.6]), StartUp("PyTorch", [3.0, 3.0, 2.5])], [0.4], [])
    return Results("3 rounds", figures, [LeftOut("lstm", "JAX", 1, "not installed: No module named 'jax'")], start_up)


def test_ratios_are_medians_of_those_of_each_round() -> None:
    from bench.table import Ratio, ratios

    assert ratios(results().figures) == [Ratio("64-128-10", "NumPy", 1, 5.0, 5.0), Ratio("lstm", "PyTorch", 1, 1.0, 4000 / 7000)]


def test_a_peer_without_ours_has_no_ratio() -> None:
    from bench.runner import Figure
    from bench.table import ratios

    assert ratios([Figure("lstm", "ShapeScript", 1, [1.0]), Figure("lstm", "PyTorch", 2, [2.0])]) == []


def test_text() -> None:
    assert (
        results().text()
        == """\
Median time of a step or call, 1 thread (times as long as ShapeScript)
                                 ShapeScript  PyTorch          NumPy
classifier 64-128-10, batch 64   25.0 µs      –                120.0 µs (5.00×)
LSTM 64→128, 32 steps, batch 32  8000 µs      9000 µs (1.00×)  –

Least time, 1 thread
                                 ShapeScript  PyTorch          NumPy
classifier 64-128-10, batch 64   20.0 µs      –                100.0 µs (5.00×)
LSTM 64→128, 32 steps, batch 32  7000 µs      4000 µs (0.57×)  –

Peak memory in MiB, 1 thread (growth over the process with its packages imported)
                                 ShapeScript  PyTorch     NumPy
classifier 64-128-10, batch 64   110 (+100)   –           28 (+8)
LSTM 64→128, 32 steps, batch 32  120 (+110)   300 (+100)  –

From the start of the process to the end of its first step, 64-128-10, in seconds: median (least)
             cold         cached
ShapeScript  1.00 (0.90)  0.50 (0.40)
PyTorch      3.00 (2.50)  –

`shapescript check examples/train_mlp.ss`, in seconds
median (least)
0.40 (0.40)

Peers that take less time than ShapeScript
row                              threads  peer     by medians  by least times
LSTM 64→128, 32 steps, batch 32  1        PyTorch  1.00×       0.57×

LSTM 64→128, 32 steps, batch 32: JAX (1 thread) is left out: not installed: No module named 'jax'"""
    )


def test_json_holds_every_figure(tmp_path: Path) -> None:
    from bench.results import write

    out = tmp_path / "folder" / "bench.json"
    write(results(), out, None)
    found = json.loads(out.read_text())
    assert list(found) == ["facts", "rounds", "figures", "ratios", "start_up", "left_out"]
    assert set(found["facts"]) == {"processor", "system", "packages", "fork and join of two threads", "date", "commit"}
    expected = {"row": "64-128-10", "peer": "NumPy", "threads": 1, "rounds": [100.0, 120.0, 150.0], "median": 120.0, "least": 100.0}
    assert found["figures"][1] == {**expected, "cores": 1.0, "idle": 20 * MIB, "peak": 28 * MIB}
    assert found["ratios"][0] == {"row": "64-128-10", "peer": "NumPy", "threads": 1, "median": 5.0, "least": 5.0}
    assert found["start_up"]["first_step"][0] == {"peer": "ShapeScript", "cold": [1.0, 1.2, 0.9], "cached": [0.5, 0.4, 0.6]}
    assert found["left_out"] == [{"row": "lstm", "peer": "JAX", "threads": 1, "why": "not installed: No module named 'jax'"}]


def test_page_has_the_facts_and_tables_in_markdown(tmp_path: Path) -> None:
    from bench.results import write

    page = tmp_path / "RESULTS.md"
    write(results(), tmp_path / "bench.json", page)
    lines = page.read_text().splitlines()
    assert lines[0] == "# Results" and "3 rounds" in lines[2]
    assert [line.split(":")[0] for line in lines if line.startswith("- ")][:6] == [
        "- processor",
        "- system",
        "- packages",
        "- fork and join of two threads",
        "- date",
        "- commit",
    ]
    start = lines.index("**Least time, 1 thread**")
    assert lines[start + 2 : start + 5] == [
        "|  | ShapeScript | PyTorch | NumPy |",
        "| --- | --- | --- | --- |",
        "| classifier 64-128-10, batch 64 | 20.0 µs | – | 100.0 µs (5.00×) |",
    ]


def test_growth_is_beside_that_of_the_arithmetic(tmp_path: Path) -> None:
    from bench.growth import Measured, Training, growth_table
    from bench.table import as_text

    training = Training(tmp_path, 128)
    products = sum(2 * 64 * m * n for m, n in [(64, 128), (128, 10), (128, 10), (128, 10), (64, 128)])
    assert training.flops(64) == products + 16 * sum(value.size for value in training.loaded.model.state_dict().values())
    found = [Measured(1, 2e-5, 2e5, 1, 0.5), Measured(2, 3e-5, 4e5, 0, 0.0)]
    assert (
        as_text(growth_table("by the batch", "batch", found))
        == """\
by the batch
batch  a step   time grows  flops grow  Mflop  Gflop/s  compiles  seconds
1      20.0 µs                          0.20   10.0     1         0.50
2      30.0 µs  1.50×       2.00×       0.40   13.3     0         0.00"""
    )


def test_growth_counts_what_is_compiled(tmp_path: Path) -> None:
    from bench.growth import Training, counted_compiles

    with counted_compiles() as compiles:
        training = Training(tmp_path, 16)
        training.steps(1, 4)
        assert compiles.count == 1 and compiles.seconds > 0
        training.steps(2, 7)
        assert compiles.count == 1
