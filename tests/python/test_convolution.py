"""Convolutions and pooling: the layers of the standard library beside PyTorch's, starts and names too; ties, NaN and empty axes; axes by
name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import shapescript
from shapescript.compiler.check.checker import check_source
from shapescript.compiler.ir.nodes import walk
from shapescript.compiler.passes.pipeline import compile_entry
from shapescript.engines import EngineName

ENGINES: tuple[EngineName, ...] = get_args(EngineName)

LAYERS = """
import shapescript.std.nn as nn

model Plain:
    layer: nn.Conv2d[3, 4, 3]

model Padded:
    layer: nn.Conv2d[3, 5, 3, Padding=1]

model Strided:
    layer: nn.Conv2d[2, 4, 2, Stride=2, Padding=1, Dilation=2]

model Grouped:
    layer: nn.Conv2d[4, 6, 3, Padding=1, Groups=2]

model Depthwise:
    layer: nn.Conv2d[4, 4, 3, 1, 1, Groups=4]

model Pointwise:
    layer: nn.Conv2d[3, 5, 1]

model Line:
    layer: nn.Conv1d[3, 4, 5, Padding=2]

model Up:
    layer: nn.ConvTranspose2d[3, 4, 3, Stride=2, Padding=1, OutputPadding=1]

model UpGrouped:
    layer: nn.ConvTranspose2d[4, 6, 2, Stride=2, Groups=2]

model UpLine:
    layer: nn.ConvTranspose1d[3, 4, 4, Stride=2, Padding=1, Dilation=2]

fn apply(m: Plain, x: [b 3 h w]) -> [b 4 h-2 w-2]:
    return x |> nn.conv2d(m.layer)

fn apply(m: Padded, x: [b 3 h w]) -> [b 5 h w]:
    return x |> nn.conv2d(m.layer)

fn apply(m: Strided, x: [b 2 h w]) -> [b 4 (h+1)//2 (w+1)//2]:
    return x |> nn.conv2d(m.layer)

fn apply(m: Grouped, x: [b 4 h w]) -> [b 6 h w]:
    return x |> nn.conv2d(m.layer)

fn apply(m: Depthwise, x: [b 4 h w]) -> [b 4 h w]:
    return x |> nn.conv2d(m.layer)

fn apply(m: Pointwise, x: [b 3 h w]) -> [b 5 h w]:
    return x |> nn.conv2d(m.layer)

fn apply(m: Line, x: [b 3 n]) -> [b 4 n]:
    return x |> nn.conv1d(m.layer)

fn apply(m: Up, x: [b 3 h w]) -> [b 4 2*h 2*w]:
    return x |> nn.conv_transpose2d(m.layer)

fn apply(m: UpGrouped, x: [b 4 h w]) -> [b 6 2*h 2*w]:
    return x |> nn.conv_transpose2d(m.layer)

fn apply(m: UpLine, x: [b 3 n]) -> [b 4 2*n+3]:
    return x |> nn.conv_transpose1d(m.layer)
"""
GRADIENT = """
fn gradient(m: {name}, x: {x}, scaled_by: {y}) -> ({x}, {name}):
    l, dx = value_and_grad(sum(apply(m, x) * scaled_by, over=({over})), wrt=x)
    k, dm = value_and_grad(sum(apply(m, x) * scaled_by, over=({over})), wrt=m)
    return dx, dm
"""
PYTORCH: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "Plain": (lambda: nn.Conv2d(3, 4, 3), (2, 3, 5, 6)),
    "Padded": (lambda: nn.Conv2d(3, 5, 3, padding=1), (2, 3, 4, 17)),
    "Strided": (lambda: nn.Conv2d(2, 4, 2, stride=2, padding=1, dilation=2), (3, 2, 5, 8)),
    "Grouped": (lambda: nn.Conv2d(4, 6, 3, padding=1, groups=2), (2, 4, 3, 5)),
    "Depthwise": (lambda: nn.Conv2d(4, 4, 3, padding=1, groups=4), (2, 4, 6, 6)),
    "Pointwise": (lambda: nn.Conv2d(3, 5, 1), (2, 3, 4, 4)),
    "Line": (lambda: nn.Conv1d(3, 4, 5, padding=2), (2, 3, 9)),
    "Up": (lambda: nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1), (2, 3, 4, 5)),
    "UpGrouped": (lambda: nn.ConvTranspose2d(4, 6, 2, stride=2, groups=2), (2, 4, 3, 2)),
    "UpLine": (lambda: nn.ConvTranspose1d(3, 4, 4, stride=2, padding=1, dilation=2), (2, 3, 6)),
}


def with_gradients() -> str:
    """The layers, each with the function that gives its gradients."""
    found = [LAYERS]
    for line in LAYERS.splitlines():
        if line.startswith("fn apply"):
            name, rest = line.removeprefix("fn apply(m: ").split(", x: ")
            x, y = rest.removesuffix(":").split(") -> ")
            found.append(GRADIENT.format(name=name, x=x, y=y, over=y[1:-1].replace(" ", ", ")))
    return "".join(found)


def loaded(folder: Path, engine: EngineName, text: str) -> Any:
    path = folder / "program.ss"
    path.write_text(text)
    return shapescript.load(path, engine=engine)


@pytest.fixture(scope="module", params=ENGINES)
def layers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return loaded(tmp_path_factory.mktemp("layers"), request.param, with_gradients())


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# ---- layers


@pytest.mark.parametrize("name", PYTORCH)
def test_layers_beside_pytorch(layers: Any, name: str) -> None:
    make, shape = PYTORCH[name]
    m, theirs = getattr(layers, name)(seed=3), make()
    theirs.load_state_dict({key.removeprefix("layer."): torch.from_numpy(value.copy()) for key, value in m.state_dict().items()})
    x = numbers(*shape)
    their_x = torch.from_numpy(x).requires_grad_()
    expected = theirs(their_x)
    np.testing.assert_allclose(layers.apply(m, x), expected.detach(), rtol=1e-5, atol=1e-6)
    weights = numbers(*expected.shape, seed=1)
    (expected * torch.from_numpy(weights)).sum().backward()
    dx, dm = layers.gradient(m, x, weights)
    np.testing.assert_allclose(dx, their_x.grad, rtol=1e-4, atol=1e-5)
    for key, parameter in theirs.named_parameters():
        np.testing.assert_allclose(dm[f"layer.{key}"], parameter.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", PYTORCH)
def test_starts_are_pytorchs(layers: Any, name: str) -> None:
    """Uniform within one over the root of what one output sums, with PyTorch's names and shapes."""
    theirs = PYTORCH[name][0]().state_dict()
    ours = [getattr(layers, name)(seed=seed).state_dict() for seed in range(30)]
    assert {key: value.shape for key, value in ours[0].items()} == {f"layer.{key}": tuple(value.shape) for key, value in theirs.items()}
    bound = 1 / np.sqrt(np.prod(theirs["weight"].shape[1:]))
    for key in theirs:
        drawn = np.stack([start[f"layer.{key}"] for start in ours])
        assert np.abs(drawn).max() <= bound
        assert np.abs(drawn).max() > 0.9 * bound and abs(drawn.mean()) < 0.2 * bound


@pytest.mark.parametrize("name", PYTORCH)
def test_no_examples_give_no_results(layers: Any, name: str) -> None:
    _, shape = PYTORCH[name]
    m, empty = getattr(layers, name)(seed=3), numbers(0, *shape[1:])
    found = layers.apply(m, empty)
    assert found.shape == (0, *layers.apply(m, numbers(*shape)).shape[1:])
    dx, dm = layers.gradient(m, empty, found)
    assert dx.shape == empty.shape and all((value == 0).all() for value in dm.state_dict().values())


def test_both_engines_give_the_same_bytes(tmp_path: Path) -> None:
    text = with_gradients()
    one, other = (loaded(tmp_path, engine, text) for engine in ENGINES)
    for name, (_, shape) in PYTORCH.items():
        x = numbers(*shape)
        first, second = getattr(one, name)(seed=3), getattr(other, name)(seed=3)
        y, z = one.apply(first, x), other.apply(second, x)
        assert y.tobytes() == z.tobytes(), name
        (dx, dm), (ex, em) = one.gradient(first, x, y), other.gradient(second, x, y)
        assert dx.tobytes() == ex.tobytes() and dm.buffer.tobytes() == em.buffer.tobytes(), name


# ---- what PyTorch refuses or leaves open

EDGES = """
fn convolved(x: f64[b i n], k: f64[o i m]) -> f64[b o n-m+1]:
    return convolve(x, k, over=n)

fn pooled(x: [h w]) -> [h//2 w//2]:
    return max_pool(x, over=(h, w), size=2)

fn pool_gradient(x: [h w], g: [h//2 w//2]) -> [h w]:
    l, dx = value_and_grad(sum(pooled(x) * g, over=(h//2, w//2)), wrt=x)
    return dx

fn padded_gradient(x: [n]) -> [n]:
    l, dx = value_and_grad(sum(max_pool(x, over=n, size=3, stride=1, padding=1), over=n), wrt=x)
    return dx

fn squared(x: f64[b i h w], k: f64[o i 3 3]) -> f64[]:
    y = convolve(x, k, over=(h, w), stride=2, padding=1)
    return sum(y * y * y, over=(b, o, (h+1)//2, (w+1)//2))

fn first(x: f64[b i h w], k: f64[o i 3 3]) -> f64[]:
    l, g = value_and_grad(squared(x, k), wrt=x)
    return sum(g * g, over=(b, i, h, w))

fn second(x: f64[b i h w], k: f64[o i 3 3]) -> (f64[b i h w], f64[o i 3 3]):
    l, by_x = value_and_grad(first(x, k), wrt=x)
    m, by_k = value_and_grad(first(x, k), wrt=k)
    return by_x, by_k

fn running(x: [b n D], size: [W]) -> [b n-W+1 D]:
    return windows(x, over=n, size=W) |> mean(over=W)

dim D = 3
dim W = 4
"""


@pytest.fixture(params=ENGINES)
def edges(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return loaded(tmp_path, request.param, EDGES)


def test_no_channels_sum_to_nothing(edges: Any) -> None:
    found = edges.convolved(np.zeros((2, 0, 5)), np.zeros((3, 0, 2)))
    assert found.shape == (2, 3, 4) and not np.signbit(found).any() and (found == 0).all()
    assert edges.convolved(np.zeros((2, 3, 5)), np.zeros((0, 3, 2))).shape == (2, 0, 4)


def test_the_gradient_of_equal_numbers_goes_to_the_first(edges: Any) -> None:
    x = np.float32([[1, 1, 0, 2], [1, 1, 2, 2]])
    np.testing.assert_array_equal(edges.pool_gradient(x, np.float32([[3, 5]])), [[3, 0, 0, 5], [0, 0, 0, 0]])
    zeros = np.float32([[0.0, -0.0, -0.0, 0.0], [0.0, 0.0, -0.0, -0.0]])
    np.testing.assert_array_equal(edges.pool_gradient(zeros, np.float32([[3, 5]])), [[3, 0, 5, 0], [0, 0, 0, 0]])
    assert not np.signbit(edges.pooled(zeros)).any()


def test_nan_is_the_largest(edges: Any) -> None:
    x = np.float32([[1, 9, np.inf, 2], [np.nan, np.nan, -np.inf, np.nan]])
    np.testing.assert_array_equal(edges.pooled(x), [[np.nan, np.nan]])
    few = np.float32([[-np.inf, -np.inf, 1, 2], [-np.inf, -np.inf, 4, 3]])
    np.testing.assert_array_equal(edges.pooled(few), [[-np.inf, 4]])


def test_a_padding_is_never_the_largest(edges: Any) -> None:
    np.testing.assert_array_equal(edges.padded_gradient(np.float32([-5, -7, -6, -9])), [2, 0, 2, 0])


def test_second_derivatives_beside_pytorch(edges: Any) -> None:
    rng = np.random.default_rng(0)
    x, k = rng.standard_normal((2, 3, 5, 4)), rng.standard_normal((2, 3, 3, 3))
    tx, tk = torch.from_numpy(x).requires_grad_(), torch.from_numpy(k).requires_grad_()
    (slope,) = torch.autograd.grad((functional.conv2d(tx, tk, stride=2, padding=1) ** 3).sum(), tx, create_graph=True)
    expected = torch.autograd.grad((slope * slope).sum(), (tx, tk))
    for found, wanted in zip(edges.second(x, k), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-8)


def test_windows_by_themselves(edges: Any) -> None:
    x = numbers(2, 9, 3)
    expected = torch.from_numpy(x).unfold(1, 4, 1).mean(3)
    np.testing.assert_allclose(edges.running(x, np.zeros(4, np.float32)), expected, rtol=1e-6, atol=1e-7)


# ---- axes by name


def codes(body: str, signature: str) -> list[str]:
    return [d.code for d in check_source(f"dim Side = 8\n\nfn f({signature}:\n    return {body}\n").diagnostics]


def test_the_channels_are_found_by_name() -> None:
    assert codes("convolve(x, k, over=(h, w))", "x: [h b i w], k: [o i 3 1]) -> [h-2 b o w]") == []
    assert codes("convolve(x, k, over=(w, h))", "x: [h b i w], k: [o i 3 1]) -> [h b o w-2]") == []
    assert codes("convolve(x, k, over=n)", "x: [i n], k: [o i 3]) -> [o n-2]") == []
    assert codes("convolve(x, k, over=n)", "x: [b 3 n], k: [o 3 3]) -> [b o n-2]") == []
    assert codes("convolve(x, k, over=n)", "x: [b 3 n], k: [o i 3]) -> [b o n-2]") == ["E0401"]
    assert codes("convolve(x, k, over=n)", "x: [..s i n], k: [o i 3]) -> [..s o n-2]") == []


def test_axes_stay_where_the_arithmetic_says_so() -> None:
    assert codes("x + convolve(x, k, over=(h, w), padding=1)", "x: [b i h w], k: [i i 3 3]) -> [b i h w]") == []
    assert codes("x + convolve(x, k, over=Side, padding=1)", "x: [b i Side], k: [i i 3]) -> [b i Side]") == []
    assert codes("x + convolve(x, k, over=Side, padding=1)", "x: [b i Side], k: [i i 4]) -> [b i Side]") == ["E0401"]
    assert codes("convolve(x, k, over=Side, padding=2, stride=2)", "x: [b i Side], k: [i i 3]) -> [b i (Side+1)//2+1]") == []


def test_numbers_are_sizes_of_any_kind() -> None:
    for stride in ("2", "Side//4", "m", "m+1-1", "(m)"):
        assert codes(f"max_pool(x, over=n, size=3, stride={stride})", "x: [n], like: [m]) -> [n]") == ["E0404"], stride
    for stride in ("2.0", "-1", "sqrt(2)", "Side / 3 * 3"):
        assert codes(f"max_pool(x, over=n, size=3, stride={stride})", "x: [n], like: [m]) -> [n]") in (["E0502"], ["E0501"]), stride
    assert codes("max_pool(x, over=n, size=3, stride=Sides)", "x: [n]) -> [n]") == ["E0203"]


# ---- what is kept for the gradient

DEEP = """
import shapescript.std.nn as nn

model Deep:
    first: nn.Conv2d[3, 4, 3, Padding=1]
    second: nn.Conv2d[4, 4, 3, Padding=1]
    third: nn.Conv2d[4, 4, 3, Stride=2]

fn loss(m: Deep, x: [b 3 h w]) -> []:
    y = x |> nn.conv2d(m.first) |> relu |> nn.max_pool2d[2] |> nn.conv2d(m.second) |> tanh |> nn.conv2d(m.third)
    return mean(y * y, over=(b, 4, (h//2-3)//2+1, (w//2-3)//2+1))

fn gradient(m: Deep, x: [b 3 h w]) -> ([], Deep):
    l, g = value_and_grad(loss(m, x), wrt=m)
    return l, g
"""


def test_windows_of_a_batch_are_made_for_no_convolution_nor_its_gradients() -> None:
    program = check_source(DEEP)
    (signature,) = program.functions["gradient"]
    assert program.module is not None
    counts = {}
    for step in ("fused", "final"):
        ops = list(walk(compile_entry(program.module, signature.key, {}, step, verify=True).body))
        counts[step] = [sum(op.name == name for op in ops) for name in ("windows", "fold", "windows_contraction", "contraction_fold")]
    assert counts == {"fused": [4, 3, 0, 0], "final": [1, 1, 6, 2]}  # those of the pooling hold nothing twice


POOLED = """
import shapescript.std.nn as nn

fn loss(x: [b 3 h w]) -> []:
    y = x |> nn.max_pool2d[3, Stride=2] |> tanh |> exp |> sin |> nn.max_pool2d[3, Stride=1] |> tanh |> cos
    return mean(y * y, over=(b, 3, (h-3)//2-1, (w-3)//2-1))

fn gradient(x: [b 3 h w]) -> [b 3 h w]:
    l, g = value_and_grad(loss(x), wrt=x)
    return g
"""


def test_windows_that_overlap_are_made_again_for_the_gradient() -> None:
    program = check_source(POOLED)
    (signature,) = program.functions["gradient"]
    assert program.module is not None
    counts = {}
    for step in ("fused", "final"):
        ops = list(walk(compile_entry(program.module, signature.key, {}, step, verify=True).body))
        counts[step] = sum(op.name == "windows" for op in ops)
    assert counts == {"fused": 2, "final": 3}  # the last of them is read again at once


def test_windows_made_again_are_the_same(tmp_path: Path) -> None:
    found = []
    for engine in ENGINES:
        program = loaded(tmp_path, engine, DEEP)
        m = program.Deep(seed=1)
        loss, gradient = program.gradient(m, numbers(2, 3, 10, 11))
        found.append((loss, gradient.buffer.tobytes()))
    assert found[0] == found[1]
    layers = [
        nn.Conv2d(3, 4, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 4, 3, padding=1),
        nn.Tanh(),
        nn.Conv2d(4, 4, 3, stride=2),
    ]
    twin = nn.Sequential(*layers)
    names = {"first": "0", "second": "3", "third": "5"}
    start = {key: torch.from_numpy(value.copy()) for key, value in m.state_dict().items()}
    twin.load_state_dict({".".join((names[key.split(".")[0]], key.split(".")[1])): value for key, value in start.items()})
    expected = (twin(torch.from_numpy(numbers(2, 3, 10, 11))) ** 2).mean()
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    for key in start:
        name, kind = key.split(".")
        theirs = dict(twin.named_parameters())[f"{names[name]}.{kind}"].grad
        np.testing.assert_allclose(gradient[key], theirs, rtol=1e-3, atol=1e-6)
