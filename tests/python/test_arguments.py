"""What calls from Python are refused for: each with a code, the parameter's name, what was expected and what was found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from api_programs import digits, example, small_program

import shapescript

F32 = np.float32
Call = Callable[[Any], Any]


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.arange(int(np.prod(shape)), dtype=F32).reshape(shape)


WRONG: list[tuple[str, Call, str, type[Exception]]] = [
    # dtype
    ("R1001: x: expected float32, got float64; .*astype", lambda p: p.same(np.zeros(3)), "x", TypeError),
    ("R1001: x: expected float64, got float32", lambda p: p.widen(numbers(2), np.arange(2), np.ones(2, bool)), "x", TypeError),
    ("R1001: n: expected int64, got int32", lambda p: p.widen(np.ones(2), np.arange(2, dtype=np.int32), np.ones(2, bool)), "n", TypeError),
    ("R1001: keep: expected bool, got int64", lambda p: p.widen(np.ones(2), np.arange(2), np.arange(2)), "keep", TypeError),
    ("R1001: factor: expected float32, got float64", lambda p: p.scaled(numbers(2), np.float64(2)), "factor", TypeError),
    # rank and shape
    (r"R1002: y: expected 1 axis \[b\], got shape \(100, 1\)", lambda p: p.residual(numbers(100), numbers(100, 1)), "y", ValueError),
    (r"R1002: x: expected 2 axes \[b D\], got shape \(3,\)", lambda p: p.predict(p.Line(seed=0), numbers(3)), "x", ValueError),
    (r"R1002: x: expected \[b D\] with D = 3, got shape \(2, 4\)", lambda p: p.predict(p.Line(seed=0), numbers(2, 4)), "x", ValueError),
    (r"R1002: x: expected at least 1 axis \[..s D\], got shape \(\)", lambda p: p.leading(F32(1), numbers(3)), "x", ValueError),
    (r"R1002: factor: expected no axes \[\], got shape \(1,\)", lambda p: p.scaled(numbers(2), numbers(1)), "factor", ValueError),
    # sizes across arguments
    (
        r"R1003: K = 16 from x, 15 from w; x: \[b K\] has shape \(8, 16\); w: \[K E\] has shape \(15, 4\); also b = 8 from x, E = 4 from w",
        lambda p: p.product(numbers(8, 16), numbers(15, 4)),
        "",
        ValueError,
    ),
    (r"R1003: N = 3 from block, 4 from x", lambda p: p.apply(p.Block[3](seed=1), numbers(2, 4)), "", ValueError),
    (r"R1003: twice: expected 2\*b = 4, since b = 2, got 5", lambda p: p.pair(numbers(2, 3), numbers(5)), "", ValueError),
    # types
    ("R1004: x: expected an array, got list", lambda p: p.same([1.0]), "x", TypeError),
    ("R1004: x: expected an array, got NoneType", lambda p: p.same(None), "x", TypeError),
    ("R1004: m: expected a model Line, got dict", lambda p: p.predict({}, numbers(2, 3)), "m", TypeError),
    ("R1004: m: expected a model Line, got Block", lambda p: p.predict(p.Block[3](seed=1), numbers(2, 3)), "m", TypeError),
    ("R1004: block: .* a part of one", lambda p: p.apply(p.Stack[3, 1](seed=1).blocks[0], numbers(2, 3)), "block", TypeError),
    ("R1004: n: expected an int, got the float 3.0", lambda p: p.halves(3.0, 1), "n", TypeError),
    ("R1004: n: expected an int, got bool", lambda p: p.halves(True, 1), "n", TypeError),
    ("R1004: n: expected an int that fits in 64 bits", lambda p: p.halves(2**63, 1), "n", ValueError),
    ("R1004: rate: expected a float, got bool", lambda p: p.halves(1, True), "rate", TypeError),
    ("R1004: rate: expected a float, got str", lambda p: p.halves(1, "1"), "rate", TypeError),
    ("R1006: rate: 1000.* is too large", lambda p: p.halves(1, 10**400), "rate", ValueError),
    ("R1006: factor: 1e[+]300 is too large for f32", lambda p: p.scaled(numbers(2), 1e300), "factor", ValueError),
    ("R1004: wide: expected a bool, got int", lambda p: p.halves(1, 1, 1), "wide", TypeError),
    (r"R1004: batch: expected a batch Point\[b\]", lambda p: p.labels(numbers(2, 3)), "batch", TypeError),
    ("R1004: batch: expected examples of Point, got .* Other", lambda p: p.labels(p.Other.batch(x=numbers(2, 3))), "batch", TypeError),
    ("R1004: points: expected a dataset", lambda p: p.count(p.Point.batch(x=numbers(2, 3), label=np.arange(2))), "points", TypeError),
    (
        "R1004: points: .*another order",
        lambda p: p.count(p.Point.dataset(x=numbers(2, 3), label=np.arange(2)).shuffle(1)),
        "points",
        TypeError,
    ),
    # arrays that can't be used
    ("R1006: x: .*other order", lambda p: p.same(numbers(3).astype(">f4")), "x", ValueError),
    ("R1006: x: a masked array", lambda p: p.same(np.ma.masked_array(numbers(3), [True, False, False])), "x", ValueError),
    # names
    (r"R1005: halves: no value for rate; it is halves\(n: int", lambda p: p.halves(3), "", TypeError),
    (r"R1005: halves has no parameter 'wid'; did you mean 'wide'\?", lambda p: p.halves(3, 1, wid=True), "", TypeError),
    ("R1005: halves: n is given twice", lambda p: p.halves(3, n=1), "", TypeError),
    ("R1005: halves takes 3 arguments, got 4", lambda p: p.halves(3, 1, True, 4), "", TypeError),
]


@pytest.mark.parametrize(("message", "call", "parameter", "kind"), WRONG, ids=[case[0][:40] for case in WRONG])
def test_what_a_call_is_refused_for(tmp_path: Path, message: str, call: Call, parameter: str, kind: type[Exception]) -> None:
    program = small_program(tmp_path)
    with pytest.raises(shapescript.ArgumentError, match=message) as raised:
        call(program)
    assert isinstance(raised.value, kind)
    if parameter:
        assert raised.value.span.text == parameter  # type: ignore[union-attr]
    assert not vars(program)["_instances"], "nothing is compiled, so nothing ran"
    assert program.halves(3, 1) == (0.5, 3, False)


def test_a_model_of_other_dims(tmp_path: Path) -> None:
    narrow, wide = small_program(tmp_path), small_program(tmp_path, D=4)
    expected = r"R1002: m: expected a model Line, got a Line of other dims: slope: \[D\] \(3,\) is expected, f32 \(4,\) was found"
    with pytest.raises(shapescript.ArgumentError, match=expected):
        narrow.predict(wide.Line(seed=0), numbers(2, 3))
    with pytest.raises(shapescript.ArgumentError, match="R1002: opt: expected a model Line, got a Line of other dims"):
        narrow.fit_one(narrow.Line(seed=0), shapescript.AdamW(wide.Line(seed=0)), None, None)


def test_a_mode_is_a_value() -> None:
    program, (pixels, _) = example(), digits()
    with pytest.raises(shapescript.ArgumentError, match=r"got the class Train; a value is needed, not the class: Train\(seed=0\)"):
        program.forward(program.Mlp(seed=1), pixels, shapescript.Train)
    with pytest.raises(shapescript.ArgumentError, match=r"R1004: mode: expected a mode .*, got str"):
        program.forward(program.Mlp(seed=1), pixels, "eval")


def test_numbers_that_are_taken(tmp_path: Path) -> None:
    program = small_program(tmp_path)
    taken: list[tuple[Any, Any]] = [(3, 1), (np.int32(3), F32(1)), (np.array(3), np.float64(1)), (3, np.int64(1)), (3, np.array(1, F32))]
    for n, rate in taken:
        assert program.halves(n, rate, np.bool_(True)) == (0.5, 3, True)
    for factor in (2, 2.0, F32(2), np.array(2, F32)):
        assert program.scaled(numbers(3), factor).tolist() == [0.0, 2.0, 4.0]
    assert program.scaled(numbers(2), 0.1).tolist() == [0.0, float(F32(0.1))]
