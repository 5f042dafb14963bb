"""Lion, running means of parameters and accumulated gradients, which the standard library writes in ShapeScript."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from optimiser_samples import ENGINES, fill
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import shapescript
from shapescript.runtime.checkpoint import load_checkpoint

PROGRAM = """
import shapescript.std.optim as optim

data Point:
    x: [5]
    y: []

model Net:
    weight: T[4 3] = normal(0, 1)
    bias: T[4] = normal(0, 1)
    slow: T[6] = normal(0, 1)
    still: T[2] = ones
    buffer seen: int[] = zeros
    buffer mean: [2] = ones
    group "bias": decay=false
    group "slow": rate=0.25
    group "still": frozen=true

model Line:
    slope: [5] = normal(0, 1)

fn lion(m: Net) -> optim.Lion[Net]:
    return optim.lion(m)

fn step(mut m: Net, mut opt: optim.Lion[Net], g: Net, lr: float):
    optim.update(mut m, mut opt, g, lr=lr, beta1=0.8, beta2=0.95, decay=0.3)

fn keep(opt: optim.Lion[Net]):
    save("lion.pt", opt=opt)

fn again() -> optim.Lion[Net]:
    opt = load("lion.pt", opt=optim.Lion[Net])
    return opt

fn averaged(m: Net) -> optim.Average[Net]:
    return optim.average(m)

fn follow(mut average: optim.Average[Net], m: Net):
    optim.follow(mut average, m, 0.75)

fn loss(m: Line, batch: Point[b]) -> []:
    return mean((batch.x @ m.slope - batch.y) ** 2, over=b)

fn whole(m: Line, batch: Point[b]) -> Line:
    l, g = value_and_grad(loss(m, batch), wrt=m)
    return g

fn size_of(batch: Point[b]) -> int:
    return b

fn in_shards(m: Line, points: Dataset[Point], shards: int) -> Line:
    size = (points.count + shards - 1) // shards
    mut so_far = optim.accumulated(m)
    for batch in points |> batches(size):
        l, g = value_and_grad(loss(m, batch), wrt=m)
        optim.add(mut so_far, g, size_of(batch))
    return optim.gradient(so_far)
"""


def program(folder: Path, engine: Any = "native", element: str = "") -> Any:
    path = folder / "optim.ss"
    path.write_text(PROGRAM.replace(" T[", f" {element}["))
    return shapescript.load(path, engine=engine)


@pytest.mark.parametrize("element", ["", "f64"])
def test_lion_is_its_paper(tmp_path: Path, element: str) -> None:
    """In f64 beside it: a sign is right wherever its argument isn't nearly 0, and with these numbers it never is."""
    loaded = program(tmp_path, element=element)
    m, g = loaded.Net(seed=1), loaded.Net(seed=1)
    opt, rng = loaded.lion(m), np.random.default_rng(3)
    values = {name: m[name].astype(np.float64) for name in ("weight", "bias", "slow")}
    moments = {name: np.zeros(value.shape) for name, value in values.items()}
    for turn in range(200):
        fill(g, rng)
        lr = 0.01 / (1 + turn)
        for name, value in values.items():
            gradient = g[name].astype(np.float64)
            direction = np.sign(0.8 * moments[name] + 0.2 * gradient)
            decay, rate = (0.0 if name == "bias" else 0.3), (0.25 if name == "slow" else 1.0)
            values[name] = value - rate * lr * (direction + decay * value)
            moments[name] = 0.95 * moments[name] + 0.05 * gradient
        loaded.step(m, opt, g, lr)
    unit = 1e-15 if element else 1e-6
    for name, value in values.items():
        np.testing.assert_allclose(m[name], value, rtol=0, atol=20 * unit)
        np.testing.assert_allclose(opt[f"moment.{name}"], moments[name], rtol=0, atol=5 * unit)
    assert opt.step == 200 and m.still.tolist() == [1, 1] and m.mean.tolist() == [1, 1] and m.seen == 0


@pytest.mark.parametrize("element", ["", "f64"])
def test_both_engines_agree(tmp_path: Path, element: str) -> None:
    found = []
    for engine in ENGINES:
        loaded = program(tmp_path, engine, element)
        m, g = loaded.Net(seed=1), loaded.Net(seed=1)
        opt, average, rng = loaded.lion(m), loaded.averaged(m), np.random.default_rng(3)
        for _ in range(5):
            fill(g, rng)
            loaded.step(m, opt, g, 0.1)
            loaded.follow(average, m)
        found.append((m.buffer.tobytes(), opt.buffer.tobytes(), average.buffer.tobytes()))
    assert found[0] == found[1]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("element", ["", "f64", "bf16"])
@pytest.mark.parametrize(("bad", "norm"), [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "inf")])
def test_a_gradient_that_is_not_finite_stops_lion_before_anything_changes(
    tmp_path: Path, engine: Any, element: str, bad: float, norm: str
) -> None:
    loaded = program(tmp_path, engine, element)
    m, g = loaded.Net(seed=1), loaded.Net(seed=2)
    opt = loaded.lion(m)
    loaded.step(m, opt, g, 0.1)
    before = m.buffer.tobytes(), opt.buffer.tobytes()
    slow = np.array(g.slow)
    slow[-1] = bad
    g.slow = slow
    with pytest.raises(shapescript.ShapeScriptError, match=f"R1105: the gradient of slow is not finite .the norm is {norm}.") as raised:
        loaded.step(m, opt, g, 0.1)
    assert raised.value.span.text == "check_finite(g)"
    assert (m.buffer.tobytes(), opt.buffer.tobytes()) == before


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_not_trained_is_not_checked(tmp_path: Path, engine: Any) -> None:
    """Steps of a program's own; with a gradient that is checked twice, and one that was clipped."""
    path = tmp_path / "own.ss"
    path.write_text(
        """
model Net:
    w: [37] = ones
    still: [2] = ones
    buffer mean: [2] = ones
    group "still": frozen=true

model Nothing:
    buffer seen: int[] = zeros

fn step(mut m: Net, g: Net):
    check_finite(g)
    check_finite(g)
    m = m - 0.5 * rates(m) * g

fn clipped(mut m: Net, g: Net) -> float:
    mut small = g
    norm = clip_norm(mut small, 1.0)
    check_finite(small)
    m = m - small
    return norm

fn nothing(m: Nothing):
    check_finite(m)
"""
    )
    loaded = shapescript.load(path, engine=engine)
    m, g = loaded.Net(seed=1), loaded.Net(seed=1)
    g.mean = np.array([np.nan, np.inf], np.float32)
    loaded.step(m, g)
    assert m.w.tolist() == [0.5] * 37 and m.still.tolist() == [1, 1]
    loaded.nothing(loaded.Nothing(seed=1))
    g.w = np.where(np.arange(37) == 36, np.nan, 1).astype(np.float32)
    before = m.buffer.tobytes()
    for function in (loaded.step, loaded.clipped):
        with pytest.raises(shapescript.ShapeScriptError, match="R1105: the gradient of w is not finite"):
            function(m, g)
        assert m.buffer.tobytes() == before


def test_lion_is_saved_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    loaded = program(tmp_path)
    m, g = loaded.Net(seed=1), loaded.Net(seed=2)
    opt = loaded.lion(m)
    for _ in range(3):
        loaded.step(m, opt, g, 0.1)
    loaded.keep(opt)
    assert loaded.again().buffer.tobytes() == opt.buffer.tobytes()
    saved = load_checkpoint(tmp_path / "lion.pt")["opt"]
    assert saved["step"] == 3 and saved["moment.weight"].tobytes() == opt["moment.weight"].tobytes()


def test_a_running_mean_is_pytorchs(tmp_path: Path) -> None:
    loaded = program(tmp_path)
    m, rng = loaded.Net(seed=1), np.random.default_rng(3)
    average, net = loaded.averaged(m), torch.nn.Linear(3, 4)
    theirs = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.75))
    for turn in range(30):
        fill(m, rng)
        m.seen = np.array(turn)
        net.load_state_dict({name: torch.from_numpy(np.array(m[name])) for name in ("weight", "bias")})
        loaded.follow(average, m)
        theirs.update_parameters(net)
        for name in ("weight", "bias"):
            np.testing.assert_allclose(average[f"mean.{name}"], theirs.module.state_dict()[name].numpy(), rtol=1e-5, atol=1e-6)
        assert average["mean.seen"] == turn
    assert average.count == 30 == theirs.n_averaged


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("examples", "shards"), [(12, 3), (13, 4), (5, 1), (5, 5), (1, 3)])
def test_gradients_of_shards_make_the_whole_one(tmp_path: Path, engine: Any, examples: int, shards: int) -> None:
    """The last shard is smaller where the number doesn't divide: it counts less."""
    loaded = program(tmp_path, engine)
    rng = np.random.default_rng(4)
    x, y = rng.standard_normal((examples, 5)).astype(np.float32), rng.standard_normal(examples).astype(np.float32)
    m = loaded.Line(seed=1)
    slope = torch.from_numpy(np.array(m.slope)).requires_grad_()
    ((torch.from_numpy(x) @ slope - torch.from_numpy(y)) ** 2).mean().backward()
    found = loaded.in_shards(m, loaded.Point.dataset(x=x, y=y), shards)
    np.testing.assert_allclose(found.slope, loaded.whole(m, loaded.Point.batch(x=x, y=y)).slope, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.slope, slope.grad, rtol=1e-5, atol=1e-6)
