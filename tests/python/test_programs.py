"""Four programs: the same numbers as hand-written PyTorch, and the same bytes on both engines and on every level of CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llvmlite.binding
import numpy as np
import pytest
import torch_twins as twins
from api_programs import digits
from fixtures import EXAMPLES, ROOT

import shapescript
from shapescript.compiler.codegen import target

STEPS = 50
PROGRAMS = ROOT / "tests" / "programs"


@dataclass(frozen=True)
class Case:
    """A program, its model and record, and how one step of it is written: appended to the file, beside the gradient."""

    path: Path
    model: str
    record: str
    loss: str
    update: str
    twin: Callable[[], Any]
    rate: Callable[[int], float]
    batch: int
    clip: float | None = None
    decay: float = 0.01

    def load(self, folder: Path, engine: shapescript.engines.EngineName = "native") -> Any:
        added = f"""

fn first_gradient(m: {self.model}, batch: {self.record}[b], mode: Mode) -> {self.model}:
    l, g = value_and_grad({self.loss}, wrt=m)
    return g

fn one_step(mut m: {self.model}, mut opt: AdamW[{self.model}], batch: {self.record}[b], mode: Mode) -> []:
    l, mut g = value_and_grad({self.loss}, wrt=m)
{self.update}
    return l
"""
        path = folder / self.path.name
        path.write_text(self.path.read_text() + added)
        return shapescript.load(path, engine=engine)

    def data(self, program: Any, rows: int = 640) -> Any:
        pixels, label = digits()
        fields: dict[str, dict[str, Any]] = {
            "Digit": {"pixels": pixels[:rows], "label": label[:rows]},
            "Picture": {"pixels": pixels[:rows]},
            "Sample": points(rows),
        }
        return getattr(program, self.record).dataset(**fields[self.record])


def points(rows: int) -> dict[str, np.ndarray[Any, Any]]:
    """Points near a line, made up."""
    generator = np.random.default_rng(5)
    x = generator.standard_normal((rows, 3)).astype(np.float32)
    noise = 0.1 * generator.standard_normal(rows)
    return {"x": x, "y": (x @ np.array([1.5, -2.0, 0.5]) + 0.25 + noise).astype(np.float32)}


UPDATE = "    update(mut m, mut opt, g, lr={rate})"
CASES = {
    "train_mlp": Case(
        EXAMPLES / "train_mlp.ss",
        "Mlp",
        "Digit",
        "loss(m, batch, mode)",
        "    clip_norm(mut g, 1.0)\n" + UPDATE.format(rate="3e-4"),
        twins.Mlp,
        lambda step: 3e-4,
        64,
        clip=1.0,
    ),
    "autoencoder": Case(
        PROGRAMS / "autoencoder.ss",
        "Autoencoder",
        "Picture",
        "loss(m, batch, mode)",
        "    clip_norm(mut g, 0.5)\n" + UPDATE.format(rate="1e-3"),
        twins.Autoencoder,
        lambda step: 1e-3,
        128,
        clip=0.5,
    ),
    "regression": Case(
        PROGRAMS / "regression.ss",
        "Line",
        "Sample",
        "loss(m, batch)",
        UPDATE.format(rate="rate(opt.step)"),
        twins.Line,
        lambda step: 0.1 / (1.0 + 0.01 * step),
        16,
        decay=0.0,
    ),
    "rows_attention": Case(
        PROGRAMS / "rows_attention.ss",
        "RowReader",
        "Digit",
        "loss(m, batch, mode)",
        UPDATE.format(rate="1e-3"),
        twins.RowReader,
        lambda step: 1e-3,
        64,
    ),
}
every_program = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def batches(case: Case, program: Any, count: int) -> list[Any]:
    data, found = case.data(program), list[Any]()
    for epoch in range(count):
        found += data.shuffle(epoch).batches(case.batch)
        if len(found) >= count:
            break
    return found[:count]


def fields(batch: Any) -> list[np.ndarray[Any, Any]]:
    return list(batch.arrays.values())


@every_program
def test_losses_and_gradients_are_those_of_pytorch(case: Case, tmp_path: Path) -> None:
    program = case.load(tmp_path)
    m = getattr(program, case.model)(seed=1)
    opt = shapescript.AdamW(m, decay=case.decay)
    twin = twins.Twin(case.twin(), m.state_dict(), case.decay)
    sequence = batches(case, program, STEPS)
    gradient = program.first_gradient(m, sequence[0], shapescript.Eval)
    twins.assert_near(gradient.state_dict(), twin.gradients(*fields(sequence[0])), 1e-5)
    for step, batch in enumerate(sequence):
        expected = twin.step(*fields(batch), rate=case.rate(step), clip=case.clip)
        assert abs(program.one_step(m, opt, batch, shapescript.Eval) - expected) <= 1e-5, step
    assert opt.step == STEPS


def trained(case: Case, folder: Path, engine: shapescript.engines.EngineName, steps: int = 20) -> tuple[Any, ...]:
    """Everything that a run leaves: losses, parameters, moments, the bytes of a checkpoint, the mode's position."""
    program = case.load(folder, engine)
    m, mode = getattr(program, case.model)(seed=2), shapescript.Train(seed=3)
    opt = shapescript.AdamW(m, decay=case.decay)
    losses = [program.one_step(m, opt, batch, mode) for batch in batches(case, program, steps)]
    path = folder / "checkpoint.pt"
    shapescript.save_checkpoint(path, m=m, opt=opt, mode=mode)
    return losses, m.buffer.tobytes(), opt.slot("first").tobytes(), opt.slot("second").tobytes(), path.read_bytes(), mode.draws


@every_program
def test_both_engines_leave_the_same_bytes(case: Case, tmp_path: Path) -> None:
    assert trained(case, tmp_path, "native") == trained(case, tmp_path, "numpy")


def levels() -> list[target.Target]:
    """The CPU levels that this machine can run."""
    features = llvmlite.binding.get_host_cpu_features()
    if not features.get("avx2"):
        return []
    wide = all(features.get(part) for part in ("avx512f", "avx512bw", "avx512dq", "avx512vl"))
    return [target.x86_64_v3(), target.x86_64_v4()] if wide else [target.x86_64_v3()]


@every_program
def test_every_cpu_level_leaves_the_same_bytes(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = trained(case, tmp_path, "native")
    for level in levels():
        monkeypatch.setattr(target, "host", lambda level=level: level)
        assert trained(case, tmp_path, "native") == expected, level.name


# ---- the programs' own loops, whole


def test_the_regression_finds_the_line(tmp_path: Path) -> None:
    program = CASES["regression"].load(tmp_path)
    data = program.Sample.dataset(**points(200))
    m, sink = program.Line(seed=0), shapescript.MemorySink()
    last = program.fit(m, data, sink, 100)
    assert last < 0.02 and np.allclose(m.slope, [1.5, -2.0, 0.5], atol=0.05) and abs(float(m.offset) - 0.25) < 0.05
    assert [record.epoch for record in sink.records] == list(range(9, 100, 10))
    assert sink.records[-1].rate == 0.1 / (1.0 + 0.01 * 1200)


def test_the_regression_is_pytorchs_step_by_step(tmp_path: Path) -> None:
    """One batch an epoch, so that a fit of k epochs gives the loss of step k."""
    program = CASES["regression"].load(tmp_path)
    data = program.Sample.dataset(**points(20))
    twin = twins.Twin(twins.Line(), program.Line(seed=0).state_dict(), decay=0.0)
    for epoch in range(STEPS):
        (batch,) = data.shuffle(epoch, seed=7).batches(16, drop_last=True)
        expected = twin.step(*fields(batch), rate=0.1 / (1.0 + 0.01 * epoch))
        m = program.Line(seed=0)
        assert abs(program.fit(m, data, shapescript.MemorySink(), epoch + 1) - expected) <= 1e-5, epoch
    twins.assert_near(m.state_dict(), twin.parameters(), 1e-5)


def test_the_autoencoders_loop_is_its_steps(tmp_path: Path) -> None:
    case = CASES["autoencoder"]
    program = case.load(tmp_path)
    data = case.data(program)
    whole, stepped = program.Autoencoder(seed=1), program.Autoencoder(seed=1)
    program.train(whole, data, shapescript.MemorySink(), 2, shapescript.Train(seed=9))
    opt, mode = shapescript.AdamW(stepped), shapescript.Train(seed=9)
    for epoch in range(2):
        for batch in data.shuffle(epoch).batches(128):
            program.one_step(stepped, opt, batch, mode)
    assert whole.buffer.tobytes() == stepped.buffer.tobytes()
