"""The main job: the example agrees with PyTorch, stops and goes on without a trace, and learns the digits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch_twins as twins
from api_programs import digits, example
from fixtures import EXAMPLES

import shapescript
from shapescript.cli import main

EPOCHS, ROWS, BATCH = 10, 640, 64

# What a fresh process does: `fit` or `resume` to so many epochs, logging to a file and saving after each.
SESSION = """
import sys
import numpy as np, shapescript
what, epochs, mode = sys.argv[1], int(sys.argv[2]), eval(sys.argv[3])
program = shapescript.load({program!r})
with np.load({data!r}) as file:
    train = program.Digit.dataset(pixels=file["pixels"][:{rows}], label=file["label"][:{rows}])
sink = shapescript.jsonl("log.jsonl")
if what == "fit":
    program.fit(m := program.Mlp(seed=1), train, sink, epochs, mode)
else:
    m = program.resume(train, sink, epochs, mode)
shapescript.save_checkpoint("end.pt", m=m)
""".format(program=str(EXAMPLES / "train_mlp.ss"), data=str(EXAMPLES / "digits_train.npz"), rows=ROWS)


def train_data(program: Any) -> Any:
    pixels, label = digits()
    return program.Digit.dataset(pixels=pixels[:ROWS], label=label[:ROWS])


def test_a_hundred_steps_are_those_of_pytorch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = example()
    train, sink, m = train_data(program), shapescript.MemorySink(), program.Mlp(seed=1)
    twin = twins.Twin(twins.Mlp(), m.state_dict())
    program.fit(m, train, sink, epochs=EPOCHS, mode=shapescript.Eval)
    expected = []
    for epoch in range(EPOCHS):
        for batch in train.shuffle(epoch).batches(BATCH):
            expected.append(twin.step(batch.pixels, batch.label, rate=3e-4, clip=1.0))
    assert [record.step for record in sink.records] == list(range(1, 101))
    assert np.abs(np.array([record.loss for record in sink.records]) - expected).max() <= 1e-5
    for name, array in twin.parameters().items():
        assert np.abs(m[name] - array).max() <= 1e-5, name


@pytest.mark.parametrize("mode", ["shapescript.Eval", "shapescript.Train(seed=5)"])
def test_a_run_that_stops_and_goes_on_is_the_run_that_does_not(tmp_path: Path, mode: str) -> None:
    def session(folder: Path, what: str, epochs: int) -> None:
        folder.mkdir(exist_ok=True)
        subprocess.run([sys.executable, "-c", SESSION, what, str(epochs), mode], cwd=folder, check=True)

    whole, parts = tmp_path / "whole", tmp_path / "parts"
    session(whole, "fit", EPOCHS)
    session(parts, "fit", EPOCHS // 2)
    session(parts, "resume", EPOCHS)
    assert len((whole / "log.jsonl").read_text().splitlines()) == 100
    for name in ("log.jsonl", "ckpt.pt", "end.pt"):
        assert (parts / name).read_bytes() == (whole / name).read_bytes(), name


def test_the_same_seed_gives_the_same_bits_and_another_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = example()
    train = train_data(program)

    def run(seed: int) -> tuple[bytes, list[float]]:
        m, sink = program.Mlp(seed=1), shapescript.MemorySink()
        program.fit(m, train, sink, epochs=2, mode=shapescript.Train(seed=seed))
        return m.buffer.tobytes(), [record.loss for record in sink.records]

    assert run(5) == run(5)
    assert run(5)[1] != run(6)[1]


def test_each_step_draws_its_own_masks() -> None:
    """With all hidden units at 1 and the identity behind them, `forward` gives the mask times 1/0.9."""
    program = example(Classes=128)
    m, mode = program.Mlp(seed=1), shapescript.Train(seed=5)
    m.hidden.weight, m.hidden.bias = np.zeros((128, 64), np.float32), np.ones(128, np.float32)
    m.output.weight, m.output.bias = np.eye(128, dtype=np.float32), np.zeros(128, np.float32)
    pixels = digits()[0][:64]
    masks = np.array([program.forward(m, pixels, mode) for _ in range(20)])
    assert mode.draws == 20
    kept = np.unique(masks[masks != 0])
    assert len(kept) == 1 and abs(kept[0] - 1 / 0.9) < 1e-6
    dropped = (masks == 0).mean(axis=(1, 2))
    assert np.all(np.abs(dropped - 0.1) < 0.02), dropped  # 8192 units a mask: the deviation is 0.0033
    assert len({mask.tobytes() for mask in masks}) == 20
    again = shapescript.Train(seed=5)
    assert np.array_equal(masks, np.array([program.forward(m, pixels, again) for _ in range(20)]))
    assert np.all(program.forward(m, pixels, shapescript.Eval) == 1.0)


def test_the_example_learns_the_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """PyTorch's twin reaches 97.8 to 98.1 %."""
    monkeypatch.chdir(tmp_path)
    assert main(["run", str(EXAMPLES / "train_mlp.ss")]) == 0
    words = capsys.readouterr().out.split()
    assert words[:2] == ["test", "accuracy"] and 0.97 <= float(words[2]) <= 1.0
    last = json.loads((tmp_path / "train_mlp.jsonl").read_text().splitlines()[-1])
    assert last["step"] == 100 * 23
