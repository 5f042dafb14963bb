"""Calls with ordinary arguments are checked by code written for the signature, all others by the general code: with the same results, and
the same errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from api_programs import small_program

import shapescript
from shapescript.binding import Overload
from shapescript.engines import ENGINES

F32 = np.float32
Array = np.ndarray[Any, Any]
Call = Callable[[Any], Any]

ADDED = """
fn moded(m: Line, x: [b D], rate: float, mode: Mode) -> [b]:
    return predict(m, dropout(x, 0.5, mode)) * rate

fn sums(m: Line, batch: Point[b], x: [b D]) -> ([b], int[b], int):
    return predict(m, batch.x + x), batch.label, b

fn fit(mut m: Line, mut opt: AdamW[Line], batch: Point[b], x: [b D], flag: bool) -> []:
    l, mut g = value_and_grad(mean(predict(m, batch.x + x), over=b), wrt=m)
    update(mut m, mut opt, g, lr=Rate)
    return l

fn added(mut to: Line, m: Line):
    to = to + m

fn doubled(mut x: [b]):
    x = x * 2.0

fn counted[K](x: [b K]) -> [b K]:
    return x + f32(K)
"""


def numbers(*shape: int) -> Array:
    return np.arange(int(np.prod(shape)), dtype=F32).reshape(shape)


@pytest.fixture
def general(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the functions whose calls the general code has bound."""
    found: list[str] = []
    bind = Overload.bind

    def noted(overload: Overload, *arguments: Any) -> Any:
        found.append(overload.signature.name)
        return bind(overload, *arguments)

    monkeypatch.setattr(Overload, "bind", noted)
    return found


def program(folder: Path, engine: Any = "numpy") -> Any:
    path = folder / "calls.ss"
    small_program(folder)
    path.write_text((folder / "small.ss").read_text() + ADDED)
    return shapescript.load(path, engine=engine)


def points(p: Any, count: int = 2) -> Any:
    return p.Point.batch(x=numbers(count, 3), label=np.arange(count))


def strided() -> Array:
    return numbers(2, 6)[:, ::2]


def unaligned() -> Array:
    return np.frombuffer(bytearray(b"x" + numbers(6).tobytes()), np.uint8)[1:].view(F32).reshape(2, 3)


def read_only() -> Array:
    x = numbers(2, 3)
    x.flags.writeable = False
    return x


ORDINARY: list[Call] = [
    lambda p: p.predict(p.Line(seed=0), numbers(2, 3)),
    lambda p: p.predict(p.Line(seed=0), numbers(0, 3)),
    lambda p: p.predict(m=p.Line(seed=0), x=read_only()),
    lambda p: p.product(numbers(2, 3), numbers(3, 4)),
    lambda p: p.apply(p.Block[3](seed=1), numbers(2, 3)),
    lambda p: p.halves(3, 0.5),
    lambda p: p.halves(-(2**63), float("nan"), wide=True),
    lambda p: p.widen(np.ones(2), np.arange(2), np.array([2, 0], np.uint8).view(bool)),
    lambda p: p.scaled(numbers(2), 0.1),
    lambda p: p.labels(points(p)),
    lambda p: p.moded(p.Line(seed=0), numbers(2, 3), 2.0, shapescript.Train(seed=1)),
    lambda p: p.sums(p.Line(seed=0), points(p), numbers(2, 3)),
    lambda p: p.fit((m := p.Line(seed=0)), shapescript.AdamW(m), points(p), numbers(2, 3), True),
    lambda p: p.added(p.Line(seed=0), p.Line(seed=1)),
]
OTHERS: list[Call] = [
    lambda p: p.predict(p.Line(seed=0), strided()),
    lambda p: p.predict(p.Line(seed=0), unaligned()),
    lambda p: p.halves(np.int64(3), 1),
    lambda p: p.scaled(numbers(2), F32(0.1)),
    lambda p: p.scaled(numbers(2), float("inf")),
    lambda p: p.pair(numbers(2, 3), numbers(4)),
    lambda p: p.leading(numbers(4, 2, 3), numbers(3)),
    lambda p: p.kept(p.Line(seed=0)),
    lambda p: p.count(p.Point.dataset(x=numbers(2, 3), label=np.arange(2))),
    lambda p: p.norm(numbers(2)),
    lambda p: p.doubled(numbers(2)),
    lambda p: p.fit((m := p.Line(seed=0)), shapescript.AdamW(m), points(p), m.slope.reshape(1, 3).repeat(2, 0)[:, ::-1], True),
]


def shown(value: Any) -> Any:
    """A result as something to compare: bytes, dtypes, shapes and types of numbers."""
    if isinstance(value, tuple):
        return tuple(map(shown, value))
    if isinstance(value, shapescript.Model):
        return value.buffer.tobytes()
    return (value.tobytes(), value.dtype, value.shape) if isinstance(value, np.ndarray) else repr(value)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("call", ORDINARY)
def test_the_second_ordinary_call_is_not_bound_in_general(tmp_path: Path, general: list[str], engine: Any, call: Call) -> None:
    p = program(tmp_path, engine)
    first = shown(call(p))
    assert len(general) == 1
    assert shown(call(p)) == first
    assert len(general) == 1


@pytest.mark.parametrize("call", OTHERS)
def test_other_calls_are_bound_in_general(tmp_path: Path, general: list[str], call: Call) -> None:
    p = program(tmp_path)
    for ordinary in ORDINARY:
        ordinary(p)
    general.clear()
    first = shown(call(p))
    assert len(general) >= 1
    general.clear()
    assert shown(call(p)) == first
    assert len(general) >= 1


@contextmanager
def bound_in_general(general: list[str]) -> Iterator[None]:
    general.clear()
    yield
    assert len(general) == 1


def test_models_of_other_dims_and_programs_are_learnt(tmp_path: Path, general: list[str]) -> None:
    p, twin = program(tmp_path), program(tmp_path)
    blocks = {size: p.Block[size](seed=1) for size in (3, 4)}
    for size in (3, 4, 3):
        with bound_in_general(general):
            p.apply(blocks[size], numbers(2, size))
        assert p.apply(blocks[size], numbers(5, size)).shape == (5, size)
        assert len(general) == 1
    p.predict(p.Line(seed=0), numbers(2, 3))
    with bound_in_general(general):
        expected = p.predict(twin.Line(seed=0), numbers(2, 3))
    for line in (twin.Line(seed=0), p.Line(seed=0)):
        assert p.predict(line, numbers(2, 3)).tobytes() == expected.tobytes()
    assert len(general) == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_a_dim_that_only_an_array_shows_has_an_instance_of_its_own(tmp_path: Path, general: list[str], engine: Any) -> None:
    p = program(tmp_path, engine)
    for size in (3, 4, 3):
        with bound_in_general(general):
            assert p.counted(np.zeros((2, size), F32)).tolist() == [[size] * size] * 2
        assert p.counted(np.zeros((1, size), F32)).tolist() == [[size] * size]
        assert len(general) == 1


WRONG: list[tuple[str, Call]] = [
    ("R1001: x: expected float32", lambda p: p.predict(p.Line(seed=0), np.zeros((2, 3)))),
    (r"R1002: x: expected 2 axes", lambda p: p.predict(p.Line(seed=0), numbers(3))),
    (r"R1002: x: expected \[b D\] with D = 3", lambda p: p.predict(p.Line(seed=0), numbers(2, 4))),
    ("R1003: K = 3 from x, 2 from w", lambda p: p.product(numbers(2, 3), numbers(2, 4))),
    ("R1003: b = 2 from batch, 3 from x", lambda p: p.sums(p.Line(seed=0), points(p), numbers(3, 3))),
    ("R1003: N = 3 from block, 4 from x", lambda p: p.apply(p.Block[3](seed=1), numbers(2, 4))),
    ("R1004: m: expected a model Line, got Block", lambda p: p.predict(p.Block[3](seed=1), numbers(2, 3))),
    ("R1004: m: expected a model Line, got NoneType", lambda p: p.predict(None, numbers(2, 3))),
    ("R1004: n: expected an int that fits", lambda p: p.halves(2**63, 1.0)),
    ("R1004: n: expected an int, got bool", lambda p: p.halves(True, 1.0)),
    ("R1004: mode: expected a mode", lambda p: p.moded(p.Line(seed=0), numbers(2, 3), 2.0, None)),
    ("R1004: batch: expected examples of Point", lambda p: p.labels(p.Other.batch(x=numbers(2, 3)))),
    (
        "R1004: opt: expected AdamW",
        lambda p: p.fit((m := p.Line(seed=0)), shapescript.Adam(m), points(p), numbers(2, 3), True),
    ),
    ("R1005: predict takes 2 arguments, got 3", lambda p: p.predict(p.Line(seed=0), numbers(2, 3), 1)),
    ("R1005: predict: no value for x", lambda p: p.predict(p.Line(seed=0))),
    ("R1006: factor: 1e[+]300 is too large", lambda p: p.scaled(numbers(2), 1e300)),
    ("R1006: x: .*other order", lambda p: p.scaled(numbers(3).astype(">f4"), 0.5)),
    ("R1006: to and m are the same value", lambda p: p.added((m := p.Line(seed=0)), m)),
    ("R1006: to and m are the same value", lambda p: p.added((m := p.Line(seed=0)), shapescript.Model(m.layout, m.buffer))),
]


@pytest.mark.parametrize(("message", "call"), WRONG)
def test_what_ordinary_calls_do_not_know_is_refused_as_ever(tmp_path: Path, general: list[str], message: str, call: Call) -> None:
    fresh, used = program(tmp_path), program(tmp_path)
    for ordinary in ORDINARY:
        ordinary(used)
    refused = []
    for p in (fresh, used):
        with pytest.raises(shapescript.ArgumentError, match=message) as raised:
            call(p)
        refused.append((str(raised.value), raised.value.span and raised.value.span.start))
    assert refused[0] == refused[1]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_array_that_views_a_model_is_copied_where_the_call_changes_models(tmp_path: Path, general: list[str], engine: Any) -> None:
    results = []
    for copied in (True, False):
        p = program(tmp_path, engine)
        m = p.Line(seed=0)
        opt = shapescript.AdamW(m)
        for x in (numbers(1, 3), m.slope.reshape(1, 3)):
            general.clear()
            p.fit(m, opt, points(p, 1), x.copy() if copied else x, True)
        assert len(general) == (0 if copied else 1)
        results.append(m.buffer.tobytes())
    assert results[0] == results[1]


def test_a_profile_sees_ordinary_calls(tmp_path: Path) -> None:
    p = program(tmp_path, "native")
    for _ in range(2):
        p.halves(3, 0.5)
    with shapescript.profile() as profile:
        p.halves(3, 0.5)
    assert "halves" in str(profile)
    assert p.halves(3, 0.5) == (0.25, 3, False)


def test_what_a_profile_compiled_is_for_profiles_alone(tmp_path: Path) -> None:
    p = program(tmp_path, "native")
    instances = vars(p)["_instances"]
    with shapescript.profile():
        for _ in range(2):
            p.halves(3, 0.5)
    assert len(instances) == 1
    for _ in range(2):
        p.halves(3, 0.5)
    assert len(instances) == 2
