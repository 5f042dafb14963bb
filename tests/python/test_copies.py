"""The storage discipline: random programs give the same whether values are immutable or overwritten as ops/storage.py allows."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from evaluating import SPAN, RecordingHost, flat_model, function_of, linear, tensor
from storage_machine import Machine

from shapescript.compiler.ir.nodes import Block, Function, Value, walk
from shapescript.compiler.ir.sizes import number
from shapescript.compiler.ir.types import INT, Element, Member, ModelType, Type
from shapescript.compiler.ir.verifier import verify_function
from shapescript.compiler.ops.build import Builder
from shapescript.compiler.ops.storage import OWN, homes, packed_in_place, places
from shapescript.compiler.ops.table import infer
from shapescript.compiler.passes.copies import insert_copies
from shapescript.compiler.passes.simplify import simplify
from shapescript.compiler.reference.engine import Evaluator

LAYER = linear(number(2), number(2))
PAIR = ModelType("Pair", "main", (), (Member("one", LAYER), Member("two", LAYER)))
VECTOR, SQUARE, SCALAR = tensor(2), tensor(2, 2), tensor()


def copied(types: Sequence[Type], build: Callable[..., Value | Sequence[Value]], mutable: Sequence[int] = ()) -> Function:
    found = insert_copies(function_of(types, build, mutable))
    verify_function(found, infer)
    return found


def count(function: Function, name: str = "copy") -> int:
    return sum(op.name == name for op in walk(function.body))


def random_model(seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    tensors = {
        f"{part}.{name}": generator.normal(0, 1, (2, 2) if name == "weight" else 2).astype(np.float32)
        for part in ("one", "two")
        for name in ("bias", "weight")
    }
    return flat_model(PAIR, tensors)


# ---- random programs


class Writer:
    """Writes operations on whatever values are at hand, of every kind that lies somewhere."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def any(self, values: Sequence[Value], type_: Type) -> Value:
        """A value of the type; recent ones more often, and old ones still."""
        fitting = [value for value in values if value.type == type_]
        return self.random.choice(fitting[-3:] if self.random.random() < 0.5 else fitting)

    def operation(self, b: Builder, values: list[Value], depth: int) -> None:
        r = self.random
        kinds = ["scale", "scale", "replace", "replace", "submodel", "leaf", "pack", "add", "reshape", "factor"]
        match r.choice(kinds + (["range", "range", "if", "if", "while"] if depth else [])):
            case "scale":
                kind = r.choice([PAIR, LAYER])
                values.append(b.op("scale_model", self.any(values, kind), self.any(values, SCALAR)))
            case "replace":
                path, kind = r.choice([("one", LAYER), ("two", LAYER), ("one.bias", VECTOR), ("two.weight", SQUARE)])
                values.append(b.op("replace_submodel", self.any(values, PAIR), self.any(values, kind), path=path))
            case "submodel":
                values.append(b.op("submodel", self.any(values, PAIR), path=r.choice(["one", "two"])))
            case "leaf":
                values.append(b.op("leaf", self.any(values, LAYER), path=r.choice(["bias", "weight"])))
            case "pack":
                values.append(b.op("pack", self.any(values, VECTOR), self.any(values, SQUARE), model=LAYER))
            case "add":
                kind = r.choice([VECTOR, SQUARE])
                values.append(b.op("add", self.any(values, kind), self.any(values, kind)))
            case "reshape":
                flat = b.op("reshape", self.any(values, SQUARE), axes=(number(4),))
                values.append(b.op("reshape", flat, axes=SQUARE.axes))
            case "factor":
                values.append(b.op("sum", self.any(values, VECTOR), positions=(0,)))
            case "range":
                self.loop(b, values, depth, "for_range")
            case "while":
                self.loop(b, values, depth, "while")
            case "if":
                self.branch(b, values, depth)

    def some(self, values: list[Value]) -> list[Value]:
        return [self.any(values, self.random.choice([PAIR, PAIR, LAYER, VECTOR, SQUARE, SCALAR])) for _ in range(self.random.randint(1, 3))]

    def inside(self, values: list[Value], depth: int, wanted: Sequence[Type], own: Sequence[Value] = ()) -> tuple[Builder, list[Value]]:
        """A region's operations, and what it yields."""
        b, at_hand = Builder(SPAN), [*values, *own]
        for _ in range(self.random.randint(0, 4)):
            self.operation(b, at_hand, depth - 1)
        return b, [self.any(at_hand, type_) for type_ in wanted]

    def loop(self, b: Builder, values: list[Value], depth: int, name: str) -> None:
        carried = self.some(values)
        parameters = [Value(value.type) for value in carried]
        inner, yields = self.inside(values, depth, [value.type for value in carried], parameters)
        if name == "for_range":
            bounds = b.constant(0, Element.I64), b.constant(self.random.randint(0, 3), Element.I64)
            values += b.emit("for_range", *bounds, *carried, regions=[inner.block([Value(INT), *parameters], yields)])
            return
        test, turn, next_turn = Builder(SPAN), Value(INT), Value(INT)
        again = test.op("lt", turn, test.constant(self.random.randint(0, 2), Element.I64))
        seen = [Value(value.type) for value in carried]
        next_ = inner.op("add", next_turn, inner.constant(1, Element.I64))
        regions = [test.block([turn, *seen], [again]), inner.block([next_turn, *parameters], [next_, *yields])]
        values += b.emit("while", b.constant(0, Element.I64), *carried, regions=regions)[1:]

    def branch(self, b: Builder, values: list[Value], depth: int) -> None:
        wanted = [value.type for value in self.some(values)]
        sides = [self.inside(values, depth, wanted) for _ in range(2)]
        condition = b.op("gt", self.any(values, SCALAR), b.constant(0.0, Element.F32))
        values += b.emit("if", condition, regions=[inner.block([], yields) for inner, yields in sides])

    def function(self) -> Function:
        """fn (mut a: Pair, b: Pair, mut v: [2], s: []) -> (Pair, [2])"""

        def build(b: Builder, *parameters: Value) -> list[Value]:
            values = [*parameters, b.op("submodel", parameters[1], path="one"), b.op("leaf", parameters[0], path="two.weight")]
            for _ in range(self.random.randint(2, 8)):
                self.operation(b, values, depth=2)
            return [self.any(values, PAIR), self.any(values, VECTOR), self.any(values, PAIR), self.any(values, VECTOR)]

        return function_of([PAIR, PAIR, VECTOR, SCALAR], build, mutable=(0, 2))


def arguments() -> list[object]:
    return [random_model(1), random_model(2), np.array([0.5, -0.25], np.float32), np.float32(0.75)]


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_random_programs(first: int) -> None:
    for seed in range(first, first + 50):
        function = Writer(seed).function()
        given = arguments()
        expected = Evaluator(function).run(given, RecordingHost())
        for changed in (insert_copies(function), insert_copies(simplify(function))):
            verify_function(changed, infer)
            found_arguments = arguments()
            results = Machine(changed).run(found_arguments)
            for one, two in zip([*expected, *given], [*results, *found_arguments], strict=True):
                assert np.array_equal(np.asarray(one), np.asarray(two), equal_nan=True), f"seed {seed}"


# ---- what costs a copy, and what doesn't


def test_a_chain_of_changes_happens_in_place() -> None:
    def build(b: Builder, m: Value, s: Value) -> list[Value]:
        return [b.op("scale_model", b.op("scale_model", m, s), s)]

    function = copied([PAIR, SCALAR], build, mutable=[0])
    assert count(function) == 0
    assert {place.root for value, place in places(function).items() if value.type == PAIR} == {function.body.parameters[0]}


def test_a_parameter_that_is_not_mut_is_copied_before_a_change() -> None:
    function = copied([PAIR, SCALAR], lambda b, m, s: b.op("scale_model", m, s))
    assert count(function) == 1


def test_a_part_of_a_mut_model_changes_where_it_lies() -> None:
    def build(b: Builder, m: Value, s: Value) -> list[Value]:
        part = b.op("scale_model", b.op("submodel", m, path="two"), s)
        return [b.op("replace_submodel", m, part, path="two")]

    machine = Machine(copied([PAIR, SCALAR], build, mutable=[0]))
    given = arguments()
    machine.run([given[0], given[3]])
    assert machine.copied == machine.moved == 0


def test_a_part_that_is_read_later_is_copied() -> None:
    def build(b: Builder, m: Value, s: Value) -> list[Value]:
        old = b.op("leaf", m, path="two.bias")
        part = b.op("scale_model", b.op("submodel", m, path="two"), s)
        return [b.op("add", old, old), b.op("replace_submodel", m, part, path="two")]

    assert count(copied([PAIR, SCALAR], build, mutable=[0])) == 1


def loop(b: Builder, carried: Sequence[Value], turn: Callable[..., Sequence[Value]], times: int = 3) -> tuple[Value, ...]:
    inner, parameters = Builder(SPAN), [Value(value.type) for value in carried]
    yields = turn(inner, *parameters)
    bounds = b.constant(0, Element.I64), b.constant(times, Element.I64)
    return b.emit("for_range", *bounds, *carried, regions=[inner.block([Value(INT), *parameters], yields)])


def test_the_best_model_so_far_costs_one_copy_a_turn() -> None:
    def build(b: Builder, m: Value, s: Value) -> list[Value]:
        best, last = loop(b, [m, m], lambda c, best, now: [now, c.op("scale_model", now, s)])
        return [best, last]

    function = copied([PAIR, SCALAR], build, mutable=[0])
    machine = Machine(function)
    given = arguments()
    (best,) = machine.run([given[0], given[3]])
    assert count(function) == 2, "one before the loop, one in it"
    np.testing.assert_allclose(best.view(np.float32), random_model(1).view(np.float32) * 0.75**2, rtol=1e-6)


def test_swapped_values_are_not_lost() -> None:
    function = copied([VECTOR, VECTOR], lambda b, x, y: loop(b, [x, y], lambda c, p, q: [q, p]), mutable=[0, 1])
    x, y = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
    Machine(function).run([x, y])
    assert x.tolist() == [3, 4] and y.tolist() == [1, 2]
    assert count(function) == 1


def test_a_branch_that_changes_a_model_does_so_in_place() -> None:
    def build(b: Builder, m: Value, s: Value) -> list[Value]:
        inner = Builder(SPAN)
        yes = inner.block([], [inner.op("scale_model", m, s)])
        return [*b.emit("if", b.op("gt", s, b.constant(0.0, Element.F32)), regions=[yes, Block((), (), (m,))])]

    function = copied([PAIR, SCALAR], build, mutable=[0])
    (if_,) = [op for op in walk(function.body) if op.name == "if"]
    assert count(function) == 0 and homes(if_) == (0,)


def test_a_branch_keeps_a_value_that_is_needed_behind_it() -> None:
    def build(b: Builder, m: Value, s: Value) -> list[Value]:
        inner = Builder(SPAN)
        yes = inner.block([], [inner.op("scale_model", m, s)])
        (found,) = b.emit("if", b.op("gt", s, b.constant(0.0, Element.F32)), regions=[yes, Block((), (), (m,))])
        return [found, m]

    function = copied([PAIR, SCALAR], build, mutable=[0])
    (if_,) = [op for op in walk(function.body) if op.name == "if"]
    assert homes(if_) == (OWN,) and count(function) == 1


def test_a_condition_of_while_changes_nothing() -> None:
    def build(b: Builder, m: Value, s: Value) -> list[Value]:
        test, body, seen, now = Builder(SPAN), Builder(SPAN), Value(PAIR), Value(PAIR)
        scaled = test.op("leaf", test.op("scale_model", seen, s), path="one.bias")
        again = test.op("gt", test.op("sum", test.op("mul", scaled, scaled), positions=(0,)), test.constant(0.01, Element.F32))
        regions = [test.block([seen], [again]), body.block([now], [body.op("scale_model", now, s)])]
        return [*b.emit("while", m, regions=regions)]

    function = copied([PAIR, SCALAR], build, mutable=[0])
    given = arguments()
    twin = function_of([PAIR, SCALAR], build, mutable=[0])
    Machine(function).run([given[0], given[3]])
    expected = arguments()
    Evaluator(twin).run([expected[0], expected[3]], RecordingHost())
    assert bytes(given[0]) == bytes(expected[0]) and count(function) == 1  # type: ignore[call-overload]


def test_gradients_are_packed_where_they_are_computed() -> None:
    def build(b: Builder, v: Value, w: Value) -> list[Value]:
        one, two = b.op("add", v, v), b.op("mul", w, w)
        kept = b.op("exp", v)
        return [b.op("pack", one, two, model=LAYER), b.op("pack", kept, w, model=LAYER), b.op("neg", kept)]

    body = copied([VECTOR, SQUARE], build).body
    found = packed_in_place(body, places(Function("f", (), body, (False, False), 3)))
    assert {value: path for value, (_, path) in found.items()} == {body.ops[0].result: "bias", body.ops[1].result: "weight"}


def test_a_reshaped_gradient_is_packed_where_it_is_computed() -> None:
    def build(b: Builder, v: Value, w: Value) -> Value:
        flat = b.op("exp", b.op("reshape", w, axes=(number(4),)))
        return b.op("pack", b.op("neg", v), b.op("reshape", flat, axes=SQUARE.axes), model=LAYER)

    function = copied([VECTOR, SQUARE], build)
    found = packed_in_place(function.body, places(function))
    assert {next(op.name for op in function.body.ops if value in op.results): path for value, (_, path) in found.items()} == {
        "neg": "bias",
        "exp": "weight",
    }
