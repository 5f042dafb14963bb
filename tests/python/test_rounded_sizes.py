"""Sizes with quotients, rounded down or exact: one normal form, the same numbers as Python's `//`, checked in a run like other sizes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shapescript
from shapescript.compiler.check.checker import check_source
from shapescript.compiler.diagnostics.model import CompileError
from shapescript.compiler.ir.sizes import ONE, InexactDivision, Size, Symbol, dim, evaluate, fresh, number, of
from shapescript.engines import EngineName

SYMBOLS = tuple(fresh(name) for name in "hwKS")
h, w, K, S = map(of, SYMBOLS)
D = of(dim("D", 7))


def test_equal_quotients_are_equal_sizes() -> None:
    two, three = number(2), number(3)
    assert (h - two) // two + ONE == h // two
    assert (two * h + three) // two == h + ONE
    assert (h * S + w) // S == h + w // S
    assert (number(4) * h + three) // number(6) == (two * h + ONE) // three
    assert h // two // three == h // number(6) == h // three // two
    assert (h // two + ONE) // two == (h + two) // number(4)
    assert h // ONE == h and (h - h) // two == number(0)
    assert number(7) // two == three and number(-7) // two == number(-4)
    assert h // two != h / two and (h // two) * two != h
    assert (h + two * ONE - three) // S + ONE != (h + two) // S


def test_they_read_as_one_would_write_them() -> None:
    two = number(2)
    assert str((h + two * K - w) // S + ONE) == "(h+2*K-w)//S+1"
    assert str((h - ONE) // two + ONE) == "(h+1)//2"
    assert str((h - number(3)) // two) == "(h-3)//2"
    assert str((h - K) // two + ONE) == "(h-K)//2+1"
    assert str(two * (h // two)) == "2*(h//2)"
    assert str((h // S) * w) == "(h//S)*w"
    assert str(D // two) == "D//2" and (D // two).constant() == 3


def test_a_known_divisor_of_nothing_is_an_error() -> None:
    with pytest.raises(ZeroDivisionError):
        h // number(0)
    with pytest.raises(InexactDivision, match="7 is divided by -2"):
        D // number(-2)
    with pytest.raises(InexactDivision, match="3 is divided by 0"):
        evaluate(h // w, {SYMBOLS[0]: 3, SYMBOLS[1]: 0}.get)
    with pytest.raises(ZeroDivisionError):
        (h // w).substitute({SYMBOLS[1]: number(0)})


Values = dict[Symbol, int]
Meaning = Callable[[Values], int]


@st.composite
def meant_sizes(draw: Any, depth: int = 4) -> tuple[Size, Meaning]:
    """A size, and what it means by Python's arithmetic: ValueError where a divisor isn't above 0."""
    if depth == 0 or draw(st.booleans()):
        if draw(st.booleans()):
            symbol = draw(st.sampled_from(SYMBOLS))
            return of(symbol), lambda values: values[symbol]
        value = draw(st.integers(-3, 8))
        return number(value), lambda values: value
    (left, of_left), (right, of_right) = draw(meant_sizes(depth - 1)), draw(meant_sizes(depth - 1))
    match draw(st.sampled_from("+-*///")):
        case "+":
            return left + right, lambda values: of_left(values) + of_right(values)
        case "-":
            return left - right, lambda values: of_left(values) - of_right(values)
        case "*":
            return left * right, lambda values: of_left(values) * of_right(values)
    try:
        quotient = left // right
    except (ZeroDivisionError, InexactDivision):
        return left, of_left

    def rounded(values: Values) -> int:
        divisor = of_right(values)
        if divisor <= 0:
            raise ValueError
        return of_left(values) // divisor

    return quotient, rounded


@settings(max_examples=300, deadline=None)
@given(meant_sizes(), st.lists(st.integers(0, 9), min_size=4, max_size=4))
def test_sizes_mean_what_python_computes(meant: tuple[Size, Meaning], numbers: list[int]) -> None:
    size, meaning = meant
    values = dict(zip(SYMBOLS, numbers, strict=True))
    try:
        expected = meaning(values)
    except ValueError:
        return
    assert evaluate(size, values.get) == expected
    assert size.substitute({symbol: number(value) for symbol, value in values.items()}).constant() == expected


PROGRAM = """
model Step[S]:
    w: [S] = zeros

fn half(x: [n]) -> [n//2]:
    return zeros[n//2]

fn quarter(x: [n]) -> [n//4]:
    return x |> half |> half

fn given(x: [n], y: [n//2], z: [(n-1)//3+1]) -> [n//2]:
    return y

fn over(x: [n], y: [m]) -> [n//m]:
    return zeros[n//m] + ones[n//m]

fn steps[S](x: [n], s: Step[S]) -> [(n-3)//S+1 S]:
    return zeros[(n-3)//S+1 S]

fn alone(y: [n//2]) -> int:
    return n

fn counted(x: [n]) -> int:
    return int(sum(ones[n//2], over=n//2))

fn summed(y: [2*n]) -> []:
    return sum(ones[(2*n+1)//2] * ones[n], over=n)
"""


@pytest.fixture(params=get_args(EngineName))
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    path = tmp_path / "program.ss"
    path.write_text(PROGRAM)
    return shapescript.load(path, engine=request.param)


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 8, 31])
def test_a_run_rounds_down(program: Any, n: int) -> None:
    assert program.half(zeros(n)).shape == (n // 2,)
    assert program.quarter(zeros(n)).shape == (n // 4,)
    assert program.counted(zeros(n)) == n // 2
    assert program.summed(zeros(2 * n)) == n
    if n:
        assert program.given(zeros(n), zeros(n // 2), zeros((n - 1) // 3 + 1)).shape == (n // 2,)
        assert program.over(zeros(20), zeros(n)).tolist() == [1.0] * (20 // n)


def test_dims_and_steps(program: Any) -> None:
    for step in (1, 2, 3):
        assert program.steps(zeros(9), program.Step[step](seed=0)).shape == ((9 - 3) // step + 1, step)


def failing(call: Callable[[], Any]) -> str:
    with pytest.raises((shapescript.ShapeScriptError, CompileError)) as raised:
        call()
    return str(raised.value)


def test_what_is_no_size_is_an_error(program: Any) -> None:
    assert "R1003: axis n//m: 7 is divided by 0" in failing(lambda: program.over(zeros(7), zeros(0)))
    assert "R1003: y: expected n//2 = 3, since n = 7, got 2" in failing(lambda: program.given(zeros(7), zeros(2), zeros(3)))
    assert "R1003: axis (n-3)//S+1 would have -1 elements" in failing(lambda: program.steps(zeros(0), program.Step[2](seed=0)))
    assert "E0501" in failing(lambda: program.steps(zeros(9), program.Step[0](seed=0)))


EXACT = """
fn halved(x: [n]) -> [(n-4)/2]:
    return zeros[(n-4)/2]

fn over(x: [n], y: [m]) -> [(m-1)/(m-n)]:
    return zeros[(m-1)/(m-n)]
"""


@pytest.mark.parametrize("engine", get_args(EngineName))
def test_an_exact_quotient_may_be_below_0_too(tmp_path: Path, engine: EngineName) -> None:
    path = tmp_path / "exact.ss"
    path.write_text(EXACT)
    exact: Any = shapescript.load(path, engine=engine)
    assert "R1003: axis (n-4)/2 would have -1 elements" in failing(lambda: exact.halved(zeros(2)))
    assert "R1003: axis (m-1)/(m-n) would have -3 elements" in failing(lambda: exact.over(zeros(5), zeros(4)))
    assert exact.halved(zeros(4)).shape == (0,) and exact.over(zeros(3), zeros(4)).shape == (3,)


def test_a_rounded_size_says_too_little_of_what_is_divided(program: Any) -> None:
    assert "R1003: y: the sizes in n//2 = 3 can't be told from the arguments" in failing(lambda: program.alone(zeros(3)))


def test_a_call_with_one_does_not_bind_it() -> None:
    text = "fn f(y: [n//2]) -> int:\n    return n\n\nfn g(y: [m//2]) -> int:\n    return f(y)\n"
    assert [d.code for d in check_source(text).diagnostics] == ["E2301"]


def test_known_sizes_below_nothing_are_found_when_compiled(tmp_path: Path) -> None:
    path = tmp_path / "program.ss"
    path.write_text("model M[N]:\n    w: [N] = zeros\n\nfn f[N](m: M[N]) -> [N-5]:\n    return zeros[N-5]\n")
    for engine in get_args(EngineName):
        found = shapescript.load(path, engine=engine)
        assert found.f(found.M[5](seed=0)).shape == (0,)
        assert "E0503" in failing(lambda found=found: found.f(found.M[3](seed=0)))  # type: ignore[misc]
