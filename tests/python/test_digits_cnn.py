"""The convolutional example: its steps are PyTorch's, both engines give the same bytes, and it learns the digits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch_twins as twins
from api_programs import digits
from fixtures import EXAMPLES
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, max_pool2d

import shapescript
from shapescript.cli import main
from shapescript.engines import EngineName

EXAMPLE = EXAMPLES / "digits_cnn.ss"


class Cnn(nn.Module):
    """Without dropout, as in Eval."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)
        self.hidden, self.output = nn.Linear(1024, 128), nn.Linear(128, 10)

    def loss(self, pixels: Tensor, label: Tensor) -> Tensor:
        features = max_pool2d(torch.relu(self.second(torch.relu(self.first(pixels.reshape(-1, 1, 8, 8))))), 2)
        return cross_entropy(self.output(torch.relu(self.hidden(features.flatten(1)))), label)


def some_steps(engine: EngineName, batches: list[tuple[np.ndarray[Any, Any], ...]]) -> tuple[Any, list[float]]:
    program = shapescript.load(EXAMPLE, engine=engine)
    m, sink = program.Cnn(seed=1), shapescript.MemorySink()
    opt = shapescript.AdamW(m)
    for pixels, label in batches:
        program.train_step(m, opt, program.Digit.batch(pixels=pixels, label=label), 1e-3, sink, shapescript.Eval)
    return m, [record.loss for record in sink.records]


def test_steps_are_those_of_pytorch() -> None:
    pixels, label = digits()
    batches = [(pixels[start : start + 64], label[start : start + 64]) for start in range(0, 640, 64)]
    twin = twins.Twin(Cnn(), some_steps("native", [])[0].state_dict())
    expected = [twin.step(*batch, rate=1e-3, clip=1.0) for batch in batches]
    m, found = some_steps("native", batches)
    assert np.abs(np.array(found) - expected).max() <= 1e-4
    for name, array in twin.parameters().items():
        assert np.abs(m[name] - array).max() <= 1e-3, name


def test_both_engines_give_the_same_bytes() -> None:
    pixels, label = digits()
    batches = [(pixels[start : start + 3], label[start : start + 3]) for start in (0, 3)]
    (m, losses), (other, other_losses) = (some_steps(engine, batches) for engine in ("native", "numpy"))
    assert losses == other_losses and m.buffer.tobytes() == other.buffer.tobytes()


def accuracy_of(epochs: int, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> float:
    monkeypatch.chdir(folder)
    assert main(["run", str(EXAMPLE), "--epochs", str(epochs)]) == 0
    found = re.search(r"test accuracy ([\d.]+)", capsys.readouterr().out)
    assert found
    return float(found[1])


def test_a_short_run_learns_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert accuracy_of(3, tmp_path, monkeypatch, capsys) >= 0.93
    assert len((tmp_path / "digits_cnn.jsonl").read_text().splitlines()) == 3 * 23


def test_twenty_epochs_reach_what_pytorch_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert accuracy_of(20, tmp_path, monkeypatch, capsys) >= 0.983
