"""Rows of tensors that are read and computed where they lie, and slots whose places follow from the sizes of a run."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from evaluating import function_of, tensor
from native_harness import assert_same, finished
from native_samples import F32, I64, block, some
from planned_bytes import block_bytes, rows

from shapescript.compiler.ir.nodes import Function, Value, walk
from shapescript.compiler.ir.sizes import ONE, evaluate, fresh, number, of, sum_of
from shapescript.compiler.ir.types import INT
from shapescript.compiler.ops.build import Builder
from shapescript.compiler.ops.locations import RowStorage
from shapescript.compiler.passes.plan import plan_memory
from shapescript.compiler.passes.slot_places import Lifetime, arranged

Turn = Callable[[Builder, Value, Value, Value], Sequence[Value]]


def loop(turn: Turn) -> Function:
    """Goes round with a tape of 5 rows; `turn(builder, i, tape, x)` gives the next tape."""

    def build(b: Builder, tape: Value, x: Value) -> Sequence[Value]:
        body = block([INT, tape.type], lambda i, at, own: turn(i, at, own, x))
        start = b.op("neg", tape)
        return b.emit("for_range", b.constant(0, I64), b.constant(5, I64), start, name="i", regions=[body])

    n = of(fresh("n"))
    return finished(function_of([tensor(5, n), tensor(5, n)], build))


def row(b: Builder, whole: Value, place: Value) -> Value:
    return b.op("slice", whole, place, position=0, length=number(1))


def lie_in_rows(function: Function, name: str, operand: int | None = None) -> list[bool]:
    """Whether the results of the operations of a name lie in rows, or that operand of theirs."""
    found = [op.result if operand is None else op.operands[operand] for op in walk(function.body) if op.name == name]
    return [isinstance(plan_memory(function).locations[value].storage, RowStorage) for value in found]


def same(function: Function) -> None:
    assert_same(function, [[some(F32, 5, n), some(F32, 5, n, seed=1)] for n in (0, 1, 19)])


def test_rows_are_read_and_made_where_they_lie() -> None:
    function = loop(lambda b, i, tape, x: [b.op("put", tape, b.op("exp", row(b, x, i)), i, position=0)])
    assert lie_in_rows(function, "slice") == [True] and lie_in_rows(function, "put", 1) == [True]
    same(function)


def test_a_row_that_is_read_behind_a_write_is_a_copy() -> None:
    def turn(b: Builder, i: Value, tape: Value, x: Value) -> Sequence[Value]:
        before = row(b, tape, i)
        changed = b.op("put", tape, b.op("exp", row(b, x, i)), i, position=0)
        return [b.op("put", changed, b.op("add", before, before), b.constant(0, I64), position=0)]

    function = loop(turn)
    assert lie_in_rows(function, "slice") == [False, True]
    same(function)


def test_what_is_put_is_made_apart_while_the_tensor_is_read() -> None:
    def turn(b: Builder, i: Value, tape: Value, x: Value) -> Sequence[Value]:
        made = b.op("exp", row(b, x, i))
        read = b.op("add", row(b, tape, i), made)
        return [b.op("put", b.op("put", tape, made, i, position=0), read, b.op("neg", i), position=0)]

    function = loop(turn)
    assert lie_in_rows(function, "put", 1)[0] is False
    same(function)


def test_a_row_that_is_written_over_later_is_made_apart() -> None:
    """The first row is read behind the second `put`, which may write to the same place."""

    def turn(b: Builder, i: Value, tape: Value, x: Value) -> Sequence[Value]:
        first, second = b.op("exp", row(b, x, i)), b.op("tanh", row(b, x, i))
        both = b.op("put", b.op("put", tape, first, i, position=0), second, i, position=0)
        return [b.op("put", both, b.op("mul", first, first), b.constant(4, I64), position=0)]

    function = loop(turn)
    assert lie_in_rows(function, "put", 1)[0] is False
    same(function)


def test_rows_that_are_put_over_themselves_are_a_copy() -> None:
    """Two rows, one further on."""

    def turn(b: Builder, i: Value, tape: Value, x: Value) -> Sequence[Value]:
        rows = b.op("slice", tape, i, position=0, length=number(2))
        return [b.op("put", tape, rows, b.op("add", i, b.constant(1, I64)), position=0)]

    function = loop(turn)
    assert lie_in_rows(function, "slice") == [False]
    same(function)


def test_a_row_of_what_is_moved_to_at_the_end_is_made_apart() -> None:
    """Each turn yields another tensor, which goes where the first one lay, then the row: not in its own place, which is read until then."""

    def turn(b: Builder, i: Value, tape: Value, last: Value, x: Value) -> Sequence[Value]:
        made = b.op("exp", row(b, x, i))
        changed = b.op("put", tape, made, i, position=0)
        return [b.op("add", changed, b.broadcast(b.op("reshape", last, axes=last.type.axes[1:]), changed.type.axes, (1,))), made]

    def build(b: Builder, tape: Value, x: Value) -> Sequence[Value]:
        first = row(b, x, b.constant(0, I64))
        body = block([INT, tape.type, first.type], lambda i, at, own, last: turn(i, at, own, last, x))
        carried = b.op("neg", tape), b.op("neg", first)
        return b.emit("for_range", b.constant(0, I64), b.constant(5, I64), *carried, name="i", regions=[body])

    n = of(fresh("n"))
    function = finished(function_of([tensor(5, n), tensor(5, n)], build))
    assert lie_in_rows(function, "put", 1) == [False]
    same(function)


def test_starts_outside_are_moved_inside_as_a_copy_would() -> None:
    def turn(b: Builder, i: Value, tape: Value, x: Value) -> Sequence[Value]:
        far = b.op("mul", b.op("sub", i, b.constant(2, I64)), b.constant(7, I64))
        return [b.op("put", tape, b.op("exp", row(b, x, far)), far, position=0)]

    function = loop(turn)
    assert lie_in_rows(function, "slice") == [True] and lie_in_rows(function, "put", 1) == [True]
    same(function)


@pytest.mark.parametrize("seed", range(20))
def test_slots_needed_at_the_same_time_lie_apart_at_all_sizes(seed: int) -> None:
    rng, b, n = random.Random(seed), of(fresh("b")), of(fresh("n"))
    lifetimes = []
    for place in range(40):
        first = rng.randrange(60)
        counts = [rng.randrange(1, 900), rng.randrange(5), rng.randrange(3), rng.randrange(2)]
        size = sum_of(number(count) * axes for count, axes in zip(counts, (ONE, b, n, b * n), strict=True))
        lifetimes.append(Lifetime(place, size, first, first + rng.randrange(12)))
    slots = arranged(lifetimes)
    for batch, length in ((0, 0), (1, 1), (64, 64), (1000, 3), (2, 5000)):
        given = {symbol: value for size, value in ((b, batch), (n, length)) for symbol in size.symbols()}
        starts: dict[int, int] = {}
        ends: dict[int, int] = {}
        for slot in slots:
            starts[slot.number] = max((ends[number] for number in slot.above), default=0)
            ends[slot.number] = starts[slot.number] + (evaluate(slot.size, given.get) or 0)
        for one in lifetimes:
            for other in lifetimes[: one.number]:
                apart = ends[one.number] <= starts[other.number] or ends[other.number] <= starts[one.number]
                assert apart or not one.meets(other)


def test_slots_of_different_sizes_take_what_is_held_at_once() -> None:
    """Two small ones lie where a large one lay, and again a large one there."""
    n = of(fresh("n"))
    large, small = n * number(400), n * number(200)
    lifetimes = [Lifetime(0, large, 0, 1), Lifetime(1, small, 2, 4), Lifetime(2, small, 3, 5), Lifetime(3, large, 6, 7)]
    assert block_bytes(arranged(lifetimes), rows(64)) == 64 * 400


def test_what_is_added_to_a_row_is_made_apart() -> None:
    function = loop(lambda b, i, tape, x: [b.op("add_slice", tape, b.op("exp", row(b, x, i)), i, position=0)])
    assert lie_in_rows(function, "slice") == [True] and lie_in_rows(function, "add_slice", 1) == [False]
    same(function)
