"""Gradients that are added up over several batches: what breaks elsewhere where such a window is stopped, or an epoch ends in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from chains import inside
from resume_programs import ACCUMULATING, files, rows_of

import shapescript


@pytest.fixture(scope="module", params=["native", "numpy"])
def accumulating(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("program") / "program.ss"
    path.write_text(ACCUMULATING)
    return shapescript.load(path, engine=request.param)


def accumulated(program: Any, folder: Path, rows: Any, *parts: int, every: int = 1000, within: bool = False, epochs: int = 2) -> int:
    """Stretches of so many parts of gradients, each of which goes on from the checkpoint before; gives the number of updates."""
    folder.mkdir()
    updates = 0
    with inside(folder):
        for count in parts:
            sink = shapescript.jsonl("run.jsonl")
            updates = program.go(rows, sink, epochs, count, every, within, Path("run.pt").exists())
            sink.close()
    return updates


def test_18_a_stop_within_a_window_loses_no_gradient(accumulating: Any, tmp_path: Path) -> None:
    """Asked to save at the second of four parts, the program saves at the next update; or it saves the sum so far."""
    rows = rows_of(accumulating, 40)
    accumulated(accumulating, tmp_path / "whole", rows, 20, every=20)
    wanted = files(tmp_path / "whole")
    assert len(wanted["run.jsonl"].splitlines()) == 6 and "run.pt" in wanted
    for stop in (2, 3, 5, 9, 13):
        accumulated(accumulating, tmp_path / f"next-{stop}", rows, stop, every=2)
        place = shapescript.load_checkpoint(tmp_path / f"next-{stop}" / "run.pt") if stop >= 4 else {"part": 0}
        assert place["part"] == 0
        accumulated(accumulating, tmp_path / f"within-{stop}", rows, stop, 20 - stop, every=1, within=True)
        assert files(tmp_path / f"within-{stop}") == wanted
    accumulated(accumulating, tmp_path / "boundary", rows, 6, 16, every=2)
    assert files(tmp_path / "boundary") == wanted


def test_19_what_an_epoch_leaves_of_a_window_makes_an_update(accumulating: Any, tmp_path: Path) -> None:
    """7 batches in windows of 4 are an update of 4 and one of 3 each epoch; one batch alone is an update too."""
    assert accumulated(accumulating, tmp_path / "seven", rows_of(accumulating, 28), 100, epochs=2) == 4
    assert [line["parts"] for line in map(json.loads, files(tmp_path / "seven")["run.jsonl"].splitlines())] == [4, 3, 4, 3]
    assert accumulated(accumulating, tmp_path / "one", rows_of(accumulating, 4), 100, epochs=2) == 2
    assert accumulated(accumulating, tmp_path / "rest", rows_of(accumulating, 3), 100, epochs=1) == 1
