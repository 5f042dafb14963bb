"""`windows` and `fold`: beside loops over every element, native code beside the reference, and windows that don't fit."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from evaluating import apply, function_of
from native_harness import TARGETS, assert_same, check, finished

from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.sizes import Size, fresh, number, of
from shapescript.compiler.ir.types import Element, TensorType
from shapescript.compiler.ops.build import Builder
from shapescript.compiler.ops.protocol import ExecutionError

F32, F64, I64, BOOLS = Element.F32, Element.F64, Element.I64, Element.BOOL
DTYPES: dict[Element, Any] = {F32: np.float32, F64: np.float64, I64: np.int64, BOOLS: np.bool_}
ELEMENTS = tuple(DTYPES)
STEPS = ("strides", "dilations", "before")


@dataclass(frozen=True)
class Case:
    """A whole tensor's shape, and windows along some of its axes."""

    shape: tuple[int, ...]
    positions: tuple[int, ...]
    lengths: tuple[int, ...]
    counts: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]

    @property
    def of_windows(self) -> tuple[int, ...]:
        places = dict(zip(self.positions, self.lengths, strict=True))
        return (*(places.get(axis, size) for axis, size in enumerate(self.shape)), *self.counts)

    def numbers(self, *names: str) -> dict[str, tuple[Size, ...]]:
        return {name: tuple(map(number, getattr(self, name))) for name in names}

    def sizes(self) -> dict[str, tuple[Size, ...]]:
        return {"sizes": tuple(number(self.shape[place]) for place in self.positions)}

    def place(self, index: Sequence[int]) -> tuple[int, ...] | None:
        """Where an element of the windows lies in the whole tensor, None where it lies outside."""
        found = list(index[: len(self.shape)])
        for j, position in enumerate(self.positions):
            number_of_window = index[len(self.shape) + j]
            found[position] = number_of_window * self.strides[j] + index[position] * self.dilations[j] - self.before[j]
            if not 0 <= found[position] < self.shape[position]:
                return None
        return tuple(found)


def fitting(shape: Sequence[int], *axes: tuple[int, int, int, int, int]) -> Case:
    """axes: position, length, stride, dilation, padding; as many windows as fit."""
    positions, lengths, strides, dilations, before = zip(*axes, strict=True)
    counts = tuple(max(0, (shape[p] + 2 * pad - d * (k - 1) - 1) // s + 1) for p, k, s, d, pad in axes)
    return Case(tuple(shape), positions, lengths, counts, strides, dilations, before)


CASES = [
    fitting((2, 3, 7, 9), (2, 3, 1, 1, 0), (3, 3, 1, 1, 0)),
    fitting((2, 3, 8, 8), (2, 3, 1, 1, 1), (3, 3, 1, 1, 1)),
    fitting((2, 3, 8, 6), (2, 2, 2, 1, 0), (3, 2, 2, 1, 0)),
    fitting((4, 10), (1, 3, 2, 2, 3)),
    fitting((9, 4), (0, 3, 1, 1, 1)),
    fitting((5, 2, 6, 3), (0, 2, 1, 1, 0), (2, 3, 2, 1, 1)),
    fitting((3, 4, 5), (0, 2, 1, 1, 1), (1, 1, 1, 1, 0), (2, 3, 1, 2, 2)),
    fitting((40,), (0, 5, 1, 1, 2)),
    fitting((2, 100), (1, 3, 1, 1, 1)),
    fitting((1, 1), (0, 1, 1, 1, 0), (1, 1, 1, 1, 0)),
    fitting((2, 0, 4), (2, 3, 1, 1, 1)),
    fitting((2, 0), (1, 3, 1, 1, 2)),
    fitting((2, 3), (1, 5, 1, 1, 0)),
    Case((2, 3), (1,), (4,), (6,), (2,), (3,), (1,)),
    Case((2, 3), (1,), (0,), (6,), (2,), (1,), (1,)),
]


def values(element: Element, shape: Sequence[int], seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(tuple(shape)) * 4).astype(DTYPES[element])


def windows_by_hand(x: np.ndarray, case: Case, fill: Any) -> np.ndarray:
    found = np.full(case.of_windows, fill, x.dtype)
    for index in np.ndindex(*case.of_windows):
        place = case.place(index)
        if place is not None:
            found[index] = x[place]
    return found


def fold_by_hand(x: np.ndarray, case: Case) -> np.ndarray:
    """Each element by itself: what belongs to it, in the row-major order of the places in the windows."""
    found = np.zeros(case.shape, x.dtype)
    rank = len(case.shape)
    kept = [range(size) for axis, size in enumerate(case.of_windows) if axis not in case.positions and axis < rank]
    for window_place in np.ndindex(*case.lengths):
        for others in itertools.product(*kept):
            for numbers in np.ndindex(*case.counts):
                index = list(others)
                for position, k in zip(case.positions, window_place, strict=True):
                    index.insert(position, k)
                place = case.place((*index, *numbers))
                if place is not None:
                    found[place] = found[place] + x[(*index, *numbers)]
    return found


# ---- beside loops


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("element", ELEMENTS)
def test_windows_take_places(case: Case, element: Element) -> None:
    fill = {F32: -np.inf, F64: 0.0, I64: 7, BOOLS: True}[element]
    x = values(element, case.shape)
    found = apply("windows", x, positions=case.positions, fill=fill, room=(), **case.numbers("lengths", "counts", *STEPS))
    np.testing.assert_array_equal(found, windows_by_hand(x, case, fill))
    assert found.dtype == x.dtype


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("element", [F32, F64])
def test_fold_adds_in_the_order_of_the_places(case: Case, element: Element) -> None:
    x = values(element, case.of_windows)
    found = apply("fold", x, positions=case.positions, room=(), **case.sizes(), **case.numbers(*STEPS))
    assert found.tobytes() == fold_by_hand(x, case).tobytes()


def test_a_fold_begins_at_plus_zero() -> None:
    steps = {"strides": (number(1),), "dilations": (number(1),), "before": (number(0),), "room": ()}
    x = np.float32([[-0.0, 1e8], [1.0, 7.0], [-1e8, 0.0]])  # three places of two windows
    found = apply("fold", x, positions=(0,), sizes=(number(4),), **steps)
    assert found.tobytes() == np.float32([0.0, 1e8, -1e8 + 7, 0.0]).tobytes()  # place by place: 1e8 + 1, then -1e8 + 7


# ---- native code


@pytest.mark.parametrize("case", CASES, ids=str)
def test_native_code_with_known_sizes(case: Case) -> None:
    for element in ELEMENTS:
        fill = {F32: -np.inf, F64: 0.0, I64: 7, BOOLS: True}[element]
        attributes = {"positions": case.positions, "fill": fill, "room": (), **case.numbers("lengths", "counts", *STEPS)}
        check(lambda b, x, given=attributes: b.op("windows", x, **given), values(element, case.shape))
    for element in (F32, F64):
        attributes = {"positions": case.positions, "room": (), **case.sizes(), **case.numbers(*STEPS)}
        check(lambda b, x, given=attributes: b.op("fold", x, **given), values(element, case.of_windows))


def in_a_run(name: str, element: Element, rank: int, case: Case, fixed: dict[str, Any], named: Sequence[str]) -> Any:
    """A function whose sizes are all known only when it is called: those of `named` are the lengths of tensors beside the operand."""
    axes = tuple(of(fresh("n")) for _ in range(rank))
    symbols = {attribute: tuple(of(fresh(attribute)) for _ in case.positions) for attribute in named}
    types = [TensorType(element, axes), *(TensorType(F32, (size,)) for sizes in symbols.values() for size in sizes)]

    def build(b: Builder, x: Value, *_: Value) -> Value:
        return b.op(name, x, positions=case.positions, **symbols, **fixed)

    return finished(function_of(types, build))


@pytest.mark.parametrize("first", range(0, 40, 8))
def test_native_code_with_sizes_of_a_run(first: int) -> None:
    for seed in range(first, first + 8):
        rng = np.random.default_rng(seed)
        rank = int(rng.integers(1, 5))
        many = int(rng.integers(1, min(rank, 3) + 1))
        positions = tuple(sorted(map(int, rng.choice(rank, many, replace=False))))
        calls, case = [], CASES[0]
        for _ in range(3):
            shape = rng.integers(seed % 4 > 0, 9 if rank > 2 else 40, rank).tolist()
            axes = [(p, *map(int, (rng.integers(1, 5), *rng.integers(1, 4, 2), rng.integers(0, 4)))) for p in positions]
            case = fitting(shape, *axes)
            calls.append(case)
        element = ELEMENTS[seed % 4]
        named = ("lengths", "counts", *STEPS)
        function = in_a_run("windows", element, rank, case, {"fill": {I64: -3, BOOLS: False}.get(element, -0.0), "room": ()}, named)
        targets = [TARGETS[seed % 2]]
        assert_same(function, [[values(element, case.shape), *_lengths(case, named)] for case in calls], targets=targets)
        element = (F32, F64)[seed % 2]
        function = in_a_run("fold", element, rank + many, case, {"room": ()}, ("sizes", *STEPS))
        assert_same(function, [[values(element, case.of_windows), *_lengths(case, ("sizes", *STEPS))] for case in calls], targets=targets)


def _lengths(case: Case, names: Sequence[str]) -> list[np.ndarray]:
    numbers = [[case.shape[p] for p in case.positions] if name == "sizes" else getattr(case, name) for name in names]
    return [np.zeros(size, np.float32) for sizes in numbers for size in sizes]


def test_absurd_steps_read_nothing_outside() -> None:
    """What wraps around 64 bits still lies inside, or nowhere."""
    huge = 2**47
    for case in (
        Case((4, 5), (1,), (3,), (3,), (huge,), (huge,), (huge,)),
        Case((4, 5), (0, 1), (2, 2), (2, 20), (huge, 1), (1, huge), (0, huge)),
    ):
        given = {"positions": case.positions, "fill": 0.5, "room": (), **case.numbers("lengths", "counts", *STEPS)}
        check(lambda b, x, given=given: b.op("windows", x, **given), values(F32, case.shape))
        given = {"positions": case.positions, "room": (), **case.sizes(), **case.numbers(*STEPS)}
        check(lambda b, x, given=given: b.op("fold", x, **given), values(F32, case.of_windows))


def test_among_fused_work() -> None:
    n = of(fresh("n"))

    def build(b: Builder, x: Value) -> Sequence[Value]:
        one = {"strides": (number(1),), "dilations": (number(1),), "before": (number(1),), "positions": (0,), "room": ()}
        squared = b.op("mul", x, x)
        seen = b.op("windows", squared, lengths=(number(3),), counts=(n,), fill=0.0, **one)
        grown = b.op("exp", b.op("neg", seen))
        back = b.op("fold", grown, sizes=(n,), **one)
        return [b.op("sub", back, x), b.op("max", seen, positions=(0,)), b.op("sum", grown, positions=(0, 1))]

    for fused in (False, True):
        function = finished(function_of([TensorType(F32, (n,))], build), fused)
        assert_same(function, [[values(F32, (count,))] for count in (1, 2, 7, 40)])


# ---- what doesn't fit


def test_windows_without_room_say_so() -> None:
    n = of(fresh("n"))
    sizes = {"lengths": (number(5),), "counts": ((n - number(5)) // number(2) + number(1),), "before": (number(0),)}
    steps = {"strides": (number(2),), "dilations": (number(1),)}

    def build(b: Builder, x: Value) -> Value:
        return b.op("windows", x, positions=(0,), fill=0.0, room=(n - number(5),), **sizes, **steps)

    function = finished(function_of([TensorType(F32, (n,))], build))
    outcomes = assert_same(function, [[values(F32, (count,))] for count in (5, 9, 4, 0)])
    assert [outcome[0] is ExecutionError for outcome in outcomes] == [False, False, True, True]
    assert outcomes[2][1] == "R1110: a window doesn't fit into axis n, padding included: it is 1 place too long"
    assert outcomes[3][1] == "R1110: a window doesn't fit into axis n, padding included: it is 5 places too long"


def test_a_fold_needs_a_stride() -> None:
    n, s = of(fresh("n")), of(fresh("s"))

    def build(b: Builder, x: Value, stride: Value) -> Value:
        steps = {"strides": (s,), "dilations": (number(1),), "before": (number(0),)}
        return b.op("fold", x, positions=(0,), sizes=(n,), room=(s - number(1),), **steps)

    function = finished(function_of([TensorType(F32, (number(2), n)), TensorType(F32, (s,))], build))
    outcomes = assert_same(function, [[values(F32, (2, 3)), values(F32, (stride,))] for stride in (1, 2, 0)])
    assert outcomes[2][:2] == (ExecutionError, "R1110: windows 0 places apart: a stride is at least 1")
