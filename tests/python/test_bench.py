"""The benchmark's peers train the same thing. Nothing is timed here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fixtures import ROOT


def test_peers_compute_the_same_losses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    from bench.ours import common_order, common_start
    from bench.task import BATCHES_PER_EPOCH, load_task, save_task
    from bench.worker import trainer

    path = tmp_path / "task.npz"
    save_task(path, common_start(), common_order(2))
    losses = {peer: trainer(peer, load_task(path)).train(2 * BATCHES_PER_EPOCH) for peer in ("ShapeScript", "NumPy", "PyTorch")}
    for peer, found in losses.items():
        assert len(found) == 2 * BATCHES_PER_EPOCH
        assert np.abs(np.array(found) - losses["ShapeScript"]).max() <= 1e-5, peer
