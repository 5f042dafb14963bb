"""Running sums, order along an axis, elements and rows by their positions: native code and the reference evaluator byte for byte, against
NumPy and plain Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from both_engines import Both
from evaluating import RecordingHost, apply, axis, function_of, tensor
from kernel_harness import fenced
from native_harness import assert_same, check, finished, natives
from native_samples import F32, F64, I64, some, special
from planned_bytes import planned_bytes, rows

import shapescript
from shapescript.compiler.ir.nodes import Function, Value
from shapescript.compiler.ir.sizes import number
from shapescript.compiler.ir.types import Element
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.passes.plan import plan_memory
from shapescript.compiler.reference.engine import Evaluator

Array = np.ndarray[Any, Any]

NUMBERS = [F32, F64, I64]
SHAPES = [((5, 7, 3), position) for position in range(3)] + [((40,), 0), ((3, 100), 1), ((33, 2), 0), ((1, 1), 0), ((1,), 0)]
EMPTY = [((0,), 0), ((0, 4), 0), ((0, 4), 1), ((4, 0), 0), ((4, 0), 1)]
each_shape = pytest.mark.parametrize(("shape", "position"), SHAPES + EMPTY)
each_number = pytest.mark.parametrize("element", NUMBERS)


def numbers(element: Element, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Every special number among them, and many equal ones."""
    count = int(np.prod(shape))
    mixed = np.where(np.random.default_rng(seed).random(count) < 0.5, special(element, count, seed), some(element, count, seed=seed))
    return mixed.reshape(shape)


def order(b: Builder, x: Value, position: int, descending: bool) -> Value:
    return b.op("argsort", x, b.constant(descending, Element.BOOL), position=position)


def one_row_sums(row: Array, reverse: bool) -> list[Any]:
    found: list[Any] = []
    for value in row[:: -1 if reverse else 1]:
        found.append(found[-1] + value if found else value)
    return found[:: -1 if reverse else 1]


# ---- running sums


@each_shape
@each_number
@pytest.mark.parametrize("reverse", [False, True])
def test_cumsum(shape: tuple[int, ...], position: int, element: Element, reverse: bool) -> None:
    x = numbers(element, shape)
    results, *_ = check(lambda b, x: b.op("cumsum", x, position=position, reverse=reverse), x)
    with np.errstate(all="ignore"):
        expected = np.apply_along_axis(one_row_sums, position, x, reverse) if x.size else x
    expected = np.where(np.isnan(expected), np.nan, expected).astype(x.dtype)
    assert results[0][2] == expected.tobytes()


def test_cumsum_lies_where_its_operand_lay() -> None:
    """It costs no second tensor, and is right in the place of the first."""

    def build(b: Builder, x: Value) -> list[Value]:
        first = b.op("cumsum", b.op("neg", x), position=0, reverse=False)
        return [b.op("sum", b.op("cumsum", first, position=1, reverse=True), positions=(0, 1))]

    function = finished(function_of([tensor(axis("n"), axis("m"))], build))
    assert planned_bytes(plan_memory(function), rows(64)) == 64 * 64 * 4
    assert_same(function, [[some(F32, n, m)] for n, m in ((0, 3), (1, 1), (7, 40), (40, 7))])


# ---- order of size


def order_of(row: Array, descending: bool) -> list[int]:
    """By a plain stable sort: NaN is greater than all numbers, the zeros are equal."""
    keys = [(bool(np.isnan(value)), 0 if np.isnan(value) else value.item()) for value in row]
    return sorted(range(len(row)), key=lambda place: (-keys[place][0], -keys[place][1]) if descending else keys[place])


@each_shape
@each_number
@pytest.mark.parametrize("descending", [False, True])
def test_argsort(shape: tuple[int, ...], position: int, element: Element, descending: bool) -> None:
    x = numbers(element, shape, seed=3)
    results, *_ = check(lambda b, x: order(b, x, position, descending), x)
    expected = np.apply_along_axis(order_of, position, x, descending) if x.size else np.zeros(shape, np.int64)
    assert results[0][2] == expected.astype(np.int64).tobytes()


@each_number
@pytest.mark.parametrize("descending", [False, True])
def test_argsort_of_any_length(element: Element, descending: bool) -> None:
    """Lengths around powers of 2, sorted already, in reverse, all equal, and at random."""
    function = finished(function_of([tensor(axis("n"), element=element)], lambda b, x: order(b, x, 0, descending)))
    calls = []
    for count in (0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 100, 1000):
        ramp = np.arange(count).astype(some(element, 1).dtype)
        calls += [[ramp], [ramp[::-1].copy()], [np.zeros_like(ramp)], [ramp % 3], [numbers(element, (count,), seed=count)]]
    assert_same(function, calls)
    largest = np.array([2**63 - 1, -(2**63), 0, -1, 2**63 - 1, -(2**63)])
    if element is I64:
        assert_same(function, [[largest]])


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    ("word", "nans"), [(np.uint32, (0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF)), (np.uint64, (0x7FF8 << 48, 0xFFF8 << 48))]
)
def test_nan_of_any_bits_is_the_greatest(word: Any, nans: tuple[int, ...], descending: bool) -> None:
    """Of either sign and with any payload, in the order in which they lie."""
    x = np.zeros(40, {np.uint32: np.float32, np.uint64: np.float64}[word])
    x[::3], x[1::7] = -np.inf, np.inf
    x.view(word)[2 :: 40 // len(nans)][: len(nans)] = nans
    results, *_ = check(lambda b, x: order(b, x, 0, descending), x)
    assert results[0][2] == np.array(order_of(x, descending), np.int64).tobytes()


def test_an_axis_longer_than_memory_beside_one_of_nothing() -> None:
    function = finished(
        function_of(
            [tensor(axis("a"), axis("n"), axis("c"))],
            lambda b, x: [
                order(b, x, 1, False),
                b.op("cumsum", x, position=1, reverse=False),
                b.op("take_along", x, order(b, x, 1, True), position=1),
            ],
        )
    )
    for shape in ((0, 2**40, 1), (2**40, 2**19, 0), (1, 2**40, 0), (2**40, 0, 2**10)):
        assert_same(function, [[np.zeros(shape, np.float32)]])


def test_an_order_of_more_places_than_numpy_counts() -> None:
    """A tensor of nothing too: the order's numbers are twice as long as its elements."""
    function = finished(function_of([tensor(axis("a"), axis("n"), axis("c"))], lambda b, x: order(b, x, 1, True)))
    for run in (Evaluator(function).run, *(native.run for native in natives(function))):
        with pytest.raises(MemoryError):
            run([np.zeros((2**40, 2**20, 0), np.float32)], RecordingHost())


def test_a_second_sort_asks_for_no_memory() -> None:
    (native, *_) = natives(finished(function_of([tensor(axis("n"), axis("m"))], lambda b, x: order(b, x, 0, True))))
    x = some(F32, 5000, 3)
    native.run([x], RecordingHost())
    before = native.arenas.grows
    for _ in range(3):
        native.run([x], RecordingHost())
    assert native.arenas.grows == before


# ---- elements at positions


def index_of(shape: tuple[int, ...], size: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(0, max(size, 1), shape)


def resized(shape: tuple[int, ...], position: int, size: int) -> tuple[int, ...]:
    return (*shape[:position], size, *shape[position + 1 :])


@each_shape
@pytest.mark.parametrize("element", list(Element))
def test_take_along(shape: tuple[int, ...], position: int, element: Element) -> None:
    x = some(element, *shape)
    sizes = [number(size) for size in shape]
    types = [tensor(*shape, element=element), tensor(*sizes[:position], axis("m"), *sizes[position + 1 :], element=I64)]
    function = finished(function_of(types, lambda b, x, index: b.op("take_along", x, index, position=position)))
    indices = [index_of(resized(shape, position, count), shape[position]) for count in ((0, 1, 5, 20) if shape[position] else (0,))]
    for index, (results, *_) in zip(indices, assert_same(function, [[x, index] for index in indices]), strict=True):
        assert results[0][2] == np.take_along_axis(x, index, position).tobytes()


@each_shape
@pytest.mark.parametrize("element", [F32, F64])
def test_put_along(shape: tuple[int, ...], position: int, element: Element) -> None:
    """Several at one place are added with j ascending; what is out of range is left out."""
    x, sizes = numbers(element, shape), (0, 1, 4)
    index = np.random.default_rng(1).integers(-1, 5, shape)

    def build(b: Builder, x: Value, index: Value) -> list[Value]:
        return [b.op("put_along", x, index, position=position, size=number(size)) for size in sizes]

    results, *_ = check(build, x, index)
    for size, found in zip(sizes, results, strict=True):
        expected = np.zeros(resized(shape, position, size), x.dtype)
        with np.errstate(all="ignore"):
            for place in np.ndindex(shape):
                if 0 <= index[place] < size:
                    expected[resized(place, position, index[place])] += x[place]
        assert found[2] == np.where(np.isnan(expected), np.nan, expected).astype(x.dtype).tobytes()


def taking() -> Function:
    types = [tensor(axis("a"), axis("n"), axis("c")), tensor(axis("a"), axis("m"), axis("c"), element=I64)]
    (before, _, behind), (_, count, _) = types[0].axes, types[1].axes
    types[1] = tensor(before, count, behind, element=I64)
    return finished(function_of(types, lambda b, x, index: b.op("take_along", x, index, position=1)))


def test_an_index_outside() -> None:
    x = some(F32, 2, 3, 2)
    index = index_of((2, 4, 2), 3)
    bad = []
    for place, value in (((0, 0, 0), -1), ((1, 2, 1), 3), ((1, 3, 1), 2**62)):
        bad.append(index.copy())
        bad[-1][place] = value
    several = index.copy()
    several[0, 1, 0], several[1, 0, 0] = 3, 9
    outcomes = assert_same(taking(), [[x, index] for index in (*bad, several)] + [[x[:, :0], index]])
    assert [outcome[1] for outcome in outcomes] == [
        "R1101: index -1 at position 0: take_along's axis n has 3 elements, so indices go from 0 to 2",
        "R1101: index 3 at position 13: take_along's axis n has 3 elements, so indices go from 0 to 2",
        f"R1101: index {2**62} at position 15: take_along's axis n has 3 elements, so indices go from 0 to 2",
        "R1101: index 3 at position 2: take_along's axis n has 3 elements, so indices go from 0 to 2",
        f"R1101: index {index[0, 0, 0]} at position 0: take_along's axis n has 0 elements, so there is no index into it",
    ]


@pytest.mark.parametrize("at_end", [False, True])
def test_nothing_is_touched_outside(at_end: bool) -> None:
    before, size, behind, count = (axis(name) for name in ("a", "n", "c", "m"))

    def build(b: Builder, x: Value, index: Value, sums: Value) -> list[Value]:
        places = order(b, x, 1, True)
        put = b.op("put_along", b.op("take_along", x, index, position=1), index, position=1, size=size)
        rows = b.op("add_rows", x, b.op("neg", x), b.op("iota", axes=(before,), position=0))
        return [places, put, rows, b.op("cumsum", sums, position=1, reverse=False)]

    kind = tensor(before, size, behind)
    function = finished(function_of([kind, tensor(before, count, behind, element=I64), kind], build, mutable=[2]))
    compiled, evaluator = natives(function), Evaluator(function)
    rng = np.random.default_rng(0)
    for _ in range(20):
        a, n, c, m = rng.choice([0, 1, 2, 3, 16, 17], 4)
        arrays = [some(F32, a, n, c), index_of((a, m if n else 0, c), n), some(F32, a, n, c, seed=1)]
        expected = [array.copy() for array in arrays]
        results = evaluator.run(expected, RecordingHost())
        for native in compiled:
            own = [fenced(array, at_end) for array in arrays]
            found = native.run(own, RecordingHost())
            assert [array.tobytes() for array in (*found, *own)] == [np.asarray(array).tobytes() for array in (*results, *expected)]


# ---- rows added


@each_number
@pytest.mark.parametrize("width", [(), (1,), (5,), (3, 20)])
def test_add_rows(element: Element, width: tuple[int, ...]) -> None:
    for places in ((), (0,), (1,), (4, 3)):
        x, rows, index = numbers(element, (6, *width)), numbers(element, (*places, *width), seed=1), index_of(places, 6)
        results, *_ = check(lambda b, x, rows, index: b.op("add_rows", x, rows, index), x, rows, index)
        expected = x.copy()
        with np.errstate(all="ignore"):
            for place in np.ndindex(places):
                expected[index[place]] += rows[place]
        expected = np.where(np.isnan(expected), np.nan, expected).astype(x.dtype)
        assert results[0][2] == expected.tobytes()


def test_add_rows_outside_changes_nothing() -> None:
    def build(b: Builder, x: Value, rows: Value, index: Value) -> list[Value]:
        return [b.op("add_rows", x, rows, index, called="scatter_add")]

    function = finished(function_of([tensor(axis("v"), 2), tensor(3, 2), tensor(3, element=I64)], build, mutable=[0]))
    rows, index = some(F32, 3, 2, seed=1), np.array([1, 0, 4])
    for native in natives(function):
        x = some(F32, 4, 2)
        before = x.copy()
        with pytest.raises(Exception, match="R1101: index 4 at position 2: scatter_add's axis v has 4 elements, so indices go from 0 to 3"):
            native.run([x, rows, index], RecordingHost())
        np.testing.assert_array_equal(x, before)
    assert_same(function, [[some(F32, 4, 2), rows, index], [some(F32, 5, 2), rows, index], [some(F32, 0, 2), rows, index]])


def test_one_operation_of_the_reference() -> None:
    """By hand: the zeros are equal, NaN is last or first."""
    x = np.array([0.0, np.nan, -0.0, 2.0, -1.0, np.nan, 2.0], np.float32)
    np.testing.assert_array_equal(apply("argsort", x, False, position=0), [4, 0, 2, 3, 6, 1, 5])
    np.testing.assert_array_equal(apply("argsort", x, True, position=0), [1, 5, 3, 6, 0, 2, 4])
    np.testing.assert_array_equal(apply("cumsum", np.array([1, 2, 3]), position=0, reverse=True), [6, 5, 3])
    assert result_type(function_of([tensor(3)], lambda b, x: order(b, x, 0, True)).body.yields[0]).element is I64


# ---- programs


PROGRAM = """
fn best(x: [b n]) -> ([b 3], int[b 3]):
    return topk(x, over=n, count=3)

fn all_of_them(x: [b n]) -> ([b n], int[b n]):
    return topk(x, over=n, count=n)

fn ranked(x: f64[n b], down: bool) -> (f64[n b], int[n b]):
    return sort(x, over=n, descending=down), argsort(x, over=n, descending=down)

fn labelled(x: [b n], label: int[b]) -> [b]:
    return pick(x, label, over=n)

fn among_best(x: [b 10], label: int[b]) -> float:
    values, places = topk(x, over=10, count=3)
    hits = where(rearrange(places: b 3 -> 3 b) == label, 1.0, 0.0)
    return float(sum(hits, over=(3, b))) / b

fn counts(label: int[b], x: int[v]) -> int[v]:
    return scatter_add(x, label * 0 + 1, label, over=v)
"""


@pytest.fixture
def both(tmp_path: Path) -> Both:
    return Both(tmp_path, PROGRAM)


def test_programs_of_order(both: Both) -> None:
    x = np.array([[3, 1, np.nan, 2, 3], [0, -0.0, -1, 5, -np.inf]], np.float32)
    values, places = both.call("best", x)
    np.testing.assert_array_equal(places, [[2, 0, 4], [3, 0, 1]])
    np.testing.assert_array_equal(values, np.take_along_axis(x, places, 1))
    np.testing.assert_array_equal(both.call("all_of_them", x)[1], [[2, 0, 4, 3, 1], [3, 0, 1, 2, 4]])
    wide = np.random.default_rng(0).standard_normal((6, 3))
    for down in (False, True):
        ordered, order = both.call("ranked", wide, down)
        expected = np.sort(wide, axis=0)
        np.testing.assert_array_equal(ordered, expected[::-1] if down else expected)
        np.testing.assert_array_equal(np.take_along_axis(wide, order, 0), ordered)
    logits, label = np.random.default_rng(1).standard_normal((50, 10)).astype(np.float32), np.arange(50) % 10
    share = np.mean([label[row] in np.argsort(-logits[row])[:3] for row in range(50)])
    assert both.call("among_best", logits, label) == pytest.approx(share)
    np.testing.assert_array_equal(both.call("counts", label, np.full(12, 100)), [105] * 10 + [100] * 2)


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_errors_of_a_run(both: Both, engine: str) -> None:
    program = getattr(both, engine)
    with pytest.raises(shapescript.DataError, match=r"R1107: `n=0..3` is outside: axis n has 2 places, 0 to 1"):
        program.best(np.zeros((4, 2), np.float32))
    with pytest.raises(
        shapescript.DataError, match="R1101: index 2 at position 1: pick's axis n has 2 elements, so indices go from 0 to 1"
    ):
        program.labelled(np.zeros((3, 2), np.float32), np.array([1, 2, 0]))
    with pytest.raises(shapescript.DataError, match="R1101: index -1 at position 0: scatter_add's axis v has 3 elements"):
        program.counts(np.array([-1]), np.zeros(3, np.int64))
    assert program.best(np.zeros((0, 3), np.float32))[1].shape == (0, 3)


PICKS = """
fn alone(x: [b c], i: int[b]) -> [b]:
    return pick(x, i, over=c)

fn behind_a_sum(x: [b c], i: int[b]) -> ([b], [b]):
    s = sum(x, over=c)
    return s, pick(x, i, over=c)

fn of_what_is_computed(x: [b c], i: int[b]) -> [b]:
    y = exp(x) * 2.0
    print("here")
    return pick(y, i, over=c) + sum(y, over=c)
"""


@pytest.mark.parametrize("name", ["alone", "behind_a_sum", "of_what_is_computed"])
def test_a_pick_from_nothing_reads_nothing(tmp_path: Path, name: str) -> None:
    """What fusion makes of it may stand before the check of the index."""
    (tmp_path / "picks.ss").write_text(PICKS)
    program = shapescript.load(tmp_path / "picks.ss")
    for at_end in (False, True):
        for x in (np.zeros((3, 0), np.float32), np.ones((3, 1), np.float32)):
            given = fenced(x, at_end), fenced(np.zeros(3, np.int64), at_end)
            if x.size:
                getattr(program, name)(*given)
            else:
                with pytest.raises(shapescript.DataError, match="pick's axis c has 0 elements, so there is no index into it"):
                    getattr(program, name)(*given)
