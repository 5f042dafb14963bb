"""Native reductions byte for byte against lanes, lane tree and block tree written out in NumPy."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from kernel_harness import ELEMENTS, WIDTHS, Array, fenced, native, same_bytes

from shapescript.compiler.codegen import emit
from shapescript.compiler.codegen.emit import F32, I64, PTR
from shapescript.compiler.codegen.reductions import Reduction, loaded, reduce_run, reduce_strided
from shapescript.compiler.codegen.reductions_columns import Method, reduce_columns
from shapescript.compiler.codegen.reductions_runs import reduce_runs
from shapescript.compiler.codegen.target import Target

each_target = pytest.mark.parametrize("level", WIDTHS, ids=lambda level: level.name)
COUNTS = [0, 1, 15, 16, 17, 100, 4095, 4096, 4097, 9000, 4096 * 7 + 5]


def total(values: Array) -> Array:
    """The sum over the first axis, element by element."""
    if len(values) == 0:
        return np.zeros(values.shape[1:], values.dtype)
    blocks = []
    for start in range(0, len(values), 4096):
        lanes = [np.full(values.shape[1:], -0.0, values.dtype) for _ in range(16)]
        for i, value in enumerate(values[start : start + 4096]):
            lanes[i % 16] = lanes[i % 16] + value
        while len(lanes) > 1:
            half = len(lanes) // 2
            lanes = [lanes[l] + lanes[l + half] for l in range(half)]
        blocks.append(lanes[0])
    while len(blocks) > 1:
        blocks = [blocks[i] + blocks[i + 1] if i + 1 < len(blocks) else blocks[i] for i in range(0, len(blocks), 2)]
    return np.asarray(blocks[0])


def numbers(shape: Any, dtype: Any) -> Array:
    rng = np.random.default_rng(3)
    if np.dtype(dtype).kind == "i":
        return np.asarray(rng.integers(-(1 << 62), 1 << 62, shape))
    return np.asarray(rng.standard_normal(shape) * 2.0 ** rng.integers(-8, 9, shape), dtype)


def extremes(values: Array) -> list[Array]:
    """max and min over the first axis, where +0 is above -0 and a NaN is both."""
    keyed = np.where(values == 0, np.where(np.signbit(values), -1e-320, 1e-320), values.astype(np.float64))
    places = keyed.argmax(0), keyed.argmin(0)
    found = [np.take_along_axis(values, place[None], 0)[0] for place in places]
    missing = np.isnan(values).any(0)
    return [np.where(missing, values.dtype.type(np.nan), x) for x in found]


def run(level: Target, values: Array, kinds: tuple[str, ...], static: bool) -> list[Array]:
    """Reduce a vector; every kind in one pass."""
    element = ELEMENTS[values.dtype]
    reductions = [Reduction(kind, element) for kind in kinds]

    def body(b: Any, arguments: Any) -> None:
        source = loaded(arguments[0], element)
        found = reduce_run(b, reductions, len(values) if static else arguments[2], lambda b, i, mask: [*source(b, i, mask)] * len(kinds))
        for place, value in enumerate(found):
            emit.store(b, value, emit.at(b, arguments[1], place, element))

    out = np.zeros(len(kinds), values.dtype)
    native(level, [PTR, PTR, I64], body)(fenced(values, True), out, len(values))
    return [np.asarray(x) for x in out]


@each_target
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_sum_of_a_run(level: Target, dtype: Any) -> None:
    for count in COUNTS:
        values = numbers(count, dtype)
        expected = total(values) if dtype != np.int64 else values.sum(dtype=np.int64)
        for static in (False, True) if count in (17, 4096, 9000) else (False,):
            (found,) = run(level, values, ("sum",), static)
            assert same_bytes(found, np.asarray(expected)), (count, static)


@each_target
def test_zeros_keep_their_sign(level: Target) -> None:
    for values in (np.full(5, -0.0, np.float32), np.zeros(0, np.float32), np.array([-0.0, 0.0], np.float32)):
        assert same_bytes(run(level, values, ("sum",), False)[0], total(values))


@each_target
def test_several_kinds_in_one_pass(level: Target) -> None:
    for count in (1, 40, 5000):
        values = numbers(count, np.float32)
        found = run(level, values, ("max", "sum", "min"), False)
        most, least = extremes(values)
        assert all(same_bytes(x, np.asarray(y)) for x, y in zip(found, (most, total(values), least), strict=True))


@each_target
@pytest.mark.parametrize("place", [0, 7, 33])
def test_extremes_pin_nan_and_signed_zeros(level: Target, place: int) -> None:
    zeros = np.full(40, -0.0, np.float32)
    mixed = zeros.copy()
    mixed[place] = 0.0
    missing = numbers(40, np.float32)
    missing[place] = np.nan
    for values in (zeros, mixed, -mixed, missing, np.array([np.inf, -np.inf], np.float32)):
        assert all(same_bytes(x, y) for x, y in zip(run(level, values, ("max", "min"), False), extremes(values), strict=True))


@each_target
def test_extremes_of_integers(level: Target) -> None:
    values = numbers(77, np.int64)
    assert [int(x) for x in run(level, values, ("max", "min"), False)] == [values.max(), values.min()]


@each_target
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_axes_by_strides(level: Target, dtype: Any) -> None:
    element = ELEMENTS[np.dtype(dtype)]
    for shape in ((3, 5, 7), (0, 2, 3), (40, 3, 120), (1, 1, 1)):
        values = numbers(shape, dtype)
        expected = total(values.transpose(0, 2, 1).reshape(shape[0] * shape[2], shape[1]))

        def body(b: Any, arguments: Any, shape: tuple[int, ...] = shape) -> None:
            def kept(j: Any, _: Any) -> None:
                def here(b: Any, indices: Any) -> list[Any]:
                    place = b.add(b.mul(b.add(b.mul(indices[0], I64(shape[1])), j), arguments[2]), indices[1])
                    return [emit.load(b, emit.at(b, arguments[0], place, element), element)]

                (found,) = reduce_strided(b, [Reduction("sum", element)], [shape[0], arguments[2]], here)
                emit.store(b, found, emit.at(b, arguments[1], j, element))

            emit.loop(b, 0, shape[1], 1, kept)

        out = np.zeros(shape[1], dtype)
        native(level, [PTR, PTR, I64], body)(fenced(values, True), out, shape[2])
        assert same_bytes(out, expected), shape


@each_target
@pytest.mark.parametrize("sizes", [(3, 5, 7), (0, 2, 3), (4, 3, 0), (40, 2, 120), (70, 1, 64), (1, 1, 1), (9, 2, 4099)], ids=str)
def test_runs_with_gaps(level: Target, sizes: tuple[int, int, int]) -> None:
    values = numbers(sizes, np.float32)
    kept = values.transpose(1, 0, 2).reshape(sizes[1], sizes[0] * sizes[2])
    kinds = [Reduction(kind, F32) for kind in ("sum", "max")]

    def body(b: Any, arguments: Any) -> None:
        source, out, n, length = arguments

        def one(j: Any, _: Any) -> None:
            def here(b: Any, indices: Any, i: Any, mask: Any) -> list[Any]:
                run = b.mul(b.add(b.mul(indices[0], I64(sizes[1])), j), length)
                return [emit.load(b, emit.at(b, source, b.add(run, i), F32), F32, 16, mask)] * 2

            for place, value in enumerate(reduce_runs(b, kinds, [n, length], here)):
                emit.store(b, value, emit.at(b, out, b.add(b.mul(j, I64(2)), I64(place)), F32))

        emit.loop(b, 0, sizes[1], 1, one)

    out = np.zeros((sizes[1], 2), np.float32)
    for at_end in (False, True):
        native(level, [PTR, PTR, I64, I64], body)(fenced(values, at_end), out, sizes[0], sizes[2])
        assert same_bytes(out[:, 0].copy(), total(kept.T.copy()))
        if kept.size:
            assert same_bytes(out[:, 1].copy(), extremes(kept.T.copy())[0])


def columns(
    level: Target, values: Array, kinds: tuple[str, ...], method: Method | None, static: bool, cuts: tuple[int, ...] = ()
) -> list[Array]:
    element = ELEMENTS[values.dtype]
    rows, width = values.shape
    reductions = [Reduction(kind, element) for kind in kinds]

    def body(b: Any, arguments: Any) -> None:
        n, d = (rows, width) if static else arguments[2:]

        def produce(b: Any, row: Any, column: Any, mask: Any) -> list[Any]:
            place = emit.at(b, arguments[0], b.add(b.mul(row, emit.size(d)), column), element)
            return [emit.load(b, place, element, level.vector_bytes // values.itemsize, mask)] * len(kinds)

        def finish(b: Any, found: Any, column: Any, mask: Any) -> None:
            for place, value in enumerate(found):
                emit.store(b, value, emit.at(b, arguments[1], b.add(b.mul(emit.size(d), I64(place)), column), element), mask)

        edges = (0, *cuts, d)
        for low, high in pairwise(edges):
            reduce_columns(b, level, reductions, n, d, produce, finish, low=low, high=high, method=method)

    out = np.zeros((len(kinds), width), values.dtype)
    native(level, [PTR, PTR, I64, I64], body)(fenced(values, True), fenced_out := fenced(out, True), rows, width)
    return list(fenced_out)


@each_target
@pytest.mark.parametrize("method", list(Method))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_column_sums(level: Target, method: Method, dtype: Any) -> None:
    for rows, width in ((0, 5), (1, 1), (16, 16), (33, 7), (64, 128), (50, 300), (4100, 20), (4096 * 3, 3)):
        values = numbers((rows, width), dtype)
        for static in (False, True) if rows in (33, 50) else (False,):
            (found,) = columns(level, values, ("sum",), method, static)
            assert same_bytes(found, total(values)), (rows, width, static)


@each_target
@pytest.mark.parametrize("method", list(Method))
def test_columns_in_several_kinds_and_shares(level: Target, method: Method) -> None:
    values = numbers((37, 90), np.float32)
    values[3, 5], values[20:, 6] = np.nan, -0.0
    found = columns(level, values, ("sum", "max", "min"), method, False, cuts=(32, 64))
    expected = [total(values), *extremes(values)]
    assert all(same_bytes(x, y) for x, y in zip(found, expected, strict=True))


@each_target
def test_columns_of_integers(level: Target) -> None:
    values = numbers((70, 9), np.int64)
    for method in (None, *Method):
        found = columns(level, values, ("sum", "max"), method, False)
        assert same_bytes(found[0], values.sum(0)) and same_bytes(found[1], values.max(0))


@each_target
def test_lanes_are_those_of_the_definition(level: Target) -> None:
    """Element 16 joins lane 0 and is absorbed there; in any other order its 1 would survive."""
    values = np.zeros(32, np.float32)
    values[0], values[16], values[8] = 2.0**24, 1.0, -(2.0**24)
    assert run(level, values, ("sum",), False)[0] == 0.0
