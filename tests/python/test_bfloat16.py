"""bf16: rounding against PyTorch's, operations against PyTorch's and both engines against each other, models, optimisers, files, Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from both_engines import Both

import shapescript
from shapescript.compiler.numerics.bfloat16 import bits_of_number, to_bfloat16
from shapescript.compiler.numerics.bfloat16_arrays import bits_of, numbers_of
from shapescript.compiler.numerics.evaluation import evaluate
from shapescript.compiler.numerics.scalar import I64, Argument

F32 = np.float32
RNG = np.random.default_rng(7)


def bf16(*shape: int, scale: float = 1.0) -> np.ndarray[Any, Any]:
    return shapescript.bfloat16(RNG.standard_normal(shape).astype(F32) * F32(scale))


def tensor(array: np.ndarray[Any, Any]) -> torch.Tensor:
    return torch.from_numpy(np.array(array)).to(torch.bfloat16)


def places_apart(found: np.ndarray[Any, Any], wanted: torch.Tensor) -> int:
    """The largest distance in units of bf16's last place."""
    ours, theirs = (bits_of(np.asarray(one, F32)).astype(np.int64) for one in (found, wanted.detach().float().numpy()))
    ordered = [np.where(bits >> 15, -(bits & 0x7FFF), bits) for bits in (ours, theirs)]
    return int(np.abs(ordered[0] - ordered[1]).max(initial=0))


# ---- rounding


@pytest.mark.parametrize("low", [0, 1, 0x1234, 0x7FFF, 0x8000, 0x8001, 0xFFFF])
def test_every_upper_half_rounds_as_in_pytorch(low: int) -> None:
    numbers = (np.arange(1 << 16, dtype=np.uint32) << 16 | np.uint32(low)).view(F32)
    wanted = torch.from_numpy(numbers.copy()).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
    is_nan, found = np.isnan(numbers), bits_of(numbers)
    np.testing.assert_array_equal(found[~is_nan], wanted[~is_nan])
    assert (found[is_nan] == 0x7FC0).all()


def test_every_bf16_is_its_f32() -> None:
    every = np.arange(1 << 16, dtype=np.uint16)
    assert numbers_of(every).tobytes() == (every.astype(np.uint32) << 16).tobytes()


def exactly_rounded(number: int) -> float:
    size = abs(number)
    shift = max(size.bit_length() - 8, 0)
    kept, rest = divmod(size, 1 << shift)
    kept += 2 * rest > 1 << shift or (shift > 0 and 2 * rest == 1 << shift and kept % 2 == 1)
    return float(kept << shift) * (-1 if number < 0 else 1)


def test_integers_and_f64_round_once() -> None:
    tie = 2**62 + 2**54
    integers = np.array([0, 1, -1, 257, tie, tie + 1, tie - 1, -tie - 1, 2**40 + 2**32 + 1, 2**63 - 1, -(2**63)], np.int64)
    integers = np.concatenate([integers, RNG.integers(-(2**63), 2**63 - 1, 2000)])
    found = numbers_of(evaluate(to_bfloat16(Argument(0, I64)), [integers]))
    np.testing.assert_array_equal(found, [exactly_rounded(int(number)) for number in integers])
    floats = np.array([1 + 2**-8 + 2**-40, 1 + 2**-8, 1 + 2**-8 - 2**-40, 1 + 3 * 2**-8, -0.0, 1e300, 3.39e38, 1e-45, np.inf, np.nan])
    wanted = np.array([1 + 2**-7, 1.0, 1.0, 1 + 2**-6, -0.0, np.inf, 3.3895313892515355e38, 0.0, np.inf, np.nan], F32)
    assert numbers_of(bits_of(floats)).tobytes() == wanted.tobytes()
    floats = RNG.standard_normal(3000) * 10.0 ** RNG.integers(-45, 40, 3000)
    assert bits_of(floats).tolist() == [bits_of_number(number) for number in floats]


# ---- operations

ONE_ROUNDING = {  # where PyTorch rounds once as well, and the f32 operation is exact or IEEE's
    "x + y": lambda x, y: x + y,
    "x - y": lambda x, y: x - y,
    "x * y": lambda x, y: x * y,
    "x / y": lambda x, y: x / y,
    "-x": lambda x, y: -x,
    "abs(x)": lambda x, y: abs(x),
    "sqrt(abs(x))": lambda x, y: abs(x).sqrt(),
    "relu(x)": lambda x, y: x.relu(),
    "minimum(x, y)": torch.minimum,
    "maximum(x, y)": torch.maximum,
    "floor(x)": lambda x, y: x.floor(),
    "where(x > y, x, y)": lambda x, y: torch.where(x > y, x, y),
    "x * 0.1": lambda x, y: x * torch.tensor(0.1, dtype=torch.bfloat16),
    "sort(x, over=D)": lambda x, y: x.sort(dim=1).values,
    "stack(x, y, over=2) |> max(over=2)": torch.maximum,
    "bf16(f32(x) * f32(y) + f32(x))": lambda x, y: (x.float() * y.float() + x.float()).to(torch.bfloat16),
    "bf16(f64(x) * 3.0)": lambda x, y: (x.double() * 3.0).to(torch.bfloat16),
}
NEARLY = {  # to one place: the functions themselves differ in the last bits of f32
    "exp(x)": lambda x, y: x.exp(),
    "log(abs(x))": lambda x, y: abs(x).log(),
    "tanh(x)": lambda x, y: x.tanh(),
    "sigmoid(x)": lambda x, y: x.sigmoid(),
    "gelu(x)": lambda x, y: torch.nn.functional.gelu(x.double()).float().to(torch.bfloat16),
    "sin(x)": lambda x, y: x.sin(),
    "softmax(x, over=D)": lambda x, y: x.softmax(1),
    "log_softmax(x, over=D)": lambda x, y: x.log_softmax(1),
    "x - mean(x, over=D)": lambda x, y: x - x.mean(1, keepdim=True),
    "x * sum(y, over=D)": lambda x, y: x * y.sum(1, keepdim=True),
}


def test_operations_agree_with_pytorch_and_both_engines(tmp_path: Path) -> None:
    cases = [*((text, rule, 0) for text, rule in ONE_ROUNDING.items()), *((text, rule, 1) for text, rule in NEARLY.items())]
    lines = [f"fn f{place}(x: bf16[b D], y: bf16[b D]) -> bf16[b D]:\n    return {text}\n" for place, (text, _, _) in enumerate(cases)]
    both = Both(tmp_path, "dim D = 37\n\n" + "\n".join(lines))
    x, y = bf16(5, 37, scale=2.0), bf16(5, 37, scale=2.0)
    for place, (text, rule, most) in enumerate(cases):
        assert places_apart(both.call(f"f{place}", x, y), rule(tensor(x), tensor(y))) <= most, text


def test_a_chain_rounds_after_each_operation(tmp_path: Path) -> None:
    both = Both(tmp_path, "fn f(x: bf16[b], y: bf16[b], z: bf16[b]) -> bf16[b]:\n    return exp(x * y + z) * 0.5\n")
    x, y, z = bf16(1000), bf16(1000), bf16(1000)
    inner = shapescript.bfloat16(shapescript.bfloat16(x * y) + z)
    wanted = torch.from_numpy(inner).double().exp().float().to(torch.bfloat16) * 0.5
    assert places_apart(both.call("f", x, y, z), wanted) <= 1


def test_sums_are_in_f32(tmp_path: Path) -> None:
    program = """
fn product(x: bf16[a k], y: bf16[k c]) -> bf16[a c]:
    return x @ y

fn total(x: bf16[n]) -> bf16[]:
    return sum(x, over=n)
"""
    both = Both(tmp_path, program)
    ones = np.ones(5000, F32)
    assert both.call("total", ones) == 4992.0  # 5000, rounded once; a sum in bf16 stays at 256
    for depth in (0, 1, 70, 4100):
        x, y = bf16(3, depth), bf16(depth, 5)
        wanted = (torch.from_numpy(x).double() @ torch.from_numpy(y).double()).float().to(torch.bfloat16)
        assert places_apart(both.call("product", x, y), wanted) <= 1


def test_what_moves_elements_keeps_their_bits(tmp_path: Path) -> None:
    program = """
dim D = 7
dim K = 3

fn moved(x: bf16[b D], index: int[n]) -> (bf16[D b], bf16[n D], bf16[b 3], bf16[b D], bf16[2*b D]):
    return rearrange(x: b D -> D b), gather(x, index, over=b), x[D=1..4], where(x > 0, x, -x), concat(x, x, over=b)

fn added(x: bf16[b D], rows: bf16[n D], index: int[n]) -> bf16[b D]:
    return scatter_add(x, rows, index, over=b)
"""
    both = Both(tmp_path, program)
    x, index = bf16(5, 7), np.array([4, 0, 0, 2])
    turned, rows, part, chosen, twice = both.call("moved", x, index)
    np.testing.assert_array_equal(turned, x.T)
    np.testing.assert_array_equal(rows, x[index])
    np.testing.assert_array_equal(part, x[:, 1:4])
    np.testing.assert_array_equal(chosen, abs(x))
    np.testing.assert_array_equal(twice, np.concatenate([x, x]))
    wanted = x.copy()
    for place, row in zip(index, rows, strict=True):
        wanted[place] += row
    np.testing.assert_array_equal(both.call("added", x, rows, index), shapescript.bfloat16(wanted))


def test_gradients_are_computed_in_f32_and_rounded_once(tmp_path: Path) -> None:
    program = """
dim D = 11

fn f(x: bf16[b D], w: bf16[D]) -> bf16[]:
    return mean(tanh(x * w) ** 2, over=(b, D))

fn slope(x: bf16[b D], w: bf16[D]) -> (bf16[b D], bf16[]):
    l, g = value_and_grad(f(x, w), wrt=x)
    return g, l

fn one(x: bf16[b D]) -> bf16[b D]:
    l, g = value_and_grad(sum(tanh(x), over=(b, D)), wrt=x)
    return g
"""
    both = Both(tmp_path, program)
    x, w = bf16(4, 11), bf16(11)
    found, _ = both.call("slope", x, w)
    rounded = shapescript.bfloat16
    tanh = np.tanh(rounded(x * w).astype(np.float64)).astype(F32)
    arriving = 2 * rounded(rounded(F32([1 / 44])) * rounded(tanh))  # of the square's two factors, which are one
    inner = rounded(arriving * (1 - tanh * tanh))
    assert places_apart(found, tensor(rounded(inner * w))) <= 1
    exact = 1 - np.tanh(x.astype(np.float64)) ** 2
    assert places_apart(both.call("one", x), torch.from_numpy(exact.astype(F32)).to(torch.bfloat16)) <= 1


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
