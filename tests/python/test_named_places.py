"""Places of an axis by name, taken and put, and tensors that a call changes: beside NumPy, in both engines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from named_place_programs import PROGRAM, normal, same  # noqa: F401, the fixture `program` loads PROGRAM

import shapescript

# ---- taken


def test_one_place(program: Any) -> None:
    x, y = normal(2, 5, 4), normal(3, 7)
    for i in range(5):
        same(program.at(x, i), x[:, i])
    assert program.corner(y, 2, 6) == y[2, 6]
    assert program.at(x[:0], 2).shape == (0, 4)


def test_ranges_of_known_length(program: Any) -> None:
    x = normal(3, 8)
    same(program.from_one(x), x[:, 1:])
    assert program.from_one(x[:, :1]).shape == (3, 0)
    same(program.half(np.arange(24).reshape(3, 8)), np.arange(24).reshape(3, 8)[:, :4])
    same(program.half_down((x > 0).T), (x > 0).T[4:])
    same(program.half_down((x > 0)[:3].T[:7]), (x > 0).T[4:7])
    for i in range(6):
        same(program.windows(x.astype(np.float64), i), x.astype(np.float64)[:, i : i + 3])
    same(program.doubled_windows(x, 2), x[:, 5:7])
    same(program.whole(x), x)
    y, z = normal(8, 2, 5), normal(2, 12)
    same(program.any_axis(y, z)[0], y[7, :, 4])
    assert program.any_axis(y, z)[1] == z[1, 5]
    same(program.tokens(np.arange(8).reshape(2, 4)), ([[0, 1, 2], [4, 5, 6]], [[1, 2, 3], [5, 6, 7]]))
    same(program.joined(x, 2 * x), 4 * x)


def test_ranges_whose_length_a_run_decides(program: Any) -> None:
    x = normal(3, 8)
    for i, j in ((0, 8), (2, 6), (3, 3), (8, 8), (0, 0), (7, 8)):
        np.testing.assert_allclose(program.between(x, i, j), (x[:, i:j] ** 2).sum(1), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(program.sums(x, i, j), x[:, i:j].sum(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(program.shifted(x, 1, 5), x[:, 1] - x[:, 5], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(program.of_a_slice(x, 1, 6), x[:, 1:5].sum(1) + 5, rtol=1e-5)
    assert program.of_a_slice_of_a_run(x, 1, 6, 2) == pytest.approx(x[:, 3:6].sum(), rel=1e-5)
    for size in (1, 3, 8, 100):
        parts = [x[:, i : i + size] for i in range(0, 8, size)]
        np.testing.assert_allclose(program.pieces(x, size), sum(part.sum(1) * part.shape[1] for part in parts), rtol=1e-4, atol=1e-5)


OUTSIDE: list[tuple[str, Callable[[Any], Any]]] = [
    ("`n=0` is outside: axis n has no places", lambda p: p.at(normal(2, 0, 4), 0)),
    ("`n=5` is outside: axis n has 5 places, 0 to 4", lambda p: p.at(normal(2, 5, 4), 5)),
    ("`n=-1` is outside", lambda p: p.at(normal(2, 5, 4), -1)),
    ("`n=9223372036854775807", lambda p: p.at(normal(2, 5, 4), 2**63 - 1)),
    ("`b=3` is outside: axis b has 3 places, 0 to 2", lambda p: p.corner(normal(3, 7), 3, 0)),
    ("`n=1..0` is outside: axis n has no places", lambda p: p.from_one(normal(3, 0))),
    ("`n=6..9` is outside: axis n has 8 places, 0 to 7", lambda p: p.windows(normal(3, 8, dtype=np.float64), 6)),
    ("`n=-3..0` is outside", lambda p: p.windows(normal(3, 8, dtype=np.float64), -3)),
    ("`n=9223372036854775806..-9223372036854775807` is outside", lambda p: p.windows(normal(3, 8, dtype=np.float64), 2**63 - 2)),
    ("`n=3..2` is outside", lambda p: p.between(normal(3, 8), 3, 2)),
    ("`n=-1..2` is outside", lambda p: p.between(normal(3, 8), -1, 2)),
    ("`n=2..9` is outside", lambda p: p.between(normal(3, 8), 2, 9)),
    ("`n=9223372036854775807..-9223372036854775808` is outside", lambda p: p.between(normal(3, 8), 2**63 - 1, -(2**63))),
    ("`n=8` is outside", lambda p: p.put(normal(3, 8), normal(3), 8)),
    ("`n=6..9` is outside", lambda p: p.put_window(normal(2, 8, 3), normal(3, 3), 6)),
]


@pytest.mark.parametrize(("message", "call"), OUTSIDE, ids=[message for message, _ in OUTSIDE])
def test_places_outside(program: Any, message: str, call: Callable[[Any], Any]) -> None:
    with pytest.raises(shapescript.ShapeScriptError) as raised:
        call(program)
    assert raised.value.code == "R1107" and raised.value.message.startswith(message) and raised.value.span is not None


# ---- put


def test_loops_over_places(program: Any) -> None:
    x = normal(3, 6)
    state = np.zeros(3, np.float32)
    for t in range(6):
        state = np.float32(0.5) * state + x[:, t]
    same(program.decayed(x), state)
    for shape in ((3, 6), (3, 1), (3, 0), (0, 4)):
        numbers = np.arange(shape[0] * shape[1]).reshape(shape)
        same(program.running(numbers), numbers.cumsum(1))
    same(program.transposed(x), x.T)
    same(program.growing(x[0], 4), x[0] * np.float32(24))


def test_places_put(program: Any) -> None:
    x, v = normal(3, 6), normal(3, seed=1)
    expected = x.copy()
    expected[:, 2] = v
    same(program.put(x, v, 2), expected + x)
    y, w = normal(2, 8, 5), normal(3, 5, seed=1)
    expected = y.copy()
    expected[:, 4:7] = w
    same(program.put_window(y, w, 4), expected)
    z, u = normal(2, 4, 5), normal(4, seed=1)
    expected = z.copy()
    expected[0, 1:3, 1:] = u
    same(program.put_box(z, u, 1, 3), expected)
    same(program.put_box(z, u, 3, 3), z)
    expected = x.copy()
    expected[:, 1:4] *= 2
    same(program.put_doubled(x, 1, 4), expected)


def test_numbers_put(program: Any) -> None:
    a, b, c = program.put_numbers(np.arange(4), np.array([True, True, False, False]), np.ones(4), 2)
    same(a, [0, 1, -2, 3])
    same(b, [True, True, True, False])
    same(c, [0.1, 1, 2, 1])


# ---- tensors that a call changes


def test_arrays_are_changed_in_place(program: Any) -> None:
    x, v = normal(3, 4), normal(4, seed=1)
    expected = np.arange(3, dtype=np.float32)[:, None] * v
    assert program.fill(x, v) is None
    same(x, expected)
    y = normal(2, 3, 4)
    expected = y * v
    found = program.scale(y, v)
    same(y, expected)
    same(found, expected)
    assert not np.shares_memory(found, y)
    k, i = np.zeros(3, np.bool_), np.zeros(3, np.int64)
    program.masks(k, i, 7)
    same(k, [True, False, False])
    same(i, [0, 7, 7])
    a, b = normal(4), normal(4, seed=1)
    program.swapped(a, b)
    same(a, normal(4, seed=1))
    same(b, normal(4))
    empty = normal(0, 4)
    program.fill(empty, v)


def test_what_a_program_changes_inside_stays_inside(program: Any) -> None:
    x, v = normal(3, 4), normal(4, seed=1)
    copy = x.copy()
    found, before, number = program.inner_calls(x, v)
    same(x, copy)
    same(before, copy)
    assert number == 3.0
    scaled = (np.arange(3, dtype=np.float32)[:, None] * v) * v
    same(found, scaled + scaled)
    m = program.M(seed=0)
    program.set_places(m, v[:3])
    expected = np.arange(4, dtype=np.float32)[:, None] * v[:3]
    expected[0, 1:3] = 9
    same(m.w, expected)


def test_changed_arrays_hold_canonical_numbers(program: Any) -> None:
    bits = np.array([0xFFC12345, 0x7F800001, 0x3F800000], np.uint32)
    assert program.unchanged(bits.view(np.float32)) != 0
    assert bits.tolist() == [0x7FC00000, 0x7FC00000, 0x3F800000]
    k = np.array([0, 2, 7], np.uint8)
    program.masks(k.view(np.bool_), np.zeros(3, np.int64), 0)
    assert k.tolist() == [1, 1, 1]


def read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


one_array = normal(4, 4)
masked: Any = np.ma.masked_array(normal(3, 4), normal(3, 4) > 0)
REFUSED: list[tuple[str, str, Callable[[Any], Any]]] = [
    ("R1006", "x: the array is read-only", lambda p: p.fill(read_only(normal(3, 4)), normal(4))),
    ("R1006", "x: the array doesn't lie in one piece", lambda p: p.fill(normal(4, 3).T, normal(4))),
    ("R1006", "x and v share memory, and fill changes x", lambda p: p.fill(one_array, one_array[1])),
    ("R1006", "x and y share memory, and swapped changes x", lambda p: p.swapped(one_array[0], one_array[0])),
    ("R1004", "x: expected a NumPy array, which the call changes in place, got list", lambda p: p.fill([[1.0]], normal(1))),
    ("R1004", "x: expected a NumPy array, which the call changes in place, got MaskedArray", lambda p: p.fill(masked, normal(4))),
    ("R1001", "x: expected float32, got float64", lambda p: p.fill(normal(3, 4, dtype=np.float64), normal(4))),
    ("R1002", "x: expected 2 axes [b n]", lambda p: p.fill(normal(4), normal(4))),
    ("R1003", "n = 4 from x, 5 from v", lambda p: p.fill(normal(3, 4), normal(5))),
    ("R1004", "s: a `mut` number can't be given from Python", lambda p: p.set(1.0, 2.0)),
]


@pytest.mark.parametrize(("code", "message", "call"), REFUSED, ids=[message for _, message, _ in REFUSED])
def test_arrays_that_cannot_be_changed(program: Any, code: str, message: str, call: Callable[[Any], Any]) -> None:
    with pytest.raises(shapescript.ShapeScriptError) as raised:
        call(program)
    assert raised.value.code == code and raised.value.message.startswith(message)


def test_neighbours_in_one_memory_are_apart(program: Any) -> None:
    both = normal(2, 4)
    first, second = both.copy()
    program.swapped(both[0], both[1])
    same(both, [second, first])
