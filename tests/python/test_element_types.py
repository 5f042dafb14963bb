"""Element types throughout: what f64 is taken for, from starts to checkpoints, and which operations take which elements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from both_engines import Both

import shapescript
from shapescript.compiler.check.checker import check_file
from shapescript.compiler.check.program import Program as CheckedProgram
from shapescript.compiler.numerics.random import start_normal, start_uniform
from shapescript.compiler.numerics.scalar import F64

RNG = np.random.default_rng(11)

WIDE = """
dim D = 6
dim C = 3

data Sample:
    x: f64[D]
    keep: bool[D]
    label: int
    ids: int[2]

model Net:
    weight: f64[C D] = uniform(-1/sqrt(D), 1/sqrt(D))
    bias: f64[C] = normal(0.1, 0.5)
    buffer seen: int[] = zeros
    buffer mask: bool[C] = true
    buffer mean: f64[D] = ones

fn logits(m: Net, x: f64[b D]) -> f64[b C]:
    return einsum(x - m.mean, m.weight: b D, C D -> b C) + m.bias

fn loss(m: Net, batch: Sample[b]) -> f64[]:
    return logits(m, where(batch.keep, batch.x, 0.0)) |> cross_entropy(batch.label)

fn step(mut m: Net, mut opt: OPT[Net], batch: Sample[b], lr: float) -> f64[]:
    l, mut g = value_and_grad(loss(m, batch), wrt=m)
    clip_norm(mut g, 1e9)
    update(mut m, mut opt, g, lr=lr)
    m.seen = m.seen + b
    return l

fn train(mut m: Net, mut opt: OPT[Net], samples: Dataset[Sample]) -> float:
    mut total = 0.0
    for batch in samples |> shuffle(1) |> batches(7):
        l, g = value_and_grad(loss(m, batch), wrt=m)
        update(mut m, mut opt, g, lr=1e-2)
        total = total + float(l) + float(sum(batch.ids, over=(batch, 2)))
    return total

fn keep(m: Net, opt: OPT[Net], path: str):
    save(path, m=m, opt=opt, bias=m.bias, mask=m.mask)

fn back(path: str) -> (Net, OPT[Net], f64[C], bool[C]):
    m, opt, bias, mask = load(path, m=Net, opt=OPT[Net], bias=f64[C], mask=bool[C])
    return m, opt, bias, mask

fn dropped(x: f64[b D], mode: Mode) -> f64[b D]:
    return dropout(x, 0.4, mode)

fn chosen(logits: f64[b C], mode: Mode) -> int[b]:
    return categorical(logits, mode, over=C)
"""
OPTIMISERS = {"Sgd": torch.optim.SGD, "Adam": torch.optim.Adam, "AdamW": torch.optim.AdamW}


def samples(count: int = 20) -> dict[str, np.ndarray[Any, Any]]:
    return {
        "x": RNG.standard_normal((count, 6)),
        "keep": RNG.random((count, 6)) < 0.7,
        "label": RNG.integers(0, 3, count),
        "ids": RNG.integers(-5, 5, (count, 2)),
    }


@pytest.mark.parametrize("kind", list(OPTIMISERS))
def test_f64_is_trained_as_in_pytorch(tmp_path: Path, kind: str) -> None:
    both, data = Both(tmp_path, WIDE.replace("OPT", kind)), samples()
    given = {"momentum": 0.9} if kind == "Sgd" else {}
    found = []
    for program in (both.native, both.reference):
        m = program.Net(seed=4)
        opt = getattr(shapescript, kind)(m, **given)
        p = {name: torch.from_numpy(np.array(m[name])).requires_grad_() for name in ("weight", "bias")}
        theirs = OPTIMISERS[kind](p.values(), lr=1e-2, **given)
        x = torch.from_numpy(np.where(data["keep"], data["x"], 0.0)) - 1.0
        for _ in range(5):
            ours = program.step(m, opt, program.Sample.batch(**data), 1e-2)
            theirs.zero_grad()
            wanted = torch.nn.functional.cross_entropy(x @ p["weight"].T + p["bias"], torch.from_numpy(data["label"]))
            wanted.backward()
            theirs.step()
            assert ours == pytest.approx(wanted.item(), rel=1e-13)
        for name, one in p.items():
            assert m[name].dtype == np.float64
            np.testing.assert_allclose(m[name], one.detach().numpy(), rtol=1e-11)
        total = program.train(m, opt, program.Sample.dataset(**data))
        assert m.seen == 100 and m.mask.all()
        path = str(tmp_path / f"{len(found)}.pt")
        program.keep(m, opt, path)
        again, state, bias, mask = program.back(path)
        assert again.buffer.tobytes() == m.buffer.tobytes() and [state.slot(name).tobytes() for name in state.slot_names] == [
            opt.slot(name).tobytes() for name in opt.slot_names
        ]
        assert bias.tobytes() == m.bias.tobytes() and mask.dtype == np.bool_
        assert torch.load(path, weights_only=True)["m"]["weight"].dtype == torch.float64
        found.append((total, m.buffer.tobytes()))
    assert found[0] == found[1]


def test_f64_starts_are_drawn_in_f64(tmp_path: Path) -> None:
    m = Both(tmp_path, WIDE.replace("OPT", "Sgd")).native.Net(seed=9)
    bound = 1 / np.sqrt(6)
    assert m.weight.tobytes() == start_uniform(9, "weight", 18, -bound, bound, kind=F64).tobytes()
    assert m.bias.tobytes() == start_normal(9, "bias", 3, 0.1, 0.5, kind=F64).tobytes()
    assert (m.weight != m.weight.astype(np.float32)).any()


def test_f64_is_dropped_and_drawn_from(tmp_path: Path) -> None:
    both = Both(tmp_path, WIDE.replace("OPT", "Sgd"))
    x = RNG.standard_normal((50, 6))
    found = both.call("dropped", x, shapescript.Train(seed=3))
    kept = found != 0
    assert 0.4 < kept.mean() < 0.8
    np.testing.assert_array_equal(found[kept], (x * np.float64(np.float32(1 / 0.6)))[kept])
    logits = np.log(np.tile([0.2, 0.5, 0.3], (4000, 1)))
    drawn = both.call("chosen", logits, shapescript.Train(seed=3))
    np.testing.assert_allclose(np.bincount(drawn) / 4000, [0.2, 0.5, 0.3], atol=0.03)


# ---- which operations take which elements

FLOATS, NUMBERS, ANY = "f32 f64 bf16", "f32 f64 bf16 int", "f32 f64 bf16 int bool"
TAKES = {
    **dict.fromkeys(("x + x", "x - x", "x * x", "-x", "x + 1", "x ** 2", "abs(x)", "sign(x)", "minimum(x, x)", "clamp(x, 0, 1)"), NUMBERS),
    **dict.fromkeys(("x / x", "x ** -1", "x * 0.5", "exp(x)", "log(x)", "sqrt(x)", "tanh(x)", "relu(x)", "gelu(x)", "floor(x)"), FLOATS),
    **dict.fromkeys(("pow(x, x)", "softmax(x, over=D)", "log_softmax(x, over=D)", "x - mean(x, over=D)"), FLOATS),
    **dict.fromkeys(("x - variance(x, over=D)", "x - logsumexp(x, over=D)", "dropout(x, 0.5, Eval)"), FLOATS),
    **dict.fromkeys(("x + sum(x, over=D)", "x + max(x, over=D)", "cumsum(x, over=D)", "sort(x, over=D)"), NUMBERS),
    **dict.fromkeys(("x // x", "x % x"), "int"),
    **dict.fromkeys(("x & x", "x | x"), "bool"),
    **dict.fromkeys(("where(x == x, x, x)", "rearrange(x: b D -> b D)", "stop_gradient(x)", "x[b=0..b]"), ANY),
    "pick(stack(x, x, over=2), int(zeros[b D]), over=2)": ANY,
    "scatter_add(x, x, arange[b], over=b)": NUMBERS,
    "einsum(x, x: b D, b D -> b D)": FLOATS,
}


def checked(tmp_path: Path, text: str) -> CheckedProgram:
    path = tmp_path / "one.ss"
    path.write_text(text)

    return check_file(path)


@pytest.mark.parametrize("expression", list(TAKES))
def test_operations_take_these_elements_and_no_others(tmp_path: Path, expression: str) -> None:
    for element in ANY.split():
        kind = f"{'' if element == 'f32' else element}[b D]"
        program = checked(tmp_path, f"dim D = 3\n\nfn f(x: {kind}) -> {kind}:\n    return {expression}\n")
        if element in TAKES[expression].split():
            assert program.diagnostics == (), element
        else:
            assert program.diagnostics and all(one.code.startswith("E") for one in program.diagnostics), element
