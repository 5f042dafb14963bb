"""Dims in brackets, in order and by name, with defaults: of models, of functions, and from Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import shapescript
from shapescript.compiler.check.checker import check_source
from shapescript.engines import EngineName

PROGRAM = """
dim Wide = 6

model Step[D, Stride = 2, Rest = D-Stride]:
    w: [D Rest] = uniform(-1/sqrt(D), 1/sqrt(D))

model Pair[M: model, Times = 1]:
    inner: M
    gain: [Times] = ones

model Net:
    first: Step[Wide, Rest=1]
    steps: Step[4, 1] * 2
    all: Pair[Step[3, Rest=2], Times=2]

fn shape[D, Stride, Rest](m: Step[D, Stride, Rest], x: [n D]) -> [n//Stride Rest]:
    return zeros[n//Stride Rest] + Stride

fn every_other(m: Net, x: [n Wide]) -> [n//2 1]:
    return shape(m.first, x)

fn wanted(m: Step[4, 1, 3]) -> [4 3]:
    return m.w

fn made(seed: int) -> Step[Wide, 2, 1]:
    return Step[Wide, Rest=1](seed=seed)

fn pool[K, Stride = K, More = K-Stride](x: [n]) -> [(n-K)//Stride+1+More]:
    return zeros[(n-K)//Stride+1+More] + K

fn two(x: [n]) -> [n//2]:
    return x |> pool[2]

fn three(x: [n]) -> [n-1]:
    return pool[3, Stride=1, More=1](x)

fn named(x: [n]) -> [(n-3)//2+2]:
    return pool[Stride=2, K=3](x)

fn with_default[D = 3](x: [n]) -> [n D]:
    return zeros[n D] + D

fn three_columns(x: [n]) -> [n 3]:
    return with_default(x)

fn sliced[K, S = 1](x: [n*S], like: [n K]) -> [n]:
    return zeros[n] + S

fn by_one(x: [n], like: [n 3]) -> [n]:
    return sliced(x, like)
"""


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


@pytest.fixture(params=get_args(EngineName))
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    path = tmp_path / "program.ss"
    path.write_text(PROGRAM)
    return shapescript.load(path, engine=request.param)


def refused(call: Callable[[], Any], code: str) -> str:
    with pytest.raises(shapescript.ShapeScriptError) as raised:
        call()
    assert code in str(raised.value)
    return str(raised.value)


# ---- models


def test_defaults_follow_from_the_dims_before(program: Any) -> None:
    net = program.Net(seed=1)
    shapes = {name: net[name].shape for name in net.state_dict()}
    assert shapes == {
        "first.w": (6, 1),
        "steps.0.w": (4, 3),
        "steps.1.w": (4, 3),
        "all.inner.w": (3, 2),
        "all.gain": (2,),
    }
    assert program.made(1)["w"].shape == (6, 1)


def test_python_gives_dims_in_order_and_by_name(program: Any) -> None:
    for model in (
        program.Step[5](seed=1),
        program.Step[5, 2](seed=1),
        program.Step[5, 2, 3](seed=1),
        program.Step(seed=1, D=5),
        program.Step[5](seed=1, Rest=3),
    ):
        assert model["w"].shape == (5, 3)
    assert program.Step[5](seed=1, Stride=4)["w"].shape == (5, 1)
    assert program.Pair[program.Step[3]](seed=1, Times=3)["gain"].shape == (3,)


def test_factories_read_as_programs_write_them(program: Any) -> None:
    assert str(program.Step) == "Step[D, Stride = 2, Rest = D-Stride]"
    assert str(program.Step[5]) == "Step[5]"
    assert str(program.Step[5, 1]) == "Step[5, 1]"
    assert repr(program.Net) == "<model Net>"


def test_python_refuses_other_dims(program: Any) -> None:
    refused(lambda: program.Step(seed=1), "R1005")
    refused(lambda: program.Step[1, 2, 3, 4], "R1005: Step takes 3 in brackets: Step[D, Stride = 2, Rest = D-Stride]; got 4")
    assert "did you mean 'Stride'?" in refused(lambda: program.Step[5](seed=1, stride=1), "R1005")
    refused(lambda: program.Step[5](seed=1, D=5), "R1005: Step: D is given twice")
    refused(lambda: program.Step[1](seed=1), "R1003")
    refused(lambda: program.Step["5"](seed=1), "R1004")


def test_dims_that_no_tensor_shows_are_kept(program: Any) -> None:
    """A stride is in no shape: it goes with the model."""
    x = zeros(7, 5)
    for stride in (1, 2, 3):
        found = program.shape(program.Step[5, stride, 2](seed=1), x)
        np.testing.assert_array_equal(found, np.full((7 // stride, 2), stride))
    np.testing.assert_array_equal(program.every_other(program.Net(seed=1), zeros(5, 6)), np.full((2, 1), 2))
    assert program.wanted(program.Step[4, 1](seed=1)).shape == (4, 3)
    text = refused(lambda: program.wanted(program.Step[4, 2, 3](seed=1)), "R1002")
    assert "expected a model Step[4, 1, 3], got Step[4, 2, 3]" in text


# ---- functions


def test_functions_take_dims_that_no_argument_shows(program: Any) -> None:
    np.testing.assert_array_equal(program.two(zeros(7)), np.full(3, 2))
    np.testing.assert_array_equal(program.three(zeros(7)), np.full(6, 3))
    np.testing.assert_array_equal(program.named(zeros(7)), np.full(4, 3))


def test_a_dim_without_brackets_has_its_default(program: Any) -> None:
    np.testing.assert_array_equal(program.three_columns(zeros(2)), np.full((2, 3), 3))
    np.testing.assert_array_equal(program.with_default(zeros(2)), np.full((2, 3), 3))
    np.testing.assert_array_equal(program.by_one(zeros(4), zeros(4, 3)), np.ones(4))
    np.testing.assert_array_equal(program.sliced(zeros(4), zeros(4, 3)), np.ones(4))
    refused(lambda: program.pool(zeros(3)), "R1003: pool: K can't be told from the arguments")


def test_signatures_show_defaults(program: Any) -> None:
    assert program.pool.__doc__ == "fn pool[K, Stride = K, More = K-Stride](x: [n]) -> [(n-K)//Stride+More+1]"


WITH_PADDING = """
fn padded[K, P](x: [b n], like: [K P]) -> [b n+2*P-K+1]:
    return zeros[b n+2*P-K+1]

fn added(x: [b rows], like: [3 1]) -> [b rows]:
    return x + padded(x, like)

fn rearranged(y: [2*b], like: [3 1]) -> [b]:
    x = rearrange(y: (b i) -> b i)
    return sum(x + padded(x, like), over=i)
"""


def test_arithmetic_that_comes_to_an_axis_is_that_axis() -> None:
    """By the dims alone, whatever the axis's size: it keeps its name too."""
    assert check_source(WITH_PADDING).diagnostics == ()
    apart = WITH_PADDING.replace("y: [2*b], like: [3 1]", "y: [2*b], like: [4 1]")
    assert [d.code for d in check_source(apart).diagnostics] == ["E0401"]
