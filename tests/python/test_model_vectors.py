"""Arithmetic on whole models: leaf by leaf, with numbers, in gradients; averages, accumulation, interpolation, an optimiser made of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from both_engines import Both, contents

import shapescript
from shapescript.compiler.check.checker import check_file
from shapescript.compiler.check.vectors import OF_ONE, OF_TWO
from shapescript.compiler.ir.nodes import walk
from shapescript.compiler.passes.pipeline import compile_entry

MODEL = """
import shapescript.std.nn as nn

dim I = 5
dim O = 3

model Wide:
    w: f64[O] = normal(1, 2)
    number: f64[] = ones
    buffer steps: int[] = 4

model Net:
    layer: nn.Linear[I, O]
    wide: Wide
    number: [] = ones
    empty: [0 O] = zeros
    buffer mean: [O] = normal(0, 1)
    buffer seen: bool[2] = ones
    group "*.bias": decay=false, rate=0.5
    group "number": frozen=true

"""
PARAMETERS = ("empty", "layer.bias", "layer.weight", "number", "wide.number", "wide.w")
BUFFERS = ("mean", "seen", "wide.steps")

OPERATIONS: dict[str, tuple[str, Callable[..., np.ndarray]]] = {
    "sum": ("a + b", lambda a, b, x: a + b),
    "difference": ("a - b", lambda a, b, x: a - b),
    "product": ("a * b", lambda a, b, x: a * b),
    "quotient": ("a / b", lambda a, b, x: a / b),
    "negative": ("-a", lambda a, b, x: -a),
    "square": ("a ** 2", lambda a, b, x: a * a),
    "fifth power": ("a ** 5", lambda a, b, x: (a * a) * (a * a) * a),
    "itself": ("a ** 1", lambda a, b, x: a),
    "times a float": ("a * x", lambda a, b, x: a * a.dtype.type(x)),
    "a float less": ("x - a", lambda a, b, x: a.dtype.type(x) - a),
    "a number over": ("2 / a", lambda a, b, x: a.dtype.type(2) / a),
    "plus an int": ("a + I", lambda a, b, x: a + a.dtype.type(5)),
    "times a tensor of one": ("a * f32(x)", lambda a, b, x: a * a.dtype.type(np.float32(x))),
    "times a wide tensor of one": ("sum(f64(ones[I]), over=I) * a", lambda a, b, x: a.dtype.type(5) * a),
    "larger": ("maximum(a, b)", lambda a, b, x: np.maximum(a, b)),
    "smaller than a number": ("minimum(a, 0.5)", lambda a, b, x: np.minimum(a, a.dtype.type(0.5))),
    "size": ("abs(a)", lambda a, b, x: np.abs(a)),
    "root": ("sqrt(a * a)", lambda a, b, x: np.sqrt(a * a)),
    "a step": ("a - rates(a) * 0.5 * b", lambda a, b, x: a),  # compared below
}


def called(name: str) -> str:
    return "the_" + name.replace(" ", "_")


def functions() -> str:
    return MODEL + "\n".join(
        f"fn {called(name)}(a: Net, b: Net, x: float) -> Net:\n    return {text}\n" for name, (text, _) in OPERATIONS.items()
    )


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name != "a step"])
def test_operation(tmp_path: Path, name: str) -> None:
    both, compute = Both(tmp_path, functions()), OPERATIONS[name][1]
    a, b = both.native.Net(seed=1), both.native.Net(seed=2)
    found = both.call(called(name), a, b, 0.3)
    for parameter in PARAMETERS:
        wanted = compute(a[parameter], b[parameter], 0.3)
        assert found[parameter].tobytes() == np.asarray(wanted, a[parameter].dtype).tobytes(), parameter
    for buffer in BUFFERS:
        assert found[buffer].tobytes() == a[buffer].tobytes()


@pytest.mark.parametrize("name", [*OF_ONE, *OF_TWO, "power"])
def test_function_is_that_of_tensors(tmp_path: Path, name: str) -> None:
    call = {"power": "{0} ** 1.5", **dict.fromkeys(OF_TWO, name + "({0}, {1})")}.get(name, name + "({0})")
    parts = ["layer.weight", "wide.w", "number"]
    of_parts = ", ".join(call.format(f"a.{part}", f"b.{part}") for part in parts)
    text = f"fn whole(a: Net, b: Net) -> Net:\n    return {call.format('a', 'b')}\n\n"
    text += f"fn apart(a: Net, b: Net) -> ([O I], f64[O], []):\n    return {of_parts}\n"
    both = Both(tmp_path, MODEL + text)
    a, b = both.native.Net(seed=1), both.native.Net(seed=2)
    whole = both.call("whole", a, b)
    for part, wanted in zip(parts, both.call("apart", a, b), strict=True):
        np.testing.assert_array_equal(whole[part], wanted, err_msg=part)


def test_a_step_with_rates(tmp_path: Path) -> None:
    both = Both(tmp_path, functions())
    a, b = both.native.Net(seed=1), both.native.Net(seed=2)
    found = both.call(called("a step"), a, b, 0.0)
    for parameter in PARAMETERS:
        rate = 0.0 if parameter == "number" else 0.25 if parameter == "layer.bias" else 0.5
        np.testing.assert_allclose(found[parameter], a[parameter] - rate * b[parameter], rtol=1e-6)


MORE = (
    MODEL
    + """
fn zeros_of(a: Net, x: int[b]) -> (Net, int[b]):
    return zeros_like(a), zeros_like(x)

fn product(a: Net, b: Net) -> float:
    return dot(a, b)

fn norms(a: Net) -> (float, float):
    mut clipped = zeros_like(a) + a
    return clip_norm(mut clipped, 1.0), sqrt(dot(a, a))

fn loss(m: Net, x: [b I]) -> []:
    y = x |> nn.linear(m.layer)
    return mean(y * y, over=(b, O)) * m.number + f32(sum(m.wide.w * m.wide.w, over=O) * m.wide.number)

fn between(a: Net, b: Net, t: float, x: [n I]) -> []:
    return loss(a * (1.0 - t) + b * t, x)

fn gradient_between(a: Net, b: Net, t: float, x: [n I]) -> ([], Net):
    l, g = value_and_grad(between(a, b, t, x), wrt=a)
    return l, g

fn penalty(m: Net, start: Net) -> []:
    moved = m - start
    return f32(dot(moved, moved))

fn gradient_of_penalty(m: Net, start: Net) -> Net:
    l, g = value_and_grad(penalty(m, start), wrt=m)
    return g

fn gradient_of_norm(m: Net, x: [n I]) -> Net:
    l, g = value_and_grad(gradient_norm(m, x), wrt=m)
    return g

fn gradient_norm(m: Net, x: [n I]) -> []:
    l, g = value_and_grad(loss(m, x), wrt=m)
    return f32(dot(g, g))

fn averaged(mut average: Net, m: Net, turns: int):
    for turn in 0..turns:
        average = average * 0.9 + m * 0.1

fn accumulated(m: Net, x: [n I], shards: int) -> Net:
    mut g = zeros_like(m)
    for shard in 0..shards:
        l, h = value_and_grad(loss(m, x), wrt=m)
        g = g + h
    return g / shards

model Averages[M: model]:
    first: M = zeros
    second: M = zeros
    buffer steps: int[] = zeros

fn lion[M: model](mut m: M, mut state: Averages[M], g: M, rate: float):
    moved = sign_of(state.first * 0.9 + g * 0.1)
    state.first = state.first * 0.99 + g * 0.01
    state.second = maximum(state.second, g * g)
    state.steps = state.steps + 1
    m = m - rates(m) * rate * (moved + 0.1 * decays(m) * m)

fn sign_of[M: model](m: M) -> M:
    return m / sqrt(m * m + 1e-30)

fn train(mut m: Net, mut state: Averages[Net], x: [n I]) -> []:
    l, g = value_and_grad(loss(m, x), wrt=m)
    lion(mut m, mut state, g, 0.01)
    return l
"""
)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def torch_parameters(m: shapescript.Model) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(np.array(value)).requires_grad_() for name, value in m.parameters().items()}


def torch_loss(m: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    y = torch.nn.functional.linear(x, m["layer.weight"], m["layer.bias"])
    return (y * y).mean() * m["number"] + ((m["wide.w"] ** 2).sum() * m["wide.number"]).float()


def assert_gradient(found: shapescript.Model, loss: torch.Tensor, parameters: dict[str, torch.Tensor]) -> None:
    slopes = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
    for name, slope in zip(parameters, slopes, strict=True):
        frozen = found.groups()[name].frozen
        wanted = np.zeros_like(found[name]) if slope is None or frozen else slope.numpy()
        np.testing.assert_allclose(found[name], wanted, rtol=2e-5, atol=1e-6, err_msg=name)
    assert not any(value.any() for value in found.buffers().values())


def test_zeros_like(tmp_path: Path) -> None:
    both = Both(tmp_path, MORE)
    zeros, ints = both.call("zeros_of", both.native.Net(seed=1), np.arange(3))
    assert not any(value.any() for value in zeros.state_dict().values()) and ints.tolist() == [0, 0, 0]


def test_dot_and_the_norm(tmp_path: Path) -> None:
    both = Both(tmp_path, MORE)
    a, b = both.native.Net(seed=1), both.native.Net(seed=2)
    trained = [name for name in PARAMETERS if name != "number"]
    wanted = sum(float((a[name].astype(np.float64) * b[name]).sum()) for name in trained)
    np.testing.assert_allclose(both.call("product", a, b), wanted, rtol=1e-13)
    norm, root = both.call("norms", a)
    assert norm == root


def test_interpolation_has_gradients(tmp_path: Path) -> None:
    both = Both(tmp_path, MORE)
    a, b, x = both.native.Net(seed=1), both.native.Net(seed=2), numbers(4, 5)
    loss, found = both.call("gradient_between", a, b, 0.25, x)
    ours, others = torch_parameters(a), torch_parameters(b)
    mixed = {name: value * 0.75 + others[name].detach() * 0.25 for name, value in ours.items()}
    wanted = torch_loss(mixed, torch.from_numpy(x))
    np.testing.assert_allclose(loss, wanted.item(), rtol=1e-5)
    assert_gradient(found, wanted, ours)


def test_penalty_and_gradients_of_gradients(tmp_path: Path) -> None:
    both = Both(tmp_path, MORE)
    a, b, x = both.native.Net(seed=1), both.native.Net(seed=2), numbers(4, 5)
    ours, others = torch_parameters(a), torch_parameters(b)
    wanted = sum(((ours[name] - others[name].detach()).double() ** 2).sum() for name in PARAMETERS if name != "number")
    assert_gradient(both.call("gradient_of_penalty", a, b), wanted, ours)
    trained = {name: value for name, value in ours.items() if name != "number"}
    slopes = torch.autograd.grad(torch_loss(ours, torch.from_numpy(x)), list(trained.values()), create_graph=True, allow_unused=True)
    assert_gradient(both.call("gradient_of_norm", a, x), sum((s.double() ** 2).sum() for s in slopes if s is not None), ours)


def test_average_and_accumulation(tmp_path: Path) -> None:
    both = Both(tmp_path, MORE)
    m, average, x = both.native.Net(seed=1), both.native.Net(seed=2), numbers(4, 5)
    wanted = {name: np.array(value, np.float64) for name, value in average.parameters().items()}
    buffers = contents(average.buffers()["mean"])
    both.call("averaged", average, m, 20)
    for name, value in wanted.items():
        np.testing.assert_allclose(average[name], value * 0.9**20 + m[name] * (1 - 0.9**20), rtol=1e-5, atol=1e-7)
    assert contents(average.buffers()["mean"]) == buffers
    three, one = both.call("accumulated", m, x, 3), both.call("accumulated", m, x, 1)
    for name in PARAMETERS:
        np.testing.assert_allclose(three[name], one[name], rtol=1e-6)


def test_an_optimiser_written_in_the_language(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    both = Both(tmp_path, MORE)
    program = both.native
    m, state, x = program.Net(seed=1), program.Averages[program.Net](seed=1), numbers(4, 5)
    before, first = m.copy(), both.call("train", m, state, x)
    for _ in range(50):
        last = both.call("train", m, state, x)
    assert last < first and state["steps"] == 51
    assert contents(m["number"]) == contents(before["number"])
    shapescript.save_checkpoint("a.pt", m=m, state=state)
    saved = shapescript.load_checkpoint("a.pt")
    assert {"first.layer.weight", "second.wide.w", "steps"} <= set(saved["state"])
    again = program.Averages[program.Net](seed=2)
    again.load_state_dict(saved["state"])
    assert contents(again) == contents(state)


def test_a_step_of_the_decay(tmp_path: Path) -> None:
    both = Both(tmp_path, MORE)
    program = both.native
    m, state, x = program.Net(seed=1), program.Averages[program.Net](seed=1), numbers(4, 5)
    before = m.copy()
    both.call("train", m, state, x)
    for name, treatment in m.groups().items():
        moved = before[name] - np.sign(state[f"first.{name}"]) * 0.01 * treatment.rate
        wanted = moved - treatment.rate * 0.001 * before[name] * treatment.decay
        np.testing.assert_allclose(m[name], before[name] if treatment.frozen else wanted, rtol=1e-5, atol=1e-6)


def test_whole_models_are_split_before_gradients(tmp_path: Path) -> None:
    path = tmp_path / "program.ss"
    path.write_text(MORE)
    program = check_file(path)
    assert program.module is not None
    names = [op.name for op in walk(compile_entry(program.module, program.functions["train"][0].key, {}, "ir").body)]
    assert "pack" in names and not {"zip_leaves", "fill_leaves", "dot_leaves"} & set(names)
