"""Places along one axis: slices, what is put in their stead, tensors side by side, sizes that a run decides. Native code and the reference
evaluator byte for byte, against NumPy."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from evaluating import RecordingHost, axis, evaluate, function_of, tensor
from gradients import Gradient
from kernel_harness import fenced
from native_harness import assert_same, check, finished, natives
from native_samples import F32, F64, I64, block, some

from shapescript.compiler.ir.nodes import Function, Value, walk
from shapescript.compiler.ir.sizes import fresh, number, of
from shapescript.compiler.ir.types import Element
from shapescript.compiler.ops.build import Builder
from shapescript.compiler.passes.simplify import simplify
from shapescript.compiler.reference.engine import Evaluator

ELEMENTS = list(Element)
NOT_ADDED = (Element.BOOL, Element.BF16)  # a bf16 is widened before
EDGES = [-(2**63), -(2**62), -7, -1, 0, 1, 2, 3, 5, 16, 17, 40, 2**62, 2**63 - 1]
SHAPES = [((5, 7, 3), position) for position in range(3)] + [((40,), 0), ((2, 33), 1), ((1, 1), 0), ((0, 4), 1), ((4, 0), 0), ((4, 0), 1)]


def int_constant(b: Builder, value: int) -> Value:
    return b.constant(value, I64)


def window(shape: tuple[int, ...], position: int, start: int, length: int) -> tuple[slice, ...]:
    first = max(0, min(start, shape[position] - length))
    return (*[slice(None)] * position, slice(first, first + length))


def resized(shape: tuple[int, ...], position: int, length: int) -> tuple[int, ...]:
    return (*shape[:position], length, *shape[position + 1 :])


# ---- slices


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize(("shape", "position"), SHAPES)
def test_slice_and_put_at_any_start(shape: tuple[int, ...], position: int, element: Element) -> None:
    size = shape[position]
    for length in sorted({0, min(1, size), size // 2, size}):
        x, part = some(element, *shape), some(element, *resized(shape, position, length), seed=1)

        def build(b: Builder, x: Value, part: Value, start: Value, length: int = length) -> list[Value]:
            taken = b.op("slice", x, start, position=position, length=number(length))
            put = b.op("put", x, part, start, position=position)
            added = [b.op("add_slice", x, part, start, position=position)] if element not in NOT_ADDED else []
            return [taken, put, *added]

        types = [tensor(*shape, element=element), tensor(*part.shape, element=element), tensor(element=I64)]
        outcomes = assert_same(finished(function_of(types, build)), [[x, part, start] for start in EDGES])
        for start, (results, *_) in zip(EDGES, outcomes, strict=True):
            place = window(shape, position, start, length)
            put, added = x.copy(), x.copy()
            put[place] = part
            expected = [np.ascontiguousarray(x[place]), put]
            if element not in NOT_ADDED:
                added[place] = x[place] + part
                expected.append(added)
            assert [found[2] for found in results] == [array.tobytes() for array in expected]


@pytest.mark.parametrize("element", ELEMENTS)
def test_sizes_of_a_run(element: Element) -> None:
    """Every axis has a size of its own, known at the call, and the part's length comes from the other argument."""
    before, size, behind, length = (axis(name) for name in ("a", "n", "c", "m"))

    def build(b: Builder, x: Value, part: Value, start: Value) -> list[Value]:
        taken = b.op("slice", x, start, position=1, length=length)
        put = b.op("put", x, part, start, position=1)
        return [taken, put, b.op("concat", x, part, put, position=1)]

    types = [tensor(before, size, behind, element=element), tensor(before, length, behind, element=element), tensor(element=I64)]
    function = finished(function_of(types, build))
    rng = np.random.default_rng(3)
    for _ in range(12):
        a, n, c, m = rng.choice([0, 1, 2, 3, 8, 17], 4)
        assert_same(function, [[some(element, a, n, c), some(element, a, m, c, seed=2), start] for start in (-3, 0, 1, 5, 100)])


def test_a_part_longer_than_the_whole() -> None:
    """It happens only before a check that fails: zeros are read, nothing is written."""
    x, part = some(F32, 2, 3), some(F32, 2, 5, seed=1)
    taken = evaluate(lambda b, x: b.op("slice", x, int_constant(b, 1), position=1, length=number(5)), x)
    np.testing.assert_array_equal(taken, np.zeros((2, 5), np.float32))
    for name in ("put", "add_slice"):

        def build(b: Builder, x: Value, part: Value, name: str = name) -> list[Value]:
            return [b.op(name, x, part, int_constant(b, 1), position=1), b.op("slice", x, int_constant(b, 0), position=1, length=number(4))]

        np.testing.assert_array_equal(evaluate(build, x, part)[0], x)
        check(build, x, part)


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("at_end", [False, True])
def test_no_start_leads_outside(element: Element, at_end: bool) -> None:
    """Reads and writes between pages that can't be touched, for any start and any sizes, the part's longer than the whole's among them."""
    before, size, behind, length = (axis(name) for name in ("a", "n", "c", "m"))

    def build(b: Builder, x: Value, part: Value, y: Value, start: Value) -> list[Value]:
        taken = b.op("slice", x, start, position=1, length=length)
        added = b.op("add_slice" if element not in NOT_ADDED else "put", y, part, start, position=1)
        return [b.op("concat", taken, part, position=1), b.op("put", x, part, start, position=1), added]

    types = [tensor(before, size, behind, element=element), tensor(before, length, behind, element=element)]
    function = finished(function_of([*types, types[0], tensor(element=I64)], build, mutable=[0, 2]))
    compiled, evaluator = natives(function), Evaluator(function)
    rng = np.random.default_rng(7)
    for _ in range(60):
        a, n, c, m = rng.choice([0, 1, 2, 3, 5, 16, 17], 4)
        start = int(rng.choice([*EDGES, int(rng.integers(-(2**63), 2**63 - 1))]))
        arrays = [some(element, a, n, c), some(element, a, m, c, seed=1), some(element, a, n, c, seed=2)]
        expected = [array.copy() for array in arrays]
        (result,) = evaluator.run([*expected, start], RecordingHost())
        for native in compiled:
            own = [fenced(array, at_end) for array in arrays]
            (found,) = native.run([*own, start], RecordingHost())
            assert found.tobytes() == result.tobytes()
            assert [array.tobytes() for array in own] == [array.tobytes() for array in expected]


# ---- side by side


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("position", [0, 1, 2])
def test_concat(position: int, element: Element) -> None:
    shape = (2, 3, 4)
    parts = [some(element, *resized(shape, position, length), seed=length) for length in (3, 0, 1, 17)]
    results, *_ = check(lambda b, *parts: b.op("concat", *parts, position=position), *parts)
    assert results[0][2] == np.concatenate(parts, axis=position).tobytes()


@pytest.mark.parametrize("element", [element for element in ELEMENTS if element is not Element.BF16])  # whose numbers aren't its bits
def test_literals(element: Element) -> None:
    numbers = some(element, 6)
    values = [number_.item() for number_ in numbers]

    def build(b: Builder, first: Value) -> list[Value]:
        constants = [b.constant(value, element) for value in values[1:]]
        return [
            b.op("literal", first, *constants, axes=(number(6),)),
            b.op("literal", first, *constants, axes=(number(2), number(3))),
            b.op("literal", first, axes=()),
            b.op("literal", first, axes=(number(1), number(1))),
        ]

    results, *_ = check(build, numbers[0])
    assert [found[2] for found in results[:2]] == [numbers.tobytes()] * 2
    assert results[3][2] == numbers[:1].tobytes()


# ---- sizes that a run decides


def bound_sizes(element: Element = F32) -> Function:
    """x[n=start..stop] and what is computed of it, for a length that is known in the run."""
    size, symbol = axis("n"), fresh("m")

    def build(b: Builder, x: Value, start: Value, stop: Value) -> list[Value]:
        b.emit("check_slice", start, stop, size=size, axis="n")
        b.emit("bind_size", b.op("sub", stop, start), size=of(symbol))
        taken = b.op("slice", x, start, position=0, length=of(symbol))
        twice = b.op("add", b.op("mul", taken, taken), taken)
        return [b.op("sum", twice, positions=(0,)), twice, b.op("size", size=of(symbol))]

    return function_of([tensor(size, 3, element=element), tensor(element=I64), tensor(element=I64)], build)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("element", [F32, F64, I64])
def test_a_length_known_in_the_run(element: Element, fused: bool) -> None:
    function = finished(bound_sizes(element), fused=fused)
    calls = [[some(element, n, 3), start, stop] for n in (0, 1, 20) for start in (-1, 0, 1, 19) for stop in (-1, 0, 1, 20, 21)]
    outcomes = assert_same(function, calls)
    for (x, start, stop), outcome in zip(calls, outcomes, strict=True):
        if 0 <= start <= stop <= len(x):
            taken = x[start:stop]
            assert outcome[0][1][2] == (taken * taken + taken).tobytes()
        else:
            assert outcome[1].startswith("R1107: ")


def test_words_of_a_slice_outside() -> None:
    function = finished(bound_sizes())
    x = some(F32, 4, 3)
    (one, several, none) = assert_same(function, [[x, 4, 5], [x, 2, 5], [x[:0], 0, 1]])
    assert one[1] == "R1107: `n=4` is outside: axis n has 4 places, 0 to 3"
    assert several[1] == "R1107: `n=2..5` is outside: axis n has 4 places, 0 to 3"
    assert none[1] == "R1107: `n=0` is outside: axis n has no places"


def test_a_bound_size_below_zero() -> None:
    symbol = fresh("k")

    def build(b: Builder, count: Value) -> list[Value]:
        b.emit("bind_size", count, size=of(symbol))
        return [b.op("sum", b.full(1.0, tensor(of(symbol))), positions=(0,))]

    outcomes = assert_same(finished(function_of([tensor(element=I64)], build)), [[-1], [-(2**63)], [0], [1], [100]])
    assert [outcome[1] for outcome in outcomes[:2]] == [f"R1003: axis k would have {count} elements" for count in (-1, -(2**63))]
    assert [np.frombuffer(outcome[0][0]).item() for outcome in outcomes[2:]] == [0.0, 1.0, 100.0]


@pytest.mark.parametrize("fused", [False, True])
def test_a_difference_of_sizes_behind_its_check(fused: bool) -> None:
    """x[n=2..] has n-2 places; where n is 1 it is the slice that is outside."""
    size = axis("n")

    def build(b: Builder, x: Value) -> list[Value]:
        before = b.op("mul", x, x)
        start, stop = int_constant(b, 2), b.size(size)
        b.emit("check_slice", start, stop, size=size, axis="n")
        taken = b.op("slice", x, start, position=0, length=size - number(2))
        return [b.op("mul", taken, taken), before]

    outcomes = assert_same(finished(function_of([tensor(size, 2)], build), fused), [[some(F32, n, 2)] for n in (0, 1, 2, 3, 20)])
    assert [outcome[1][:6] for outcome in outcomes[:2]] == ["R1107:", "R1107:"]


@pytest.mark.parametrize("fused", [False, True])
def test_a_size_bound_anew_in_each_turn(fused: bool) -> None:
    """Nothing that mentions it moves out of the loop, before it is bound, or to another turn."""
    size, symbol = axis("n"), fresh("m")

    def build(b: Builder, x: Value) -> list[Value]:
        def body(inner: Builder, i: Value, total: Value) -> list[Value]:
            inner.emit("bind_size", i, size=of(symbol))
            ones = inner.full(1.0, tensor(of(symbol)))
            taken = inner.op("slice", x, int_constant(inner, 0), position=0, length=of(symbol))
            scaled = inner.op("mul", inner.op("add", taken, ones), inner.spread(inner.size(of(symbol), F32), tensor(of(symbol))))
            return [inner.op("add", total, inner.op("sum", scaled, positions=(0,)))]

        region = block([tensor(element=I64), tensor()], body)
        stop = b.op("add", b.size(size), int_constant(b, 1))
        return list(b.emit("for_range", int_constant(b, 0), stop, b.constant(0.0, F32), regions=[region], name="i"))

    function = finished(function_of([tensor(size)], build), fused)
    outcomes = assert_same(function, [[np.arange(n, dtype=np.float32)] for n in (0, 1, 2, 9)])
    expected = [sum(float(m * (np.arange(m) + 1).sum()) for m in range(n + 1)) for n in (0, 1, 2, 9)]
    assert [np.frombuffer(outcome[0][0]).item() for outcome in outcomes] == expected


@pytest.mark.parametrize("fused", [False, True])
def test_no_failing_size_is_moved_out_of_a_loop(fused: bool) -> None:
    """A loop that is never entered may hold a slice of n-2 places where n is 1."""
    size = axis("n")

    def build(b: Builder, x: Value, turns: Value) -> list[Value]:
        def body(inner: Builder, i: Value, total: Value) -> list[Value]:
            taken = inner.op("slice", x, int_constant(inner, 2), position=0, length=size - number(2))
            return [inner.op("add", total, inner.op("sum", taken, positions=(0,)))]

        region = block([tensor(element=I64), tensor()], body)
        return list(b.emit("for_range", int_constant(b, 0), turns, b.constant(0.0, F32), regions=[region], name="i"))

    function = finished(function_of([tensor(size), tensor(element=I64)], build), fused)
    outcomes = assert_same(function, [[some(F32, n), turns] for n in (1, 2, 5) for turns in (0, 3)])
    assert [len(outcome) == 3 and outcome[1] for outcome in outcomes][1].startswith("R1003: axis n-2 would have -1 elements")
    assert all(isinstance(outcome[0], list) for place, outcome in enumerate(outcomes) if place != 1)


# ---- gradients


def numeric(gradient: Gradient, x: np.ndarray[Any, Any]) -> None:
    """The gradient along a random direction is the difference quotient."""
    rng = np.random.default_rng(5)
    direction = rng.standard_normal(x.shape)
    _, found = gradient.at(x)
    h = 1e-6
    up, down = (gradient.at(x + sign * h * direction)[0] for sign in (1, -1))
    np.testing.assert_allclose((found * direction).sum(), (up - down) / (2 * h), rtol=1e-6)


def test_gradients() -> None:
    count = 3 * (5 + 5 + 2)

    def element(b: Builder, x: Value, row: int, column: int) -> Value:
        taken = b.op("slice", x, int_constant(b, row), position=0, length=number(1))
        return b.op("reshape", b.op("slice", taken, int_constant(b, column), position=1, length=number(1)), axes=())

    def make(b: Builder, x: Value) -> Value:
        part = b.op("slice", x, int_constant(b, 2), position=1, length=number(2))
        put = b.op("put", b.op("mul", x, x), b.op("tanh", part), int_constant(b, 9), position=1)
        added = b.op("add_slice", put, b.op("exp", part), int_constant(b, 1), position=1)
        whole = b.op("concat", added, x, b.op("mul", part, part), position=1)
        one = element(b, whole, 2, 2)
        four = b.op("literal", one, one, b.op("mul", one, one), element(b, whole, 0, 7), axes=(number(2), number(2)))
        weights = b.op("concat", b.op("reshape", four, axes=(number(4),)), b.full(0.5, tensor(count - 4, element=F64)), position=0)
        return b.op("mul", b.op("reshape", whole, axes=(number(count),)), weights)

    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 5))
    numeric(Gradient(make, x), x)


def test_bound_symbols_are_fresh_in_each_run() -> None:
    evaluator = Evaluator(bound_sizes())
    x = some(F32, 4, 3)
    shapes = [np.shape(evaluator.run([x, 0, stop], RecordingHost())[1]) for stop in (4, 1, 3)]
    assert shapes == [(4, 3), (1, 3), (3, 3)]


# ---- said with less


def test_what_moves_nothing_is_dropped() -> None:
    """A slice of all places, of what was just put, of what is the same along the axis; a part in the place of all; one tensor alone."""

    def build(b: Builder, x: Value, part: Value, start: Value) -> list[Value]:
        put = b.op("put", x, part, start, position=0)
        spread = b.op("broadcast", x, axes=(number(6), *x.type.axes), positions=(1, 2))  # type: ignore[union-attr]
        return [
            b.op("slice", x, start, position=0, length=number(4)),
            b.op("slice", put, start, position=0, length=number(2)),
            b.op("put", part, b.op("neg", part), start, position=0),
            b.op("concat", x, position=1),
            b.op("slice", spread, start, position=0, length=number(2)),
            b.op("slice", spread, start, position=2, length=number(1)),
        ]

    function = function_of([tensor(4, 3), tensor(2, 3), tensor(element=I64)], build)
    names = Counter(op.name for op in walk(simplify(function).body))
    assert names == {"neg": 1, "broadcast": 2, "slice": 1}
    calls = [[some(F32, 4, 3), some(F32, 2, 3, seed=1), start] for start in (-1, 0, 2, 5)]
    plain, simple = (assert_same(finished(function, fused), calls) for fused in (False, True))
    assert [found[0] for found in plain] == [found[0] for found in simple]
