"""The standard library's schedules beside `torch.optim.lr_scheduler`, step by step over whole runs; and runs that stop and go on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from optimiser_samples import ENGINES, contents
from torch.optim import lr_scheduler as theirs

import shapescript
from shapescript.engines import EngineName

RATE = 0.3
Schedule = Callable[[torch.optim.Optimizer], theirs.LRScheduler]

CASES: dict[str, tuple[str, Sequence[Any], int, Schedule]] = {
    "constant": ("constant", (RATE,), 20, lambda o: theirs.ConstantLR(o, factor=1.0)),
    "step": ("step", (RATE, 7), 40, lambda o: theirs.StepLR(o, 7)),
    "step by a half": ("step", (RATE, 3, 0.5), 40, lambda o: theirs.StepLR(o, 3, gamma=0.5)),
    "exponential": ("exponential", (RATE, 0.97), 300, lambda o: theirs.ExponentialLR(o, 0.97)),
    "linear up": ("linear", (RATE * 0.1, RATE, 30), 45, lambda o: theirs.LinearLR(o, 0.1, 1.0, 30)),
    "linear down": ("linear", (RATE, RATE * 0.25, 30), 45, lambda o: theirs.LinearLR(o, 1.0, 0.25, 30)),
    "polynomial": ("polynomial", (RATE, 50), 60, lambda o: theirs.PolynomialLR(o, 50)),
    "polynomial of 2.5": ("polynomial", (RATE, 50, 2.5), 60, lambda o: theirs.PolynomialLR(o, 50, 2.5)),
    "cosine": ("cosine", (RATE, 60), 60, lambda o: theirs.CosineAnnealingLR(o, 60)),
    "cosine to a rate": ("cosine", (RATE, 60, 0.01), 60, lambda o: theirs.CosineAnnealingLR(o, 60, 0.01)),
    "warm-up": ("warm_up", (RATE, 10), 25, lambda o: theirs.LinearLR(o, 0.1, 1.0, 9)),
    "warm-up and cosine": (
        "warm_up_cosine",
        (RATE, 10, 70, 0.02),
        70,
        lambda o: theirs.SequentialLR(o, [theirs.LinearLR(o, 0.1, 1.0, 9), theirs.CosineAnnealingLR(o, 60, 0.02)], [10]),
    ),
    "one cycle": ("one_cycle", (RATE, 100), 99, lambda o: theirs.OneCycleLR(o, RATE, total_steps=100)),
    "one cycle of a few steps": ("one_cycle", (RATE, 7), 6, lambda o: theirs.OneCycleLR(o, RATE, total_steps=7)),
    "one cycle with options": (
        "one_cycle",
        (RATE, 83, 0.45, 10.0, 50.0),
        82,
        lambda o: theirs.OneCycleLR(o, RATE, total_steps=83, pct_start=0.45, div_factor=10.0, final_div_factor=50.0),
    ),
    "one cycle that falls at once": ("one_cycle", (RATE, 20, 0.0), 19, lambda o: theirs.OneCycleLR(o, RATE, total_steps=20, pct_start=0.0)),
}


@pytest.fixture(scope="module", params=ENGINES)
def schedules(request: pytest.FixtureRequest) -> Any:
    return shapescript.load(shapescript.std.path("schedule"), engine=request.param)


@pytest.mark.parametrize("case", CASES)
def test_each_step_of_a_run_has_pytorchs_rate(schedules: Any, case: str) -> None:
    """Theirs are recursive: each step multiplies the last rate, and rounds. In some hundred steps that comes to some hundred units in the
    last place; near the end of a cosine the rate is a difference, so that the units are those of the largest rate."""
    name, arguments, steps, make = CASES[case]
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=RATE)
    scheduler = make(optimiser)
    for step in range(steps + 1):
        expected = optimiser.param_groups[0]["lr"]
        found = getattr(schedules, name)(step, *arguments)
        assert math.isclose(found, expected, rel_tol=1e-12, abs_tol=1e-15 * RATE), (step, found, expected)
        optimiser.step()
        if step < steps:
            scheduler.step()


def test_every_schedule_is_compared(schedules: Any) -> None:
    helpers = {"share", "between"}
    assert {name for name in dir(schedules) if not name.startswith("_")} - helpers - {"Pi", "diagnostics"} == {
        case[0] for case in CASES.values()
    }


@pytest.mark.parametrize("steps", [0, 1])
def test_a_schedule_over_no_steps_is_at_its_end(schedules: Any, steps: int) -> None:
    for step in (1, 5):
        assert schedules.linear(step, 0.5, 0.25, steps) == 0.25
        assert schedules.polynomial(step, 0.5, steps, lowest=0.125) == 0.125
        assert schedules.cosine(step, 0.5, steps, 0.125) == 0.125
        assert schedules.warm_up(step, 0.5, steps) == 0.5
        assert schedules.warm_up_cosine(step, 0.5, 0, steps, 0.125) == 0.125
        assert schedules.one_cycle(step, 0.5, steps) == 0.5 / 25 / 1e4


def test_the_last_rate_stays(schedules: Any) -> None:
    for step in (60, 61, 10**9):
        assert schedules.cosine(step, RATE, 60, 0.01) == 0.01 == schedules.warm_up_cosine(step, RATE, 5, 60, 0.01)
        assert schedules.one_cycle(step, RATE, 60) == RATE / 25 / 1e4
        assert schedules.linear(step, RATE, 0.5, 60) == 0.5


RUN = """
import shapescript.std.schedule as schedule

model M:
    w: [6] = normal(0, 1)

fn run(mut m: M, mut opt: AdamW[M], x: [b 6], turns: int):
    for turn in 0..turns:
        l, mut g = value_and_grad(mean((x @ m.w - 1.0) ** 2, over=b), wrt=m)
        update(mut m, mut opt, g, lr=schedule.warm_up_cosine(opt.step, 0.1, 5, 30, lowest=0.001))

fn stop(m: M, opt: AdamW[M]):
    save("run.pt", m=m, opt=opt)

fn resume() -> (M, AdamW[M]):
    m, opt = load("run.pt", m=M, opt=AdamW[M])
    return m, opt
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_a_resumed_run_needs_no_state_of_its_schedule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: EngineName) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.ss").write_text(RUN)
    program = shapescript.load(tmp_path / "run.ss", engine=engine)
    x = torch.randn(8, 6, generator=torch.Generator().manual_seed(1)).numpy()
    m = program.M(seed=1)
    opt = shapescript.AdamW(m)
    program.run(m, opt, x, 30)
    stopped = program.M(seed=1)
    state = shapescript.AdamW(stopped)
    for turns in (3, 10, 17):
        program.run(stopped, state, x, turns)
        program.stop(stopped, state)
        stopped, state = program.resume()
    assert contents(stopped, state) == contents(m, opt)
