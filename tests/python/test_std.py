"""The standard library's layers and losses, written in ShapeScript, against PyTorch: values, gradients, parameters by PyTorch's names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import shapescript

LAYERS = """
import shapescript.std.nn as nn

dim I = 5
dim O = 3

model Linear:
    layer: nn.Linear[I, O]

model LayerNorm:
    layer: nn.LayerNorm[I]

model RMSNorm:
    layer: nn.RMSNorm[I]

fn apply(m: Linear, x: [b n I]) -> [b n O]:
    return x |> nn.linear(m.layer)

fn apply(m: LayerNorm, x: [b n I]) -> [b n I]:
    return x |> nn.layer_norm(m.layer)

fn apply(m: RMSNorm, x: [b n I]) -> [b n I]:
    return x |> nn.rms_norm(m.layer, eps=1e-6)

fn gradient(m: Linear, x: [b n I], w: [b n O]) -> ([b n I], Linear):
    l, dx = value_and_grad(sum(apply(m, x) * w, over=(b, n, O)), wrt=x)
    k, dm = value_and_grad(sum(apply(m, x) * w, over=(b, n, O)), wrt=m)
    return dx, dm

fn gradient(m: LayerNorm, x: [b n I], w: [b n I]) -> ([b n I], LayerNorm):
    l, dx = value_and_grad(sum(apply(m, x) * w, over=(b, n, I)), wrt=x)
    k, dm = value_and_grad(sum(apply(m, x) * w, over=(b, n, I)), wrt=m)
    return dx, dm

fn gradient(m: RMSNorm, x: [b n I], w: [b n I]) -> ([b n I], RMSNorm):
    l, dx = value_and_grad(sum(apply(m, x) * w, over=(b, n, I)), wrt=x)
    k, dm = value_and_grad(sum(apply(m, x) * w, over=(b, n, I)), wrt=m)
    return dx, dm
"""

EMBEDDING = """
import shapescript.std.nn as nn

dim V = 6
dim D = 3

model Table:
    layer: nn.Embedding[V, D]

fn apply(m: Table, tokens: int[b n]) -> [b n D]:
    return tokens |> nn.embedding(m.layer)

fn one(m: Table, token: int[]) -> [D]:
    return nn.embedding(token, m.layer)

fn gradient(m: Table, tokens: int[b n], w: [b n D]) -> Table:
    l, g = value_and_grad(sum(apply(m, tokens) * w, over=(b, n, D)), wrt=m)
    return g
"""

LOSSES = """
import shapescript.std.loss as loss

fn mse(x: [a b], y: [a b]) -> []:
    return loss.mse(x, y)

fn l1(x: [a b], y: [a b]) -> []:
    return loss.l1(x, y)

fn huber(x: [a b], y: [a b]) -> []:
    return loss.huber(x, y, 0.7)

fn mse_gradient(x: [a b], y: [a b]) -> [a b]:
    l, g = value_and_grad(loss.mse(x, y), wrt=x)
    return g

fn l1_gradient(x: [a b], y: [a b]) -> [a b]:
    l, g = value_and_grad(loss.l1(x, y), wrt=x)
    return g

fn huber_gradient(x: [a b], y: [a b]) -> [a b]:
    l, g = value_and_grad(loss.huber(x, y, 0.7), wrt=x)
    return g
"""

TWINS = {"Linear": torch.nn.Linear(5, 3), "LayerNorm": torch.nn.LayerNorm(5), "RMSNorm": torch.nn.RMSNorm(5, eps=1e-6)}


def write(folder: Path, text: str) -> Path:
    path = folder / "program.ss"
    path.write_text(text)
    return path


def load(folder: Path, text: str) -> Any:
    return shapescript.load(write(folder, text))


@pytest.mark.parametrize("shape", [(2, 4, 5), (0, 4, 5), (1, 1, 5)])
@pytest.mark.parametrize("name", TWINS)
def test_layer(tmp_path: Path, name: str, shape: tuple[int, ...]) -> None:
    program, twin = load(tmp_path, LAYERS), TWINS[name]
    generator = np.random.default_rng(4)
    state = {key: generator.standard_normal(value.shape).astype(np.float32) for key, value in twin.state_dict().items()}
    twin.load_state_dict({key: torch.from_numpy(value) for key, value in state.items()})
    m = getattr(program, name)(seed=1)
    m.load_state_dict({f"layer.{key}": value for key, value in twin.state_dict().items()})
    x = generator.standard_normal(shape).astype(np.float32)
    theirs_in = torch.from_numpy(x).requires_grad_()
    theirs = twin(theirs_in)
    ours = program.apply(m, x)
    np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-5, atol=1e-6)
    weights = generator.standard_normal(ours.shape).astype(np.float32)
    twin.zero_grad()
    (theirs * torch.from_numpy(weights)).sum().backward()
    dx, dm = program.gradient(m, x, weights)
    assert theirs_in.grad is not None
    np.testing.assert_allclose(dx, theirs_in.grad.numpy(), rtol=1e-4, atol=2e-5)
    for key, parameter in twin.named_parameters():
        assert parameter.grad is not None
        np.testing.assert_allclose(dm[f"layer.{key}"], parameter.grad.numpy(), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("shape", [(4, 20), (1, 1), (0, 3)])
def test_embedding(tmp_path: Path, shape: tuple[int, ...]) -> None:
    """Values and gradients, with repeated tokens and rows that no token takes; parameters both ways."""
    program, twin = load(tmp_path, EMBEDDING), torch.nn.Embedding(6, 3)
    m = program.Table(seed=1)
    m.load_state_dict({f"layer.{key}": value for key, value in twin.state_dict().items()})
    back = torch.nn.Embedding(6, 3)
    back.load_state_dict({key.removeprefix("layer."): torch.from_numpy(np.array(value)) for key, value in m.state_dict().items()})
    assert torch.equal(back.weight, twin.weight)
    generator = np.random.default_rng(4)
    tokens, weights = generator.integers(0, 5, shape), generator.standard_normal((*shape, 3)).astype(np.float32)
    theirs = twin(torch.from_numpy(tokens))
    np.testing.assert_array_equal(program.apply(m, tokens), theirs.detach())
    np.testing.assert_array_equal(program.one(m, 4), twin.weight[4].detach())
    (theirs * torch.from_numpy(weights)).sum().backward()
    assert twin.weight.grad is not None
    np.testing.assert_allclose(program.gradient(m, tokens, weights)["layer.weight"], twin.weight.grad, rtol=1e-5, atol=1e-6)


def test_embedding_starts_as_pytorchs(tmp_path: Path) -> None:
    values = shapescript.load(write(tmp_path, EMBEDDING), dims={"V": 500, "D": 40}).Table(seed=3)["layer.weight"]
    assert values.shape == (500, 40)
    assert abs(values.mean()) < 0.03 and abs(values.std() - 1) < 0.03 and np.abs(values).max() > 3


def test_starts_are_pytorchs(tmp_path: Path) -> None:
    program = load(tmp_path, LAYERS)
    m = program.Linear(seed=3)
    for name, twin in TWINS["Linear"].state_dict().items():
        values = m[f"layer.{name}"]
        assert values.shape == tuple(twin.shape)
        assert np.abs(values).max() <= 1 / np.sqrt(5) and values.std() > 0.1
    norm = program.LayerNorm(seed=3)
    assert (norm["layer.weight"] == 1).all() and (norm["layer.bias"] == 0).all()


@pytest.mark.parametrize(
    ("name", "twin"),
    [
        ("mse", torch.nn.functional.mse_loss),
        ("l1", torch.nn.functional.l1_loss),
        ("huber", lambda x, y: torch.nn.functional.huber_loss(x, y, delta=0.7)),
    ],
)
def test_loss(tmp_path: Path, name: str, twin: Any) -> None:
    program = load(tmp_path, LOSSES)
    generator = np.random.default_rng(5)
    x, y = (generator.standard_normal((6, 3)).astype(np.float32) for _ in range(2))
    theirs_in = torch.from_numpy(x).requires_grad_()
    theirs = twin(theirs_in, torch.from_numpy(y))
    theirs.backward()
    assert getattr(program, name)(x, y) == pytest.approx(theirs.item(), rel=1e-6)
    assert theirs_in.grad is not None
    np.testing.assert_allclose(getattr(program, f"{name}_gradient")(x, y), theirs_in.grad.numpy(), rtol=1e-5, atol=1e-7)
