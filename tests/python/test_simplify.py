"""Simplification: the same bits with less to do."""

from __future__ import annotations

import numpy as np
import pytest
import random_tensor_programs as programs
from evaluating import SPAN, RecordingHost, function_of, tensor
from simplified_functions import bits, constant_of, names, simplified

from shapescript.compiler.ir.nodes import Block, Value
from shapescript.compiler.ir.sizes import fresh, number, of
from shapescript.compiler.ir.types import BOOL, INT, MODE, DatasetType, Element, RecordType, TensorType
from shapescript.compiler.ir.verifier import verify_function
from shapescript.compiler.ops.build import Builder, result_type
from shapescript.compiler.ops.table import infer
from shapescript.compiler.passes.simplify import fold_conditions, simplify
from shapescript.compiler.reference.engine import Evaluator


@pytest.mark.parametrize("first", range(0, 160, 20))
def test_random_programs_keep_their_bits(first: int) -> None:
    for seed in range(first, first + 20):
        function = programs.TensorWriter(seed).function()
        changed = simplify(function)
        verify_function(changed, infer)
        for b, n in ((3, 2), (1, 1)):
            given = programs.arguments(b, n)
            before, after = (Evaluator(f).run(given, RecordingHost()) for f in (function, changed))
            assert bits(before) == bits(after), f"seed {seed}"


# ---- host scalars


@pytest.mark.parametrize(
    ("name", "numbers", "element", "expected"),
    [
        ("add", (2, 3), Element.I64, 5),
        ("mul", (2**62, 4), Element.I64, 0),
        ("neg", (-(2**63),), Element.I64, -(2**63)),
        ("div", (1.0, 3.0), Element.F64, 1 / 3),
        ("div", (1.0, 3.0), Element.F32, float(np.float32(1) / np.float32(3))),
        ("div", (1.0, 0.0), Element.F64, float("inf")),
        ("lt", (1, 2), Element.I64, True),
        ("floordiv", (-7, 2), Element.I64, -4),
        ("mod", (-7, 2), Element.I64, 1),
        ("to_f64", (3,), Element.I64, 3.0),
        ("to_i64", (-2.9,), Element.F64, -2),
        ("to_bool", (2.0,), Element.F32, True),
        ("not", (True,), Element.BOOL, False),
        ("sqrt", (2.0,), Element.F64, 2.0**0.5),
    ],
)
def test_scalars_are_folded_as_engines_compute(name: str, numbers: tuple[float, ...], element: Element, expected: object) -> None:
    found = constant_of(simplified([], lambda b: b.op(name, *(b.constant(value, element) for value in numbers))))
    assert found == expected and type(found) is type(expected)


def test_a_division_that_fails_is_left_to_run_time() -> None:
    for left, right in ((1, 0), (-(2**63), -1)):
        found = simplified([], lambda b, x=left, y=right: b.op("floordiv", b.constant(x, Element.I64), b.constant(y, Element.I64)))
        assert "floordiv" in names(found)


def test_elementary_functions_are_folded_by_our_own_algorithms() -> None:
    function = function_of([], lambda b: b.op("exp", b.float_constant(0.7)))
    assert [constant_of(simplify(function))] == Evaluator(function).run([], RecordingHost())


def test_known_sizes_are_numbers() -> None:
    assert constant_of(simplified([], lambda b: b.size(number(6), Element.F32))) == 6.0


# ---- what keeps bits, and what doesn't


def element_of(b: Builder, name: str, x: Value, constant: float, left: bool) -> Value:
    other = b.full(constant, result_type(x))
    return b.op(name, other, x) if left else b.op(name, x, other)


@pytest.mark.parametrize(
    ("name", "constant", "left"),
    [("mul", 1.0, False), ("mul", 1.0, True), ("div", 1.0, False), ("sub", 0.0, False), ("add", -0.0, False), ("add", -0.0, True)],
)
def test_neutral_numbers_go(name: str, constant: float, left: bool) -> None:
    assert names(simplified([tensor(4)], lambda b, x: element_of(b, name, x, constant, left))) == []


@pytest.mark.parametrize(
    ("name", "constant", "left"),
    [("mul", 0.0, False), ("add", 0.0, False), ("sub", 0.0, True), ("div", 1.0, True), ("div", 3.0, False), ("sub", -0.0, False)],
)
def test_numbers_that_may_change_bits_stay(name: str, constant: float, left: bool) -> None:
    assert name in names(simplified([tensor(4)], lambda b, x: element_of(b, name, x, constant, left)))


@pytest.mark.parametrize(
    ("divisor", "divides"), [(8.0, False), (-0.5, False), (2.0**126, False), (2.0**127, True), (6.0, True), (0.0, True)]
)
def test_a_division_by_a_power_of_two_is_a_product(divisor: float, divides: bool) -> None:
    function = function_of([tensor(6)], lambda b, x: element_of(b, "div", x, divisor, False))
    changed = simplify(function)
    assert ("div" in names(changed)) == divides
    x = np.array([1.5, -3e-45, 3.4e38, np.inf, -0.0, 7e-38], np.float32)
    before, after = (Evaluator(f).run([x], RecordingHost()) for f in (function, changed))
    assert bits(before) == bits(after)


def test_conversions_there_and_back() -> None:
    assert names(simplified([tensor(4)], lambda b, x: b.op("to_f32", b.op("to_f64", x)))) == []
    wide = tensor(4, element=Element.F64)
    assert names(simplified([wide], lambda b, x: b.op("to_f64", b.op("to_f32", x)))) == ["to_f32", "to_f64"]


def test_a_choice_by_a_known_condition() -> None:
    def build(b: Builder, x: Value, y: Value) -> Value:
        return b.op("select", b.full(True, TensorType(Element.BOOL, (number(4),))), x, y)

    assert names(simplified([tensor(4), tensor(4)], build)) == []


# ---- common subexpressions, dead code, loops


def test_common_subexpressions_are_shared_into_regions() -> None:
    def build(b: Builder, x: Value, n: Value) -> list[Value]:
        inner, h = Builder(SPAN), Value(x.type)
        body = inner.block([Value(INT), h], [inner.op("add", h, inner.op("exp", x))])
        return [b.op("exp", x), b.op("exp", x), *b.emit("for_range", n, n, x, regions=[body])]

    assert names(simplified([tensor(4), INT], build)).count("exp") == 1


def test_ordered_operations_are_neither_shared_nor_dropped() -> None:
    def build(b: Builder, mode: Value, x: Value) -> list[Value]:
        draws = [b.emit("mode_draw", mode)[1] for _ in range(2)]
        b.op("mean", x, positions=(0,))
        return draws

    assert names(simplified([MODE, tensor(4)], build)) == ["mode_draw", "mode_draw", "mean"]


def test_constants_of_different_bits_are_not_shared() -> None:
    found = simplified([], lambda b: [b.constant(0.0, Element.F32), b.constant(-0.0, Element.F32), b.constant(0.0, Element.F64)])
    assert names(found) == ["constant"] * 3


def test_invariants_leave_loops_and_ordered_operations_stay() -> None:
    def build(b: Builder, x: Value, n: Value) -> list[Value]:
        inner, h = Builder(SPAN), Value(x.type)
        power = inner.op("exp", x)
        top = inner.op("max", x, positions=(0,))
        spread = inner.spread(top, result_type(x))
        body = inner.block([Value(INT), h], [inner.op("add", inner.op("add", h, power), spread)])
        return [*b.emit("for_range", n, n, x, regions=[body])]

    function = simplified([tensor(4), INT], build)
    (loop,) = [op for op in function.body.ops if op.regions]
    assert [op.name for op in function.body.ops] == ["exp", "for_range"]
    assert "max" in [op.name for op in loop.regions[0].ops]


def test_what_a_loop_does_not_change_is_not_carried() -> None:
    def build(b: Builder, x: Value, y: Value, n: Value) -> Value:
        inner, h, same, unused = Builder(SPAN), Value(x.type), Value(x.type), Value(x.type)
        body = inner.block([Value(INT), h, same, unused], [inner.op("add", h, same), same, inner.op("exp", unused)])
        return b.emit("for_range", n, n, x, y, y, regions=[body])[0]

    function = simplified([tensor(4), tensor(4), INT], build)
    assert names(function) == ["for_range", "add"]
    assert len(function.body.ops[0].results) == 1


def test_branches_of_known_condition_and_results_that_are_equal() -> None:
    def build(b: Builder, x: Value, c: Value) -> list[Value]:
        never = Builder(SPAN)
        never.emit("print", never.op("string", value="no"))
        b.emit("if", b.constant(False, Element.BOOL), regions=[never.block([], []), Block((), (), ())])
        yes = Builder(SPAN)
        return [*b.emit("if", c, regions=[yes.block([], [yes.op("exp", x), x]), Block((), (), (x, x))])]

    function = simplified([tensor(4), BOOL], build)
    assert names(function) == ["if", "exp"]
    assert function.body.yields[1] is function.body.parameters[0]


def test_an_empty_branch_goes_and_a_printing_one_stays() -> None:
    def build(b: Builder, c: Value) -> list[Value]:
        empty, prints = Builder(SPAN), Builder(SPAN)
        prints.emit("print", c)
        b.emit("if", c, regions=[empty.block([], []), Block((), (), ())])
        b.emit("if", c, regions=[prints.block([], []), Block((), (), ())])
        return []

    assert names(simplified([BOOL], build)) == ["if", "print"]


def test_sizes_that_a_loop_binds_do_not_leave_it() -> None:
    rows = fresh("b")
    dataset = DatasetType(RecordType("Row", (("x", tensor(2)),)), of(fresh("rows")))

    def build(b: Builder, data: Value, total: Value) -> list[Value]:
        inner, x, h = Builder(SPAN), Value(TensorType(Element.F32, (of(rows), number(2)))), Value(INT)
        body = inner.block([x, h], [inner.op("add", inner.op("add", h, inner.size(of(rows))), inner.size(dataset.rows))], [rows])
        size, drop_last, start, ahead = b.constant(4, Element.I64), b.constant(False, Element.BOOL), *(b.constant(0, Element.I64),) * 2
        return [*b.emit("for_batches", data, size, drop_last, start, ahead, total, regions=[body])]

    function = simplified([dataset, INT], build)
    assert [op.attributes["size"] for op in function.body.ops if op.name == "size"] == [dataset.rows]
    assert names(function).count("size") == 2


def test_before_differentiation_only_conditions_are_folded() -> None:
    def build(b: Builder, x: Value) -> list[Value]:
        yes = Builder(SPAN)
        condition = b.op("gt", b.constant(3, Element.I64), b.constant(2, Element.I64))
        (found,) = b.emit("if", condition, regions=[yes.block([], [yes.op("exp", x)]), Block((), (), (x,))])
        return [found, b.op("exp", x)]

    assert names(fold_conditions(function_of([tensor(4)], build))) == ["exp", "exp"], "not shared: adjoints are added use by use"
