"""Buffers: part of a model and of its checkpoints, constants to every gradient, left alone by whatever trains."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from both_engines import Both, contents

import shapescript

MODEL = """
dim D = 3
const Half = 0.5

model Norm:
    weight: [D] = ones
    scale: f64[] = 1.5
    buffer mean: [D] = zeros
    buffer wide: f64[2] = Half
    buffer count: int[] = -7
    buffer places: int[4] = ones
    buffer seen: bool[] = true
    buffer mask: bool[D] = zeros
    buffer noise: [D] = normal(0, 1)

model Net[N]:
    norm: Norm
    rest: Norm * N
    start: [] = 2 * Half
    copy: Norm = zeros
    copies: Norm * 2 = zeros

fn kept(m: Net[2]) -> Net[2]:
    return m
"""


def program(folder: Path, functions: str) -> Both:
    return Both(folder, MODEL + functions)


def test_starts(tmp_path: Path) -> None:
    both = program(tmp_path, "")
    state = both.native.Net[2](seed=3).state_dict()
    for prefix in ("norm.", "rest.0.", "rest.1."):
        assert state[f"{prefix}weight"].tolist() == [1.0, 1.0, 1.0]
        assert state[f"{prefix}scale"].dtype == np.float64 and state[f"{prefix}scale"] == 1.5
        assert state[f"{prefix}wide"].tolist() == [0.5, 0.5] and state[f"{prefix}wide"].dtype == np.float64
        assert state[f"{prefix}count"] == -7 and state[f"{prefix}count"].dtype == np.int64
        assert state[f"{prefix}places"].tolist() == [1, 1, 1, 1]
        assert state[f"{prefix}seen"] == True and state[f"{prefix}mask"].tolist() == [False] * 3  # noqa: E712
        assert np.abs(state[f"{prefix}noise"]).sum() > 0.0
    assert state["start"] == 1.0
    for prefix in ("copy.", "copies.0.", "copies.1."):
        assert all(not value.any() for name, value in state.items() if name.startswith(prefix))
    assert contents(both.call("kept", both.native.Net[2](seed=3))) == contents(both.native.Net[2](seed=3))


def test_parameters_and_buffers_are_told_apart(tmp_path: Path) -> None:
    m = program(tmp_path, "").native.Norm(seed=1)
    assert list(m.parameters()) == ["scale", "weight"]
    assert list(m.buffers()) == ["count", "mask", "mean", "noise", "places", "seen", "wide"]
    assert not m.buffers()["mean"].flags.writeable
    lines = [line.strip() for line in repr(m).split("\n")]
    assert lines[0] == "<Norm, 4 parameters" and "buffer count: int[] ()" in lines and "weight: [D] (3,)" in lines
    m.mean = np.ones(3, np.float32)
    m["count"] = np.asarray(9)
    assert m.mean.tolist() == [1.0, 1.0, 1.0] and m.state_dict()["count"] == 9
    with pytest.raises(shapescript.ArgumentError):
        m["count"] = np.asarray(9.0)


def test_state_dicts_and_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    both = program(tmp_path, 'fn save_it(m: Norm):\n    save("n.pt", m=m)\n\nfn load_it() -> Norm:\n    return load("n.pt", m=Norm)\n')
    m = both.native.Norm(seed=1)
    m.load_state_dict(
        {**m.state_dict(), "mean": np.full(3, 4.0, np.float32), "count": np.asarray(5), "mask": np.array([True, False, True])}
    )
    both.call("save_it", m)
    saved = torch.load("n.pt", weights_only=True)["m"]
    assert saved["count"].dtype == torch.int64 and saved["count"].item() == 5 and saved["mask"].tolist() == [True, False, True]
    assert saved["wide"].dtype == torch.float64 and saved["seen"].dtype == torch.bool
    assert contents(both.call("load_it")) == contents(m)
    fresh = both.native.Norm(seed=2)
    fresh.load_state_dict(saved)
    assert contents(fresh) == contents(m)
    del saved["count"]
    with pytest.raises(shapescript.CheckpointError, match="count"):
        fresh.load_state_dict(saved)


GRADIENTS = """
fn centred(m: Norm, x: [b D]) -> []:
    y = (x - m.mean) * m.weight * f32(m.scale)
    return mean(y * y, over=(b, D))

fn gradient(m: Norm, x: [b D]) -> ([], Norm):
    l, g = value_and_grad(centred(m, x), wrt=m)
    return l, g

fn through(m: Norm, x: [b D]) -> []:
    mut other = m
    other.mean = mean(x * m.weight, over=b)
    return centred(other, x)

fn gradient_through(m: Norm, x: [b D]) -> Norm:
    l, g = value_and_grad(through(m, x), wrt=m)
    return g

fn gradient_of_gradient(m: Norm, x: [b D]) -> Norm:
    l, g = value_and_grad(size_of_gradient(m, x), wrt=m)
    return g

fn size_of_gradient(m: Norm, x: [b D]) -> []:
    l, g = value_and_grad(centred(m, x), wrt=m)
    return sum(g.weight * g.weight, over=D) + sum(g.mean, over=D)
"""


def test_a_buffer_has_no_gradient_and_none_flows_through_it(tmp_path: Path) -> None:
    both = program(tmp_path, GRADIENTS)
    m = both.native.Norm(seed=1)
    x = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)
    m.mean = np.array([0.1, 0.2, 0.3], np.float32)
    _, g = both.call("gradient", m, x)
    assert all(not value.any() for value in g.buffers().values())

    weight, scale = torch.ones(3, requires_grad=True), torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
    torch_x = torch.from_numpy(x)

    def centred(mean: torch.Tensor) -> torch.Tensor:
        return (((torch_x - mean) * weight * scale.float()) ** 2).mean()

    wanted = torch.autograd.grad(centred(torch.from_numpy(m.mean.copy())), (weight, scale))
    np.testing.assert_allclose(g.weight, wanted[0].numpy(), rtol=1e-5)
    np.testing.assert_allclose(float(g["scale"]), wanted[1].item(), rtol=1e-5)
    g = both.call("gradient_through", m, x)
    wanted = torch.autograd.grad(centred((torch_x * weight).mean(0).detach()), (weight, scale))
    np.testing.assert_allclose(g.weight, wanted[0].numpy(), rtol=1e-5)
    assert not g.mean.any()
    g = both.call("gradient_of_gradient", m, x)
    assert g.weight.any() and all(not value.any() for value in g.buffers().values())


def test_a_gradient_by_a_buffer_alone_is_none(tmp_path: Path) -> None:
    text = "fn by_mean(m: Norm) -> Norm:\n    l, g = value_and_grad(sum(m.mean, over=D), wrt=m)\n    return g\n"
    with pytest.raises(shapescript.CompileError, match="E0803"):
        program(tmp_path, text)


def test_buffers_of_every_type_go_through_control_flow(tmp_path: Path) -> None:
    text = """
fn turned(mut m: Norm, n: int) -> (int[], bool[D]):
    for i in 0..n:
        if i % 2 == 0:
            m.count = m.count * 2
        else:
            m.seen = !m.seen
            m.mask = !m.mask
        m.places = m.places + m.count
    return m.count, m.mask
"""
    both = program(tmp_path, text)
    m = both.native.Norm(seed=1)
    count, mask = both.call("turned", m, 5)
    assert count == -7 * 8 and m.state_dict()["count"] == count
    assert mask.tolist() == [False] * 3 and m.state_dict()["seen"] == True  # noqa: E712
    assert m.places.tolist() == [1 - 14 - 14 - 28 - 28 - 56] * 4
