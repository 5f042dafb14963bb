"""nn.BatchNorm beside PyTorch: values, gradients, running buffers and state_dicts, in Train and Eval, for every rank."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from both_engines import Both, contents

import shapescript

PROGRAM = """
import shapescript.std.nn as nn

dim C = 4

model Net:
    norm: nn.BatchNorm[C]
    scale: [C] = ones

fn apply(mut m: Net, x: [b C], mode: Mode) -> [b C]:
    return nn.batch_norm(x, mut m.norm, mode)

fn apply(mut m: Net, x: [b C n], mode: Mode) -> [b C n]:
    return nn.batch_norm(x, mut m.norm, mode)

fn apply(mut m: Net, x: [b C h w], mode: Mode) -> [b C h w]:
    return nn.batch_norm(x, mut m.norm, mode)

fn evaluated(m: Net, x: [b C]) -> [b C]:
    return nn.batch_norm(x, m.norm)

fn evaluated(m: Net, x: [b C n]) -> [b C n]:
    return nn.batch_norm(x, m.norm)

fn evaluated(m: Net, x: [b C h w]) -> [b C h w]:
    return nn.batch_norm(x, m.norm)

fn weighed(mut m: Net, x: [b C], target: [b C], mode: Mode) -> []:
    return mean(apply(mut m, x * m.scale, mode) * target, over=(b, C))

fn weighed(mut m: Net, x: [b C n], target: [b C n], mode: Mode) -> []:
    return mean(apply(mut m, x * m.scale, mode) * target, over=(b, C, n))

fn weighed(mut m: Net, x: [b C h w], target: [b C h w], mode: Mode) -> []:
    return mean(apply(mut m, x * m.scale, mode) * target, over=(b, C, h, w))

fn gradient(mut m: Net, x: [b C], target: [b C], mode: Mode) -> ([], Net):
    l, g = value_and_grad(weighed(mut m, x, target, mode), wrt=m)
    return l, g

fn gradient(mut m: Net, x: [b C n], target: [b C n], mode: Mode) -> ([], Net):
    l, g = value_and_grad(weighed(mut m, x, target, mode), wrt=m)
    return l, g

fn gradient(mut m: Net, x: [b C h w], target: [b C h w], mode: Mode) -> ([], Net):
    l, g = value_and_grad(weighed(mut m, x, target, mode), wrt=m)
    return l, g

fn train(mut m: Net, mut opt: AdamW[Net], x: [b C], target: [b C], mode: Mode) -> []:
    l, mut g = value_and_grad(weighed(mut m, x, target, mode), wrt=m)
    clip_norm(mut g, 1.0)
    update(mut m, mut opt, g, lr=0.1)
    return l

fn settings(mut m: Net, x: [b C], mode: Mode) -> [b C]:
    return nn.batch_norm(x, mut m.norm, mode, momentum=0.3, eps=0.01)
"""
SHAPES = [(7, 4), (1, 4), (5, 4, 3), (1, 4, 1), (3, 4, 2, 5), (2, 4, 1, 1)]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    return Both(tmp_path_factory.mktemp("batch_norm"), PROGRAM)


def started(both: Both, seed: int = 0) -> shapescript.Model:
    """A model that has seen something."""
    m = both.native.Net(seed=1)
    generator = np.random.default_rng(seed)
    for name in ("weight", "bias", "running_mean"):
        m[f"norm.{name}"] = generator.standard_normal(4).astype(np.float32)
    m["norm.running_var"] = generator.uniform(0.5, 2.0, 4).astype(np.float32)
    m["norm.num_batches_tracked"] = np.asarray(3)
    return m


def torch_twin(m: shapescript.Model, rank: int, training: bool) -> torch.nn.Module:
    made = torch.nn.BatchNorm2d(4) if rank == 4 else torch.nn.BatchNorm1d(4)
    made.load_state_dict({name.removeprefix("norm."): torch.from_numpy(value) for name, value in m.state_dict().items() if name != "scale"})
    return made.train(training)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(1.0, 2.0, shape).astype(np.float32)


def assert_state(m: shapescript.Model, wanted: torch.nn.Module) -> None:
    for name, value in wanted.state_dict().items():
        np.testing.assert_allclose(m[f"norm.{name}"], value.numpy(), rtol=2e-6, atol=1e-6, err_msg=name)
        assert m[f"norm.{name}"].dtype == value.numpy().dtype


@pytest.mark.parametrize("shape", SHAPES)
def test_evaluation(both: Both, shape: tuple[int, ...]) -> None:
    m, x = started(both), numbers(*shape)
    before = contents(m)
    wanted = torch_twin(m, len(shape), training=False)(torch.from_numpy(x)).detach().numpy()
    for found in (both.call("evaluated", m, x), both.call("apply", m, x, shapescript.Eval)):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    assert contents(m) == before


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if np.prod(shape) > 4])
def test_training(both: Both, shape: tuple[int, ...]) -> None:
    m, mode = started(both), shapescript.Train(seed=0)
    wanted = torch_twin(m, len(shape), training=True)
    for turn in range(3):
        x = numbers(*shape, seed=turn)
        np.testing.assert_allclose(both.call("apply", m, x, mode), wanted(torch.from_numpy(x)).detach().numpy(), rtol=1e-4, atol=1e-5)
        assert_state(m, wanted)


@pytest.mark.parametrize("mode", ["Train", "Eval"])
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if np.prod(shape) > 4])
def test_gradients(both: Both, shape: tuple[int, ...], mode: str) -> None:
    m, x, target = started(both), numbers(*shape), numbers(*shape, seed=1)
    layer, scale = torch_twin(m, len(shape), training=mode == "Train"), torch.ones(4, requires_grad=True)
    loss, found = both.call("gradient", m, x, target, shapescript.Train(seed=0) if mode == "Train" else shapescript.Eval)
    wanted = (layer(torch.from_numpy(x) * scale.reshape(4, *[1] * (len(shape) - 2))) * torch.from_numpy(target)).mean()
    wanted.backward()
    np.testing.assert_allclose(loss, wanted.item(), rtol=1e-4, atol=1e-6)
    for name, slope in {"norm.weight": layer.weight.grad, "norm.bias": layer.bias.grad, "scale": scale.grad}.items():
        np.testing.assert_allclose(found[name], slope.numpy(), rtol=1e-3, atol=1e-5, err_msg=name)
    assert not any(value.any() for value in found.buffers().values())
    assert_state(m, layer)


def test_settings(both: Both) -> None:
    m, x = started(both), numbers(6, 4)
    wanted = torch.nn.BatchNorm1d(4, momentum=0.3, eps=0.01)
    wanted.load_state_dict(torch_twin(m, 2, training=True).state_dict())
    np.testing.assert_allclose(
        both.call("settings", m, x, shapescript.Train(seed=0)), wanted(torch.from_numpy(x)).detach().numpy(), rtol=1e-4, atol=1e-5
    )
    assert_state(m, wanted)


def test_one_value_in_a_channel_says_nothing_of_the_variance(both: Both) -> None:
    m, x = started(both), numbers(1, 4)
    variance = np.array(m["norm.running_var"])
    found = both.call("apply", m, x, shapescript.Train(seed=0))
    assert found[0].tolist() == m["norm.bias"].tolist()
    assert m["norm.running_var"].tolist() == variance.tolist() and m["norm.num_batches_tracked"] == 4


def test_training_leaves_the_buffers_to_the_layer(both: Both) -> None:
    m = started(both)
    state = shapescript.AdamW(m)
    x, target = numbers(8, 4), numbers(8, 4, seed=1)
    layer = torch_twin(m, 2, training=True)
    losses = [both.native.train(m, state, x, target, shapescript.Train(seed=0)) for _ in range(20)]
    assert losses[-1] < losses[0] and m["norm.num_batches_tracked"] == 23
    for _ in range(20):
        layer(torch.from_numpy(x))
    assert not np.allclose(m["norm.weight"], layer.weight.detach().numpy())
    assert np.isfinite(m["norm.running_mean"]).all()


def test_state_dicts_go_both_ways(both: Both) -> None:
    m = started(both)
    layer = torch.nn.BatchNorm1d(4)
    state = {name.removeprefix("norm."): torch.from_numpy(value) for name, value in m.state_dict().items() if name.startswith("norm.")}
    assert layer.load_state_dict(state, strict=True) and set(state) == set(layer.state_dict())
    other = both.native.Net(seed=2)
    other.load_state_dict({**{f"norm.{name}": value for name, value in layer.state_dict().items()}, "scale": np.ones(4, np.float32)})
    assert contents(other) == contents(m)
    fresh = torch.nn.BatchNorm1d(4).state_dict()
    for name, value in fresh.items():
        assert both.native.Net(seed=1).state_dict()[f"norm.{name}"].tolist() == value.tolist()


LOOP = """
import shapescript.std.nn as nn

dim D = 3

data Point:
    x: [D]
    y: []

model Net:
    norm: nn.BatchNorm[D]
    out: nn.Linear[D, 1]

fn loss(mut m: Net, batch: Point[b], mode: Mode) -> []:
    y = batch.x |> nn.batch_norm(mut m.norm, mode) |> nn.linear(m.out)
    return mean((rearrange(y: b 1 -> b) - batch.y) ** 2, over=b)

fn fit[M: model, E: data](mut m: M, mut average: M, train: Dataset[E], epochs: int, mode: Mode) -> float
    requires loss(mut m: M, batch: E[b], mode: Mode) -> []:
    mut opt = AdamW(m)
    mut last = 0.0
    for epoch in 0..epochs:
        for batch in train |> shuffle(epoch) |> batches(4):
            l, mut g = value_and_grad(loss(mut m, batch, mode), wrt=m)
            clip_norm(mut g, 1.0)
            update(mut m, mut opt, g, lr=0.1)
            average = average * 0.9 + m * 0.1
            last = l
    return last

fn run(mut m: Net, mut average: Net, train: Dataset[Point], epochs: int, mode: Mode) -> float:
    return fit(mut m, mut average, train, epochs, mode)
"""


def test_a_generic_loop_trains_a_model_with_buffers(tmp_path: Path) -> None:
    both = Both(tmp_path, LOOP)
    x = numbers(10, 3)
    points = both.native.Point.dataset(x=x, y=x @ np.array([1.0, 2.0, 3.0], np.float32))
    m = both.native.Net(seed=1)
    average = m.copy()
    first = both.call("run", m, average, points, 1, shapescript.Train(seed=1))
    assert both.call("run", m, average, points, 30, shapescript.Train(seed=1)) < first
    assert m["norm.num_batches_tracked"] == 93 and average["norm.num_batches_tracked"] == 0
    assert m["norm.running_mean"].any() and not average["norm.running_mean"].any()
