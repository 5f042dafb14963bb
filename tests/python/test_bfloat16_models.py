"""Models, optimisers and files of bf16, and bf16 in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bfloat16_samples import F32, RNG, bf16, places_apart, tensor
from both_engines import Both

import shapescript

# ---- models and optimisers

NET = """
dim D = 13
dim H = 33
dim C = 3

data Point:
    x: bf16[D]
    label: int

model Net:
    bias: bf16[H] = zeros
    gain: [H] = ones
    output: bf16[C H] = normal(0.0, 0.3)
    wide: f64[C] = zeros
    weight: bf16[H D] = uniform(-0.3, 0.3)
    buffer seen: bf16[] = zeros

fn logits(m: Net, x: bf16[b D]) -> bf16[b C]:
    h = relu(einsum(x, m.weight: b D, H D -> b H) + m.bias) * bf16(m.gain)
    return einsum(h, m.output: b H, C H -> b C) + bf16(m.wide)

fn loss(m: Net, batch: Point[b]) -> bf16[]:
    return cross_entropy(logits(m, batch.x), batch.label)

fn step(mut m: Net, mut opt: AdamW[Net], batch: Point[b], lr: float) -> (bf16[], float):
    l, mut g = value_and_grad(loss(m, batch), wrt=m)
    norm = clip_norm(mut g, 1.0)
    update(mut m, mut opt, g, lr=lr)
    m.seen = m.seen + 1
    return l, norm

fn descend(mut m: Net, mut opt: Sgd[Net], batch: Point[b], lr: float) -> bf16[]:
    l, g = value_and_grad(loss(m, batch), wrt=m)
    update(mut m, mut opt, g, lr=lr)
    return l

fn epoch(mut m: Net, mut opt: AdamW[Net], points: Dataset[Point], lr: float) -> float:
    mut total = 0.0
    for batch in points |> shuffle(0) |> batches(16):
        l, g = value_and_grad(loss(m, batch), wrt=m)
        update(mut m, mut opt, g, lr=lr)
        total = total + float(l)
    return total

fn gradient(m: Net, batch: Point[b]) -> Net:
    l, g = value_and_grad(loss(m, batch), wrt=m)
    return g

fn keep(m: Net, opt: AdamW[Net], path: str):
    save(path, m=m, opt=opt, weight=m.weight, seen=m.seen)

fn back(path: str) -> (Net, AdamW[Net], bf16[H D], bf16[]):
    m, opt, weight, seen = load(path, m=Net, opt=AdamW[Net], weight=bf16[H D], seen=bf16[])
    return m, opt, weight, seen

fn same(batch: Point[b]) -> Point[b]:
    return batch
"""
NAMES = ("bias", "gain", "output", "wide", "weight")


def points() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return bf16(40, 13), RNG.integers(0, 3, 40)


def pytorch_loss(p: dict[str, torch.Tensor], x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    h = (x @ p["weight"].T + p["bias"]).relu() * p["gain"].to(torch.bfloat16)
    return torch.nn.functional.cross_entropy(h @ p["output"].T + p["wide"].to(torch.bfloat16), label)


def parameters_of(m: Any) -> dict[str, torch.Tensor]:
    types = {"gain": torch.float32, "wide": torch.float64}
    return {name: torch.from_numpy(np.array(m[name])).to(types.get(name, torch.bfloat16)) for name in NAMES}


def test_starts_are_those_of_f32_rounded(tmp_path: Path) -> None:
    rounded, plain = Both(tmp_path, NET).native, tmp_path / "plain.ss"
    plain.write_text(NET.replace("bf16", "f32"))
    m, wide = rounded.Net(seed=3), shapescript.load(plain).Net(seed=3)
    for name in ("weight", "output", "bias"):
        assert m[name].tobytes() == shapescript.bfloat16(wide[name]).tobytes() and m[name].dtype == F32


def test_training_agrees_with_pytorch(tmp_path: Path) -> None:
    both = Both(tmp_path, NET)
    x, label = points()
    m, opt = both.native.Net(seed=1), None
    p = parameters_of(m)
    opt = shapescript.Sgd(m)
    batch = both.native.Point.batch(x=x, label=label)
    ours, theirs = [], []
    for _ in range(50):
        ours.append(both.native.descend(m, opt, batch, 0.1))
        for one in p.values():
            one.requires_grad_()
            one.grad = None
        wanted = pytorch_loss(p, tensor(x), torch.from_numpy(label))
        wanted.backward()
        theirs.append(wanted.item())
        with torch.no_grad():
            for name, one in p.items():
                assert one.grad is not None
                wide = one if one.dtype == torch.float64 else one.float()
                p[name] = (wide - 0.1 * one.grad.to(wide.dtype)).to(one.dtype)
    assert ours[-1] < 0.6 * ours[0]
    np.testing.assert_allclose(ours, theirs, rtol=0.02)
    for name, one in p.items():
        np.testing.assert_allclose(m[name], one.detach().double().numpy(), rtol=0.02, atol=0.02)


def test_an_update_is_in_f32_and_rounded_once(tmp_path: Path) -> None:
    both = Both(tmp_path, NET)
    x, label = points()
    m = both.native.Net(seed=1)
    opt, batch = shapescript.AdamW(m), both.native.Point.batch(x=x, label=label)
    slots: dict[str, Any] = {}
    for step in range(1, 6):
        g, before = both.native.gradient(m, batch), {name: np.array(m[name], np.float64) for name in NAMES}
        both.native.step(m, opt, batch, 1e-2)
        norm = np.sqrt(sum((np.array(g[name], np.float64) ** 2).sum() for name in NAMES))
        for name in NAMES:
            gradient = np.array(g[name], np.float64) * min(1.0, 1.0 / (norm + 1e-6))
            first, second = slots.get(name, (0.0, 0.0))
            first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
            slots[name] = first, second
            moved = first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
            wanted = before[name] * (1 - 1e-2 * 0.01) - 1e-2 * moved
            if name in ("gain", "wide"):
                np.testing.assert_allclose(m[name], wanted, rtol=1e-4)
            else:
                assert places_apart(m[name], torch.from_numpy(wanted.astype(F32)).to(torch.bfloat16)) <= 1
            assert opt.moment("first", name).dtype == (np.float64 if name == "wide" else F32)
            np.testing.assert_allclose(opt.moment("first", name), first, rtol=2e-2, atol=1e-4)


def test_both_engines_train_alike(tmp_path: Path) -> None:
    both, found = Both(tmp_path, NET), []
    x, label = points()
    for program in (both.native, both.reference):
        m = program.Net(seed=1)
        opt = shapescript.AdamW(m, amsgrad=True)
        losses = [program.step(m, opt, program.Point.batch(x=x, label=label), 1e-2) for _ in range(4)]
        total = program.epoch(m, opt, program.Point.dataset(x=x, label=label), 1e-2)
        found.append((losses, total, m.buffer.tobytes(), [opt.slot(name).tobytes() for name in opt.slot_names]))
        assert m.seen == 4.0
    assert found[0] == found[1]


# ---- files


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_checkpoints_hold_bf16(tmp_path: Path, engine: str) -> None:
    program = getattr(Both(tmp_path, NET), engine)
    x, label = points()
    m = program.Net(seed=1)
    opt, path = shapescript.AdamW(m), str(tmp_path / "net.pt")
    program.step(m, opt, program.Point.batch(x=x, label=label), 1e-2)
    program.keep(m, opt, path)
    saved = torch.load(path, weights_only=True)
    assert saved["weight"].dtype == saved["m"]["weight"].dtype == torch.bfloat16 and saved["m"]["gain"].dtype == torch.float32
    assert saved["opt"]["first"]["weight"].dtype == torch.float32
    np.testing.assert_array_equal(saved["m"]["weight"].float().numpy(), m.weight)
    again, state, weight, seen = program.back(path)
    assert again.buffer.tobytes() == m.buffer.tobytes() and state.slot("second").tobytes() == opt.slot("second").tobytes()
    assert seen == 1.0 and weight.tobytes() == m.weight.tobytes()
    assert shapescript.load_checkpoint(path)["m"]["weight"].dtype == F32
    saved["m"]["weight"] = saved["m"]["weight"] * 2
    torch.save(saved["m"], path)
    fresh = program.Net(seed=5)
    fresh.load_state_dict(torch.load(path, weights_only=True))
    np.testing.assert_array_equal(fresh.weight, 2 * np.array(m.weight))
    torch.save({"weight": saved["m"]["weight"].float()}, path)
    with pytest.raises(shapescript.CheckpointError) as raised:
        program.back(path)
    assert raised.value.code == "R1303"


# ---- Python


def test_what_python_gives_and_takes(tmp_path: Path) -> None:
    both = Both(tmp_path, NET + "\nfn twice(x: bf16[n], s: bf16[]) -> (bf16[n], bf16[]):\n    return x * 2 + s, s\n")
    x = bf16(6)
    wanted, s = both.call("twice", x, 0.1)
    assert s == 0.10009765625 and wanted.dtype == F32
    given, _ = both.native.twice(tensor(x), F32(s))
    assert given.tobytes() == wanted.tobytes()
    pairs, label = points()
    batch = both.native.same(both.native.Point.batch(x=tensor(pairs), label=label))
    assert batch.x.tobytes() == batch.arrays["x"].tobytes() == pairs.tobytes()
    assert both.native.Point.dataset(x=pairs, label=label).all.x.tobytes() == pairs.tobytes()
    m = both.native.Net(seed=1)
    m.bias = tensor(bf16(33))
    m.load_state_dict(m.state_dict())


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (np.array([0.1], F32), "R1001"),
        (np.array([0.5]), "R1001"),
        (np.array([1], np.uint16), "R1001"),
        (torch.tensor([0.1]), "R1001"),
        (torch.zeros(1, dtype=torch.bfloat16, requires_grad=True), "R1006"),
        ([0.5], "R1004"),
    ],
)
def test_what_is_no_bf16_is_refused(tmp_path: Path, value: object, code: str) -> None:
    native = Both(tmp_path, NET + "\nfn twice(x: bf16[n]) -> bf16[n]:\n    return x * 2\n").native
    with pytest.raises(shapescript.ArgumentError) as raised:
        native.twice(value)
    assert raised.value.code == code


def test_a_float32_array_cannot_be_changed_as_bf16(tmp_path: Path) -> None:
    native = Both(tmp_path, "fn f(mut x: bf16[n]):\n    x = x * 2\n").native
    with pytest.raises(shapescript.ArgumentError, match="ml_dtypes") as raised:
        native.f(np.ones(3, F32))
    assert raised.value.code == "R1001"


def test_rounding_takes_floats_alone() -> None:
    assert shapescript.bfloat16(np.array([1 + 2**-8 + 2**-40])).tolist() == [1 + 2**-7]
    assert shapescript.bfloat16(torch.ones(2, dtype=torch.bfloat16)).tolist() == [1.0, 1.0]
    with pytest.raises(shapescript.ArgumentError, match="int64"):
        shapescript.bfloat16(np.arange(3))
