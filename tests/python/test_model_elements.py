"""Models made for a type of elements, `[F: float = f32]`: their types, their tensors, training, and what Python gives and gets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from both_engines import Both
from torch.func import functional_call

import shapescript
from shapescript.compiler.check.checker import check_file, check_source

PROGRAM = """
import shapescript.std.nn as nn

model Net[F: float = f32]:
    first: nn.Linear[4, 3, F]
    second: nn.Linear[3, 2, F=F]
    buffer steps: int[] = zeros

model Pair:
    plain: Net
    exact: Net[f64]

model Stack[D, F: float, N = 2]:
    layers: nn.Linear[D, D, F] * N

fn forward[F: float](m: Net[F], x: F[b 4]) -> F[b 2]:
    return x |> nn.linear(m.first) |> tanh |> nn.linear(m.second)

fn through[D, N, F: float](m: Stack[D, F, N], x: F[b D]) -> F[b D]:
    mut h = x
    for layer in m.layers:
        h = nn.linear(h, layer)
    return h

fn both(m: Pair, x: [b 4]) -> ([b 2], f64[b 2]):
    return forward(m.plain, x), forward(m.exact, f64(x))

fn fresh(seed: int) -> (Net, Net[f64], Net[F=bf16]):
    return Net(seed=seed), Net[f64](seed=seed), Net[bf16](seed=seed)

fn trained[F: float](mut m: Net[F], x: F[b 4]) -> F[]:
    mut optimiser = Sgd(m)
    l, g = value_and_grad(mean(forward(m, x) ** 2, over=(b, 2)), wrt=m)
    update(mut m, mut optimiser, g, lr=0.5)
    return l
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    return Both(tmp_path_factory.mktemp("elements"), PROGRAM)


def test_tensors_are_of_the_elements(both: Both) -> None:
    program = both.native
    assert {name: array.dtype for name, array in program.Net(seed=1).state_dict().items()} == {
        **dict.fromkeys(("first.bias", "first.weight", "second.bias", "second.weight"), np.float32),
        "steps": np.int64,
    }
    exact, plain = program.Net["f64"](seed=1), program.Net(seed=1, F="f32")
    assert exact["first.weight"].dtype == np.float64
    np.testing.assert_array_equal(exact["first.weight"].astype(np.float32), plain["first.weight"])
    stack = program.Stack[2, "f64", 3](seed=0)
    assert len(stack.state_dict()) == 6
    assert both.native.through(stack, np.ones((1, 2))).dtype == np.float64
    assert str(program.Net) == "Net[F: float = f32]" and str(program.Stack[2, "f64"]) == "Stack[2, f64]"


def test_models_made_in_the_program(both: Both) -> None:
    plain, exact, narrow = both.native.fresh(3)
    assert plain["second.bias"].dtype == np.float32 and exact["second.bias"].dtype == np.float64
    x = np.arange(-4, 4).reshape(2, 4) / 4
    near = both.native.forward(exact, x)
    np.testing.assert_allclose(both.native.forward(plain, x.astype(np.float32)), near, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(both.native.forward(narrow, x.astype(np.float32)), near, rtol=0.05, atol=0.02)


def test_two_elements_in_one_model(both: Both) -> None:
    model = both.native.Pair(seed=2)
    one, other = both.native.both(model, np.ones((1, 4), np.float32))
    assert (one.dtype, other.dtype) == (np.float32, np.float64)


def test_training_in_f64_beside_pytorch(both: Both) -> None:
    x = np.random.default_rng(0).standard_normal((5, 4))
    twin = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2)).double()
    for program in (both.native, both.reference):
        model = program.Net(seed=7, F="f64")
        names = {"first": "0", "second": "2"}
        start = {
            f"{names[n.partition('.')[0]]}.{n.partition('.')[2]}": torch.tensor(a) for n, a in model.state_dict().items() if n != "steps"
        }
        leaves = {name: tensor.requires_grad_() for name, tensor in start.items()}
        loss = (functional_call(twin, leaves, (torch.tensor(x),)) ** 2).mean()
        loss.backward()
        assert program.trained(model, x) == pytest.approx(loss.item(), rel=1e-14)
        for name, leaf in leaves.items():
            own = name.replace("0.", "first.").replace("2.", "second.")
            expected = (leaf - 0.5 * leaf.grad).detach().numpy()
            np.testing.assert_allclose(model[own], expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("element", "code"), [("f16", "R1004"), (3, "R1004"), ("int", "R1004")])
def test_elements_that_there_are_not(both: Both, element: object, code: str) -> None:
    with pytest.raises(shapescript.ArgumentError) as caught:
        both.native.Net(seed=1, F=element)
    assert caught.value.code == code and "'f64'" in caught.value.message


def test_a_model_of_other_elements_is_refused(both: Both) -> None:
    with pytest.raises(shapescript.ArgumentError) as caught:
        both.native.forward(both.native.Net(seed=1, F="f64"), np.ones((1, 4), np.float32))
    assert "Net[F=f64]" in caught.value.message
    with pytest.raises(shapescript.ArgumentError):
        both.native.Stack[2](seed=1)


def test_two_choices_are_two_types() -> None:
    declared = check_source(PROGRAM).models["Net"]
    plain, exact, narrow = declared.variants()
    assert plain == declared.type and len({plain, exact, narrow}) == 3
    assert [str(kind) for kind in (plain, exact, narrow)] == ["Net", "Net[F=f64]", "Net[F=bf16]"]


def test_imported_functions_are_checked_for_what_is_used(tmp_path: Path) -> None:
    (tmp_path / "half.ss").write_text("fn half[F: float](x: F[b]) -> F[b]:\n    return 0.5 * x\n")
    (tmp_path / "main.ss").write_text("import half\n\nfn f(x: f64[b]) -> f64[b]:\n    return half.half(x)\n")
    module = check_file(tmp_path / "main.ss").module
    assert module is not None
    assert sorted(key.rpartition("#")[2] for key in module.functions if ":half#" in key) == ["0.0", "0.1"]
    program = shapescript.load(tmp_path / "main.ss")
    assert program.half.half(np.ones(2)).tolist() == [0.5, 0.5]
    alone = check_file(tmp_path / "half.ss").module
    assert alone is not None and len(alone.functions) == 3


def test_an_imported_function_from_python_for_elements_that_the_program_does_not_use(tmp_path: Path) -> None:
    (tmp_path / "quarter.ss").write_text(
        "fn half[F: float](x: F[b]) -> F[b]:\n    return 0.5 * x\n\nfn quarter[F: float](x: F[b]) -> F[b]:\n    return half(half(x))\n"
    )
    (tmp_path / "main.ss").write_text("import quarter\n\nfn f(x: [b]) -> [b]:\n    return quarter.half(x)\n")
    for engine in ("native", "numpy"):
        found = shapescript.load(tmp_path / "main.ss", engine=engine).quarter.quarter(np.ones(2))
        assert found.dtype == np.float64 and found.tolist() == [0.25, 0.25]
