"""bf16: rounding and operations against PyTorch's, and both engines against each other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from bfloat16_samples import F32, RNG, bf16, places_apart, tensor
from both_engines import Both

import shapescript
from shapescript.compiler.numerics.bfloat16 import bits_of_number, to_bfloat16
from shapescript.compiler.numerics.bfloat16_arrays import bits_of, numbers_of
from shapescript.compiler.numerics.evaluation import evaluate
from shapescript.compiler.numerics.scalar import I64, Argument

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
