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
    return Results("3 rounds", figures, [LeftOut("lstm", "JAX", 1, "not installed: No module named 'jax'")], start_up, 1e11)


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
What is aimed at: medians (least times)
aim                                              threads  wanted        measured                      met
classifier 64-128-10, batch 64: of NumPy's time  1        at most 0.25  0.20 (0.20)                   yes
first on every row                               1        2 of 2        2 of 2                        yes
peak memory below every peer's                   1        2 of 2        1 of 2; NumPy no larger on 1  no
first step, cold                                          within 1.0 s  1.00 (0.90) s                 yes
first step, cached                                        within 0.5 s  0.50 (0.40) s                 yes
`shapescript check`                                       within 0.4 s  0.40 (0.40) s                 yes

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
    assert list(found) == ["facts", "rounds", "figures", "ratios", "core_flops", "start_up", "left_out"]
    assert set(found["facts"]) == {"processor", "system", "packages", "fork and join of two threads", "one core", "date", "commit"}
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
    assert lines[0] == "# Results" and lines[4] == "## Beside the peers" and "3 rounds" in lines[6]
    assert [line.split(":")[0] for line in lines if line.startswith("- ")][:7] == [
        "- processor",
        "- system",
        "- packages",
        "- fork and join of two threads",
        "- one core",
        "- date",
        "- commit",
    ]
    start = lines.index("**Least time, 1 thread**")
    assert lines[start + 2 : start + 5] == [
        "|  | ShapeScript | PyTorch | NumPy |",
        "| --- | --- | --- | --- |",
        "| classifier 64-128-10, batch 64 | 20.0 µs | – | 100.0 µs (5.00×) |",
    ]


def test_what_is_aimed_at_is_beside_what_was_measured() -> None:
    from bench.aims import Aim, aims
    from bench.runner import Figure
    from bench.start_up import StartUp, StartUps

    def figure(row: str, peer: str, threads: int, times: list[float], peak: int = 100) -> Figure:
        return Figure(row, peer, threads, times, 1.0, 10, peak)

    figures = [
        figure("64-128-10", "ShapeScript", 1, [25.0, 26.0, 30.0]),
        figure("64-128-10", "NumPy", 1, [100.0, 104.0, 96.0], 99),
        figure("64-128-10", "JAX scan", 1, [40.0, 41.6, 48.0], 300),
        figure("1024-4096-1024", "ShapeScript", 2, [80000.0, 70000.0, 64000.0]),
        figure("1024-4096-1024", "PyTorch", 2, [80000.0, 71000.0, 60000.0], 100),
        figure("inference-1", "ShapeScript", 2, [6.0], 50),
        figure("inference-1", "PyTorch", 2, [10.0], 51),
        figure("inference-1", "JAX", 2, [5.0], 49),
    ]
    start_up = StartUps([StartUp("ShapeScript", [1.2, 0.9, 1.0], [0.6, 0.51, 0.4]), StartUp("NumPy", [0.1])], [0.41], [])
    large = "classifier 1024-4096-1024, batch 256: products, of the cores' multiply-adds"
    products = 2.0 * 256 * (2 * 1024 * 4096 + 3 * 4096 * 1024)
    assert round(products / 2e11 * 1e6) == 53687  # µs on two cores of 100 GFLOP/s
    assert list(aims(figures, start_up, 1e11)) == [
        Aim("classifier 64-128-10, batch 64: of NumPy's time", 1, "at most 0.25", "0.25 (0.26)", True),
        Aim("classifier 64-128-10, batch 64: of JAX scan's time", 1, "at most 0.5", "0.62 (0.62)", False),
        Aim("first on every row", 1, "1 of 1", "1 of 1", True),
        Aim("peak memory below every peer's", 1, "1 of 1", "0 of 1; NumPy no larger on 1", False),
        Aim("inference 64-128-10, batch 1: of PyTorch's time", 2, "at most 0.5", "0.60 (0.60)", False),
        Aim(large, 2, "at least 80%", "77% (84%)", False),
        Aim("first on every row", 2, "2 of 2", "1 of 2; JAX faster on 1", False),
        Aim("peak memory below every peer's", 2, "2 of 2", "0 of 2; PyTorch no larger on 1; JAX no larger on 1", False),
        Aim("first step, cold", None, "within 1.0 s", "1.00 (0.90) s", True),
        Aim("first step, cached", None, "within 0.5 s", "0.51 (0.40) s", False),
        Aim("`shapescript check`", None, "within 0.4 s", "0.41 (0.41) s", False),
    ]
    assert [aim.what for aim in aims(figures[3:4], None, 1e11)] == [large]
    assert list(aims(figures[3:4], None, 0.0)) == []


def test_each_kind_of_run_has_a_part_of_the_page(tmp_path: Path) -> None:
    from bench.page import Part, put

    page = tmp_path / "RESULTS.md"
    put(page, Part.GROWTH, "grows\n\n## not a part\n")
    assert "## As sizes grow\n\ngrows" in page.read_text() and "Beside the peers" not in page.read_text()
    put(page, Part.PEERS, "\n**table**\n\n| a |\n")
    first = page.read_text()
    assert first.split("\n\n")[2:] == ["## Beside the peers", "**table**", "| a |", "## As sizes grow", "grows\n"]
    put(page, Part.PEERS, "**table**\n\n| a |")
    assert page.read_text() == first
    put(page, Part.GROWTH, "shrinks")
    assert page.read_text() == first.replace("grows", "shrinks")


def test_growth_is_beside_that_of_the_arithmetic(tmp_path: Path) -> None:
    from bench.arithmetic import step_flops
    from bench.growth import Measured, Training, growth_table
    from bench.table import as_markdown, as_text

    training = Training(tmp_path, 128)
    products = sum(2 * 64 * m * n for m, n in [(64, 128), (128, 10), (128, 10), (128, 10), (64, 128)])
    update = 16 * sum(value.size for value in training.loaded.model.state_dict().values())
    assert step_flops(training.dims, 64) == products + update
    later = [Measured(2, 3e-5, 4e5, 0, 0.0), Measured(4, 6e-5, 6e5, 0, 0.0), Measured(8, 9e-5, 8.4e5, 0, 0.0)]
    found = [Measured(1, 2e-5, 2e5, 1, 0.5), *later]
    told = "from batch 2 to 4 time grows 2.00×, arithmetic 1.50×"
    assert (
        as_text(growth_table("by the batch", "batch", found))
        == f"""\
by the batch
batch  a step   time grows  flops grow  Mflop  Gflop/s  compiles  seconds
1      20.0 µs                          0.20   10.0     1         0.50
2      30.0 µs  1.50×       2.00×       0.40   13.3     0         0.00
4      60.0 µs  2.00×       1.50×       0.60   10.0     0         0.00
8      90.0 µs  1.50×       1.40×       0.84   9.3      0         0.00
{told}"""
    )
    assert as_markdown(growth_table("by the batch", "batch", found)).endswith(f" 0.00 |\n\n- {told}")
    assert growth_table("by the batch", "batch", found[:2]).notes == ["time grows nowhere more than 1.25× as much as arithmetic"]


def test_growth_shows_its_tables_and_keeps_them_beside_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from bench import growth
    from bench.page import Part, put

    page = tmp_path / "RESULTS.md"
    put(page, Part.PEERS, "theirs")
    monkeypatch.setattr(growth, "PAGE", page)
    monkeypatch.setattr(growth, "BATCHES", (1, 2, 3, 4, 5))
    monkeypatch.setattr(growth, "WIDTHS", (16,))
    monkeypatch.setattr(growth, "SECONDS_A_REPEAT", 0.0)
    assert growth.main(["--quick", "--threads", "1", "--write-results"]) == 0
    shown = capsys.readouterr()
    assert shown.err.splitlines() == ["batch 1, the last is 5", "batch 5, the last is 5", "width 16, the last is 16"]
    tables = [line for line in shown.out.splitlines() if line[:1].isdigit()]
    assert [line.split()[0] for line in tables] == ["64-128-10,", "1", "5", "64-width-10,", "16"]
    text = page.read_text()
    assert "## Beside the peers\n\ntheirs\n\n## As sizes grow\n" in text
    assert "**64-128-10, by the batch, 1 thread**" in text and "- commit: " in text


@pytest.mark.parametrize("words", [["--threads", "0"], ["--threads", "257"], ["--rounds", "0"], ["growth", "--threads", "-1"]])
def test_options_that_say_nothing_are_bad_usage(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from bench.__main__ import main

    monkeypatch.setattr("sys.argv", ["bench", *words])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert f"argument {words[-2]}: expected 1 " in capsys.readouterr().err


def test_growth_counts_what_is_compiled(tmp_path: Path) -> None:
    from bench.growth import Training, counted_compiles

    with counted_compiles() as compiles:
        training = Training(tmp_path, 16)
        training.steps(1, 4)
        assert compiles.count == 1 and compiles.seconds > 0
        training.steps(2, 7)
        assert compiles.count == 1
