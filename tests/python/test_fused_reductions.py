"""Reductions fused with the elementwise work around them: the bits of the parts, in both engines, at all sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from evaluating import function_of, tensor
from native_harness import NotingHost, assert_same, finished, outcome
from native_samples import F32, F64, some

from shapescript.compiler.ir.nodes import Function, Value
from shapescript.compiler.ir.sizes import Size, fresh, of
from shapescript.compiler.ir.types import MODE, Element, TensorType, Type
from shapescript.compiler.ir.verifier import verify_function
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.ops.shapes import kept
from shapescript.compiler.ops.table import infer
from shapescript.compiler.passes.fuse import fuse
from shapescript.compiler.passes.fuse_reductions import fuse_reductions
from shapescript.compiler.passes.memory_passes import passes_over_memory
from shapescript.compiler.passes.reduction_walks import overwritable_operands, walks_of
from shapescript.compiler.passes.simplify import simplify
from shapescript.compiler.reference.engine import Evaluator

Form = Callable[[Builder, Value, Value, Value, tuple[int, ...]], Sequence[Value]]


def spread(b: Builder, value: Value, like: Value, positions: Sequence[int]) -> Value:
    kind = result_type(like)
    return b.broadcast(value, kind.axes, kept(kind.rank, positions))


def softmax(b: Builder, x: Value, y: Value, row: Value, positions: tuple[int, ...]) -> Sequence[Value]:
    top = b.op("max", x, positions=positions)
    powers = b.op("exp", b.op("sub", x, spread(b, top, x, positions)))
    total = b.op("sum", powers, positions=positions)
    return [b.op("div", powers, spread(b, total, x, positions))]


def log_softmax(b: Builder, x: Value, y: Value, row: Value, positions: tuple[int, ...]) -> Sequence[Value]:
    return [b.op("log", softmax(b, x, y, row, positions)[0]), b.op("sum", b.op("mul", x, y), positions=positions)]


def softmax_gradient(b: Builder, x: Value, y: Value, row: Value, positions: tuple[int, ...]) -> Sequence[Value]:
    total = b.op("sum", b.op("mul", x, y), positions=positions)
    return [b.op("mul", x, b.op("sub", y, spread(b, total, x, positions)))]


def normalised(b: Builder, x: Value, y: Value, row: Value, positions: tuple[int, ...]) -> Sequence[Value]:
    """As a layer normalises: mean, variance, quotient, a weight of another shape; the deviation is wanted too."""
    x = b.op("add", x, y)
    gaps = b.op("sub", x, spread(b, b.op("mean", x, positions=positions), x, positions))
    variance = b.op("mean", b.op("mul", gaps, gaps), positions=positions)
    deviation = b.op("sqrt", b.op("add", variance, b.full(1e-5, result_type(variance))))
    normal = b.op("div", gaps, spread(b, deviation, x, positions))
    return [x, deviation, normal, b.op("mul", normal, b.broadcast(row, result_type(x).axes, (result_type(x).rank - 1,)))]


def gated_sum(b: Builder, x: Value, y: Value, row: Value, positions: tuple[int, ...]) -> Sequence[Value]:
    """A gate's gradient and its sum, as that of a bias; the greatest and the least of it."""
    gate = b.op("select", b.op("gt", x, b.full(0.0, result_type(x))), y, b.full(0.0, result_type(x)))
    total = b.op("sum", gate, positions=positions)
    return [gate, b.op("mul", total, total), b.op("min", gate, positions=positions), b.op("max", gate, positions=positions)]


def indexed(b: Builder, x: Value, y: Value, row: Value, positions: tuple[int, ...]) -> Sequence[Value]:
    kind = result_type(x)
    index = b.convert(b.op("iota", axes=kind.axes, position=kind.rank - 1), kind.element)
    moved = b.op("mul", b.op("add", x, index), b.broadcast(row, kind.axes, (kind.rank - 1,)))
    total = b.op("sum", moved, positions=positions)
    rest = kept(kind.rank, positions)
    if not rest:
        return [total]
    number = b.convert(b.op("iota", axes=result_type(total).axes, position=0), kind.element)
    return [b.op("mul", total, number), b.op("sum", b.op("neg", moved), positions=positions)]


def squared_shares(b: Builder, x: Value, y: Value, row: Value, positions: tuple[int, ...]) -> Sequence[Value]:
    """The powers are needed again when the shares, the first result, have been written."""
    powers = b.op("exp", x)
    shares = b.op("div", powers, spread(b, b.op("sum", powers, positions=positions), x, positions))
    total = b.op("sum", b.op("mul", shares, shares), positions=positions)
    return [shares, b.op("mul", powers, spread(b, total, x, positions))]


FORMS: dict[str, Form] = {
    form.__name__: form for form in (softmax, log_softmax, softmax_gradient, normalised, gated_sum, indexed, squared_shares)
}
POSITIONS = [(2,), (0,), (1,), (0, 1), (1, 2), (0, 2), (0, 1, 2)]
SHAPES = [(2, 3, 5), (3, 1, 16), (1, 2, 37), (4, 5, 1), (1, 1, 1), (2, 20, 33), (3, 0, 7), (0, 2, 9), (2, 3, 0), (1, 3, 4099)]


def function_for(form: Form, positions: tuple[int, ...], axes: Sequence[Size], element: Element = F32) -> Function:
    def build(b: Builder, x: Value, y: Value, row: Value) -> Sequence[Value]:
        return form(b, x, y, row, positions)

    kind = TensorType(element, tuple(axes))
    return function_of([kind, kind, TensorType(element, (axes[-1],))], build)


def arguments(shape: Sequence[int], element: Element = F32) -> list[np.ndarray]:
    return [some(element, *shape), some(element, *shape, seed=1), some(element, shape[-1], seed=2)]


def check_parts(function: Function, calls: Sequence[Sequence[np.ndarray]]) -> None:
    """Fused, in both engines, is what the parts are in the reference evaluator."""
    parts = Evaluator(finished(function)).run
    assert assert_same(finished(function, fused=True), calls) == [outcome(parts, given, NotingHost()) for given in calls]


@pytest.mark.parametrize("positions", POSITIONS, ids=str)
@pytest.mark.parametrize("name", FORMS)
def test_the_bits_of_the_parts_at_run_time_sizes(name: str, positions: tuple[int, ...]) -> None:
    function = function_for(FORMS[name], positions, [of(fresh(axis)) for axis in "bcd"])
    check_parts(function, [arguments(shape) for shape in SHAPES])


@pytest.mark.parametrize("shape", [(2, 3, 10), (2, 3, 16), (7, 2, 40), (3, 9, 8)], ids=str)
@pytest.mark.parametrize("name", FORMS)
def test_the_bits_of_the_parts_at_known_sizes(name: str, shape: tuple[int, ...]) -> None:
    for positions, element in [((2,), F32), ((2,), F64), ((0, 1), F32)]:
        function = function_for(FORMS[name], positions, tensor(*shape).axes, element)
        check_parts(function, [arguments(shape, element)])


# ---- what becomes one


X = tensor(3, 5, 16)


def fused(types: Sequence[Type], build: Callable[..., Value | Sequence[Value]]) -> Function:
    found = simplify(fuse_reductions(fuse(function_of(types, build))))
    verify_function(found, infer)
    return found


def names(function: Function) -> list[str]:
    return [op.name for op in function.body.ops]


def test_softmax_is_read_and_written_once() -> None:
    function = fused([X, X, tensor(16)], lambda b, x, y, row: softmax(b, x, y, row, (2,)))
    (op,) = function.body.ops
    assert op.name == "fused_reduction" and passes_over_memory(function) == 2


def test_the_exponentials_wait_in_the_place_of_the_quotients() -> None:
    """Three walks; what the second has computed lies where the third writes. The operand is read by then, so it may lie there too."""
    function = fused([X, X, tensor(16)], lambda b, x, y, row: softmax(b, x, y, row, (2,)))
    (op,) = function.body.ops
    first, second, third = walks_of(op).walks
    assert [len(walk.loaded) for walk in (first, second, third)] == [1, 1, 0]
    ((power, place),) = second.stored
    assert third.read_back == {power: place} and [inner.name for inner in third.points] == ["div"]
    assert overwritable_operands(op) == (0,)


def test_what_waits_lies_where_nothing_is_written_before_it_is_read_last() -> None:
    function = fused([X, X, tensor(16)], lambda b, x, y, row: squared_shares(b, x, y, row, (2,)))
    (op,) = function.body.ops
    first, second, third = walks_of(op).walks
    ((power, place),) = first.stored
    assert place == 1 and second.read_back == third.read_back == {power: place} and [number for _, number in second.stored] == [0]


def test_an_operand_that_is_read_after_the_first_result_is_written_stays() -> None:
    def build(b: Builder, x: Value, y: Value) -> Sequence[Value]:
        doubled = b.op("add", x, x)
        total = b.op("sum", doubled, positions=(2,))
        return [doubled, b.op("mul", b.op("sub", x, y), spread(b, total, x, (2,)))]

    (op,) = fused([X, X], build).body.ops
    assert op.name == "fused_reduction" and len(op.operands) == 2 and overwritable_operands(op) == ()


def test_reductions_of_one_tensor_over_the_same_axes_are_one() -> None:
    def build(b: Builder, x: Value) -> Sequence[Value]:
        return [b.op(kind, x, positions=positions) for positions in ((2,), (0, 1)) for kind in ("sum", "max")]

    assert names(fused([X], build)) == ["fused_reduction", "fused_reduction"]


def test_what_needs_all_of_a_column_is_no_part_of_the_walk_down_it() -> None:
    assert names(fused([X, X, tensor(16)], lambda b, x, y, row: softmax(b, x, y, row, (0,))))[-1] == "kernel"


def test_columns_that_would_leave_vectors_empty_stay_apart() -> None:
    """Rows as short join: a reduction along them has its vectors empty in a walk of its own, too."""
    narrow = [tensor(40, 4), tensor(40, 4), tensor(4)]
    assert "fused_reduction" not in names(fused(narrow, lambda b, x, y, row: softmax(b, x, y, row, (0,))))
    assert names(fused(narrow, lambda b, x, y, row: softmax(b, x, y, row, (1,)))) == ["fused_reduction"]


def test_dropout_of_what_a_row_has_goes_by_the_row() -> None:
    def build(b: Builder, x: Value) -> Sequence[Value]:
        total = b.op("sum", x, positions=(2,))
        kept = b.op("dropout", b.op("neg", total), b.float_constant(0.5), b.constant(3, Element.I64), b.constant(1, Element.I64))
        return [b.op("mul", x, spread(b, kept, x, (2,)))]

    check_parts(function_of([X], build), [[some(F32, 3, 5, 16)]])


def test_what_is_the_same_along_a_row_is_no_result_at_each_of_its_points() -> None:
    def build(b: Builder, x: Value) -> Sequence[Value]:
        wide = b.op("exp", spread(b, b.op("sum", x, positions=(2,)), x, (2,)))
        return [wide, b.op("mul", wide, x)]

    assert names(fused([X], build))[-1] == "kernel"
    check_parts(function_of([X], build), [[some(F32, 3, 5, 16)]])


def test_a_reduction_that_may_fail_stays_behind_what_stands_in_front_of_it() -> None:
    """It would join the sum, in front of the draw, which comes there with it."""

    def build(b: Builder, mode: Value, x: Value) -> Sequence[Value]:
        total = b.op("sum", x, positions=(1,))
        _, draw = b.emit("mode_draw", mode)
        return [total, b.op("max", x, positions=(1,)), draw]

    n = of(fresh("n"))
    assert names(fused([MODE, tensor(n, n)], build)) == ["mode_draw", "fused_reduction"]


def test_reductions_take_over_what_only_they_read_of_a_product() -> None:
    """Two groups over different axes: the product is written once, and neither of the three elementwise results is."""

    def build(b: Builder, x: Value, w: Value, y: Value) -> Sequence[Value]:
        g = b.op("contraction", x, w, left=(0, 1), right=(1, 2), out=(0, 2))
        down, along = b.op("mul", g, y), b.op("neg", b.op("mul", g, y))
        total = b.op("sum", along, positions=(1,))
        return [
            b.op("sum", g, positions=(0,)),
            b.op("sum", down, positions=(0,)),
            b.op("sub", b.op("abs", along), spread(b, total, g, (1,))),
        ]

    function = fused([tensor(9, 4), tensor(4, 16), tensor(9, 16)], build)
    assert names(function) == ["contraction", "fused_reduction", "fused_reduction"]
    columns, rows = (op for op in function.body.ops if op.name == "fused_reduction")
    assert len(columns.results) == 2 and set(columns.operands) == set(rows.operands)
    given = [some(F32, 9, 4), some(F32, 4, 16), some(F32, 9, 16)]
    check_parts(function_of([tensor(9, 4), tensor(4, 16), tensor(9, 16)], build), [given])
