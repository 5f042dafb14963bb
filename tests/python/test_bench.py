"""The benchmark's peers compute the same, and a run refuses those that don't. Nothing is timed here."""

from __future__ import annotations

import dataclasses
import importlib
import math
from pathlib import Path

import numpy as np
import pytest
from fixtures import ROOT

from shapescript.compiler.check.checker import check_file


@pytest.fixture(autouse=True)
def _bench_is_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def numbers(folder: Path, row: str, dims: dict[str, int], peers: list[str], steps: int) -> dict[str, list[float]]:
    """What each peer's first round gives, of a row with other dims."""
    from bench.ours import prepare_task
    from bench.peers import peer_of
    from bench.rows import ROWS
    from bench.task import load_task

    chosen = next(one for one in ROWS if one.name == row)
    prepare_task(folder, dataclasses.replace(chosen, dims={**chosen.dims, **dims}), 1, steps)
    found = {}
    for key in peers:
        module, function = peer_of(key).work.split(":")
        found[key] = getattr(importlib.import_module(module), function)(load_task(folder)).round()
    return found


@pytest.mark.parametrize(
    ("row", "dims", "peers", "steps"),
    [
        ("64-128-10", {}, ["ours", "numpy", "torch"], 20),
        ("1024-4096-1024", {"Hidden": 64}, ["ours", "numpy", "torch"], 3),
        ("char-gpt", {"Context": 8, "Width": 16, "Heads": 2, "Depth": 2}, ["ours", "torch"], 3),
        ("digits-cnn", {}, ["ours", "numpy", "torch"], 5),
        ("lstm", {"Context": 7, "Hidden": 20}, ["ours", "numpy", "torch"], 5),
    ],
)
def test_peers_compute_the_same_losses(tmp_path: Path, row: str, dims: dict[str, int], peers: list[str], steps: int) -> None:
    ours, *others = numbers(tmp_path, row, dims, peers, steps).values()
    assert len(ours) == steps and len(set(ours)) == steps
    for other in others:
        assert np.abs(np.array(other) - ours).max() <= 1e-5


@pytest.mark.parametrize("batch", [1, 256])
def test_peers_compute_the_same_results_of_calls(tmp_path: Path, batch: int) -> None:
    ours, *others = numbers(tmp_path, f"inference-{batch}", {}, ["ours", "numpy", "torch"], 2).values()
    assert len(ours) == 10
    for other in others:
        assert np.abs(np.array(other) - ours).max() <= 1e-6


def test_every_row_has_a_program_that_checks(tmp_path: Path) -> None:
    from bench.ours import program_text
    from bench.rows import ROWS

    for row in ROWS:
        path = tmp_path / f"{row.name}.ss"
        path.write_text(program_text(row))
        assert not check_file(path, dict(row.dims)).diagnostics, row.name


def test_later_rounds_go_on_with_the_same_examples(tmp_path: Path) -> None:
    from bench.numpy_peer import NumpyTrainer
    from bench.ours import ShapeScriptTrainer, prepare_task
    from bench.rows import ROWS
    from bench.task import load_task

    prepare_task(tmp_path, ROWS[0], 3, 4)
    ours, theirs = ShapeScriptTrainer(load_task(tmp_path)), NumpyTrainer(load_task(tmp_path))
    for _ in range(3):
        assert np.abs(np.array(ours.round()) - theirs.round()).max() <= 1e-5


def test_a_row_runs_in_processes_of_their_own() -> None:
    from bench.peers import PEERS
    from bench.rows import ROWS
    from bench.runner import run_row

    row = dataclasses.replace(ROWS[0], steps=2)
    peers = [peer for peer in PEERS if peer.key in ("ours", "numpy")]
    said: list[str] = []
    figures, left_out = run_row(row, peers, 1, 3, said.append)
    assert said == [f"classifier 64-128-10, batch 64, 1 thread: round {number} of 3" for number in (1, 2, 3)]
    found = [(figure.row, figure.peer, figure.threads, len(figure.rounds)) for figure in figures]
    assert found == [("64-128-10", "ShapeScript", 1, 3), ("64-128-10", "NumPy", 1, 3)] and not left_out
    assert all(figure.least > 0 and 0 < figure.idle <= figure.peak for figure in figures)


def test_a_peer_that_is_not_installed_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.peers import PEERS
    from bench.rows import ROWS
    from bench.runner import LeftOut, run_row

    (tmp_path / "optax.py").write_text("raise ImportError('nothing here')")
    (tmp_path / "jax.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    peers = [peer for peer in PEERS if peer.key in ("ours", "jax")]
    figures, left_out = run_row(dataclasses.replace(ROWS[0], steps=1), peers, 1, 1, lambda text: None)
    assert [figure.peer for figure in figures] == ["ShapeScript"]
    assert left_out == [LeftOut("64-128-10", "JAX", 1, "not installed: nothing here")]


def test_other_numbers_end_a_run() -> None:
    from bench.rows import ROWS
    from bench.runner import CHECKED_NUMBERS, DifferentNumbers, check_numbers

    row, losses = ROWS[0], [2.0] * (CHECKED_NUMBERS + 1)
    check_numbers(row, {"ShapeScript": losses, "JAX": [2.0001] * len(losses), "NumPy": [*losses[:-1], 3.0]})
    with pytest.raises(DifferentNumbers, match=r"number 3 of JAX is 2\.001, of ShapeScript 2\.0; at most 0\.0001 apart"):
        check_numbers(row, {"ShapeScript": losses, "JAX": [2.0, 2.0, 2.0, 2.001, *losses[4:]]})
    with pytest.raises(DifferentNumbers, match="of JAX is nan"):
        check_numbers(row, {"ShapeScript": losses, "JAX": [math.nan, *losses[1:]]})
    with pytest.raises(DifferentNumbers, match="JAX gives 1 numbers, ShapeScript 21"):
        check_numbers(row, {"ShapeScript": losses, "JAX": [2.0]})


def test_processes_are_given_their_threads_and_no_other_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.peers import environment
    from bench.pinning import chosen_processors

    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    given = environment(2, tmp_path)
    assert "OPENBLAS_CORETYPE" not in given and "PATH" in given
    assert {given[name] for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "SHAPESCRIPT_THREADS")} == {"2"}
    assert given["SHAPESCRIPT_CACHE_DIR"].startswith(str(tmp_path))
    assert [chosen_processors([0, 2, 1, 3], 1, place) for place in range(5)] == [{0}, {2}, {1}, {3}, {0}]
    assert [chosen_processors([0, 2, 1, 3], 2, place) for place in range(3)] == [{0, 2}, {1, 3}, {0, 2}]
    assert chosen_processors([5], 2, 1) == {5}
