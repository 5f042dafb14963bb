"""Native code beside the reference evaluator, byte for byte: elementwise work, moves, reductions, contractions, losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import random_mixed_programs
import random_tensor_programs
from evaluating import function_of, tensor
from hypothesis import given, settings
from hypothesis import strategies as st
from native_harness import TARGETS, assert_same, check, finished
from native_samples import (
    BOOLS,
    DTYPES,
    F32,
    F64,
    I64,
    contraction,
    some,
    special,
)

from shapescript.compiler.codegen.lower_function import lower_function  # noqa: F401, importing it fills RULES
from shapescript.compiler.codegen.lowering import RULES
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.sizes import Size, fresh, number, of
from shapescript.compiler.ir.types import FLOAT, INT, Element, TensorType
from shapescript.compiler.ops.build import Builder
from shapescript.compiler.ops.table import Composite, Scalar, entries
from shapescript.compiler.passes.widen import is_computed

GONE_BEFORE_ENGINES = {
    *("call", "for_list", "value_and_grad", "checkpoint", "isolated"),
    *("zip_leaves", "fill_leaves", "dot_leaves"),
}


def test_every_operation_that_reaches_an_engine_is_lowered() -> None:
    reaching = {name for name, entry in entries().items() if not isinstance(entry.lowering, Composite)}
    reaching -= GONE_BEFORE_ENGINES | {"reduce", "at_index", "by_leaf"}  # which stand in regions only
    assert reaching == set(RULES)


# ---- elementwise


def operand_elements(name: str) -> list[tuple[Element, ...]]:
    """The element types that an elementwise operation takes in an engine: on bf16 most are f32's by then."""
    found = []
    for kinds in [(e,) * n for n in (1, 2) for e in Element] + [(BOOLS, e, e) for e in Element]:
        try:
            function = function_of([TensorType(kind, (number(3),)) for kind in kinds], lambda b, *x: b.op(name, *x))
        except Exception:  # not these
            continue
        if Element.BF16 not in kinds or not is_computed(function.body.ops[0]):
            found.append(kinds)
    return found


SCALARS = [(name, kinds) for name, entry in entries().items() if isinstance(entry.lowering, Scalar) for kinds in operand_elements(name)]


@pytest.mark.parametrize(("name", "kinds"), SCALARS, ids=[f"{name}-{'-'.join(kind.value for kind in kinds)}" for name, kinds in SCALARS])
def test_each_elementwise_operation(name: str, kinds: Sequence[Element]) -> None:
    n = of(fresh("n"))
    function = function_of([TensorType(kind, (n,)) for kind in kinds], lambda b, *x: b.op(name, *x))
    calls = [[special(kind, count, seed) for seed, kind in enumerate(kinds)] for count in (0, 1, 15, 16, 61)]
    assert_same(finished(function), calls)
    numbers = function_of([TensorType(kind) for kind in kinds], lambda b, *x: b.op(name, *x))
    assert_same(finished(numbers), [[value.item() for value in values] for values in zip(*calls[-1], strict=True)])


def kernel(b: Builder, space: Sequence[Size], operands: Sequence[tuple[Value, Sequence[int]]], body: Any) -> tuple[Value, ...]:
    inner = Builder()
    parameters = [Value(TensorType(value.type.element)) for value, _ in operands]
    made = body(inner, *parameters)
    region = inner.block(parameters, [made] if isinstance(made, Value) else made)
    maps = tuple(tuple(positions) for _, positions in operands)
    return b.emit("kernel", *(value for value, _ in operands), space=tuple(space), maps=maps, regions=[region])


@pytest.mark.parametrize("rows", [0, 1, 7])
@pytest.mark.parametrize("columns", [1, 10, 16, 37])
def test_a_kernel_reads_operands_in_any_order_of_their_axes(rows: int, columns: int) -> None:
    def build(b: Builder, x: Value, turned: Value, row: Value, column: Value, one: Value, flags: Value) -> Sequence[Value]:
        def body(i: Builder, x: Value, turned: Value, row: Value, column: Value, one: Value, flag: Value) -> Sequence[Value]:
            total = i.op("add", i.op("mul", x, one), i.op("sub", turned, i.op("add", row, column)))
            chosen = i.op("select", flag, total, x)
            place = i.op("iota", axes=(), position=0)
            return [chosen, i.op("add", place, i.op("iota", axes=(), position=1)), i.op("lt", chosen, one)]

        operands = [(x, (0, 1)), (turned, (1, 0)), (row, (1,)), (column, (0,)), (one, ()), (flags, (0, 1))]
        return kernel(b, x.type.axes, operands, body)

    check(
        build,
        some(F32, rows, columns),
        some(F32, columns, rows, seed=1),
        some(F32, columns, seed=2),
        some(F32, rows, seed=3),
        np.float32(0.7),
        some(BOOLS, rows, columns),
    )


def test_kernels_of_many_axes_at_run_time_sizes() -> None:
    a, c, d = (of(fresh(name)) for name in "acd")

    def build(b: Builder, x: Value, y: Value, z: Value) -> Sequence[Value]:
        def body(i: Builder, x: Value, y: Value, z: Value) -> Value:
            return i.op("add", i.op("mul", x, y), i.op("mul", z, i.convert(i.op("iota", axes=(), position=1), F32)))

        return kernel(b, (a, c, d), [(x, (0, 1, 2)), (y, (2, 0)), (z, (1,))], body)

    function = finished(function_of([tensor(a, c, d), tensor(d, a), tensor(c)], build))
    assert_same(
        function,
        [
            [some(F32, *shape), some(F32, shape[2], shape[0], seed=1), some(F32, shape[1], seed=2)]
            for shape in [(2, 3, 4), (0, 3, 4), (1, 1, 1), (3, 1, 50), (2, 17, 1), (5, 4, 16)]
        ],
    )


def test_a_kernel_of_numbers_stays_in_registers() -> None:
    def build(b: Builder, x: Value, y: Value) -> Sequence[Value]:
        return kernel(b, (), [(x, ()), (y, ())], lambda i, x, y: [i.op("mul", x, y), i.op("lt", x, y)])

    check(build, 2.5, -3.0)


@pytest.mark.parametrize("shape", [(0,), (1,), (16,), (100,), (3, 37), (5, 128), (2, 3, 5)])
@pytest.mark.parametrize("element", [F32, F64])
def test_dropout(shape: tuple[int, ...], element: Element) -> None:
    n = tuple(of(fresh(f"n{place}")) for place in range(len(shape)))

    def build(b: Builder, x: Value, rate: Value, seed: Value, draw: Value) -> Sequence[Value]:
        y = b.op("dropout", x, rate, seed, draw)
        return [y, b.op("dropout", b.op("mul", x, x), rate, seed, draw)]

    for fused in (False, True):
        function = finished(function_of([TensorType(element, n), FLOAT, INT, INT], build), fused)
        x = some(element, *shape)
        drops = [(0.1, 0), (0.5, 3), (0.0, 1), (1.0, 2), (0.3, -1), (0.3, 2**40)]
        drops += [(rate, 0) for rate in (-1.0, 2.0, np.nan, np.inf, -np.inf)]
        assert_same(function, [[x, rate, 1234567, draw] for rate, draw in drops])


def test_dropout_of_a_number() -> None:
    function = finished(function_of([tensor(), FLOAT, INT, INT], lambda b, *x: b.op("dropout", *x)))
    assert_same(function, [[3.0, 0.5, seed, draw] for seed in (0, 1, 2) for draw in (-1, 0, 1)])


# ---- moves and views


@pytest.mark.parametrize("permutation", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (0, 2, 1), (1, 2, 0)])
def test_transpose(permutation: tuple[int, ...]) -> None:
    axes = [of(fresh(name)) for name in "abc"]
    for element in Element:
        function = finished(function_of([TensorType(element, tuple(axes))], lambda b, x: b.op("transpose", x, permutation=permutation)))
        assert_same(function, [[some(element, *shape)] for shape in [(2, 3, 4), (0, 2, 3), (1, 1, 1), (3, 17, 33)]])


def test_kernels_of_different_elements_are_told_apart() -> None:
    """What only moves elements computes nothing that would tell their types."""
    m, n = of(fresh("m")), of(fresh("n"))
    kinds = [F32, F64, Element.I64, Element.BOOL]

    def build(b: Builder, *tensors: Value) -> Sequence[Value]:
        turned = [b.op("transpose", x, permutation=(1, 0)) for x in tensors]
        spread = [b.broadcast(x, (m, n, number(3)), (0, 1)) for x in tensors]
        same = [kernel(b, (m, n), [(x, (0, 1))], lambda i, x: [x])[0] for x in tensors]
        return [*turned, *spread, *same]

    for order in (kinds, kinds[::-1]):
        function = finished(function_of([TensorType(element, (m, n)) for element in order], build))
        assert_same(function, [[some(element, *shape) for element in order] for shape in ((3, 4), (17, 33))])


def test_broadcast_and_reshape() -> None:
    n = of(fresh("n"))
    sizes = (number(3), n, number(5))
    function = function_of(
        [tensor(n), tensor()],
        lambda b, x, y: [
            b.broadcast(x, sizes, (1,)),
            b.spread(y, tensor(*sizes)),
            b.op("reshape", b.broadcast(x, sizes, (1,)), axes=(n * number(15),)),
        ],
    )
    assert_same(finished(function), [[some(F32, count), 1.5] for count in (0, 1, 16, 19)])


def test_views_of_numbers() -> None:
    def build(b: Builder, x: Value, y: Value, flag: Value) -> Sequence[Value]:
        one = (number(1), number(1))
        return [
            b.op("reshape", x, axes=()),
            b.op("reshape", y, axes=one),
            b.op("reshape", flag, axes=one),
            b.op("stop_gradient", y),
            b.op("stop_gradient", x),
        ]

    check(build, some(F32, 1), np.float32(2.5), np.bool_(True))


# ---- reductions

POSITIONS = [
    ((4, 37), (1,)),
    ((4, 37), (0,)),
    ((4, 37), (0, 1)),
    ((3, 5, 20), (1,)),
    ((3, 5, 20), (0, 2)),
    ((3, 5, 20), (0, 1)),
    ((3, 5, 20), (2,)),
    ((2, 3, 4, 5), (0, 2)),
    ((2, 3, 4, 5), (1, 3)),
    ((9000,), (0,)),
    ((2, 4100), (1,)),
    ((4100, 3), (0,)),
    ((9000, 2, 2), (0, 2)),
    ((1, 40), (0,)),
    ((40, 1), (1,)),
    ((3,), ()),
    ((300, 300), (0,)),
    ((20, 700), (0,)),
    ((17, 16), (0,)),
    ((64, 128), (0,)),
    ((5, 1, 7), (0, 1)),
]


@pytest.mark.parametrize(("shape", "positions"), POSITIONS)
def test_sums_and_means(shape: tuple[int, ...], positions: tuple[int, ...]) -> None:
    axes = tuple(of(fresh(f"n{place}")) for place in range(len(shape)))
    for element in (F32, F64):
        x = np.random.default_rng(1).standard_normal(shape).astype(DTYPES[element])
        for kinds in (axes, tuple(number(size) for size in shape)):
            both = function_of([TensorType(element, kinds)], lambda b, x: [b.op(name, x, positions=positions) for name in ("sum", "mean")])
            assert_same(finished(both), [[x]], targets=TARGETS[:1] if kinds is axes else TARGETS[1:])
    check(lambda b, x: b.op("sum", x, positions=positions), some(I64, *shape))


@pytest.mark.parametrize(("shape", "positions"), [case for case in POSITIONS if len(case[1]) == 1])
@pytest.mark.parametrize("element", [F32, F64, I64])
def test_extremes(shape: tuple[int, ...], positions: tuple[int, ...], element: Element) -> None:
    n = tuple(of(fresh(f"n{place}")) for place in range(len(shape)))
    names = ("max", "min", "argmax", "argmin")
    function = finished(function_of([TensorType(element, n)], lambda b, x: [b.op(name, x, positions=positions) for name in names]))
    plain = some(element, *shape)
    calls = [[plain]]
    if element.is_float:
        rare = np.random.default_rng(5).random(shape)
        strange = [np.where(rare < 0.05, np.nan, plain), np.full(shape, np.inf), np.full(shape, -np.inf), np.where(rare < 0.5, 0.0, -0.0)]
        calls += [[x.astype(plain.dtype)] for x in strange]
    assert_same(function, calls)


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "argmax", "argmin"])
def test_reductions_of_nothing_and_of_nowhere(name: str) -> None:
    a, b_ = of(fresh("a")), of(fresh("b"))
    function = finished(function_of([tensor(a, b_)], lambda b, x: b.op(name, x, positions=(1,))))
    assert_same(function, [[some(F32, *shape)] for shape in [(3, 0), (0, 4), (0, 0), (1, 1)]])


# ---- softmax and cross entropy


@pytest.mark.parametrize("element", [F32, F64])
@pytest.mark.parametrize("classes", [1, 2, 10, 16, 17, 40, 5000])
def test_cross_entropy(classes: int, element: Element) -> None:
    rows, width = of(fresh("b")), of(fresh("c"))
    counts = (1, 5, 64, 100) if classes < 5000 else (3,)
    calls = [[some(element, count, classes), np.random.default_rng(3).integers(0, classes, count)] for count in counts]
    both = lambda b, z, y: b.emit("cross_entropy", z, y)  # noqa: E731
    loss_alone = lambda b, z, y: b.emit("cross_entropy", z, y)[0]  # noqa: E731
    for kinds in ((rows, number(classes)), (rows, width)):
        for build in (both, loss_alone):
            for fused in (False, True):
                assert_same(finished(function_of([TensorType(element, kinds), TensorType(I64, kinds[:1])], build), fused), calls)


def test_cross_entropy_of_many_rows_of_one_and_of_strange_numbers() -> None:
    rows = of(fresh("b"))
    both = lambda b, z, y: b.emit("cross_entropy", z, y)  # noqa: E731
    function = finished(function_of([tensor(rows, 3), TensorType(I64, (rows,))], both))
    labels = np.random.default_rng(3).integers(0, 3, 9000)
    strange = np.float32([[np.inf, 0, 1], [np.nan, 1, 2], [-np.inf, -np.inf, -np.inf], [1e38, -1e38, 0]])
    assert_same(function, [[some(F32, 9000, 3), labels], [strange, np.int64([0, 1, 2, 0])], [strange[3:], np.int64([1])]])
    check(both, some(F32, 10), np.int64(4))
    check(both, some(F32, 2, 3, 10), np.random.default_rng(0).integers(0, 10, (2, 3)))


def test_labels_out_of_range_and_no_rows_are_errors() -> None:
    rows = of(fresh("b"))
    function = finished(function_of([tensor(rows, 3), TensorType(I64, (rows,))], lambda b, z, y: b.emit("cross_entropy", z, y)))
    wrong = [[], [0, 3], [-1, 5, 0], [0] * 18 + [3, 7], [2**62]]
    for outcome in assert_same(function, [[some(F32, len(labels), 3), np.int64(labels)] for labels in wrong]):
        assert outcome[0].__name__ == "ExecutionError"


# ---- random programs


@st.composite
def expressions(draw: Any) -> Any:
    """Steps of a program over f32 [n, 6]: each takes earlier values by their numbers."""
    steps = []
    for _ in range(draw(st.integers(1, 8))):
        names = ["add", "mul", "sub", "relu", "exp", "turn", "product", "sum rows", "sum columns", "maximum", "by the largest"]
        name = draw(st.sampled_from(names))
        steps.append((name, draw(st.integers(0, 20)), draw(st.integers(0, 20))))
    return steps


@settings(max_examples=8, deadline=None)
@given(expressions(), st.sampled_from([1, 5, 16]))
def test_random_programs_fused_and_not(steps: Sequence[tuple[str, int, int]], rows: int) -> None:
    n = of(fresh("n"))
    kind = tensor(n, 6)

    def build(b: Builder, x: Value, w: Value) -> Sequence[Value]:
        values = [x]
        for name, first, second in steps:
            p, q = values[first % len(values)], values[second % len(values)]
            match name:
                case "relu" | "exp":
                    made = b.op(name, b.op("mul", p, b.full(0.1, kind)))
                case "turn":
                    made = b.op("transpose", b.op("transpose", p, permutation=(1, 0)), permutation=(1, 0))
                case "product":
                    made = contraction(b, "ak,nk->an", p, w)
                case "sum rows":
                    made = b.broadcast(b.op("sum", p, positions=(1,)), kind.axes, (0,))
                case "sum columns":
                    made = b.op("sub", p, b.broadcast(b.op("sum", q, positions=(0,)), kind.axes, (1,)))
                case "by the largest":
                    made = b.op("div", p, b.broadcast(b.op("max", q, positions=(1,)), kind.axes, (0,)))
                case _:
                    made = b.op(name, p, q)
            values.append(made)
        return [values[-1], values[len(values) // 2], b.op("sum", values[-1], positions=(0, 1))]

    for fused in (False, True):
        function = finished(function_of([kind, tensor(6, 6)], build), fused)
        assert_same(function, [[some(F32, rows, 6), some(F32, 6, 6, seed=1)]])


@pytest.mark.parametrize("first", range(0, 24, 4))
def test_random_programs_of_mixed_elements(first: int) -> None:
    for seed in range(first, first + 4):
        function = finished(random_mixed_programs.MixedWriter(seed).function(), fused=seed % 4 != 0)
        calls = [random_mixed_programs.arguments(*sizes) for sizes in ((2, 3), (1, 1), (0, 5), (19, 33))]
        assert_same(function, calls, targets=[TARGETS[seed % 2]])


@pytest.mark.parametrize("first", range(0, 24, 4))
def test_random_programs_of_tensors(first: int) -> None:
    for seed in range(first, first + 4):
        function = finished(random_tensor_programs.TensorWriter(seed).function(), fused=seed % 4 != 0)
        calls = [random_tensor_programs.arguments(*sizes) for sizes in ((2, 3), (1, 1), (5, 0), (19, 33))]
        assert_same(function, calls, targets=[TARGETS[seed % 2]])
