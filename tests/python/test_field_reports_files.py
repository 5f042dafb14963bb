"""What breaks elsewhere when checkpoints are written, and what must hold here. Each test is named after what must hold."""

from __future__ import annotations

import math
import random
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shapescript
from shapescript.runtime.checkpoint import load_checkpoint
from shapescript.runtime.inspection import inspect

# ---- 21. a checkpoint is written whole or not at all

SAVING = """
dim D = 4096

model Net:
    w: [D] = ones

fn main(start: int, steps: int = 1000000, path: str = "run.pt"):
    mut m = Net(seed=1)
    mut step = start
    if step > 0:
        m, step = load(path, m=Net, step=int)
    for turn in 0..steps:
        l, g = value_and_grad(sum(m.w, over=D), wrt=m)
        mut opt = Sgd(m)
        update(mut m, mut opt, g, lr=1.0)
        step = step + 1
        save(path, m=m, step=step)
        print(step)
"""


def command(folder: Path, *words: str, before: str = "") -> list[str]:
    (folder / "program.ss").write_text(SAVING)
    start = f"import sys\nfrom shapescript.cli import main\n{before}\nsys.exit(main(sys.argv[1:]))"
    return [sys.executable, "-c", start, "run", "--engine", "numpy", "program.ss", *words]


def whole(path: Path) -> int:
    """The step of the checkpoint, whose weights are those of that step."""
    found = load_checkpoint(path)
    assert (found["m"]["w"] == 1.0 - found["step"]).all() and inspect(path).error is None
    return int(found["step"])


@pytest.mark.parametrize("name", ["run.pt", "run.safetensors"])
def test_a_program_killed_at_random_leaves_a_checkpoint_that_loads_and_goes_on(tmp_path: Path, name: str) -> None:
    choose, done = random.Random(7), 0
    for turn in range(3):
        words = command(tmp_path, "--start", str(done), "--path", name)
        with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            for _ in range(choose.randint(2, 5)):
                printed = int(process.stdout.readline())
            threading.Event().wait(choose.random() / 500)
            process.send_signal(signal.SIGKILL)
            process.wait(timeout=60)
        # What is printed behind a save may be ahead of the file by the save that is being written beside it.
        found = whole(tmp_path / name)
        assert found >= printed - 1 and found > done, turn
        done = found
    assert shapescript.latest_checkpoint(tmp_path / "*run*") == str(tmp_path / name)
    finished = subprocess.run(command(tmp_path, "--start", str(done), "--steps", "1", "--path", name), cwd=tmp_path, check=True, timeout=60)
    assert finished.returncode == 0 and whole(tmp_path / name) == done + 1
    assert {path.name for path in tmp_path.iterdir()} == {"program.ss", name}


def test_a_save_that_fails_ends_the_program_with_an_error_that_names_path_and_cause(tmp_path: Path) -> None:
    subprocess.run(command(tmp_path, "--start", "0", "--steps", "2"), cwd=tmp_path, check=True, timeout=60, capture_output=True)
    before = (tmp_path / "run.pt").read_bytes()
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))"
    failed = subprocess.run(
        command(tmp_path, "--start", "2", before=limit), cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (
        failed.returncode == 1 and "R1304" in failed.stderr and "run.pt: the checkpoint can't be written: File too large" in failed.stderr
    )
    assert (tmp_path / "run.pt").read_bytes() == before and whole(tmp_path / "run.pt") == 2
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_no_unfinished_file_is_offered_as_a_checkpoint(tmp_path: Path) -> None:
    """Whole as well as torn ones, of the newest step."""
    shapescript.save_checkpoint(tmp_path / "run.pt", step=1)
    shapescript.save_checkpoint(tmp_path / "newer.pt", step=9)
    data = (tmp_path / "newer.pt").read_bytes()
    for number, content in enumerate((data, data[:100], b"")):
        (tmp_path / f".run.pt.shapescript-{number:016x}.tmp").write_bytes(content)
    (tmp_path / "newer.pt").unlink()
    for pattern in ("*", "**/*", "*run.pt*"):
        assert shapescript.latest_checkpoint(tmp_path / pattern) == str(tmp_path / "run.pt")
    with pytest.raises(shapescript.CheckpointMissing):
        shapescript.latest_checkpoint(tmp_path / ".*")


# ---- 42. after a NaN training stops, and the last good checkpoint stays

NAN = """
dim D = 3

model Net:
    w: [D] = ones

fn train(mut m: Net, mut opt: AdamW[Net], x: [n D], path: str, keep: int):
    for step in 1..101:
        l, g = value_and_grad(mean((x @ m.w) ** 2.0, over=n), wrt=m)
        update(mut m, mut opt, g, lr=1e-2)
        if step % 10 == 0:
            save(path, m=m, opt=opt, keep=keep)

fn poisoned(mut m: Net, mut opt: AdamW[Net], x: [n D], bad: [n D], path: str):
    for step in 1..101:
        if step == 50:
            l, g = value_and_grad(mean((bad @ m.w) ** 2.0, over=n), wrt=m)
            update(mut m, mut opt, g, lr=1e-2)
        else:
            l, g = value_and_grad(mean((x @ m.w) ** 2.0, over=n), wrt=m)
            update(mut m, mut opt, g, lr=1e-2)
        if step % 10 == 0:
            save(path, m=m, opt=opt, keep=1)

fn shattered(mut m: Net, mut opt: AdamW[Net], x: [n D], path: str):
    for step in 1..101:
        mut scale = 1.0
        if step == 50:
            scale = 0.0
        l, g = value_and_grad(sum(sqrt((x @ m.w) * scale), over=n), wrt=m)
        update(mut m, mut opt, g, lr=1e-2)
        if step % 10 == 0:
            save(path, m=m, opt=opt, keep=1)
"""
PROGRAM = NAN


def test_a_loss_that_is_nan_stops_at_its_step_and_the_last_good_checkpoint_stays(
    program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    x = np.ones((4, 3), np.float32)
    bad = x.copy()
    bad[2, 1] = math.nan
    m = program.Net(seed=1)
    opt = shapescript.AdamW(m)
    with pytest.raises(shapescript.ShapeScriptError) as raised:
        program.poisoned(m, opt, x, bad, "run.{step}.pt")
    assert (raised.value.code, raised.value.step) == ("R1104", 50) and raised.value.span is not None
    good(tmp_path)
    assert np.isfinite(m.w).all()


def test_a_gradient_that_is_not_finite_names_its_parameter_and_the_last_good_checkpoint_stays(
    program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    m = program.Net(seed=1)
    opt = shapescript.AdamW(m)
    with pytest.raises(shapescript.ShapeScriptError) as raised:
        program.shattered(m, opt, np.ones((4, 3), np.float32), "run.{step}.pt")
    assert (raised.value.code, raised.value.step) == ("R1105", 50) and "w" in raised.value.message
    good(tmp_path)


def good(folder: Path) -> None:
    """The checkpoint of step 40, the one that is kept, and nothing in it that isn't finite."""
    assert [path.name for path in folder.iterdir()] == ["run.40.pt"]
    found = inspect(folder / "run.40.pt")
    assert found.error is None and found.facts["step"] == 40
    assert all(tensor.not_finite == 0 for entry in found.entries for tensor in entry.tensors)
    assert load_checkpoint(folder / "run.40.pt")["opt"]["step"] == 40


def test_training_goes_on_from_the_last_good_checkpoint(program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    x = np.ones((4, 3), np.float32)
    m = program.Net(seed=1)
    program.train(m, shapescript.AdamW(m), x, "run.{step}.pt", 1)
    assert [path.name for path in tmp_path.iterdir()] == ["run.100.pt"]
    assert load_checkpoint("run.100.pt")["m"]["w"].tolist() == m.w.tolist()
