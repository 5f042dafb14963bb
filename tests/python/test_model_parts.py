"""Assigning parts of models; what an expression that is differentiated changes, and what it gives beside the loss."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from both_engines import Both, contents

import shapescript

MODEL = """
dim D = 3

model Inner:
    w: [D] = ones
    buffer mean: [D] = zeros
    buffer count: int[] = zeros
    buffer seen: bool[] = zeros
    scale: f64[] = ones

model Net:
    first: Inner
    rest: Inner * 2
    bias: [] = zeros
"""


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


ASSIGNING = """
fn assign(mut m: Net, x: [D], n: int, other: Inner) -> Net:
    before = m
    m.first.w = x
    m.bias = n
    m.first.scale = 0.25
    m.first.count = n
    m.first.seen = n > 2
    m.rest[1].w = x * 2.0
    m.rest[0].count = m.rest[0].count + n
    mut copy = m.first
    copy.mean = x
    m.first.mean = copy.mean + before.first.mean
    m.rest[1].seen = m.first.seen
    return before

fn submodels(mut m: Net, other: Inner):
    m.first = m.rest[1]
    m.rest[1] = other

fn nudge(mut part: Inner, mut other: Inner, x: [D]) -> [D]:
    part.mean = part.mean + x
    part.count = part.count + 1
    other.w[D=0] = 9.0
    return part.mean * other.w

fn of_a_list(mut m: Net, x: [D], turns: int) -> [D]:
    mut y = x
    for i in 0..turns:
        y = nudge(mut m.rest[0], mut m.rest[1], y)
        if i == 1:
            y = nudge(mut m.first, mut m.rest[0], y)
    return y

fn places(mut m: Net):
    m.first.w[D=1] = 5.0
    m.rest[1].w[D=2..] = 7.0
    m.rest[0] = m.rest[1]

fn several(mut m: Net, x: [D]) -> [D]:
    m.first.w, m.rest[0].w, last = halves(x)
    return last

fn halves(x: [D]) -> ([D], [D], [D]):
    return x / 2, x / 4, x / 8

fn in_blocks(mut m: Net, n: int):
    for i in 0..n:
        m.first.count = m.first.count + i
        if i % 2 == 0:
            m.rest[0].w = m.rest[0].w * 2.0
        mut k = 0
        while k < i:
            m.bias = m.bias + 1.0
            k = k + 1

fn early(mut m: Net, n: int) -> int:
    if n > 2:
        m.first.count = 5
        return 1
    m.rest[1].count = 6
    return 2

fn in_generic[M: model](mut m: Holder[M], x: M):
    m.inner = x
    m.count = m.count + 1

model Holder[M: model]:
    inner: M = zeros
    buffer count: int[] = zeros

fn held(mut h: Holder[Net], m: Net):
    in_generic(mut h, m)
"""


def test_parts_are_assigned(tmp_path: Path) -> None:
    both = Both(tmp_path, MODEL + ASSIGNING)
    m, x = both.native.Net(seed=1), numbers(3)
    old = contents(m)
    before = both.call("assign", m, x, 3, both.native.Inner(seed=1))
    assert contents(before) == old
    assert m.first.w.tolist() == x.tolist() and m.bias == 3.0 and m.first.scale == 0.25 and m.first.count == 3 and m.first.seen
    assert m.rest[1].w.tolist() == (x * 2).tolist() and m.rest[0].count == 3 and m.rest[0].w.tolist() == [1.0] * 3
    assert m.first.mean.tolist() == x.tolist() and m.rest[1].seen and not m.rest[0].seen


def test_submodels_are_assigned(tmp_path: Path) -> None:
    both = Both(tmp_path, MODEL + ASSIGNING)
    m, other = both.native.Net(seed=1), both.native.Inner(seed=2)
    m.rest[1].w, other.w = numbers(3), numbers(3, seed=1)
    both.call("submodels", m, other)
    assert m.first.w.tolist() == numbers(3).tolist() and m.rest[1].w.tolist() == numbers(3, seed=1).tolist()


def test_places_of_parts_are_assigned(tmp_path: Path) -> None:
    both = Both(tmp_path, MODEL + ASSIGNING)
    m = both.native.Net(seed=1)
    both.call("places", m)
    assert m.first.w.tolist() == [1.0, 5.0, 1.0] and m.rest[1].w.tolist() == m.rest[0].w.tolist() == [1.0, 1.0, 7.0]


def test_submodels_of_a_list_are_given_to_calls(tmp_path: Path) -> None:
    both = Both(tmp_path, MODEL + ASSIGNING)
    m, x = both.native.Net(seed=1), numbers(3)
    found = both.call("of_a_list", m, x, 2)
    first = x * np.array([9.0, 1.0, 1.0], np.float32)
    second = (x + first) * np.array([9.0, 1.0, 1.0], np.float32)
    assert found.tolist() == (second * np.array([9.0, 1.0, 1.0], np.float32)).tolist()
    assert m.rest[0].mean.tolist() == (x + first).tolist() and m.first.mean.tolist() == second.tolist()
    assert (m.rest[0].count, m.rest[1].count, m.first.count) == (2, 0, 1)
    assert m.rest[0].w.tolist() == m.rest[1].w.tolist() == [9.0, 1.0, 1.0]


def test_several_at_once_and_in_blocks(tmp_path: Path) -> None:
    both = Both(tmp_path, MODEL + ASSIGNING)
    m, x = both.native.Net(seed=1), numbers(3)
    assert both.call("several", m, x).tolist() == (x / 8).tolist()
    assert m.first.w.tolist() == (x / 2).tolist() and m.rest[0].w.tolist() == (x / 4).tolist()
    both.call("in_blocks", m, 5)
    assert m.first.count == 10 and m.bias == 10.0 and m.rest[0].w.tolist() == (x * 2).tolist()
    assert both.call("early", m, 3) == 1 and m.first.count == 5 and m.rest[1].count == 0
    assert both.call("early", m, 1) == 2 and m.rest[1].count == 6


@pytest.mark.parametrize("name", ["read", "write", "give"])
def test_a_list_has_an_end(tmp_path: Path, name: str) -> None:
    text = """
model Tower[L]:
    blocks: Inner * L

fn read[L](m: Tower[L]) -> [D]:
    return m.blocks[2].w

fn write[L](mut m: Tower[L]):
    m.blocks[2].w = zeros[D]

fn give[L](mut m: Tower[L]):
    clear(mut m.blocks[2])

fn clear(mut inner: Inner):
    inner.w = zeros[D]
"""
    program = Both(tmp_path, MODEL + text).native
    getattr(program, name)(program.Tower[3](seed=1))
    with pytest.raises(shapescript.CompileError, match=r"E0503.*blocks\.2"):
        getattr(program, name)(program.Tower[2](seed=1))


def test_parts_of_models_made_for_models(tmp_path: Path) -> None:
    both = Both(tmp_path, MODEL + ASSIGNING)
    program = both.native
    held, m = program.Holder[program.Net](seed=1), program.Net(seed=1)
    assert not any(value.any() for value in held.state_dict().values())
    both.call("held", held, m)
    assert held["inner.first.w"].tolist() == [1.0] * 3 and held["count"] == 1


# ---- in what is differentiated

CHANGING = """
fn step(x: [b D], mut layer: Inner) -> [b D]:
    layer.mean = layer.mean * 0.5 + mean(x, over=b) * 0.5
    layer.count = layer.count + 1
    return x * layer.w * f32(layer.scale)

fn loss(mut m: Net, x: [b D]) -> []:
    h = x |> step(mut m.first) |> tanh |> step(mut m.last)
    return mean(h * h, over=(b, D)) + m.bias

fn train(mut m: Net, x: [b D]) -> ([], Net):
    l, mut g = value_and_grad(loss(mut m, x), wrt=m)
    m = m - 0.1 * g
    return l, g

fn fixed(m: Net, x: [b D]) -> Net:
    mut copy = m
    l, g = value_and_grad(loss(mut copy, x), wrt=copy)
    return g

fn doubled(mut m: Inner, x: [D]) -> []:
    m.w = m.w * m.w * x
    return sum(m.w * m.w, over=D)

fn through_a_parameter(mut m: Inner, x: [D]) -> ([], Inner):
    l, g = value_and_grad(doubled(mut m, x), wrt=m)
    return l, g

fn others(mut m: Inner, mut n: Inner, x: [D]) -> Inner:
    l, g = value_and_grad(doubled(mut n, x) * sum(m.w, over=D), wrt=m)
    return g

fn parts(m: Inner, x: [b D]) -> ([], [b D], int, Inner):
    y = x * m.w
    return sum(y * y, over=(b, D)), y, 7, m

fn several(m: Inner, x: [b D]) -> ([], [b D], int, Inner, Inner):
    l, y, n, same, g = value_and_grad(parts(m, x), wrt=m)
    return l, y, n, same, g

fn beside(m: Inner, x: [b D]) -> ([b D], Inner):
    l, y, g = value_and_grad((sum(m.w, over=D), x + m.w), wrt=m)
    return y, g

fn noted(mut m: Inner, x: [b D]) -> ([], [b D]):
    m.count = m.count + 1
    y = x * m.w
    return sum(y * y, over=(b, D)), y

fn all_of_it(mut m: Inner, x: [b D], n: int) -> ([b D], Inner):
    mut total = zeros_like(m)
    mut last = x
    for i in 0..n:
        l, y, g = value_and_grad(noted(mut m, x), wrt=m)
        last = y
        total = total + g
    return last, total

fn of_a_gradient(mut m: Inner, x: [b D]) -> Inner:
    l, g = value_and_grad(inner_gradient(mut m, x), wrt=m)
    return g

fn inner_gradient(mut m: Inner, x: [b D]) -> []:
    l, y, g = value_and_grad(noted(mut m, x), wrt=m)
    return dot_w(g.w) + sum(y * 0.0, over=(b, D))

fn dot_w(w: [D]) -> []:
    return sum(w * w, over=D)

fn by_a_tensor(mut m: Inner, x: [b D]) -> [b D]:
    l, y, g = value_and_grad(noted(mut m, x), wrt=x)
    return g
"""
NET = MODEL.replace("    rest: Inner * 2\n", "    last: Inner\n")


class Layer:
    def __init__(self) -> None:
        self.w = torch.ones(3, requires_grad=True)
        self.scale = torch.ones((), dtype=torch.float64, requires_grad=True)
        self.mean = torch.zeros(3)

    def step(self, x: torch.Tensor) -> torch.Tensor:
        self.mean = self.mean * 0.5 + x.mean(0).detach() * 0.5
        return x * self.w * self.scale.float()


def test_buffers_change_and_training_goes_on(tmp_path: Path) -> None:
    both = Both(tmp_path, NET + CHANGING)
    m, first, last = both.native.Net(seed=1), Layer(), Layer()
    bias = torch.zeros((), requires_grad=True)
    parameters = {"first.w": first.w, "first.scale": first.scale, "last.w": last.w, "last.scale": last.scale, "bias": bias}
    for turn in range(4):
        x = numbers(5, 3, seed=turn)
        found, gradient = both.call("train", m, x)
        h = last.step(torch.tanh(first.step(torch.from_numpy(x))))
        loss = (h * h).mean() + bias
        np.testing.assert_allclose(found, loss.item(), rtol=1e-5)
        for (name, parameter), slope in zip(parameters.items(), torch.autograd.grad(loss, list(parameters.values())), strict=True):
            np.testing.assert_allclose(gradient[name], slope.numpy(), rtol=1e-4, atol=1e-6)
            parameter.data -= 0.1 * slope
            np.testing.assert_allclose(m[name], parameter.detach().numpy(), rtol=1e-5)
        assert m["first.count"] == m["last.count"] == turn + 1
        np.testing.assert_allclose(m["first.mean"], first.mean.numpy(), rtol=1e-5)
        np.testing.assert_allclose(m["last.mean"], last.mean.numpy(), rtol=1e-5, atol=1e-7)


def test_a_copy_changes_and_the_model_stays(tmp_path: Path) -> None:
    both = Both(tmp_path, NET + CHANGING)
    m = both.native.Net(seed=1)
    old = contents(m)
    assert both.call("fixed", m, numbers(4, 3)).first.w.any() and contents(m) == old


def test_the_gradient_is_by_the_model_as_it_came_in(tmp_path: Path) -> None:
    both = Both(tmp_path, NET + CHANGING)
    m, x = both.native.Inner(seed=1), numbers(3)
    m.w = w = numbers(3, seed=1)
    loss, g = both.call("through_a_parameter", m, x)
    np.testing.assert_allclose(loss, ((w * w * x) ** 2).sum(), rtol=1e-5)
    np.testing.assert_allclose(g.w, 4 * w**3 * x * x, rtol=1e-5)
    np.testing.assert_allclose(m.w, w * w * x, rtol=1e-6)


def test_other_variables_change_too(tmp_path: Path) -> None:
    both = Both(tmp_path, NET + CHANGING)
    m, n, x = both.native.Inner(seed=1), both.native.Inner(seed=1), numbers(3)
    g = both.call("others", m, n, x)
    np.testing.assert_allclose(n.w, x, rtol=1e-6)
    np.testing.assert_allclose(g.w, np.full(3, (x * x).sum()), rtol=1e-5)
    assert m.w.tolist() == [1.0] * 3


def test_results_beside_the_loss(tmp_path: Path) -> None:
    both = Both(tmp_path, NET + CHANGING)
    m, x = both.native.Inner(seed=1), numbers(4, 3)
    loss, y, n, same, g = both.call("several", m, x)
    np.testing.assert_allclose(loss, (x * x).sum(), rtol=1e-5)
    assert y.tolist() == x.tolist() and n == 7 and contents(same) == contents(m)
    np.testing.assert_allclose(g.w, 2 * (x * x).sum(0), rtol=1e-5)
    y, g = both.call("beside", m, x)
    np.testing.assert_allclose(y, x + 1, rtol=1e-6)
    assert g.w.tolist() == [1.0] * 3


def test_results_and_changes_together(tmp_path: Path) -> None:
    both = Both(tmp_path, NET + CHANGING)
    m, x = both.native.Inner(seed=1), numbers(4, 3)
    last, total = both.call("all_of_it", m, x, 3)
    assert m.count == 3 and last.tolist() == x.tolist() and total.count == 0
    np.testing.assert_allclose(total.w, 6 * (x * x).sum(0), rtol=1e-5)
    g = both.call("of_a_gradient", m, x)
    np.testing.assert_allclose(g.w, 8 * (x * x).sum(0) ** 2, rtol=1e-5)
    assert m.count == 4
    np.testing.assert_allclose(both.call("by_a_tensor", m, x), 2 * x, rtol=1e-5)
    assert m.count == 5
